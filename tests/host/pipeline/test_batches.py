"""Calls dispatched together: isolated, committed in call order, whatever their timing."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import pytest

from toolstile.testing import FakeClock
from toolstile_hookspecs import (
    Binding,
    Deadline,
    DeadlineExceededError,
    Interrupt,
    Outcome,
    PolicyDecision,
    PromptEvaluationError,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    applies_to,
    hookimpl,
    tool,
)
from toolstile_hookspecs.tools import Concurrency

# Only what never comes takes this long.
PATIENCE = 60.0


class Order:
    """Lets handlers end in the order that a test wants, whenever they were begun."""

    def __init__(self, *names: str) -> None:
        self._names = list(names)
        self._events = {name: threading.Event() for name in names}
        self._events[names[0]].set()

    def wait(self, name: str) -> None:
        assert self._events[name].wait(PATIENCE), f"{name} waited in vain"

    def done(self, name: str) -> None:
        place = self._names.index(name) + 1
        if place < len(self._names):
            self._events[self._names[place]].set()

    def release(self) -> None:
        """Let everyone go on who still waits."""
        for each in self._events.values():
            each.set()


@dataclass(frozen=True)
class Line:
    """Something written by one call."""

    text: str


def lines(yard: Any) -> list[str]:
    return [each.text for each in yard.session[Line].all()]


def writer(order: Order, name: str = "write") -> Tool[Any, Any]:
    @tool(name=name)
    def write(text: str, *, context: ToolContext) -> ToolResult[list[str]]:
        """Write a line, when the test lets it."""
        order.wait(text)
        context.session[Line].append(Line(text))
        order.done(text)
        return ToolResult.ok(message=text)

    return write


def awriter(order: Order) -> Tool[Any, Any]:
    @tool(name="write")
    async def write(text: str, *, context: ToolContext) -> ToolResult[list[str]]:
        """Write a line, when the test lets it."""
        await asyncio.to_thread(order.wait, text)
        context.session[Line].append(Line(text))
        order.done(text)
        return ToolResult.ok(message=text)

    return write


def calls_of(name: str, *texts: str) -> list[ToolCall]:
    return [ToolCall(name, {"text": text}) for text in texts]


@pytest.mark.slow
@pytest.mark.parametrize("make", [writer, awriter])
@pytest.mark.parametrize("last_to_first", ["cba", "bca", "acb", "abc"])
def test_outcomes_and_commits_come_in_call_order(
    yard: Any, make: Callable[[Order], Tool[Any, Any]], last_to_first: str
) -> None:
    yard.open(make(Order(*last_to_first)))

    outcomes = yard.dispatch_all(calls_of("write", *"abc"))

    assert [each.text for each in outcomes] == ["a", "b", "c"]
    assert lines(yard) == ["a", "b", "c"]
    assert [each.event.call.arguments["text"] for each in outcomes] == ["a", "b", "c"]
    assert [each.call.arguments["text"] for each in yard.events] == ["a", "b", "c"]


def test_no_calls_have_no_outcomes(yard: Any) -> None:
    yard.open(writer(Order("a")))

    assert yard.dispatch_all([]) == []


def test_each_call_sees_the_state_before_the_batch(yard: Any) -> None:
    @tool
    def look(text: str, *, context: ToolContext) -> ToolResult[int]:
        """Tell how many lines there are, and write one."""
        seen = len(context.session[Line].where(lambda _: True)) if text == "look" else 0
        context.session[Line].append(Line(text))
        return ToolResult.ok(seen)

    yard.open(look)
    yard.session[Line].append(Line("before"))

    outcomes = yard.dispatch_all(calls_of("look", "look", "a", "b"))

    assert [each.success for each in outcomes] == [True] * 3
    assert outcomes[0].result.value == 1
    assert lines(yard) == ["before", "look", "a", "b"]


def test_all_calls_fork_from_one_state_also_when_the_first_ends_early(yard: Any) -> None:
    @tool(name="look", contained=False)
    def look(text: str, *, context: ToolContext) -> ToolResult[int]:
        """Tell how many lines there are."""
        seen = len(context.session[Line].all())
        if text == "first":
            context.session[Line].append(Line(text))
        return ToolResult.ok(seen)

    yard.open(look)

    outcomes = yard.dispatch_all(calls_of("look", "first", *"abcdefgh"))

    assert outcomes[0].success
    assert {each.status for each in outcomes[1:]} == {Status.CONFLICT}


def test_contained_calls_run_again_in_call_order(yard: Any) -> None:
    @tool(contained=True)
    def number(text: str, *, context: ToolContext) -> ToolResult[int]:
        """Write a line, and tell which one it is."""
        place = len(context.session[Line].all()) + 1
        context.session[Line].append(Line(text))
        return ToolResult.ok(place)

    yard.open(number)

    outcomes = yard.dispatch_all(calls_of("number", *"abcdef"))

    assert [each.result.value for each in outcomes] == [1, 2, 3, 4, 5, 6]
    assert [each.event.reruns for each in outcomes] == [0, 1, 1, 1, 1, 1]
    assert lines(yard) == list("abcdef")


def test_serial_calls_run_one_after_the_other_on_the_newest_state(yard: Any) -> None:
    running: list[str] = []
    most: list[int] = []

    @tool(concurrency="serial")
    def number(text: str, *, context: ToolContext) -> ToolResult[int]:
        """Write a line, and tell which one it is."""
        running.append(text)
        most.append(len(running))
        place = len(context.session[Line].all()) + 1
        context.session[Line].append(Line(text))
        running.remove(text)
        return ToolResult.ok(place)

    yard.open(number)

    outcomes = yard.dispatch_all(calls_of("number", *"abcdef"))

    assert [each.result.value for each in outcomes] == [1, 2, 3, 4, 5, 6]
    assert [each.event.reruns for each in outcomes] == [0] * 6
    assert set(most) == {1}


def test_a_serial_call_waits_for_parallel_ones_before_it_only(yard: Any) -> None:
    order = Order("after", "before")

    @tool(concurrency="serial")
    def number(text: str, *, context: ToolContext) -> ToolResult[int]:
        """Write a line, and tell which one it is."""
        place = len(context.session[Line].all()) + 1
        context.session[Line].append(Line(text))
        return ToolResult.ok(place)

    yard.open(number, writer(order))

    outcomes = yard.dispatch_all(
        [
            ToolCall("write", {"text": "before"}),
            ToolCall("number", {"text": "serial"}),
            ToolCall("write", {"text": "after"}),
        ]
    )

    assert [each.success for each in outcomes] == [True] * 3
    assert outcomes[1].result.value == 2
    assert lines(yard) == ["before", "serial", "after"]


def test_failures_leave_the_others_alone(yard: Any) -> None:
    @tool
    def write(text: str, *, context: ToolContext) -> ToolResult[None]:
        """Write a line, or fail."""
        context.session[Line].append(Line(text))
        if text == "b":
            return ToolResult.error("not b")
        if text == "c":
            msg = "not c"
            raise ValueError(msg)
        return ToolResult.ok(message=text)

    yard.open(write)

    outcomes = yard.dispatch_all(
        [*calls_of("write", *"abcd"), ToolCall("rite", {}), ToolCall("write", {"txt": "e"})]
    )

    assert [each.status for each in outcomes] == [
        Status.SUCCEEDED,
        Status.FAILED,
        Status.ERROR,
        Status.SUCCEEDED,
        Status.UNKNOWN_TOOL,
        Status.INVALID,
    ]
    assert lines(yard) == ["a", "d"]


def test_exceptions_stand_in_their_places_and_name_their_calls(yard: Any) -> None:
    @tool
    def write(text: str, *, context: ToolContext) -> ToolResult[None]:
        """Write a line, or end the evaluation."""
        context.session[Line].append(Line(text))
        if text == "pause":
            msg = "wait for a person"
            raise Interrupt(msg)
        if text == "stop":
            msg = "no more"
            raise PromptEvaluationError(msg)
        if text == "late":
            msg = "too late"
            raise DeadlineExceededError(msg)
        return ToolResult.ok(message=text)

    yard.open(write)
    calls = calls_of("write", "a", "pause", "stop", "late", "b")

    outcomes = yard.dispatch_all(calls)

    kinds = [Outcome, Interrupt, PromptEvaluationError, PromptEvaluationError, Outcome]
    assert [type(each) for each in outcomes] == kinds
    assert [outcomes[place].call for place in (1, 2, 3)] == calls[1:4]
    assert lines(yard) == ["a", "b"]
    assert len(yard.events) == 5


def test_an_elapsed_deadline_is_one_calls_own(yard: Any) -> None:
    yard.open(writer(Order("a", "b")))
    late = ToolCall("write", {"text": "late"}, deadline=Deadline.after(-1.0))

    first, second, third = yard.dispatch_all(
        [ToolCall("write", {"text": "a"}), late, ToolCall("write", {"text": "b"})]
    )

    assert first.success
    assert third.success
    assert isinstance(second, PromptEvaluationError)
    assert second.call is late


class Waits:
    """Tells when a call has nothing left to wait for but the calls before it."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    @hookimpl
    def toolstile_render(self, tool: Tool[Any, Any]) -> None:
        if tool.name == "write":
            self.begun.set()


@pytest.mark.parametrize("concurrency", ["parallel", "serial"])
def test_a_deadline_that_an_earlier_call_has_used_up_is_that_of_the_later_ones(
    yard: Any, concurrency: Concurrency
) -> None:
    clock, waits, ran = FakeClock(), Waits(), list[str]()
    parallel = concurrency == "parallel"

    @tool
    def dawdle() -> None:
        """Let the deadline pass."""
        assert not parallel or waits.begun.wait(PATIENCE)
        clock.advance(PATIENCE)

    @tool(concurrency=concurrency)
    def write(text: str, *, context: ToolContext) -> None:
        """Write a line."""
        ran.append(text)
        context.session[Line].append(Line(text))

    yard.open(dawdle, write, plugins=(waits,), deadline=Deadline.after(PATIENCE, clock=clock))
    outcomes = yard.dispatch_all([ToolCall("dawdle"), *calls_of("write", "a")])

    assert [type(each) for each in outcomes] == [PromptEvaluationError] * 2
    assert lines(yard) == []
    assert ran == ["a"] * parallel


def test_a_call_that_times_out_holds_up_nobody(yard: Any) -> None:
    release = threading.Event()

    @tool(timeout=0.05)
    def hang(*, context: ToolContext) -> ToolResult[None]:
        """Take for ever."""
        context.session[Line].append(Line("hung"))
        release.wait(PATIENCE)
        return ToolResult.ok()

    yard.open(hang, writer(Order("a", "b")))

    outcomes = yard.dispatch_all(
        [
            ToolCall("write", {"text": "a"}),
            ToolCall("hang", {}),
            ToolCall("write", {"text": "b"}),
        ]
    )
    release.set()

    assert [each.status for each in outcomes] == [
        Status.SUCCEEDED,
        Status.TIMED_OUT,
        Status.SUCCEEDED,
    ]
    assert lines(yard) == ["a", "b"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_leaves_when_all_have_ended(yard: Any, stop: type[BaseException]) -> None:
    order = Order("stop", "a", "b")

    @tool(name="stop")
    def stopping(*, context: ToolContext) -> ToolResult[None]:
        """Stop everything."""
        context.session[Line].append(Line("stop"))
        order.done("stop")
        raise stop

    yard.open(stopping, writer(order))

    with pytest.raises(stop):
        yard.dispatch_all(
            [
                ToolCall("write", {"text": "a"}),
                ToolCall("stop", {}),
                ToolCall("write", {"text": "b"}),
            ]
        )

    assert lines(yard) == ["a", "b"]
    assert sorted(each.tool.name for each in yard.events) == ["stop", "write", "write"]


def test_ctrl_c_rolls_every_call_of_a_batch_back(make_yard: Callable[[str], Any]) -> None:
    release = threading.Event()
    ready = threading.Barrier(3)

    @tool
    def hang(text: str, *, context: ToolContext) -> ToolResult[None]:
        """Write a line, have the whole process interrupted, and take for ever."""
        context.session[Line].append(Line(text))
        if ready.wait(PATIENCE) == 0:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        release.wait(PATIENCE)
        return ToolResult.ok()

    yard = make_yard("sync")
    yard.open(hang)

    with pytest.raises(KeyboardInterrupt):
        yard.dispatch_all(calls_of("hang", *"abc"))
    release.set()

    assert lines(yard) == []
    assert [each.status for each in yard.events] == [Status.RAISED] * 3
    assert len(yard.tools.runtime.inflight) == 0


@pytest.mark.parametrize("make", [writer, awriter])
def test_cancelling_the_task_rolls_every_call_of_a_batch_back(
    make_yard: Callable[[str], Any], make: Callable[[Order], Tool[Any, Any]]
) -> None:
    order = Order("begin", *"abc")
    yard = make_yard("async")
    tools = yard.open(make(order))

    async def cancelled() -> None:
        task = asyncio.create_task(tools.adispatch_all(calls_of("write", *"abc")))
        while len(tools.runtime.inflight) < 3:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        order.release()

    asyncio.run(cancelled())

    assert lines(yard) == []
    assert [each.status for each in yard.events] == [Status.RAISED] * 3
    assert len(tools.runtime.inflight) == 0


def test_all_checks_are_made_before_any_handler_runs(yard: Any) -> None:
    happened: list[str] = []

    class Watching:
        name = "watching"

        def check(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
            happened.append("check")
            return PolicyDecision.allow()

        def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
            return None

    @tool
    def ping() -> str:
        """Answer."""
        happened.append("run")
        return "pong"

    yard.open(ping, policies=(Watching(),))

    yard.dispatch_all([ToolCall("ping")] * 4)

    assert happened == ["check"] * 4 + ["run"] * 4


def test_plugins_answer_for_the_calls_of_a_batch_one_after_the_other(yard: Any) -> None:
    happened: list[str] = []

    class Claiming:
        @hookimpl
        def toolstile_execute(self, context: ToolContext) -> Any:
            call = context.tool_call
            assert call is not None
            return self._claim(call.id)

        async def _claim(self, name: str) -> None:
            happened.append(f"{name} begins")
            await asyncio.sleep(0.02)
            happened.append(f"{name} ends")

    @tool
    def ping() -> str:
        """Answer."""
        return "pong"

    yard.open(ping, plugins=(Claiming(),))

    yard.dispatch_all([ToolCall("ping", id=name) for name in "abcd"])

    assert happened == [f"{name} {what}" for name in "abcd" for what in ("begins", "ends")]


@dataclass
class Till:
    """Something that one call at a time has."""

    entries: list[str] = field(default_factory=list[str])
    saved: list[list[str]] = field(default_factory=list[list[str]])

    def begin(self) -> list[str]:
        return list(self.entries)

    def commit(self, savepoint: Any) -> None:
        return None

    def rollback(self, savepoint: list[str]) -> None:
        self.entries[:] = savepoint


@pytest.mark.parametrize("ending", ["abc", "cba", "bac"])
def test_an_exclusive_resource_is_had_in_call_order(yard: Any, ending: str) -> None:
    order = Order(*ending)
    till = Till()

    @tool
    def pay(text: str, *, context: ToolContext) -> ToolResult[list[str]]:
        """Put something into the till."""
        order.wait(text)
        order.done(text)
        mine = context.resources.get(Till)
        mine.entries.append(text)
        if text == "b":
            return ToolResult.error("not b")
        return ToolResult.ok(list(mine.entries))

    yard.open(pay, resources=(Binding.instance(Till, till),))

    outcomes = yard.dispatch_all(calls_of("pay", *"abc"))

    assert [each.success for each in outcomes] == [True, False, True]
    assert till.entries == ["a", "c"]
    assert outcomes[2].result.value == ["a", "c"]


def test_a_call_that_no_plugin_is_asked_about_keeps_no_later_one_waiting(yard: Any) -> None:
    both = threading.Barrier(2)

    class Asked:
        @hookimpl
        @applies_to(lambda tool: tool.name == "asked")
        def toolstile_execute(self) -> None:
            return None

    @tool
    def asked() -> None:
        """Wait for the other."""
        both.wait(PATIENCE)

    @tool
    def plain() -> None:
        """Wait for the other."""
        both.wait(PATIENCE)

    yard.open(asked, plain, plugins=(Asked(),))
    outcomes = yard.dispatch_all([ToolCall("plain"), ToolCall("asked")])
    assert [each.status for each in outcomes] == [Status.SUCCEEDED] * 2


def test_nested_calls_commit_with_their_own(yard: Any) -> None:
    order = Order("c", "b", "a")

    @tool
    def twice(text: str, *, context: ToolContext) -> ToolResult[None]:
        """Write one line here and one in a nested call."""
        context.session[Line].append(Line(text.upper()))
        return ToolResult.ok(message=context.call("write", {"text": text}).text)

    yard.open(twice, writer(order))

    outcomes = yard.dispatch_all(calls_of("twice", *"abc"))

    assert [each.text for each in outcomes] == ["a", "b", "c"]
    assert lines(yard) == ["A", "a", "B", "b", "C", "c"]


def test_context_variables_stay_with_their_own_call(yard: Any) -> None:

    seen: ContextVar[str] = ContextVar("seen", default="none")

    @tool
    def note(text: str) -> str:
        """Change a context variable, and tell what it was."""
        before = seen.get()
        seen.set(text)
        return before

    yard.open(note)

    outcomes = yard.dispatch_all(calls_of("note", *"abc"))

    assert [each.result.value for each in outcomes] == ["none"] * 3
    assert seen.get() == "none"


@pytest.mark.long
@pytest.mark.parametrize("driver", ["sync", "async"])
def test_a_batch_costs_per_call_what_single_calls_cost(
    make_yard: Callable[[str], Any], driver: str
) -> None:
    @tool
    def ping() -> str:
        """Answer."""
        return "pong"

    yard = make_yard(driver)
    yard.open(ping)

    def seconds(size: int) -> float:
        calls = [ToolCall("ping") for _ in range(size)]
        began = time.process_time()
        outcomes = yard.dispatch_all(calls)
        took = time.process_time() - began
        assert all(each.success for each in outcomes)
        return took

    small = min(seconds(2000) for _ in range(3))
    large = seconds(20_000)

    # Ten times as many: a quadratic batch would take a hundred times as long.
    assert large < small * 40
