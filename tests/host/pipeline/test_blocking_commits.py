"""Commits and rollbacks that block their thread hold up no event loop."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from toolstile import Executor, Host
from toolstile_hookspecs import (
    Binding,
    Outcome,
    Scope,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)

# Only what never comes takes this long.
PATIENCE = 30.0
WORK = 0.3
"""Seconds for which a handler works, within its transaction."""


class Notes:
    """A table in a SQLite file, of which each call is a savepoint; one connection a session."""

    def __init__(self, file: Path) -> None:
        self.threads: dict[str, set[int]] = {"made": {threading.get_ident()}}
        self.connection = sqlite3.connect(
            file, timeout=5, isolation_level=None, check_same_thread=False
        )

    def _note(self, step: str) -> None:
        self.threads.setdefault(step, set()).add(threading.get_ident())

    def begin(self) -> str:
        self._note("begin")
        self.connection.execute("SAVEPOINT call")
        return "call"

    def prepare(self, savepoint: str) -> None:
        self._note("prepare")

    def commit(self, savepoint: str) -> None:
        self._note("commit")
        self.connection.execute(f"RELEASE {savepoint}")

    def rollback(self, savepoint: str) -> None:
        self._note("rollback")
        self.connection.execute(f"ROLLBACK TO {savepoint}")
        self.connection.execute(f"RELEASE {savepoint}")

    def close(self) -> None:
        self.connection.close()


SQL = {"read": "SELECT count(*) FROM note", "insert": "INSERT INTO note VALUES ('new')"}
begun = threading.Event()


@tool
def use(deed: str, seconds: float, *, fails: bool = False, context: ToolContext) -> ToolResult[int]:
    """Read or insert, then work."""
    context.resources.get(Notes).connection.execute(SQL[deed]).fetchall()
    begun.set()
    time.sleep(seconds)
    return ToolResult.error("Not wanted after all.") if fails else ToolResult.ok(1)


@tool(name="use")
async def use_async(
    deed: str, seconds: float, *, fails: bool = False, context: ToolContext
) -> ToolResult[int]:
    """Read or insert, then work, without keeping the loop from others."""
    connection = (await context.resources.aget(Notes)).connection
    await asyncio.to_thread(lambda: connection.execute(SQL[deed]).fetchall())
    begun.set()
    await asyncio.sleep(seconds)
    return ToolResult.error("Not wanted after all.") if fails else ToolResult.ok(1)


@pytest.fixture(params=["delete", "wal"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "notes.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {request.param}")
        connection.execute("CREATE TABLE note (text)")
    return path


@pytest.fixture
def sessions(file: Path) -> Iterator[Callable[[Tool[Any, Any]], Executor]]:
    """Opens sessions over the file, each with a connection of its own."""
    with ExitStack() as stack:
        host = stack.enter_context(Host(discover=False))
        begun.clear()
        bindings = (Binding(Notes, lambda _: Notes(file)),)
        yield lambda used: stack.enter_context(host.executor(tools=[used], resources=bindings))


def call(deed: str, seconds: float, **more: Any) -> ToolCall:
    return ToolCall("use", {"deed": deed, "seconds": seconds, **more})


def rows(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM note").fetchone()
    return int(count)


async def one_within_the_other(
    first: Executor, second: Executor, deeds: tuple[str, str]
) -> list[Outcome]:
    """Let a session begin its work, and another one do and commit its own meanwhile."""
    working = asyncio.ensure_future(first.adispatch(call(deeds[0], WORK)))
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    return [await second.adispatch(call(deeds[1], 0.0)), await working]


INTERLEAVINGS = [("read", "insert"), ("insert", "read"), ("insert", "insert")]


@pytest.mark.parametrize("deeds", INTERLEAVINGS)
@pytest.mark.parametrize("used", [use, use_async], ids=["sync", "async"])
def test_two_sessions_on_one_loop_keep_what_both_did(
    sessions: Any, file: Path, used: Tool[Any, Any], deeds: tuple[str, str]
) -> None:
    outcomes = asyncio.run(one_within_the_other(sessions(used), sessions(used), deeds))

    assert [each.status for each in outcomes] == [Status.SUCCEEDED] * 2
    assert rows(file) == deeds.count("insert")


@pytest.mark.parametrize("deeds", INTERLEAVINGS)
def test_so_do_two_sessions_in_threads(sessions: Any, file: Path, deeds: tuple[str, str]) -> None:
    first, second = sessions(use), sessions(use)
    with ThreadPoolExecutor() as threads:
        working = threads.submit(first.dispatch, call(deeds[0], WORK))
        assert begun.wait(PATIENCE)
        outcomes = [second.dispatch(call(deeds[1], 0.0)), working.result()]

    assert [each.status for each in outcomes] == [Status.SUCCEEDED] * 2
    assert rows(file) == deeds.count("insert")


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("used", [use, use_async], ids=["sync", "async"])
def test_no_step_of_a_resource_runs_on_the_loops_thread(
    sessions: Any, used: Tool[Any, Any], fails: bool
) -> None:
    tools = sessions(used)
    asyncio.run(tools.adispatch(call("insert", 0.0, fails=fails)))

    threads = tools.resources.get(Notes).threads
    assert threads.keys() == {"made", "begin"} | ({"rollback"} if fails else {"prepare", "commit"})
    assert not any(threading.get_ident() in each for each in threads.values())


class Keeping:
    """A participant that notes on which threads it is used."""

    def __init__(self) -> None:
        self.threads: list[tuple[str, bool]] = []

    def _note(self, step: str) -> None:
        self.threads.append((step, threading.current_thread() is threading.main_thread()))

    def join(self) -> None:
        self._note("join")

    def diff(self) -> str:
        self._note("diff")
        return "a line"

    def prepare(self) -> None:
        self._note("prepare")

    def commit(self) -> None:
        self._note("commit")

    def rollback(self) -> None:
        self._note("rollback")

    @hookimpl
    def toolstile_snapshot(self, tool: Tool[Any, Any]) -> Keeping | None:
        return self if tool.name == "plain" else None


@tool(contained=True)
def plain(*, fails: bool = False) -> ToolResult[None]:
    """Succeed, or not."""
    return ToolResult.error("No.") if fails else ToolResult.ok(None)


@tool(contained=True)
async def outer(*, context: ToolContext) -> ToolResult[None]:
    """Make the call."""
    return (await context.acall("plain", {})).result


STEPS = {
    "alone": (ToolCall("plain", {}), ["prepare", "commit"]),
    "nested": (ToolCall("outer", {}), ["join", "prepare", "commit"]),
    "failed": (ToolCall("plain", {"fails": True}), ["rollback"]),
    "rehearsed": (ToolCall("plain", {}), ["diff", "rollback"]),
}


@pytest.mark.parametrize("way", STEPS)
def test_no_step_of_a_plugins_participant_does(make_yard: Any, way: str) -> None:
    keeping, yard = Keeping(), make_yard("async")
    yard.open(plain, outer, plugins=(keeping,), dry_run=way == "rehearsed")
    made, steps = STEPS[way]
    yard.dispatch(made)

    assert keeping.threads == [(step, False) for step in steps]


@pytest.mark.parametrize("way", STEPS)
def test_all_do_of_one_that_says_that_it_never_waits(make_yard: Any, way: str) -> None:
    class Quick(Keeping):
        waits = False

    quick, yard = Quick(), make_yard("async")
    yard.open(plain, outer, plugins=(quick,), dry_run=way == "rehearsed")
    made, steps = STEPS[way]
    yard.dispatch(made)

    assert quick.threads == [(step, True) for step in steps]


class Gated(Keeping):
    """Lets one of its steps end when it is told to."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self.at, self.reached, self.go_on = at, threading.Event(), threading.Event()

    def _note(self, step: str) -> None:
        if step == self.at:
            self.reached.set()
            assert self.go_on.wait(PATIENCE)
        super()._note(step)


@pytest.mark.parametrize("at", ["prepare", "commit", "rollback"])
def test_a_step_is_waited_for_however_often_its_task_is_cancelled(make_yard: Any, at: str) -> None:
    gated, yard = Gated(at), make_yard("async")
    yard.open(plain, plugins=(gated,))

    async def main() -> bool:
        made = ToolCall("plain", {"fails": at == "rollback"})
        task = asyncio.ensure_future(yard.tools.adispatch(made))
        assert await asyncio.to_thread(gated.reached.wait, PATIENCE)
        # As a cancel scope does that is shut.
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        waits = not task.done()
        gated.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return waits

    assert asyncio.run(main())
    ends = {"prepare": ["prepare", "rollback"], "commit": ["prepare", "commit"]}
    assert [step for step, _ in gated.threads] == ends.get(at, ["rollback"])


@pytest.mark.parametrize("at", ["prepare", "commit", "rollback"])
def test_a_step_is_waited_for_where_the_loop_has_gone(make_yard: Any, at: str) -> None:
    gated, other, yard = Gated(at), Keeping(), make_yard("async")
    yard.open(plain, plugins=(gated, type("Other", (), {"toolstile_snapshot": hookimpl(
        lambda self, tool: other)})()))  # fmt: skip
    driving = yard.tools.adispatch(ToolCall("plain", {"fails": at == "rollback"}))

    async def begin() -> None:
        task = asyncio.ensure_future(driving)
        assert await asyncio.to_thread(gated.reached.wait, PATIENCE)
        # Taken from its loop, as where that was closed in the midst of it.
        asyncio.tasks._unregister_task(task)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    threading.Timer(0.05, gated.go_on.set).start()
    driving.close()

    ends = {"prepare": ["prepare", "rollback"], "commit": ["prepare", "commit"]}
    assert [step for step, _ in gated.threads] == ends.get(at, ["rollback"])
    assert [step for step, _ in other.threads][-1:] == ends.get(at, ["rollback"])[-1:]
    assert len(yard.events) == 1


class Lent:
    """An exclusive resource that takes its time to begin; its savepoints are a stack."""

    def __init__(self) -> None:
        self.open: list[int] = []
        self.beginning, self.go_on = threading.Event(), threading.Event()

    def begin(self) -> int:
        if not self.open:
            self.beginning.set()
            assert self.go_on.wait(PATIENCE)
        self.open.append(len(self.open))
        return self.open[-1]

    def commit(self, savepoint: int) -> None:
        assert self.open.pop() == savepoint

    rollback = commit


def test_no_nested_call_begins_before_the_call_around_it(make_yard: Any) -> None:
    lent, yard = Lent(), make_yard("async")

    @tool
    async def inner(*, context: ToolContext) -> int:
        """Use it."""
        return len((await context.resources.aget(Lent)).open)

    @tool(name="outer")
    async def both(*, context: ToolContext) -> int:
        """Use it, and have it used meanwhile."""
        own = asyncio.ensure_future(context.resources.aget(Lent))
        assert await asyncio.to_thread(lent.beginning.wait, PATIENCE)
        nested = asyncio.ensure_future(context.acall("inner", {}))
        await asyncio.sleep(0.05)
        lent.go_on.set()
        await own
        return int((await nested).result.value or 0)

    yard.open(inner, both, resources=(Binding.instance(Lent, lent),))

    assert yard.call("outer").text == "2"
    assert lent.open == []


def test_what_an_abandoned_task_holds_is_rolled_back_off_the_loop(make_yard: Any) -> None:
    ended = threading.Event()

    class Held:
        def __init__(self) -> None:
            self.threads: list[bool] = []

        def begin(self) -> None: ...

        def commit(self, savepoint: None) -> None: ...

        def rollback(self, savepoint: None) -> None:
            self.threads.append(threading.current_thread() is threading.main_thread())
            ended.set()

    @tool(timeout=0.05)
    async def slow(*, context: ToolContext) -> None:
        """Take too long."""
        await context.resources.aget(Held)
        await asyncio.sleep(PATIENCE)

    held, yard = Held(), make_yard("async")
    yard.open(slow, resources=(Binding.instance(Held, held),))

    async def main() -> Outcome:
        outcome: Outcome = await yard.tools.adispatch(ToolCall("slow", {}))
        assert await asyncio.to_thread(ended.wait, PATIENCE)
        return outcome

    assert asyncio.run(main()).status is Status.TIMED_OUT
    assert held.threads == [False]


def test_what_lives_for_a_call_is_closed_off_the_loop(make_yard: Any) -> None:
    closed: list[bool] = []

    class Lease:
        def close(self) -> None:
            closed.append(threading.current_thread() is threading.main_thread())

    @tool
    def leasing(*, context: ToolContext) -> None:
        """Use it."""
        context.resources.get(Lease)

    yard = make_yard("async")
    binding = Binding(Lease, lambda _: Lease(), scope=Scope.TOOL_CALL)
    yard.open(leasing, resources=(binding,))
    yard.call("leasing")

    assert closed == [False]


def test_an_interruption_waits_for_the_commits_that_are_under_way(make_yard: Any) -> None:
    heard, told = threading.Event(), list[str]()
    gates = [Gated("commit") for _ in range(3)]

    class Keeper:
        @hookimpl
        def toolstile_snapshot(self, context: ToolContext) -> Keeping:
            assert context.tool_call is not None
            return gates[int(context.tool_call.id)]

    def hear(number: int, frame: object) -> None:
        told.extend(step for gated in gates for step, _ in gated.threads)
        heard.set()

    yard = make_yard("async")
    yard.open(plain, plugins=(Keeper(),))
    # Others than calls of one session commit side by side.
    executors = [yard.tools, *(yard.host.executor(tools=[plain]) for _ in gates[1:])]

    async def begin(number: int) -> asyncio.Task[Outcome]:
        made = executors[number].adispatch(ToolCall("plain", {}, id=str(number)))
        task = asyncio.ensure_future(made)
        assert await asyncio.to_thread(gates[number].reached.wait, PATIENCE)
        return task

    async def main() -> None:
        before = signal.signal(signal.SIGINT, hear)
        try:
            tasks = [await begin(0)]
            signal.raise_signal(signal.SIGINT)
            tasks += [await begin(1), await begin(2)]
            assert not heard.is_set()
            gates[0].go_on.set()
            await tasks[0]
            assert not heard.is_set()
            for gated in gates:
                gated.go_on.set()
            await asyncio.gather(*tasks)
            assert heard.is_set()
            assert signal.getsignal(signal.SIGINT) is hear
        finally:
            signal.signal(signal.SIGINT, before)

    asyncio.run(main())

    assert told == ["prepare", "commit"] * 3
