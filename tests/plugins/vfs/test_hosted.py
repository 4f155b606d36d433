"""The workspace in calls that a host dispatches."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import (
    Binding,
    ConfigurationError,
    Filesystem,
    MarkdownSection,
    Outcome,
    Prompt,
    Status,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolstile_plugins.vfs.workspace import VirtualFilesystem

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


@pytest.mark.slow
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


@tool(contained=True)
def start(*, context: ToolContext) -> str:
    """Say that it is contained, and ask for the real directory all the same."""
    with files_of(context).exclusive_path() as path:
        (Path(path) / "left.txt").write_text("by a program")
    return "started"


@tool(contained=True)
def start_within(*, context: ToolContext) -> str:
    """Call another tool that starts a program."""
    return context.call("start").text


class TestTheRealDirectory:
    """It is not to be had where nothing may be kept, or only what a person has approved."""

    @pytest.fixture
    def dispatched(self, disk: VirtualFilesystem) -> Callable[..., Outcome]:
        def dispatch(name: str, *, dry_run: bool = False, shown: bool = False) -> Outcome:
            asking = dataclasses.replace(start, requires_confirmation=shown)
            outer = dataclasses.replace(start_within, requires_confirmation=shown)
            section = MarkdownSection(key="files", title="Files", tools=(asking, outer))
            with (
                Host(discover=False, settings=Settings(approve_diff=shown)) as host,
                host.executor(
                    prompt=Prompt.of("tests", "files", [section]),
                    resources=(Binding.instance(Filesystem, disk),),
                    approver=lambda request: True,
                    dry_run=dry_run,
                ) as executor,
            ):
                return executor.dispatch(ToolCall(name))

        return dispatch

    @pytest.mark.parametrize("name", ["start", "start_within"])
    def test_is_not_to_be_had_in_a_dry_run(
        self, dispatched: Callable[..., Outcome], root: Path, name: str
    ) -> None:
        outcome = dispatched(name, dry_run=True)
        assert "The real directory cannot be had in a dry run" in outcome.text
        assert list(root.iterdir()) == []

    @pytest.mark.parametrize("name", ["start", "start_within"])
    def test_is_not_to_be_had_before_a_person_has_approved_the_diff(
        self, dispatched: Callable[..., Outcome], root: Path, name: str
    ) -> None:
        outcome = dispatched(name, shown=True)
        assert "The real directory cannot be had before a person has approved" in outcome.text
        assert list(root.iterdir()) == []

    @pytest.mark.parametrize("name", ["start", "start_within"])
    def test_is_to_be_had_otherwise(
        self, dispatched: Callable[..., Outcome], root: Path, name: str
    ) -> None:
        assert dispatched(name).text == "started"
        assert (root / "left.txt").read_text() == "by a program"


class TestEditedFromOutside:
    """While a call runs, somebody saves a file that it has read and is about to write."""

    @pytest.mark.parametrize("contained", [False, True])
    def test_nothing_is_overwritten(
        self, root: Path, disk: VirtualFilesystem, *, contained: bool
    ) -> None:
        runs: list[str] = []

        @tool(contained=contained)
        def shout(*, context: ToolContext) -> str:
            """Put a file into capitals, slowly."""
            files = files_of(context)
            text = files.read("a.txt")
            files.write("a.txt", text.upper())
            files.write("log.txt", "done")
            runs.append(text)
            if len(runs) == 1:
                (root / "a.txt").write_text("saved meanwhile")
            return text

        (root / "a.txt").write_text("as it was")
        section = MarkdownSection(key="files", title="Files", tools=(shout,))
        with (
            Host(discover=False) as host,
            host.executor(
                prompt=Prompt.of("tests", "files", [section]),
                resources=(Binding.instance(Filesystem, disk),),
            ) as executor,
        ):
            outcome = executor.dispatch(ToolCall("shout"))
        if contained:
            # Run once more, on what was saved.
            assert outcome.success
            assert runs == ["as it was", "saved meanwhile"]
            assert (root / "a.txt").read_text() == "SAVED MEANWHILE"
        else:
            assert outcome.status is Status.CONFLICT
            assert "a.txt changed in the workspace after this call read it" in outcome.text
            assert (root / "a.txt").read_text() == "saved meanwhile"
            assert not (root / "log.txt").exists()


@pytest.mark.parametrize("name", ["nowhere", "a" * 300], ids=["missing", "too long"])
def test_a_host_does_not_open_on_a_directory_that_is_not_there(tmp_path: Path, name: str) -> None:
    nowhere = tmp_path / name
    settings = Settings(plugins={"vfs": {"root": str(nowhere)}})
    told = f"plugins.vfs.root: {nowhere} is not a directory; make it, or name another."
    with pytest.raises(ConfigurationError, match=f"^{re.escape(told)}$"), Host(settings=settings):
        pass


def test_it_opens_once_the_directory_is_there(tmp_path: Path) -> None:
    settings = Settings(plugins={"vfs": {"root": str(tmp_path)}})
    with Host(settings=settings) as host:
        assert host.is_open
