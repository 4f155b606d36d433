"""A commit of a workspace on disk holds up no event loop, and one in memory changes no thread."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host
from toolstile_hookspecs import Binding, Filesystem, ToolCall, ToolContext, tool
from toolstile_plugins.vfs.backends.disk.store import DiskStore
from toolstile_plugins.vfs.workspace import VirtualFilesystem, WorkspaceBranch

# Only what never comes takes this long.
PATIENCE = 30.0


@tool(timeout=None)
async def put(name: str, *, context: ToolContext) -> None:
    """Write a file."""
    assert context.filesystem is not None
    context.filesystem.write(name, name)


def test_no_step_of_a_commit_runs_on_the_loops_thread(root: Path) -> None:
    threads: set[threading.Thread] = set()

    def noted(step: str) -> None:
        threads.add(threading.current_thread())

    async def main(opened: Any) -> None:
        with ExitStack() as stack:
            tools = [stack.enter_context(opened()) for _ in range(8)]
            # They wait for one another's commits, too.
            made = [
                each.adispatch(ToolCall("put", {"name": f"{n}"})) for n, each in enumerate(tools)
            ]
            assert [outcome.success for outcome in await asyncio.gather(*made)] == [True] * 8

    with (
        closing(VirtualFilesystem(DiskStore(root, steps=noted))) as files,
        Host(discover=False, tools=[put]) as host,
    ):
        bound = (Binding.instance(Filesystem, files),)  # type: ignore[type-abstract]
        asyncio.run(main(lambda: host.executor(resources=bound)))

    assert {path.name for path in root.glob("[0-9]")} == {str(n) for n in range(8)}
    assert threads
    assert threading.main_thread() not in threads


def test_a_commit_in_memory_stays_on_the_loops_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    commit = WorkspaceBranch.commit

    def noted(branch: WorkspaceBranch) -> None:
        threads.append(threading.current_thread())
        commit(branch)

    monkeypatch.setattr(WorkspaceBranch, "commit", noted)
    files = VirtualFilesystem.in_memory()
    bound = (Binding.instance(Filesystem, files),)  # type: ignore[type-abstract]
    with (
        Host(discover=False, tools=[put]) as host,
        host.executor(resources=bound) as tools,
    ):
        asyncio.run(tools.adispatch(ToolCall("put", {"name": "a"})))

    assert files.read("a") == "a"
    assert threads == [threading.main_thread()]


def test_a_commit_that_is_given_up_while_it_is_prepared_holds_nothing(root: Path) -> None:
    preparing, go_on = threading.Event(), threading.Event()

    def gated(step: str) -> None:
        if armed:
            preparing.set()
            assert go_on.wait(PATIENCE)

    armed = False
    context = ToolContext(session=None)
    with closing(VirtualFilesystem(DiskStore(root, steps=gated))) as files:
        first, second = files.branch(context, None), files.branch(context, None)
        first.resource.write("a", "one")
        second.resource.write("b", "two")
        assert first.prepare() is None

        async def main() -> None:
            nonlocal armed
            waiting = second.prepare()
            assert waiting is not None
            task = asyncio.ensure_future(waiting)
            await asyncio.sleep(0.01)
            armed = True
            await asyncio.to_thread(first.rollback)
            assert await asyncio.to_thread(preparing.wait, PATIENCE)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            rolling_back = asyncio.ensure_future(asyncio.to_thread(second.rollback))
            await asyncio.sleep(0.01)
            go_on.set()
            await rolling_back

        asyncio.run(main())
        armed = False
        files.write("c", "three")

    assert {path.name for path in root.iterdir() if path.is_file()} == {"c"}
