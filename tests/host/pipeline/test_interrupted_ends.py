"""Ctrl-C at the end of a call: nothing stays held for ever, and what is kept is kept as a whole."""

from __future__ import annotations

import signal
import threading
import traceback
from typing import Any

import pytest

from toolstile import runtime as engine
from toolstile.drivers.limit import Lifetime
from toolstile.pipeline import commit as committing, event as ending
from toolstile.resources.call_scope import CallScope
from toolstile.resources.exclusive import Claim, Ticket, lock_of
from toolstile.resources.transactional import BranchPart
from toolstile.runtime import runtime_of
from toolstile_hookspecs import (
    Binding,
    Deadline,
    Outcome,
    Status,
    ToolCall,
    ToolContext,
    hookimpl,
    tool,
)

# Only what never comes takes this long.
PATIENCE = 30.0


class Till:
    """An exclusive resource that keeps everything."""

    def __init__(self) -> None:
        self.begun = 0

    def begin(self) -> None:
        self.begun += 1

    def commit(self, savepoint: None) -> None:
        self.begun -= 1

    rollback = commit


class Plugin:
    """Takes part, and counts what it keeps for calls that have not ended."""

    def __init__(self) -> None:
        self.kept = 0

    @hookimpl
    def toolstile_snapshot(self) -> Plugin:
        self.kept += 1
        return self

    def prepare(self) -> None: ...

    def commit(self) -> None:
        self.kept -= 1

    rollback = commit


@pytest.fixture(name="till")
def open_till(yard: Any, touch: Any) -> Till:
    @tool(concurrency="serial")
    def marked(*, fails: bool = False, context: ToolContext) -> None:
        """Change something, and use the till."""
        context.resources.get(Till)
        touch(context)
        assert not fails

    @tool
    def outer(*, context: ToolContext) -> None:
        """Make the call."""
        context.call("marked")

    till = Till()
    yard.plugin = Plugin()
    resources = (Binding.instance(Till, till),)
    yard.open(marked, outer, resources=resources, plugins=(yard.plugin,))
    return till


def interrupt_once(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, after: bool = False
) -> None:
    function = getattr(owner, name)

    def interrupted(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(owner, name, function)
        if after:
            function(*args, **options)
            signal.raise_signal(signal.SIGINT)
            return None
        signal.raise_signal(signal.SIGINT)
        return function(*args, **options)

    monkeypatch.setattr(owner, name, interrupted)


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_is_held_where_closing_is_interrupted_as_it_begins(
    yard: Any, till: Till, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    interrupt_once(monkeypatch, CallScope, "_end")
    with pytest.raises(KeyboardInterrupt):
        yard.call("marked", fails=fails)

    runtime = runtime_of(yard.session)
    assert (len(runtime.inflight), runtime.turns.holder, lock_of(till).claims) == (0, None, [])
    assert yard.marks == yard.box.items == ([] if fails else ["x"])
    assert yard.call("marked").success


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (CallScope, "undoing"),
        (ending, "fail"),
        (traceback, "format_exception"),
        (ending, "_add_unusual_fields"),
    ],
)
def test_all_is_put_back_where_that_is_interrupted(
    yard: Any, till: Till, monkeypatch: pytest.MonkeyPatch, owner: type[Any], name: str
) -> None:
    interrupt_once(monkeypatch, owner, name)
    with pytest.raises(KeyboardInterrupt):
        yard.call("marked", fails=True)

    assert (till.begun, lock_of(till).claims, yard.plugin.kept) == (0, [], 0)
    assert len(yard.events) == 1
    yard.assert_untouched()


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (committing, "commit_all"),
        (BranchPart, "commit"),
    ],
)
def test_all_is_kept_where_that_is_interrupted_as_it_begins(
    yard: Any, till: Till, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    interrupt_once(monkeypatch, owner, name)
    with pytest.raises(KeyboardInterrupt):
        yard.call("marked")

    assert (till.begun, lock_of(till).claims, yard.plugin.kept) == (0, [], 0)
    assert yard.marks == yard.box.items == ["x"]


def test_a_call_counts_no_longer_where_it_is_interrupted_once_it_counts(
    yard: Any, till: Till, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(dict[int, Any]):
        def __setitem__(self, key: int, call: Any) -> None:
            super().__setitem__(key, call)
            raise KeyboardInterrupt

    runtime = runtime_of(yard.session)
    monkeypatch.setattr(runtime, "calls", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        yard.call("marked")

    assert runtime.calls == {}


def test_what_takes_part_is_put_back_where_that_is_interrupted_between_two(
    yard: Any, touch: Any
) -> None:
    class Other(Plugin):
        """Takes part, too."""

    class Between(Plugin):
        armed = False

        @property
        def rollback(self) -> Any:
            if self.armed:
                self.armed = False
                raise KeyboardInterrupt
            return self.commit

    @tool
    def fails(*, context: ToolContext) -> None:
        """Change something, and fail."""
        touch(context)
        between.armed = True
        raise AssertionError

    between = Between()
    plugins = [Plugin(), Other()]
    yard.open(fails, plugins=(plugins[0], between, plugins[1]))
    with pytest.raises(KeyboardInterrupt):
        yard.call("fails")

    assert [each.kept for each in plugins] == [0, 0]


@pytest.mark.parametrize(
    ("owner", "name"), [(Ticket, "grant"), (Claim, "request"), (engine, "Claim")]
)
def test_a_serial_tool_is_free_where_asking_for_its_place_is_interrupted(
    yard: Any, till: Till, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    interrupt_once(monkeypatch, owner, name, after=True)
    with pytest.raises(KeyboardInterrupt):
        yard.call("marked")

    call = ToolCall("marked", deadline=Deadline.after(PATIENCE))
    assert yard.dispatch(call).success


def test_all_is_kept_where_whoever_hears_of_it_interrupts(yard: Any, touch: Any) -> None:
    class Said:
        """An event."""

    @tool
    def says(*, context: ToolContext) -> None:
        """Change something, and publish an event."""
        touch(context)
        context.session.dispatcher.publish(Said())

    def interrupt(said: Said) -> None:
        raise KeyboardInterrupt

    yard.open(says)
    yard.session.dispatcher.subscribe(Said, interrupt)

    with pytest.raises(KeyboardInterrupt):
        yard.call("says")

    assert yard.marks == yard.box.items == ["x"]
    (event,) = yard.events
    assert (event.status, event.rolled_back) == (Status.RAISED, False)


def test_a_nested_call_is_given_up_where_the_end_of_its_caller_is_interrupted(
    make_yard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[Outcome] = []
    begun, go_on = threading.Event(), threading.Event()

    @tool
    def inner() -> None:
        """End when its caller has."""
        begun.set()
        assert go_on.wait(PATIENCE)

    @tool
    def hasty(*, context: ToolContext) -> None:
        """Call another tool and do not wait for it."""
        threads.append(threading.Thread(target=lambda: outcomes.append(context.call("inner"))))
        threads[0].start()
        assert begun.wait(PATIENCE)

    threads: list[threading.Thread] = []
    yard = make_yard("sync")
    yard.open(inner, hasty)
    interrupt_once(monkeypatch, Lifetime, "_shut_children")
    with pytest.raises(KeyboardInterrupt):
        yard.call("hasty")
    go_on.set()
    threads[0].join(PATIENCE)

    told = "inner was abandoned: it was called by hasty, which has ended."
    assert [each.text for each in outcomes] == [told]


def test_an_interruption_leaves_also_where_not_all_could_be_kept(yard: Any) -> None:
    class Failing(Plugin):
        """Cannot keep what it has prepared."""

        def commit(self) -> None:
            msg = "no room"
            raise OSError(msg)

    class Interrupted(Plugin):
        """Is interrupted as it keeps what it has prepared."""

        def commit(self) -> None:
            raise KeyboardInterrupt

    @tool
    def plain() -> None:
        """Do nothing."""

    yard.open(plain, plugins=(Failing(), Interrupted()))
    with pytest.raises(KeyboardInterrupt):
        yard.call("plain")

    (event,) = yard.events
    assert event.status is Status.COMMIT_FAILED
