from dataclasses import dataclass

import pytest

from toolstile_hookspecs.errors import StateError
from toolstile_hookspecs.sessions import Append, SlicePolicy, append_all


class Event:
    pass


@dataclass(frozen=True)
class Saved(Event):
    name: str


@dataclass(frozen=True)
class Noted:
    name: str


@pytest.fixture
def heard(session):
    events = []
    session.dispatcher.subscribe(object, events.append)
    return events


def test_subscribers_hear_the_events_of_their_type_and_its_subtypes(session):
    saved, events, others = [], [], []
    session.dispatcher.subscribe(Saved, saved.append)
    session.dispatcher.subscribe(Event, events.append)
    session.dispatcher.subscribe(Noted, others.append)
    session.dispatcher.publish(Saved("a"))
    assert (saved, events, others) == ([Saved("a")], [Saved("a")], [])


def test_a_subscriber_can_leave(session):
    heard = []
    leave = session.dispatcher.subscribe(Saved, heard.append)
    session.dispatcher.subscribe(Saved, heard.append)
    session.dispatcher.publish(Saved("a"))
    leave()
    leave()
    session.dispatcher.publish(Saved("b"))
    assert heard == [Saved("a"), Saved("a"), Saved("b")]


async def waiting(event):
    """Be what nobody awaits."""


@pytest.mark.parametrize(
    ("event", "handler", "told"),
    [
        ("Saved", print, "events are known by their class, and 'Saved' is not a class"),
        (Saved, None, "None is not a function; give a handler"),
        (Saved, waiting, "its handler is async, and nothing would await it; give a plain function"),
    ],
)
def test_what_would_never_hear_an_event_is_refused(session, event, handler, told):
    with pytest.raises(StateError) as raised:
        session.dispatcher.subscribe(event, handler)
    assert str(raised.value) == f"Nobody is subscribed: {told}."


def test_a_subscriber_that_raises_is_logged_and_changes_nothing(session, caplog, heard):
    session.dispatcher.subscribe(Saved, lambda event: 1 / 0)
    session[Saved].register(Saved, append_all)
    session.dispatch(Saved("a"))
    assert session[Saved].all() == [Saved("a")]
    assert heard == [Saved("a")]
    assert "A subscriber of Saved raised" in caplog.text


def test_events_of_a_call_are_heard_in_order_after_its_commit(session, heard):
    session[Saved].register(Saved, append_all)
    seen = []
    session.dispatcher.subscribe(Saved, lambda event: seen.append(len(session[Saved].all())))
    branch = session.fork()
    branch.dispatch(Saved("a"))
    branch.dispatcher.publish(Noted("b"))
    branch.dispatch(Saved("c"))
    assert heard == []
    branch.commit()
    assert heard == [Saved("a"), Noted("b"), Saved("c")]
    assert seen == [2, 2]


def test_events_of_a_rolled_back_call_are_never_heard(session, heard):
    branch = session.fork()
    branch.dispatch(Saved("a"))
    branch.dispatcher.publish(Noted("b"))
    branch.rollback()
    assert heard == []


def test_events_of_a_nested_call_wait_for_the_outermost(session, heard):
    outer = session.fork()
    outer.dispatch(Saved("a"))
    inner = outer.fork()
    inner.dispatch(Saved("b"))
    failed = outer.fork()
    failed.dispatch(Saved("c"))
    failed.rollback()
    inner.commit()
    assert heard == []
    outer.commit()
    assert heard == [Saved("a"), Saved("b")]


def test_events_that_only_a_log_keeps_are_heard_at_once(session, heard):
    session[Noted].register(Noted, append_all, SlicePolicy.LOG)
    branch = session.fork()
    branch.dispatch(Noted("a"))
    assert heard == [Noted("a")]
    branch.rollback()
    assert session[Noted].all() == [Noted("a")]


def test_events_for_state_and_log_wait_for_the_commit(session, heard):
    session[Noted].register(Noted, append_all, SlicePolicy.LOG)
    session[Saved].register(Noted, lambda items, event: Append([Saved(event.name)]))
    branch = session.fork()
    branch.dispatch(Noted("a"))
    assert heard == []
    assert session[Noted].all() == [Noted("a")]
    branch.commit()
    assert heard == [Noted("a")]


def test_a_call_cannot_subscribe(session):
    with pytest.raises(
        StateError, match=r"Saved cannot be subscribed to inside a call.*Subscribe on"
    ):
        session.fork().dispatcher.subscribe(Saved, print)
