"""A stranger's sandbox kills its program on each way of being given up."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from tests.third_party import program_sandbox
from tests.third_party.program_sandbox import ProgramSandbox

from toolstile import Executor, Host
from toolstile_hookspecs import (
    Cancellation,
    Deadline,
    Outcome,
    PromptEvaluationError,
    Status,
    ToolCall,
    ToolContext,
    tool,
)

PATIENCE = 30.0
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="groups of processes"),
]


def program(timeout: float | None = None) -> Any:
    """Return a tool that the sandbox runs."""

    @tool(name="wait", tags=("program",), timeout=timeout, category="read")
    def wait(seconds: int) -> str:
        """Wait so many seconds."""
        raise AssertionError("The handler ran in the host.")

    return wait


@pytest.fixture(params=["sync", "async"])
def driver(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=[False, True], ids=["on a thread", "awaited"])
def sandbox(request: pytest.FixtureRequest) -> ProgramSandbox:
    return ProgramSandbox(is_async=request.param)


def drive(driver: str, tools: Executor, call: ToolCall) -> Outcome:
    if driver == "sync":
        return tools.dispatch(call)

    async def adispatch() -> Outcome:
        return await tools.adispatch(call)

    return asyncio.run(adispatch())


def waiting(**options: Any) -> ToolCall:
    return ToolCall("wait", {"seconds": 3600}, **options)


def meanwhile(sandbox: ProgramSandbox, act: Callable[[ToolContext], object]) -> None:
    """Act on another thread, once the program runs; have it started again for the assertion."""

    def wait_and_act() -> None:
        context, number = sandbox.started.get(timeout=PATIENCE)
        sandbox.started.put((context, number))
        act(context)

    threading.Thread(target=wait_and_act, daemon=True).start()


def assert_killed(sandbox: ProgramSandbox) -> None:
    """Assert that the program was killed once, and nothing of its group is left."""
    _, number = sandbox.started.get(timeout=PATIENCE)
    assert sandbox.killed == [number]
    until = monotonic() + PATIENCE
    while is_alive(number):
        assert monotonic() < until
        sleep(0.01)


def is_alive(group: int) -> bool:
    """Tell whether a process of a group runs, apart from zombies."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            return True
    return False


def test_it_uses_the_contract_alone() -> None:
    text = Path(program_sandbox.__file__).read_text(encoding="utf-8")
    assert "from toolstile_hookspecs import" in text
    assert "from toolstile " not in text
    assert "from toolstile." not in text


def test_a_program_that_ends_by_itself_is_not_killed(driver: str, sandbox: ProgramSandbox) -> None:
    with (
        Host(discover=False, plugins=[sandbox], tools=[program(60)]) as host,
        host.executor() as tools,
    ):
        outcome = drive(driver, tools, ToolCall("wait", {"seconds": 0}))

    assert outcome.text == "exit status 0"
    assert sandbox.killed == []


def test_a_timeout_kills_it(driver: str, sandbox: ProgramSandbox) -> None:
    with (
        Host(discover=False, plugins=[sandbox], tools=[program(1.5)]) as host,
        host.executor() as tools,
    ):
        outcome = drive(driver, tools, waiting())

    assert outcome.status is Status.TIMED_OUT
    assert "It was asked to stop" in outcome.text
    assert_killed(sandbox)


@pytest.mark.parametrize("way", ["handle", "abort_signal"])
def test_cancelling_kills_it(driver: str, sandbox: ProgramSandbox, way: str) -> None:
    stop = Cancellation()

    def cancel(context: ToolContext) -> None:
        (stop if way == "handle" else context.abort_signal).cancel()

    with (
        Host(discover=False, plugins=[sandbox], tools=[program()]) as host,
        host.executor() as tools,
    ):
        meanwhile(sandbox, cancel)
        outcome = drive(driver, tools, waiting(cancellation=stop))

    assert outcome.status is Status.CANCELLED
    assert_killed(sandbox)


def test_a_deadline_kills_it(driver: str, sandbox: ProgramSandbox) -> None:
    with (
        Host(discover=False, plugins=[sandbox], tools=[program()]) as host,
        host.executor(deadline=Deadline.after(1.5)) as tools,
        pytest.raises(PromptEvaluationError),
    ):
        drive(driver, tools, waiting())

    assert_killed(sandbox)


@pytest.mark.parametrize("timeout", [None, 3600.0], ids=["endless", "with a timeout"])
def test_an_interrupt_kills_it(driver: str, sandbox: ProgramSandbox, timeout: float | None) -> None:
    def interrupt(context: ToolContext) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with (
        Host(discover=False, plugins=[sandbox], tools=[program(timeout)]) as host,
        host.executor() as tools,
    ):
        meanwhile(sandbox, interrupt)
        with pytest.raises(KeyboardInterrupt):
            drive(driver, tools, waiting())

    assert_killed(sandbox)


def test_a_task_that_is_cancelled_kills_it(sandbox: ProgramSandbox) -> None:
    async def cancelled(tools: Executor) -> None:
        job = asyncio.create_task(tools.adispatch(waiting()))
        context, number = await asyncio.to_thread(sandbox.started.get, timeout=PATIENCE)
        sandbox.started.put((context, number))
        job.cancel()
        await asyncio.wait([job])

    with (
        Host(discover=False, plugins=[sandbox], tools=[program()]) as host,
        host.executor() as tools,
    ):
        asyncio.run(cancelled(tools))

    assert_killed(sandbox)


def test_a_loop_that_ends_kills_it(sandbox: ProgramSandbox) -> None:
    async def leave(tools: Executor) -> asyncio.Task[Outcome]:
        job = asyncio.create_task(tools.adispatch(waiting()))
        context, number = await asyncio.to_thread(sandbox.started.get, timeout=PATIENCE)
        sandbox.started.put((context, number))
        return job

    with (
        Host(discover=False, plugins=[sandbox], tools=[program(3600)]) as host,
        host.executor() as tools,
    ):
        job = asyncio.run(leave(tools))

    assert job.cancelled()
    assert_killed(sandbox)


@pytest.fixture
def open_host(sandbox: ProgramSandbox) -> Iterator[Host]:
    with Host(discover=False, plugins=[sandbox], tools=[program()]) as host:
        yield host


@pytest.mark.parametrize("closed", ["host", "executor"])
def test_closing_kills_it(
    driver: str, sandbox: ProgramSandbox, open_host: Host, closed: str
) -> None:
    tools = open_host.executor()
    ended = threading.Event()
    outcomes: list[Outcome] = []

    def dispatch() -> None:
        outcomes.append(drive(driver, tools, waiting()))
        ended.set()

    threading.Thread(target=dispatch, daemon=True).start()
    context, number = sandbox.started.get(timeout=PATIENCE)
    sandbox.started.put((context, number))
    (open_host if closed == "host" else tools).close()

    assert ended.wait(PATIENCE)
    assert not outcomes[0].success
    assert_killed(sandbox)


def test_a_caller_that_is_given_up_kills_it(driver: str, sandbox: ProgramSandbox) -> None:
    @tool(timeout=1.5)
    async def outer(*, context: ToolContext) -> str:
        """Call the program."""
        return (await context.acall("wait", {"seconds": 3600})).text

    with (
        Host(discover=False, plugins=[sandbox], tools=[program(), outer]) as host,
        host.executor() as tools,
    ):
        outcome = drive(driver, tools, ToolCall("outer"))

    assert outcome.status is Status.TIMED_OUT
    assert_killed(sandbox)
