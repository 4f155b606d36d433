"""A handler hears through `context.on_abandoned` that its call is given up."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from toolstile import Executor, Host, Session
from toolstile_hookspecs import CallClosed, Status, ToolCall, ToolContext, tool

PATIENCE = 30.0


class Work:
    """A piece of work that a handler waits for, and that is ended from outside."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.heard: list[str] = []
        self.threads: list[threading.Thread] = []

    def end(self, name: str = "it") -> None:
        self.heard.append(name)
        self.threads.append(threading.current_thread())
        self.over.set()


@pytest.fixture
def work() -> Iterator[Work]:
    work = Work()
    yield work
    work.over.set()


def dispatch(handler: object, name: str = "work") -> tuple[Status, str]:
    with Host(discover=False, tools=[handler]) as host, host.executor() as tools:
        outcome = tools.dispatch(ToolCall(name))
        return outcome.status, outcome.text


def test_the_newest_callback_is_called_first_and_on_the_thread_that_gives_up(work: Work) -> None:
    @tool(name="work", timeout=0.2)
    def working(*, context: ToolContext) -> None:
        """Wait for the end."""
        context.on_abandoned(lambda: work.end("program"))
        context.on_abandoned(lambda: work.end("shell"))
        work.over.wait(PATIENCE)

    assert dispatch(working)[0] is Status.TIMED_OUT
    assert work.heard == ["shell", "program"]
    assert set(work.threads) == {threading.main_thread()}


def test_one_that_is_taken_back_is_not_called(work: Work) -> None:
    @tool(name="work", timeout=0.2)
    def working(*, context: ToolContext) -> None:
        """Wait for the end."""
        forget = context.on_abandoned(lambda: work.end("first program"))
        context.on_abandoned(lambda: work.end("second program"))
        forget()
        forget()
        work.over.wait(PATIENCE)

    assert dispatch(working)[0] is Status.TIMED_OUT
    assert work.heard == ["second program"]


def test_one_that_is_registered_too_late_is_called_at_once(work: Work) -> None:
    done = threading.Event()

    @tool(name="work", timeout=0.2)
    def working(*, context: ToolContext) -> None:
        """Begin something after the end."""
        context.on_abandoned(work.end)
        work.over.wait(PATIENCE)
        context.on_abandoned(lambda: work.end("late"))
        done.set()

    assert dispatch(working)[0] is Status.TIMED_OUT
    assert done.wait(PATIENCE)
    assert work.heard == ["it", "late"]
    assert work.threads[1] is not threading.main_thread()


def test_one_that_raises_is_logged_without_secrets(
    work: Work, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(name="work", timeout=0.2)
    def working(*, context: ToolContext) -> None:
        """Wait for the end."""

        def fail() -> None:
            raise OSError("no such process")

        context.on_abandoned(work.end)
        context.on_abandoned(fail)
        work.over.wait(PATIENCE)

    with caplog.at_level(logging.ERROR, "toolstile"):
        status, text = dispatch(working)

    assert status is Status.TIMED_OUT
    assert "asked to stop" in text
    assert work.heard == ["it"]
    [record] = caplog.records
    assert "which was to end what it runs elsewhere" in record.getMessage()
    assert "no such process" in record.getMessage()


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError()], ids=repr)
def test_one_that_wants_to_end_the_thread_keeps_none_from_being_called(
    work: Work, error: BaseException
) -> None:
    @tool(name="work", timeout=0.2)
    def working(*, context: ToolContext) -> None:
        """Wait for the end."""

        def leave() -> None:
            raise error

        context.on_abandoned(work.end)
        context.on_abandoned(leave)
        work.over.wait(2.0)

    assert dispatch(working)[0] is Status.TIMED_OUT
    assert work.heard == ["it"]


@pytest.mark.parametrize("raises", [False, True])
def test_none_is_called_once_the_handler_has_ended(work: Work, *, raises: bool) -> None:
    kept: list[ToolContext] = []

    @tool(name="work")
    def working(*, context: ToolContext) -> str:
        """End by itself."""
        kept.append(context)
        context.on_abandoned(work.end)
        if raises:
            raise ValueError("no work")
        return "done"

    dispatch(working)

    assert work.heard == []
    with pytest.raises(CallClosed, match="has ended"):
        kept[0].on_abandoned(work.end)
    assert work.heard == []


def test_an_error_after_the_handler_does_not_call_it(work: Work) -> None:
    @tool(name="work")
    def working(*, context: ToolContext) -> int:
        """Return something that is no text."""
        context.on_abandoned(work.end)
        return b"bytes"  # type: ignore[return-value]

    assert dispatch(working)[0] is not Status.TIMED_OUT
    assert work.heard == []


def test_each_run_of_a_call_has_callbacks_of_its_own(work: Work) -> None:
    @tool(name="inner", timeout=0.2)
    def inner(*, context: ToolContext) -> None:
        """Wait for the end."""
        context.on_abandoned(lambda: work.end("inner"))
        work.over.wait(PATIENCE)

    @tool(name="work")
    def working(*, context: ToolContext) -> str:
        """Call the other one."""
        context.on_abandoned(lambda: work.end("outer"))
        return context.call("inner").status.value

    with Host(discover=False, tools=[inner, working]) as host, host.executor() as tools:
        outcome = tools.dispatch(ToolCall("work"))

    assert outcome.text == Status.TIMED_OUT.value
    assert work.heard == ["inner"]


@pytest.mark.parametrize("timeout", [None, 3600.0], ids=["endless", "with a timeout"])
def test_a_cancelled_task_calls_it(work: Work, timeout: float | None) -> None:
    begun = SimpleQueue[None]()

    @tool(name="work", timeout=timeout)
    async def working(*, context: ToolContext) -> None:
        """Wait for the end."""
        context.on_abandoned(work.end)
        begun.put(None)
        await asyncio.sleep(PATIENCE)

    async def cancelled(tools: Executor) -> None:
        task = asyncio.create_task(tools.adispatch(ToolCall("work")))
        await asyncio.to_thread(begun.get, timeout=PATIENCE)
        task.cancel()
        await asyncio.wait([task])

    with Host(discover=False, tools=[working]) as host, host.executor() as tools:
        asyncio.run(cancelled(tools))

    assert work.heard == ["it"]


def test_a_closed_executor_leaves_the_calls_of_another_alone(work: Work) -> None:
    begun = SimpleQueue[None]()

    @tool(name="work")
    def working(*, context: ToolContext) -> str:
        """Wait for the end."""
        context.on_abandoned(work.end)
        begun.put(None)
        work.over.wait(PATIENCE)
        return "done"

    with Host(discover=False, tools=[working]) as host:
        tools = host.executor()
        thread = threading.Thread(target=tools.dispatch, args=(ToolCall("work"),))
        thread.start()
        begun.get(timeout=PATIENCE)
        host.executor(session=tools.session).close()
        assert work.heard == []
        tools.close()
        thread.join(PATIENCE)

    assert work.heard == ["it"]


def test_a_context_without_a_host_listens_to_its_abort_signal(work: Work) -> None:
    context = ToolContext(Session())
    context.on_abandoned(work.end)
    context.abort_signal.cancel()
    assert work.heard == ["it"]
