"""The workspace: a call costs what it changes, never what there is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import repeat
from pathlib import Path
from time import process_time
from typing import Any

from cases_git import committing, git
from measuring import Block, Case, Effort, Probe, Row, compare, timed

from toolstile import Executor, Host
from toolstile_hookspecs import (
    Binding,
    Durability,
    Filesystem,
    MarkdownSection,
    Prompt,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolstile_plugins.vfs.workspace import VirtualFilesystem

FEW = 10
MEMORY_SIZES = (1_000, 100_000, 1_000_000)
DISK_SIZES = (1_000, 10_000, 100_000)
FLAT = 1.5
CHANGE_SECONDS = 0.002
IN_A_DIRECTORY = 100
KILOBYTE = "0123456789abcde\n" * 64


@tool(timeout=None)
def fail_late(number: int, *, context: ToolContext) -> ToolResult[None]:
    """Write a file, then fail."""
    files = context.filesystem
    assert files is not None
    files.write(f"d0/f{number}.txt", KILOBYTE)
    return ToolResult.error("It cannot be done.")


@tool(timeout=None)
def touch_nothing(number: int) -> ToolResult[None]:  # noqa: ARG001 - called like the others
    """Do without the workspace."""
    return ToolResult.ok(message="Done.")


@tool(timeout=None)
def change_one(number: int, *, context: ToolContext) -> ToolResult[None]:
    """Change one file of a kilobyte."""
    files = context.filesystem
    assert files is not None
    files.write(f"d0/f{number}.txt", KILOBYTE)
    return ToolResult.ok(message="Done.")


def measure_workspace(effort: Effort) -> list[Row]:
    """Measure calls on workspaces of different sizes."""
    with ExitStack() as stack:
        memory = [(n, _in_memory(n)) for n in (FEW, *_up_to(effort.entries, MEMORY_SIZES))]
        disk = [
            (n, stack.enter_context(_on_disk(n))) for n in (FEW, *_up_to(effort.calls, DISK_SIZES))
        ]
        return compare(
            [
                *_flat("memory, a call that wrote and fails", fail_late, memory),
                *_flat("disk, a call that wrote and fails", fail_late, disk),
                *_flat("disk, a call that touches nothing", touch_nothing, disk),
                *_flat("disk, a call that changes one file", change_one, disk),
                Case(
                    Probe(
                        f"disk, a call that changes one file: {disk[-1][0]:,} files, process time",
                        _called(change_one, disk[-1][1], clock=process_time),
                    ),
                    Probe("2 ms", _two_milliseconds),
                    1.0,
                ),
                Case(
                    Probe(
                        f"disk, a call that changes one file: {FEW} files, durability = power",
                        _called(change_one, stack.enter_context(_on_disk(FEW, "power"))),
                    ),
                    Probe(
                        f"disk, a call that changes one file: {FEW} files",
                        _called(change_one, disk[0][1]),
                    ),
                ),
                *_beside_git(disk, stack),
            ],
            effort,
        )


def _up_to(most: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in sizes if size <= most)


def _flat(
    name: str, called: Tool[Any, Any], sizes: list[tuple[int, VirtualFilesystem]]
) -> list[Case]:
    (few, small), *larger = sizes
    floor = Probe(f"{name}: {few} files", _called(called, small))
    return [
        Case(Probe(f"{name}: {files:,} files", _called(called, workspace)), floor, FLAT)
        for files, workspace in larger
    ]


def _beside_git(disk: list[tuple[int, VirtualFilesystem]], stack: ExitStack) -> Iterator[Case]:
    """Yield what the same change costs when each call is kept by a commit to git."""
    program = git()
    for files, workspace in disk if program is not None else ():
        root = stack.enter_context(_directory(files))
        ours = f"disk, a call that changes one file: {files:,} files"
        yield Case(
            committing(program, root, f"git add and commit per call: {files:,} files", KILOBYTE),
            Probe(ours, _called(change_one, workspace)),
        )


def _called(
    called: Tool[Any, Any],
    workspace: VirtualFilesystem,
    clock: Callable[[], float] | None = None,
) -> Callable[[], AbstractContextManager[Block]]:
    @contextmanager
    def opened() -> Iterator[Block]:
        with Host(discover=False) as host, _executor(host, called, workspace) as executor:
            call = ToolCall(called.name, '{"number": 1}')

            def once() -> None:
                executor.dispatch(call)

            assert executor.dispatch(call).success is (called is not fail_late)
            yield timed(once) if clock is None else _timed_by(clock, once)

    return opened


def _executor(host: Host, called: Tool[Any, Any], workspace: VirtualFilesystem) -> Executor:
    section = MarkdownSection(key="files", title="Files", tools=[called])
    return host.executor(
        prompt=Prompt.of("bench", "workspace", [section]),
        resources=(Binding.instance(Filesystem, workspace),),
    )


def _timed_by(clock: Callable[[], float], function: Callable[[], object]) -> Block:
    def block(times: int) -> float:
        started = clock()
        for _ in repeat(None, times):
            function()
        return clock() - started

    return block


@contextmanager
def _two_milliseconds() -> Iterator[Block]:
    yield lambda times: times * CHANGE_SECONDS


def _names(files: int) -> Iterator[str]:
    for number in range(files):
        yield f"d{number // IN_A_DIRECTORY}/f{number % IN_A_DIRECTORY}.txt"


def _in_memory(files: int) -> VirtualFilesystem:
    return VirtualFilesystem.in_memory(dict.fromkeys(_names(files), KILOBYTE.encode()))


@contextmanager
def _directory(files: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="toolstile-bench-") as root:
        for name in _names(files):
            path = Path(root, name)
            if name.endswith("/f0.txt"):
                path.parent.mkdir()
            path.write_text(KILOBYTE)
        yield root


@contextmanager
def _on_disk(files: int, durability: Durability = "process") -> Iterator[VirtualFilesystem]:
    with _directory(files) as root:
        workspace = VirtualFilesystem.on_disk(root, durability=durability)
        yield workspace
        workspace.close()
