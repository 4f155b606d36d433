import threading
from dataclasses import dataclass
from typing import Protocol, TypedDict

import pytest

from toolstile.state.session import Session
from toolstile_hookspecs.calls import ToolInvoked
from toolstile_hookspecs.errors import StateError
from toolstile_hookspecs.sessions import Append, SlicePolicy, append_all, replace_latest


@dataclass(frozen=True)
class Step:
    name: str


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


def test_a_slice_holds_the_items_of_one_type_in_order(session):
    session[Step].append(Step("a"))
    session[Step].append(Step("b"))
    session[Total].append(Total(1))
    assert session[Step].all() == [Step("a"), Step("b")]
    assert session[Step].latest() == Step("b")
    assert session[Step].where(lambda each: each.name == "a") == [Step("a")]


def test_the_id_of_a_session_is_a_text(session):
    for named in (lambda: Session(id=3), lambda: session.clone(id=3)):
        with pytest.raises(StateError, match="A session's id is a text, and 3 is not; give one"):
            named()


def test_an_empty_slice_has_no_latest_item(session):
    assert session[Step].latest() is None
    assert session[Step].all() == []


@pytest.mark.parametrize("name", ["replace", "seed"])
def test_replace_replaces_everything_by_its_older_name_too(session, name):
    session[Step].append(Step("a"))
    getattr(session[Step], name)(Step("b"), Step("c"))
    assert session[Step].all() == [Step("b"), Step("c")]
    session[Step].seed()
    assert session[Step].latest() is None


def test_clear_removes_all_or_those_that_fit(session):
    session[Step].seed(Step("a"), Step("b"))
    session[Step].clear(lambda each: each.name == "a")
    assert session[Step].all() == [Step("b")]
    session[Step].clear()
    assert session[Step].all() == []


def test_what_was_read_stays_as_it_was_read(session):
    session[Step].append(Step("a"))
    seen = session[Step].all()
    session[Step].append(Step("b"))
    session[Step].clear()
    assert seen == [Step("a")]


def test_an_item_of_another_type_is_refused(session):
    with pytest.raises(StateError, match=r"slice of Step holds Step items.*Total"):
        session[Step].append(Total(1))


def test_a_slice_is_named_by_a_class(session):
    with pytest.raises(StateError, match="named by a class"):
        session["Step"]


def test_a_reducer_changes_its_slice_for_each_event(session):
    session[Total].register(Add, total)
    session.dispatch(Add(2))
    session.dispatch(Add(3))
    assert session[Total].all() == [Total(2), Total(5)]


def test_a_reducer_may_return_all_items_anew(session):
    session[Add].register(Add, replace_latest)
    session.dispatch(Add(1))
    session.dispatch(Add(2))
    assert session[Add].all() == [Add(2)]


def test_a_reducer_that_returns_what_it_got_changes_nothing(session):
    session[Step].append(Step("a"))
    session[Step].register(Add, lambda items, event: items)
    branch = session.fork()
    assert branch[Step].latest() == Step("a")
    session.dispatch(Add(1))
    branch.validate()
    assert session[Step].all() == [Step("a")]


def test_one_event_may_change_several_slices(session):
    session[Total].register(Add, total)
    session[Add].register(Add, append_all)
    session.dispatch(Add(2))
    assert session[Total].latest() == Total(2)
    assert session[Add].latest() == Add(2)


def test_registering_again_replaces_the_reducer(session):
    session[Add].register(Add, append_all)
    session[Add].register(Add, replace_latest)
    session.dispatch(Add(1))
    session.dispatch(Add(2))
    assert session[Add].all() == [Add(2)]


def test_a_reducer_that_raises_leaves_every_slice_as_it_was(session):
    def broken(items, event):
        raise ValueError("no")

    session[Total].register(Add, total)
    session[Step].register(Add, broken)
    session[Audit].register(Add, lambda items, event: Append([Audit("add")]), SlicePolicy.LOG)
    with pytest.raises(ValueError, match="no"):
        session.dispatch(Add(1))
    assert session[Total].all() == []
    assert session[Audit].all() == []
    session[Step].register(Add, lambda items, event: items)
    session.dispatch(Add(1))
    assert session[Total].all() == [Total(1)]


def test_a_reducer_that_returns_no_items_is_named(session):
    session[Step].register(Add, lambda items, event: None)
    with pytest.raises(StateError, match=r"slice of Step returned NoneType.*Add.*Append"):
        session.dispatch(Add(1))


def test_a_reducer_that_returns_items_of_another_type_is_refused(session):
    session[Step].register(Add, append_all)
    with pytest.raises(StateError, match="slice of Step holds Step"):
        session.dispatch(Add(1))


@pytest.mark.parametrize("place", ["session", "branch"])
@pytest.mark.parametrize(
    "write",
    [
        lambda where: where[Total].append(Total(7)),
        lambda where: where[Total].seed(Total(7)),
        lambda where: where[Total].clear(),
        lambda where: where.dispatch(7),
        lambda where: where.reset(),
    ],
)
def test_a_slice_that_a_reducer_changes_itself_is_named(session, place, write):
    session[Total].append(Total(1))
    where = session.fork() if place == "branch" else session

    def add_twice(items, event):
        write(where)
        return [*items, Total(event.amount)]

    session[Total].register(int, lambda items, event: Append([Total(event)]))
    session[Total].register(Add, add_twice)
    with pytest.raises(StateError, match="event of Add to the slice of Total, one of them changed"):
        where.dispatch(Add(2))
    assert session[Total].all() == [Total(1)]


@pytest.mark.parametrize("place", ["session", "branch"])
def test_a_slice_that_the_reducer_of_another_changes_is_named(session, place):
    where = session.fork() if place == "branch" else session

    def meddle(items, event):
        where[Total].append(Total(7))
        return [*items, Step("a")]

    session[Total].register(Add, total)
    session[Step].register(Add, meddle)
    with pytest.raises(StateError, match="to the slice of Total, one of them changed that slice"):
        where.dispatch(Add(2))
    assert session[Step].all() == session[Total].all() == []


def test_a_reducer_sees_a_sequence_that_it_cannot_change(session):
    session[Step].append(Step("a"))
    session[Step].register(Add, lambda items, event: items.append(Step("b")))
    with pytest.raises(AttributeError):
        session.dispatch(Add(1))


def test_a_log_only_grows(session):
    session[Audit].register(Audit, append_all, SlicePolicy.LOG)
    session.dispatch(Audit("a"))
    session[Audit].append(Audit("b"))
    for remove in (session[Audit].clear, session[Audit].seed):
        with pytest.raises(StateError, match="is a LOG"):
            remove()
    assert session[Audit].all() == [Audit("a"), Audit("b")]


def test_a_reducer_of_a_log_sees_what_is_in_it(session):
    def numbered(items, event):
        return Append([Audit(f"{len(items)} {event.text}")])

    session[Audit].register(Audit, numbered, SlicePolicy.LOG)
    for each in ("a", "b"):
        session.dispatch(Audit(each))
    assert session[Audit].all() == [Audit("0 a"), Audit("1 b")]


def test_a_reducer_of_a_log_must_add(session):
    session[Audit].register(Audit, replace_latest, SlicePolicy.LOG)
    with pytest.raises(StateError, match=r"replace_latest replaces.*Append"):
        session.dispatch(Audit("a"))


@pytest.mark.parametrize("given", [["a"], ("a",)])
def test_several_items_are_given_one_by_one(session, given):
    with pytest.raises(StateError, match=r"Give them as seed\(\*items\) instead\.$"):
        session[Step].seed(given)


def test_a_slice_cannot_be_state_and_log(session):
    session[Step].append(Step("a"))
    with pytest.raises(StateError, match="Step is STATE and cannot become LOG"):
        session[Step].register(Add, append_all, SlicePolicy.LOG)
    with pytest.raises(StateError, match="ToolInvoked is LOG and cannot become STATE"):
        session[ToolInvoked].register(Add, append_all)
    with pytest.raises(StateError, match="Step is STATE"):
        session.log(Step("b"))


def test_log_keeps_an_event_and_publishes_it_at_once(session):
    heard = []
    session.dispatcher.subscribe(Audit, heard.append)
    session.log(Audit("a"))
    assert session[Audit].all() == [Audit("a")]
    assert heard == [Audit("a")]


def test_log_applies_the_reducers_of_other_slices(session):
    session[Audit].register(Audit, append_all, SlicePolicy.LOG)
    session[Total].register(Audit, lambda items, event: Append([Total(len(event.text))]))
    session.log(Audit("abc"))
    assert session[Audit].all() == [Audit("abc")]
    assert session[Total].latest() == Total(3)


def test_log_survives_a_reducer_that_raises(session, caplog):
    heard = []
    session.dispatcher.subscribe(Audit, heard.append)
    session[Total].register(Audit, lambda items, event: 1 / 0)
    session.log(Audit("a"))
    assert session[Audit].all() == heard == [Audit("a")]
    assert "A reducer of Audit raised" in caplog.text


def test_a_clone_goes_its_own_way_with_the_same_reducers(session):
    session[Total].register(Add, total)
    session.dispatch(Add(1))
    session.log(Audit("a"))
    other = session.clone(id="s2")
    assert other[Audit].latest() == other.fork()[Audit].latest() == Audit("a")
    session.dispatch(Add(1))
    other.dispatch(Add(10))
    other.log(Audit("b"))
    assert session[Total].all() == [Total(1), Total(2)]
    assert other[Total].all() == [Total(1), Total(11)]
    assert session[Audit].all() == [Audit("a")]
    assert other[Audit].all() == [Audit("a"), Audit("b")]
    assert (other.id, session.id) == ("s2", "s1")


def test_sessions_without_an_id_get_one():
    assert Session().id != Session().id


@pytest.mark.slow
def test_threads_lose_nothing(session):
    session[Total].register(Add, total)

    def work():
        for _ in range(300):
            session.dispatch(Add(1))
            session[Step].append(Step("x"))
            session.log(Audit("x"))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert session[Total].latest() == Total(1200)
    assert len(session[Step].all()) == 1200
    assert len(session[Audit].all()) == 1200


class Typed(TypedDict):
    value: int


class Valued(Protocol):
    value: int


@pytest.mark.parametrize("kind", [Typed, Valued])
def test_a_class_that_no_item_can_be_told_by_names_no_slice(session, kind):
    for place in (session, session.fork()):
        with pytest.raises(StateError, match=f"no item is an instance of {kind.__name__}"):
            place[kind].append({"value": 1})


async def later(items, event):
    return items


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((5, total), "5 is not a class"),
        ((Add, 5), "5 is not a function"),
        ((Add, later), "its reducer is async"),
        ((Add, total, "LOG"), "give SlicePolicy.STATE or SlicePolicy.LOG"),
    ],
)
def test_what_cannot_reduce_is_refused_where_it_is_registered(session, given, told):
    with pytest.raises(
        StateError, match="No reducer is registered for the slice of Total"
    ) as caught:
        session[Total].register(*given)
    assert told in str(caught.value)
