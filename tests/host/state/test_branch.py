from dataclasses import dataclass

import pytest

from toolstile.state.transaction import Transaction
from toolstile_hookspecs.errors import CallClosed, ConflictError, SnapshotError, StateError
from toolstile_hookspecs.policies import PolicyState
from toolstile_hookspecs.sessions import Append, SlicePolicy, append_all


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
class Audit:
    text: str


def total(items, event):
    before = items[-1].value if items else 0
    return Append([Total(before + event.amount)])


@pytest.fixture
def session(session):
    session[Total].register(Add, total)
    session[Audit].register(Audit, append_all, SlicePolicy.LOG)
    session[Note].append(Note("start"))
    return session


def notes(session):
    return [each.text for each in session[Note].all()]


def test_changes_are_seen_on_the_branch_and_after_the_commit_by_all(session):
    branch = session.fork()
    branch[Note].append(Note("a"))
    branch.dispatch(Add(2))
    assert notes(branch) == ["start", "a"]
    assert branch[Total].latest() == Total(2)
    assert notes(session) == ["start"]
    branch.validate()
    branch.commit()
    assert notes(session) == ["start", "a"]
    assert session[Total].latest() == Total(2)


def test_a_branch_sees_the_state_of_its_fork(session):
    branch = session.fork()
    session[Note].append(Note("later"))
    session[Total].append(Total(9))
    assert notes(branch) == ["start"]
    assert branch[Total].latest() is None


def test_a_rollback_leaves_nothing(session):
    branch = session.fork()
    branch[Note].append(Note("a"))
    branch[Note].seed(Note("b"))
    branch[Note].clear()
    branch.dispatch(Add(2))
    branch[PolicyState].append(PolicyState("p"))
    branch.rollback()
    assert notes(session) == ["start"]
    assert session[Total].all() == []
    assert session[PolicyState].all() == []


def test_a_log_is_kept_whatever_becomes_of_the_call(session):
    branch = session.fork()
    branch.dispatch(Audit("a"))
    branch[Audit].append(Audit("b"))
    assert branch[Audit].latest() == Audit("b")
    assert branch[Audit].where(lambda each: each.text == "a") == [Audit("a")]
    branch.rollback()
    assert session[Audit].all() == [Audit("a"), Audit("b")]


def test_a_log_cannot_be_emptied_from_a_branch(session):
    branch = session.fork()
    for remove in (branch[Audit].clear, branch[Audit].seed):
        with pytest.raises(StateError, match="is a LOG"):
            remove()


def test_reading_a_log_never_conflicts(session):
    branch = session.fork()
    assert branch[Audit].all() == []
    session.log(Audit("x"))
    branch[Note].append(Note("a"))
    branch.validate()
    branch.commit()


def test_calls_that_only_append_or_dispatch_do_not_conflict(session):
    first, second = session.fork(), session.fork()
    for branch, text in ((first, "a"), (second, "b")):
        branch[Note].append(Note(text))
        branch.dispatch(Add(2))
    for branch in (second, first):
        branch.validate()
        branch.commit()
    assert notes(session) == ["start", "b", "a"]
    assert session[Total].all() == [Total(2), Total(4)]


READS = {
    "latest": lambda view: view.latest(),
    "all": lambda view: view.all(),
    "where": lambda view: view.where(lambda _: False),
}
REPLACEMENTS = {
    "seed": lambda view: view.seed(Note("z")),
    "clear": lambda view: view.clear(),
    "clear some": lambda view: view.clear(lambda each: each.text == "start"),
}


@pytest.mark.parametrize("touch", [*READS.values(), *REPLACEMENTS.values()])
def test_what_was_read_or_replaced_must_not_have_moved(session, touch):
    branch = session.fork()
    touch(branch[Note])
    session[Note].append(Note("other"))
    with pytest.raises(ConflictError, match=r"changed Note\b"):
        branch.validate()
    branch.rollback()
    assert notes(session) == ["start", "other"]


def test_a_conflict_names_every_slice(session):
    branch = session.fork()
    branch[Note].latest()
    branch[Total].latest()
    session[Note].append(Note("other"))
    session.dispatch(Add(1))
    with pytest.raises(ConflictError, match="Note, Total"):
        branch.validate()


def test_what_others_do_to_other_slices_does_not_matter(session):
    branch = session.fork()
    branch[Note].latest()
    branch[Note].append(Note("a"))
    session.dispatch(Add(1))
    branch.validate()
    branch.commit()
    assert notes(session) == ["start", "a"]


def test_after_validation_the_branch_stands_on_the_newest_state(session):
    branch = session.fork()
    branch.dispatch(Add(1))
    session.dispatch(Add(10))
    branch.validate()
    assert branch[Total].latest() == Total(11)
    branch.dispatch(Add(1))
    branch.commit()
    assert session[Total].latest() == Total(12)


def test_direct_use_between_validation_and_commit_is_not_overwritten(session):
    branch = session.fork()
    branch[Note].seed(Note("mine"))
    branch.validate()
    session[Note].append(Note("outside"))
    with pytest.raises(ConflictError):
        branch.commit()
    assert notes(session) == ["start", "outside"]
    branch.check()


def test_direct_appends_between_validation_and_commit_are_kept(session):
    branch = session.fork()
    branch.dispatch(Add(1))
    branch.validate()
    session.dispatch(Add(10))
    branch.commit()
    assert session[Total].all() == [Total(10), Total(11)]


def test_a_reducer_that_fails_on_the_newest_state_fails_the_validation(session):
    def only_once(items, event):
        if items:
            raise ValueError("twice")
        return Append([event])

    session[Add].register(Add, only_once)
    branch = session.fork()
    branch.dispatch(Add(1))
    session.dispatch(Add(1))
    with pytest.raises(ValueError, match="twice"):
        branch.validate()
    assert branch[Total].all() == [Total(1)], "it stands where it stood, with every slice"
    branch.rollback()
    assert session[Add].all() == [Add(1)]
    assert session[Total].all() == [Total(1)]


OUTSIDE = {
    "restore": lambda session: session.restore(session.snapshot()),
    "reset": lambda session: session.reset(),
    "clear": lambda session: session[Note].clear(),
}


@pytest.mark.parametrize("change", OUTSIDE.values(), ids=OUTSIDE)
def test_calls_conflict_with_a_restore_reset_or_clear_from_outside(session, change):
    branch = session.fork()
    branch.dispatch(Add(1))
    epoch = session.epoch
    change(session)
    assert session.epoch == epoch + 1
    with pytest.raises(ConflictError, match="restored, reset or cleared"):
        branch.validate()


def test_frozen_a_branch_can_only_be_read(session):
    branch = session.fork()
    branch.frozen = True
    for write in (
        lambda: branch[Note].append(Note("a")),
        branch[Note].seed,
        branch[Note].clear,
        lambda: branch.dispatch(Add(1)),
        lambda: branch.dispatcher.publish(Add(1)),
        lambda: branch[Audit].append(Audit("a")),
        lambda: branch[PolicyState].append(PolicyState("p")),
        branch.reset,
        lambda: branch.restore(session.snapshot()),
    ):
        with pytest.raises(StateError, match="is read-only"):
            write()
    assert notes(branch) == ["start"]
    assert not branch.log
    branch.begin()
    branch[Note].append(Note("a"))
    assert branch.log


def test_calls_conflict_with_a_slice_that_becomes_a_log_meanwhile(session):
    branch = session.fork()
    branch[Add].append(Add(1))
    session.log(Add(2))
    branch.validate()
    with pytest.raises(ConflictError, match="The slice of Add became a LOG while the call ran"):
        branch.commit()
    branch.refork()
    branch[Add].append(Add(3))
    branch.commit()
    assert session[Add].all() == [Add(2), Add(3)]


def test_reads_while_frozen_do_not_conflict(session):
    branch = session.fork()
    branch.frozen = True
    assert branch[Note].latest() == Note("start")
    assert branch.snapshot() is not None
    branch.begin()
    branch[Total].append(Total(1))
    session[Note].append(Note("other"))
    branch.validate()
    branch.commit()


def test_refork_starts_again_from_the_newest_state(session):
    branch = session.fork()
    old = branch[Note]
    old.seed(Note("mine"))
    branch[PolicyState].append(PolicyState("p"))
    session[Note].append(Note("other"))
    with pytest.raises(ConflictError):
        branch.validate()
    branch.refork()
    assert notes(branch) == ["start", "other"]
    assert not branch.log
    assert branch[PolicyState].all() == []
    with pytest.raises(CallClosed):
        old.append(Note("late"))
    branch[Note].append(Note("again"))
    branch.validate()
    branch.commit()
    assert notes(session) == ["start", "other", "again"]


def test_refork_reopens(session):
    branch = session.fork()
    branch.rollback()
    with pytest.raises(CallClosed):
        branch.check()
    branch.refork()
    branch.check()
    assert notes(branch) == ["start"]


ACCESSES = {
    "slice": lambda branch, view, log, records: branch[Total],
    "read": lambda branch, view, log, records: view.latest(),
    "all": lambda branch, view, log, records: view.all(),
    "append": lambda branch, view, log, records: view.append(Note("late")),
    "seed": lambda branch, view, log, records: view.seed(),
    "clear": lambda branch, view, log, records: view.clear(),
    "log": lambda branch, view, log, records: log.append(Audit("late")),
    "read log": lambda branch, view, log, records: log.latest(),
    "records": lambda branch, view, log, records: records.all(),
    "save": lambda branch, view, log, records: records.append(PolicyState("p")),
    "dispatch": lambda branch, view, log, records: branch.dispatch(Add(1)),
    "publish": lambda branch, view, log, records: branch.dispatcher.publish(Add(1)),
    "snapshot": lambda branch, view, log, records: branch.snapshot(),
    "clone": lambda branch, view, log, records: branch.clone(),
    "reset": lambda branch, view, log, records: branch.reset(),
    "fork": lambda branch, view, log, records: branch.fork(),
    "validate": lambda branch, view, log, records: branch.validate(),
    "commit": lambda branch, view, log, records: branch.commit(),
}


def test_a_closed_branch_refuses_every_access_with_the_reason(session, subtests):
    for access in ACCESSES.values():
        with subtests.test(access=access):
            branch = session.fork()
            handed_out = branch[Note], branch[Audit], branch[PolicyState]
            handed_out[0].append(Note("a"))
            branch.close("open_ticket timed out after 0.2 s, so its session is closed.")
            with pytest.raises(CallClosed, match=r"timed out after 0\.2 s"):
                access(branch, *handed_out)
            assert notes(session) == ["start"]
            assert session[Audit].all() == []


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_commit_and_rollback_close(session, end):
    branch = session.fork()
    view = branch[Note]
    getattr(branch, end)()
    with pytest.raises(CallClosed):
        branch.check()
    with pytest.raises(CallClosed, match="call is over"):
        view.append(Note("late"))


def test_closing_twice_keeps_the_first_reason(session):
    branch = session.fork()
    branch.close("first")
    branch.close("second")
    branch.rollback()
    with pytest.raises(CallClosed, match="first"):
        branch[Note]


def test_a_nested_branch_commits_into_its_parents(session):
    outer = session.fork()
    outer[Note].append(Note("a"))
    inner = outer.fork()
    assert notes(inner) == ["start", "a"]
    inner[Note].append(Note("b"))
    inner.dispatch(Add(1))
    assert notes(outer) == ["start", "a"]
    inner.validate()
    inner.commit()
    assert notes(outer) == ["start", "a", "b"]
    assert notes(session) == ["start"]
    outer[Note].append(Note("c"))
    outer.validate()
    outer.commit()
    assert notes(session) == ["start", "a", "b", "c"]
    assert session[Total].latest() == Total(1)


def test_what_a_nested_branch_joined_goes_with_its_parent(session):
    outer = session.fork()
    inner = outer.fork()
    inner[Note].append(Note("b"))
    inner.commit()
    outer.rollback()
    assert notes(session) == ["start"]


def test_a_nested_branch_that_its_parent_closes_as_it_joins_does_not_join(session, monkeypatch):
    parent = session.fork()
    child = parent.fork()
    child[Note].append(Note("child"))
    join = Transaction.join

    def closed_before(self, joining):
        parent.validate()
        join(self, joining)

    monkeypatch.setattr(Transaction, "join", closed_before)

    with pytest.raises(CallClosed):
        child.commit()


def test_a_nested_rollback_leaves_the_parents_changes(session):
    outer = session.fork()
    outer[Note].append(Note("a"))
    inner = outer.fork()
    inner[Note].clear()
    inner.rollback()
    assert notes(outer) == ["start", "a"]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_what_a_nested_call_read_counts_as_read_by_its_parent(session, end):
    outer = session.fork()
    inner = outer.fork()
    assert inner[Note].latest() == Note("start")
    getattr(inner, end)()
    session[Note].append(Note("other"))
    with pytest.raises(ConflictError, match="Note"):
        outer.validate()


def test_what_a_nested_call_replaced_counts_as_replaced_by_its_parent(session):
    outer = session.fork()
    inner = outer.fork()
    inner[Note].seed(Note("mine"))
    inner.commit()
    session[Note].append(Note("other"))
    with pytest.raises(ConflictError, match="Note"):
        outer.validate()


def test_appends_of_nested_calls_are_put_on_top_of_what_others_committed(session):
    outer = session.fork()
    for text in ("a", "b"):
        inner = outer.fork()
        inner[Note].append(Note(text))
        inner.dispatch(Add(1))
        inner.commit()
    session[Note].append(Note("other"))
    session.dispatch(Add(10))
    outer.validate()
    outer.commit()
    assert notes(session) == ["start", "other", "a", "b"]
    assert session[Total].latest() == Total(12)


def test_siblings_conflict_in_the_same_way(session):
    outer = session.fork()
    first, second, third = outer.fork(), outer.fork(), outer.fork()
    first[Note].latest()
    first.dispatch(Add(1))
    second[Note].append(Note("second"))
    third[Note].append(Note("third"))
    for branch in (second, third):
        branch.validate()
        branch.commit()
    with pytest.raises(ConflictError, match="Note"):
        first.validate()
    first.refork()
    assert notes(first) == ["start", "second", "third"]


def test_a_branch_closed_takes_those_forked_from_it_along(session):
    outer = session.fork()
    inner = outer.fork().fork()
    view = inner[Note]
    outer.close("the caller timed out")
    with pytest.raises(CallClosed, match="the caller timed out"):
        view.append(Note("late"))
    with pytest.raises(CallClosed, match="the caller timed out"):
        inner.commit()


def test_validation_closes_the_branches_that_outlive_their_caller(session):
    outer = session.fork()
    inner = outer.fork()
    outer.validate()
    with pytest.raises(CallClosed, match="The call that made this one has ended"):
        inner[Note].append(Note("late"))


def test_restore_and_reset_inside_a_call_stay_on_its_branch(session):
    before = session.snapshot()
    session[Total].append(Total(1))
    branch = session.fork()
    branch.restore(before)
    assert branch[Total].all() == []
    branch[Note].append(Note("a"))
    assert session[Total].latest() == Total(1)
    epoch = session.epoch
    branch.commit()
    assert session[Total].all() == []
    assert notes(session) == ["start", "a"]
    assert session.epoch == epoch
    branch = session.fork()
    branch.reset()
    assert notes(branch) == []
    branch.rollback()
    assert notes(session) == ["start", "a"]


def test_restore_inside_a_call_conflicts_with_any_change(session):
    branch = session.fork()
    branch.reset()
    session[Add].append(Add(1))
    with pytest.raises(ConflictError):
        branch.validate()


def test_a_snapshot_taken_inside_a_call_counts_as_reading_all(session):
    outer = session.fork()
    inner = outer.fork()
    inner[Note].append(Note("a"))
    snapshot = inner.snapshot(tag="t")
    assert (snapshot.session_id, snapshot.tag) == ("s1", "t")
    inner.commit()
    session[Add].append(Add(1))
    with pytest.raises(ConflictError, match="the session"):
        outer.validate()


def test_a_snapshot_taken_inside_a_call_brings_back_the_branch(session):
    branch = session.fork()
    branch[Note].append(Note("a"))
    snapshot = branch.snapshot()
    branch[Note].append(Note("b"))
    branch[Total].append(Total(1))
    branch.restore(snapshot)
    assert notes(branch) == ["start", "a"]
    assert branch[Total].all() == []
    branch[Note].append(Note("c"))
    branch.commit()
    assert notes(session) == ["start", "a", "c"]


def test_a_sibling_that_commits_conflicts_with_a_nested_snapshot(session):
    outer = session.fork()
    inner = outer.fork()
    inner.snapshot()
    outer[Total].append(Total(1))
    with pytest.raises(ConflictError):
        inner.validate()


def test_a_strangers_snapshot_is_refused_on_a_branch(session):
    with pytest.raises(SnapshotError):
        session.fork().restore("yesterday")


def test_a_branch_can_be_cloned_into_a_session(session):
    branch = session.fork()
    branch[Note].append(Note("a"))
    other = branch.clone(id="s2")
    branch.rollback()
    other.dispatch(Add(1))
    assert notes(other) == ["start", "a"]
    assert other[Total].latest() == Total(1)
    assert notes(session) == ["start"]


def test_reducers_cannot_be_registered_inside_a_call(session):
    branch = session.fork()
    for kind in (Note, Audit):
        with pytest.raises(StateError) as raised:
            branch[kind].register(Add, append_all)
        assert str(raised.value) == (
            f"A reducer of Add for the slice of {kind.__name__} cannot be registered inside a "
            "call, which may be rolled back. Register it on the session, before its calls."
        )


def test_a_dispatch_that_fails_changes_nothing_on_the_branch(session):
    session[Note].register(Add, lambda items, event: 1 / 0)
    branch = session.fork()
    with pytest.raises(ZeroDivisionError):
        branch.dispatch(Add(1))
    assert branch[Total].all() == []
    assert not branch.log


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (3, "Note(text='0'), Note(text='1'), Note(text='2')"),
        (4, "..., Note(text='1'), Note(text='2'), Note(text='3')"),
    ],
)
def test_of_what_was_replaced_the_last_three_are_shown(session, count, told):
    branch = session.fork()
    branch[Note].seed(*(Note(str(number)) for number in range(count)))
    assert branch.describe_changes() == [f"Note: replaced, 1 before, now {count}: {told}"]


def test_changes_are_described_line_by_line(session):
    branch = session.fork()
    assert branch.describe_changes() == []
    branch[Note].seed(Note("a"), Note("b"))
    for amount in range(5):
        branch.dispatch(Add(amount))
    branch[Add].append(Add(3))
    branch[Audit].append(Audit("not rolled back, so no change"))
    assert branch.describe_changes() == [
        "Note: replaced, 1 before, now 2: Note(text='a'), Note(text='b')",
        "Total: added 5: ..., Total(value=3), Total(value=6), Total(value=10)",
        "Add: added Add(amount=3)",
    ]


def test_what_policies_remember_is_not_described(session):
    branch = session.fork()
    branch[PolicyState].append(PolicyState("quota"))
    assert branch.record_changes
    assert branch.describe_changes() == []


def test_the_description_of_a_long_item_is_cut(session):
    branch = session.fork()
    branch[Note].append(Note("x\n" * 1000))
    branch[Total].clear()
    note, cleared = branch.describe_changes()
    assert len(note) < 250
    assert note.endswith("...")
    assert cleared == "Total: emptied (0 before)"


def test_a_session_in_use_conflicts_only_where_it_must(session):
    """Two calls that read and write different slices, interleaved."""
    first, second = session.fork(), session.fork()
    first[Note].append(Note(first[Note].latest().text + "!"))
    second[Total].append(Total(len(second[Total].all())))
    second.validate()
    second.commit()
    first.validate()
    first.commit()
    assert notes(session) == ["start", "start!"]
    assert session[Total].latest() == Total(0)
