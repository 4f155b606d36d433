"""A call's changes to its session are JSON, and come to the same when done again."""

import itertools
import json
from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st
from pydantic import SecretStr

from toolstile.plugins.discovery import forget, load_file
from toolstile.state.replay import named_in
from toolstile.state.session import Session
from toolstile_hookspecs import Append, CallClosed, Redoable, SlicePolicy, SnapshotError


@dataclass(frozen=True)
class Note:
    text: str


@dataclass(frozen=True)
class Total:
    value: int


@dataclass(frozen=True)
class Add:
    amount: int


@dataclass(frozen=True)
class Heard:
    text: str


class Opaque:
    pass


def total(items, event):
    return [Total((items[-1].value if items else 0) + event.amount)]


def noted(items, event):
    return Append([Note(f"added {event.amount}")])


def session_of(*notes):
    session = Session(id="s1")
    session[Total].register(Add, total)
    session[Note].register(Add, noted)
    for each in notes:
        session[Note].append(Note(each))
    return session


def state_of(session):
    return list(session[Note].all()), list(session[Total].all())


def kept(session, change):
    """Change the session in a call; return what it tells."""
    branch = session.fork()
    change(branch)
    told = branch.changes()
    branch.validate()
    branch.commit()
    return told


def done_again(session, told, **options):
    branch = session.fork()
    branch.redo(told, **options)
    branch.validate()
    branch.commit()


def test_the_branch_of_a_call_can_tell_and_a_session_cannot():
    session = session_of()
    assert isinstance(session.fork(), Redoable)
    assert not isinstance(session, Redoable)


def test_where_nothing_was_done_there_is_nothing_to_tell():
    session = session_of("a")
    assert kept(session, lambda branch: branch[Note].all()) == "[]"
    done_again(session, "[]")
    assert state_of(session) == ([Note("a")], [])


def test_events_are_reduced_anew_on_another_state():
    told = kept(session_of(), lambda branch: branch.dispatch(Add(2)))
    other = session_of("b")
    other.dispatch(Add(40))
    done_again(other, told)
    assert state_of(other) == ([Note("b"), Note("added 40"), Note("added 2")], [Total(42)])


def test_what_a_call_within_did_is_done_again_where_its_effect_is_not_held():
    def change(branch):
        branch.dispatch(Add(1))
        branch[Note].append(Note("before"))
        within = branch.fork()
        within[Note].append(Note("within"))
        within.dispatcher.publish(Heard("within"))
        within.mark_applied("e1")
        within.commit()
        branch.dispatcher.publish(Heard("after"))
        branch[Note].append(Note("after"))

    told, heard = kept(session_of(), change), []
    for held, notes in (
        (False, ["added 1", "before", "within", "after"]),
        (True, ["added 1", "before", "after"]),
    ):
        session = session_of()
        session.dispatcher.subscribe(Heard, heard.append)
        if held:
            branch = session.fork()
            branch.mark_applied("e1")
            branch.commit()
        done_again(session, told, kinds=[Heard])
        assert [each.text for each in session[Note].all()] == notes
        assert session.fork().has_applied("e1")
    assert [each.text for each in heard] == ["within", "after", "after"]


@pytest.mark.parametrize("order", list(itertools.permutations(("outer", "middle", "inner"))))
def test_replayed_calls_and_the_calls_within_them_add_nothing_twice(order):
    told = {}

    def call(branch, name, *within):
        made = branch.fork()
        made[Note].append(Note(f"{name} begins"))
        for each in within:
            call(made, *each)
        made[Note].append(Note(f"{name} ends"))
        told[name] = made.changes()
        made.mark_applied(name)
        made.commit()

    first, other = session_of(), session_of()
    branch = first.fork()
    call(branch, "outer", ("middle", ("inner",)))
    branch.commit()
    for name in order:
        branch = other.fork()
        if not branch.has_applied(name):
            branch.redo(told[name])
            branch.mark_applied(name)
        branch.validate()
        branch.commit()
    assert sorted(map(repr, other[Note].all())) == sorted(map(repr, first[Note].all()))


def test_what_a_call_within_did_that_was_rolled_back_is_not_told():
    def change(branch):
        caller = branch.fork()
        within = caller.fork()
        within[Note].append(Note("within"))
        within.mark_applied("e1")
        within.commit()
        caller.rollback()

    assert kept(session_of(), change) == "[]"


def test_marks_that_were_told_as_items_mark_the_session():
    kind = "toolstile.state.replay:AppliedEffect"
    told = json.dumps([{"do": "append", "type": kind, "items": [{"effect_id": "e1"}]}])
    session = session_of()
    done_again(session, told)
    assert session.fork().has_applied("e1")


def test_published_events_are_heard_again_and_reduced_by_nobody():
    session, heard = session_of(), []
    session.dispatcher.subscribe(Heard, heard.append)
    session.dispatcher.subscribe(Add, heard.append)
    told = kept(
        session,
        lambda branch: (
            branch.dispatcher.publish(Heard("x")),
            branch.dispatcher.publish(Add(1)),
        ),
    )
    done_again(session, told, kinds=[Heard])
    assert heard == [Heard("x"), Add(1)] * 2
    assert state_of(session) == ([], [])


def test_what_was_removed_by_a_predicate_is_told_by_what_is_left():
    def change(branch):
        branch[Note].append(Note("c"))
        branch[Note].clear(lambda note: note.text == "a")
        branch.dispatch(Add(1))

    session, other = session_of("a", "b"), session_of("a", "b")
    done_again(other, kept(session, change))
    assert state_of(other) == state_of(session)


def test_changes_of_nested_calls_belong_to_the_call():
    session, other = session_of(), session_of()

    def change(branch):
        branch[Note].append(Note("before"))
        child = branch.fork()
        child.dispatch(Add(3))
        child[Note].append(Note("within"))
        child.validate()
        child.commit()
        branch[Note].append(Note("after"))

    done_again(other, kept(session, change))
    assert state_of(other) == state_of(session)
    assert [each.text for each in other[Note].all()] == ["before", "added 3", "within", "after"]


def test_logs_are_left_out():
    session = Session()
    session[Heard].register(Heard, lambda items, event: Append([event]), SlicePolicy.LOG)
    assert kept(session, lambda branch: branch.dispatch(Heard("x"))) == "[]"


def test_a_call_that_is_over_tells_nothing():
    branch = session_of().fork()
    branch.rollback()
    with pytest.raises(CallClosed):
        branch.changes()


def test_what_is_no_data_cannot_be_told():
    branch = Session().fork()
    branch[Opaque].append(Opaque())
    with pytest.raises(SnapshotError, match="Opaque cannot be written as JSON"):
        branch.changes()


def test_what_would_be_done_again_with_less_cannot_be_told():
    branch = Session().fork()
    branch[SecretStr].append(SecretStr("hunter2"))
    with pytest.raises(SnapshotError, match="item number 1 would be read as another"):
        branch.changes()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "invalid JSON"),
        ("{}", "valid array"),
        ("[1]", r"^This does not tell [^\n]* \(\[0\]: input should be an object\)\. Pass [^\n]*$"),
        ('[{"do": "delete", "type": "x", "items": []}]', "'dispatch', 'publish'"),
        ('[{"do": "append", "type": "os:DirEntry", "items": []}]', "os:DirEntry, a type that"),
    ],
)
def test_other_texts_are_refused_with_the_fault(text, fault):
    with pytest.raises(SnapshotError, match=fault):
        Session().fork().redo(text)


def test_items_that_do_not_fit_any_more_change_nothing():
    told = json.loads(kept(session_of(), lambda branch: branch[Note].append(Note("a"))))
    told.append({**told[0], "items": [{"text": 7}]})
    session = session_of()
    branch = session.fork()
    with pytest.raises(SnapshotError, match="do not fit that type"):
        branch.redo(json.dumps(told))
    assert not branch.log


def test_types_of_plugins_in_files_are_known_wherever_the_file_is():
    named = Note.__module__
    try:
        Note.__module__ = "toolstile_file_0123abcd_desk"
        told = kept(session_of(), lambda branch: branch[Note].append(Note("a")))
        Note.__module__ = "toolstile_file_ffffffff_desk"
        session = session_of()
        done_again(session, told)
    finally:
        Note.__module__ = named
    assert state_of(session) == ([Note("a")], [])


def test_of_two_types_of_one_name_the_sessions_own_is_meant():
    @dataclass(frozen=True)
    class Stale:
        text: str

    Stale.__module__, Stale.__qualname__ = Note.__module__, Note.__qualname__
    told = kept(session_of(), lambda branch: branch[Note].append(Note("a")))
    session = session_of("b")
    done_again(session, told, kinds=[Stale])
    assert state_of(session) == ([Note("b"), Note("a")], [])


def test_a_type_that_nobody_has_named_is_not_imported():
    text = '[{"do": "append", "type": "os:system", "items": [{"text": "a"}]}]'
    told = (
        "A session's JSON names os:system, a type that is not known here. Types are never imported "
        "from a text: define it in a module and import that, register a reducer for it, or pass "
        "the class in kinds=[...]."
    )
    with pytest.raises(SnapshotError) as unknown:
        done_again(session_of(), text)
    assert str(unknown.value) == told


def test_a_type_of_the_script_that_was_run_belongs_into_a_module():
    text = '[{"do": "append", "type": "__main__:Paid", "items": [{"text": "a"}]}]'
    with pytest.raises(SnapshotError, match="define it in a module and import that"):
        done_again(session_of(), text)


def test_types_of_a_plugin_in_a_file_are_found_though_nobody_wrote_any_here(tmp_path):
    file = tmp_path / "kiosk.py"
    file.write_text(
        "from dataclasses import dataclass\n\n\n@dataclass\nclass Sold:\n    what: str\n"
    )
    text = '[{"do": "publish", "type": "kiosk:Sold", "items": [{"what": "tea"}], "effect": "e1"}]'
    assert named_in(text) == []
    module = load_file(file)
    try:
        assert named_in(text) == [module.Sold]
    finally:
        forget(module)


texts = st.text(max_size=3)
writes = st.one_of(
    st.builds(lambda text: lambda branch: branch[Note].append(Note(text)), texts),
    st.builds(lambda amount: lambda branch: branch.dispatch(Add(amount)), st.integers(0, 9)),
    st.builds(
        lambda found: lambda branch: branch[Note].seed(*map(Note, found)),
        st.lists(texts, max_size=2),
    ),
    st.just(lambda branch: branch[Total].clear()),
    st.just(lambda branch: branch[Note].clear(lambda note: len(note.text) > 1)),
    st.just(lambda branch: branch.reset()),
)


def by_a_call_within(done, effect_id):
    """Return a change that a call within makes, which is recorded by itself or is not."""

    def change(branch):
        within = branch.fork()
        for each in done:
            each(within)
        if effect_id is not None:
            within.mark_applied(effect_id)
        within.commit()

    return change


calls = st.recursive(
    writes,
    lambda done: st.builds(
        by_a_call_within, st.lists(done, max_size=3), st.none() | st.uuids().map(str)
    ),
    max_leaves=6,
)


@given(st.lists(texts, max_size=2), st.lists(calls, max_size=8))
def test_whatever_a_call_did_comes_to_the_same_state_again(start, done):
    session, other = session_of(*start), session_of(*start)

    def change(branch):
        for each in done:
            each(branch)

    done_again(other, kept(session, change))
    assert state_of(other) == state_of(session)
