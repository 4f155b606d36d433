"""The workspace in calls that a host dispatches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from toolyard import Executor, Host
from toolyard_hookspecs import (
    Binding,
    Filesystem,
    MarkdownSection,
    Outcome,
    Prompt,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolyard_plugins.vfs.workspace import VirtualFilesystem

Dispatch = Callable[..., list[Outcome]]


def files_of(context: ToolContext) -> Filesystem:
    files = context.filesystem
    assert files is not None
    return files


@tool(category="read")
def look(path: str, *, context: ToolContext) -> str:
    """Read a file."""
    return files_of(context).read(path)


@tool(contained=True)
def count(path: str, *, context: ToolContext) -> str:
    """Add one to a number in a file."""
    files = files_of(context)
    number = int(files.read(path)) + 1
    files.write(path, str(number))
    return str(number)


@tool
def write_then_fail(path: str, how: str, *, context: ToolContext) -> ToolResult[None]:
    """Write a file and fail."""
    files_of(context).write(path, "half done")
    if how == "raise":
        msg = "broken"
        raise RuntimeError(msg)
    return ToolResult.error("It cannot be done.")


@tool
def outer(path: str, inner: str, *, context: ToolContext) -> str:
    """Write a file and call another tool."""
    files = files_of(context)
    files.write(path, "0")
    told = context.call(
        inner, {"path": path, "how": "raise"} if "fail" in inner else {"path": path}
    )
    files.write("told.txt", told.text)
    return files.read(path)


@pytest.fixture(params=["sync", "async"])
def dispatch(request: pytest.FixtureRequest, workspace: VirtualFilesystem) -> Iterator[Dispatch]:
    with opened(workspace) as executor:

        def all_of(*calls: tuple[str, dict[str, str]]) -> list[Outcome]:
            made = [ToolCall(name, arguments) for name, arguments in calls]
            if request.param == "sync":
                outcomes = executor.dispatch_all(made)
            else:
                outcomes = asyncio.run(_adispatch(executor, made))
            assert not [each for each in outcomes if isinstance(each, BaseException)]
            return outcomes  # type: ignore[return-value]

        yield all_of


async def _adispatch(executor: Executor, calls: list[ToolCall]) -> list[Outcome | BaseException]:
    return await executor.adispatch_all(calls)


@contextmanager
def opened(workspace: VirtualFilesystem) -> Iterator[Executor]:
    tools = (look, count, write_then_fail, outer)
    section = MarkdownSection(key="files", title="Files", tools=tools)
    with ExitStack() as stack:
        host = stack.enter_context(Host(discover=False))
        yield stack.enter_context(
            host.executor(
                prompt=Prompt.of("tests", "files", [section]),
                resources=(Binding.instance(Filesystem, workspace),),
            )
        )


def test_a_call_is_committed(dispatch: Dispatch, workspace: VirtualFilesystem) -> None:
    workspace.write("n", "1")
    (outcome,) = dispatch(("count", {"path": "n"}))
    assert outcome.text == "2"
    assert workspace.read("n") == "2"


@pytest.mark.parametrize("how", ["raise", "say"])
def test_a_failed_call_is_rolled_back(
    dispatch: Dispatch, workspace: VirtualFilesystem, how: str
) -> None:
    (outcome,) = dispatch(("write_then_fail", {"path": "a.txt", "how": how}))
    assert not outcome.success
    assert list(workspace.list()) == []


def test_a_batch_ends_as_if_one_call_had_followed_the_other(
    dispatch: Dispatch, workspace: VirtualFilesystem
) -> None:
    workspace.write("n", "0")
    outcomes = dispatch(*[("count", {"path": "n"})] * 10, ("look", {"path": "n"}))
    assert [each.text for each in outcomes] == [str(number) for number in range(1, 11)] + ["10"]
    assert workspace.read("n") == "10"


def test_a_nested_call_becomes_part_of_its_callers(
    dispatch: Dispatch, workspace: VirtualFilesystem
) -> None:
    (outcome,) = dispatch(("outer", {"path": "n", "inner": "count"}))
    assert outcome.text == "1"
    assert workspace.read("n") == "1"


def test_a_nested_call_that_fails_is_rolled_back_alone(
    dispatch: Dispatch, workspace: VirtualFilesystem
) -> None:
    (outcome,) = dispatch(("outer", {"path": "n", "inner": "write_then_fail"}))
    assert outcome.text == "0"
    assert workspace.read("n") == "0"
    assert "broken" in workspace.read("told.txt")


def test_errors_speak_to_the_model(dispatch: Dispatch, workspace: VirtualFilesystem) -> None:
    workspace.write_bytes("b", b"\0")
    texts = [
        each.text for each in dispatch(*(("look", {"path": p}) for p in ("x", "../x", "b", "a\0")))
    ]
    assert "There is no x" in texts[0]
    assert "outside the workspace" in texts[1]
    assert "binary" in texts[2]
    assert "NUL" in texts[3]


def test_two_sessions_share_a_workspace(workspace: VirtualFilesystem) -> None:
    workspace.write("n", "0")
    with opened(workspace) as first, opened(workspace) as second:
        for _ in range(5):
            for executor in (first, second):
                assert executor.dispatch(ToolCall("count", {"path": "n"})).success
    assert workspace.read("n") == "10"
