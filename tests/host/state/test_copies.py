import threading
from dataclasses import dataclass, field

import pytest

from toolyard_hookspecs.calls import Stage, Status, ToolCall, ToolInvoked
from toolyard_hookspecs.clock import SystemClock
from toolyard_hookspecs.errors import StateError
from toolyard_hookspecs.results import ToolResult
from toolyard_hookspecs.sessions import Append, SlicePolicy, append_all


@dataclass
class Basket:
    things: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Pair:
    left: int
    right: int


@dataclass(frozen=True)
class Put:
    thing: str


class Handle:
    def __init__(self):
        self.lock = threading.Lock()


@pytest.fixture
def session(session):
    session[Basket].append(Basket(["apple"]))
    return session


def things(session):
    return [each.things for each in session[Basket].all()]


def test_frozen_items_are_shared(session):
    pair = Pair(1, 2)
    branch = session.fork()
    branch[Pair].append(pair)
    assert branch[Pair].latest() is pair
    branch.commit()
    assert session[Pair].latest() is pair


def test_an_item_is_copied_when_stored(session):
    basket = Basket()
    session[Basket].append(basket)
    branch = session.fork()
    branch[Basket].append(basket)
    basket.things.append("late")
    assert session[Basket].latest() == Basket()
    assert branch[Basket].latest() == Basket()


@pytest.mark.parametrize("seen", ["latest", "all", "where", "iterated", "sliced"])
def test_changing_what_was_read_changes_nothing_but_the_copy(session, seen):
    read = {
        "latest": lambda view: view.latest(),
        "all": lambda view: view.all()[0],
        "where": lambda view: view.where(lambda _: True)[0],
        "iterated": lambda view: next(iter(view.all())),
        "sliced": lambda view: view.all()[:1][0],
    }[seen]
    branch, other = session.fork(), session.fork()
    read(branch[Basket]).things.append("pear")
    read(session[Basket]).things.append("plum")
    assert things(other) == things(session) == [["apple"]]
    branch.commit()
    assert things(session) == [["apple"]]


def test_a_branch_reads_one_copy_of_each_item(session):
    branch = session.fork()
    seen = branch[Basket].latest()
    seen.things.append("pear")
    assert branch[Basket].latest() is seen
    assert branch[Basket].all()[0] is seen
    assert things(branch) == [["apple", "pear"]]
    assert things(branch.fork()) == [["apple"]]
    assert not branch.changed


def test_a_changed_copy_can_be_put_in_its_place(session):
    branch = session.fork()
    basket = branch[Basket].latest()
    basket.things.append("pear")
    branch[Basket].seed(basket)
    basket.things.append("never seeded")
    branch.commit()
    assert things(session) == [["apple", "pear"]]


def test_a_reducer_that_changes_items_in_place_changes_nothing(session):
    def impure(items, event):
        items[-1].things.append(event.thing)
        return items

    def broken(items, event):
        items[-1].things.append(event.thing)
        raise ValueError("no")

    session[Basket].register(Put, broken)
    branch = session.fork()
    for target in (session, branch):
        with pytest.raises(ValueError, match="no"):
            target.dispatch(Put("pear"))
        assert things(target) == [["apple"]]
    session[Basket].register(Put, impure)
    branch.dispatch(Put("plum"))
    assert things(branch) == [["apple", "plum"]]
    assert things(session) == [["apple"]]


def test_an_event_is_copied_before_it_is_reduced(session):
    session[Basket].register(Basket, append_all)
    event = Basket(["fig"])
    branch = session.fork()
    branch.dispatch(event)
    event.things.append("late")
    session[Basket].append(Basket(["other"]))
    branch.validate()
    branch.commit()
    assert things(session) == [["apple"], ["other"], ["fig"]]


def test_a_slice_of_a_base_class_copies_only_what_can_change(session):
    pair = Pair(1, 2)
    session[object].append(pair)
    session[object].append([1])
    assert session[object].all()[0] is pair
    session[object].latest().append(2)
    assert session[object].all() == [pair, [1]]


def test_items_of_a_log_are_copied_too(session):
    session[Basket].clear()
    session[list].register(list, lambda items, event: Append([event]), SlicePolicy.LOG)
    branch = session.fork()
    entry = [1]
    branch.dispatch(entry)
    branch[list].append(entry)
    entry.append(2)
    branch[list].latest().append(3)
    branch[list].all()[0].append(3)
    assert session[list].all() == [[1], [1]]


def test_the_log_of_calls_keeps_the_events_themselves(session):
    event = ToolInvoked(
        ToolCall("nothing"),
        None,
        None,
        ToolResult.error("no"),
        Status.UNKNOWN_TOOL,
        Stage.LOOKUP,
        "s1",
        None,
        SystemClock().now(),
        0.0,
    )
    session.log(event)
    assert session[ToolInvoked].latest() is event
    assert session.fork()[ToolInvoked].all()[0] is event


def test_what_can_change_and_not_be_copied_is_refused(session):
    with pytest.raises(StateError, match=r"Handle cannot be kept.*frozen dataclass"):
        session.fork()[Handle].append(Handle())
