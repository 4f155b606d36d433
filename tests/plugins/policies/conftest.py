"""A yard in which policies are tried out: both drivers, a small workspace, a clock that stands."""

from __future__ import annotations

import asyncio
import io
import posixpath
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from toolstile import Executor, Host, Session
from toolstile_hookspecs import (
    Binding,
    ConflictError,
    FileStat,
    Filesystem,
    MarkdownSection,
    Outcome,
    Prompt,
    Section,
    Tool,
    ToolCall,
    ToolContext,
    ToolPolicy,
    ToolResult,
    tool,
)

from .suites import Reference, Schemed, Served, Suite, Typed


class Files:
    """A workspace in memory, of which each call has a branch that notices changed reads."""

    def __init__(self, **contents: str) -> None:
        self.contents = {name.replace("_", "."): text.encode() for name, text in contents.items()}
        self.forbidden: set[str] = set()

    def branch(self, context: ToolContext, parent: Any) -> FilesBranch:
        return FilesBranch(self if parent is None else parent)

    def __getitem__(self, path: str) -> str | None:
        content = self.contents.get(path)
        return None if content is None else content.decode()


class FilesBranch:
    def __init__(self, base: Any) -> None:
        self.base = base
        self.forbidden: set[str] = base.forbidden
        self.contents: dict[str, bytes | None] = dict(base.contents)
        self.seen: dict[str, bytes | None] = {}
        self.written: set[str] = set()
        self.resource = self

    def prepare(self) -> None:
        moved = [path for path, was in self.seen.items() if self.base.contents.get(path) != was]
        if moved:
            raise ConflictError(f"Another call changed {', '.join(moved)}.")

    def commit(self) -> None:
        for path in self.written:
            content = self.contents.get(path)
            if content is None:
                self.base.contents.pop(path, None)
            else:
                self.base.contents[path] = content

    def rollback(self) -> None:
        self.contents = {}

    def _at(self, path: str) -> str:
        path = (
            path.removeprefix("/workspace").lstrip("/") if path.startswith("/workspace/") else path
        )
        path = posixpath.normpath(path)
        if path.startswith(("/", "..")):
            raise PermissionError(f"{path} is outside. Give a path within.")
        if "\0" in path:
            raise ValueError("The path holds NUL, which no path can.")
        return path

    def stat(self, path: str) -> FileStat:
        at = self._at(path)
        if at not in self.written:
            self.seen.setdefault(at, self.contents.get(at))
        if at in self.forbidden:
            raise PermissionError(f"Access to {at} is forbidden")
        content = self.contents.get(at)
        if content is None:
            if any(each.startswith(f"{at}/") for each in self.contents):
                return FileStat(at, "directory")
            raise FileNotFoundError(path)
        return FileStat(at, "file", len(content))

    def exists(self, path: str) -> bool:
        try:
            self.stat(path)
        except FileNotFoundError:
            return False
        return True

    def open(self, path: str, mode: str = "rb") -> io.BytesIO:
        return io.BytesIO(self.read_bytes(path))

    def read_bytes(self, path: str) -> bytes:
        self.stat(path)
        return self.contents[self._at(path)] or b""

    def read(self, path: str) -> str:
        return self.read_bytes(path).decode()

    def write(self, path: str, content: str) -> None:
        at = self._at(path)
        self.written.add(at)
        self.contents[at] = content.encode()

    def delete(self, path: str) -> None:
        self.stat(path)
        self.written.add(self._at(path))
        self.contents[self._at(path)] = None

    def copy(self, source: str, target: str) -> None:
        self.write(target, self.read(source))

    def move(self, source: str, target: str) -> None:
        self.copy(source, target)
        self.delete(source)


def workspace(context: ToolContext) -> Any:
    return context.filesystem


@tool(category="read")
def read_file(path: str, *, context: ToolContext) -> str:
    """Return a file's text."""
    return workspace(context).read(path)


@tool(category="write")
def write_file(path: str, content: str, *, context: ToolContext) -> str:
    """Write a file."""
    workspace(context).write(path, content)
    return "written"


@tool(category="write")
def edit_file(file_path: str, old: str, new: str, *, context: ToolContext) -> ToolResult[None]:
    """Replace a text in a file."""
    files = workspace(context)
    text = files.read(file_path)
    files.write(file_path, text.replace(old, new))
    if old not in text:
        return ToolResult.error(f"{old!r} is not in {file_path}.")
    return ToolResult.ok()


@tool(category="delete")
def delete_file(path: str, *, context: ToolContext) -> None:
    """Delete a file."""
    workspace(context).delete(path)


@tool(category="write")
def copy_file(source: str, target: str, *, context: ToolContext) -> None:
    """Copy a file."""
    workspace(context).copy(source, target)


@tool(category="write")
def move_file(source: str, target: str, *, context: ToolContext) -> None:
    """Move a file."""
    workspace(context).move(source, target)


def step(name: str, **options: Any) -> Tool[Any, Any]:
    """Return a tool that does nothing but succeed, or fail when told to."""

    @tool(name=name, **options)
    def run(fail: bool = False) -> ToolResult[str]:
        """Do one step."""
        return ToolResult.error("It failed.") if fail else ToolResult.ok("done")

    return run


class StoppedClock:
    """A clock that goes on when told to."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.seconds = 0.0

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.seconds

    def tick(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
        self.seconds += seconds


class Yard:
    """A host, a session and a workspace around the policies of one test."""

    def __init__(self, driver: str, stack: ExitStack) -> None:
        self.driver = driver
        self.files = Files()
        self.session = Session(id="session")
        self.clock = StoppedClock()
        self._stack = stack
        self.host: Host
        self.tools: Executor

    def open(
        self,
        *sections: Section,
        policies: tuple[ToolPolicy, ...] = (),
        host_policies: tuple[ToolPolicy, ...] = (),
        workspace: bool = True,
        **host_options: Any,
    ) -> Yard:
        self.host = self._stack.enter_context(
            Host(discover=False, policies=host_policies, clock=self.clock, **host_options)
        )
        prompt = Prompt.of("tests", "policies", sections, policies)
        bound = (Binding.instance(Filesystem, self.files),) if workspace else ()
        self.tools = self._stack.enter_context(
            self.host.executor(session=self.session, prompt=prompt, resources=bound)
        )
        return self

    def enter(self, tools: Executor) -> Executor:
        """Return an executor that is left with the yard."""
        return self._stack.enter_context(tools)

    def again(self, session: Session) -> Yard:
        """Return a yard in another session of the same host and prompt."""
        other = Yard(self.driver, self._stack)
        other.session, other.host, other.files = session, self.host, self.files
        bound = (Binding.instance(Filesystem, self.files),)
        other.tools = self._stack.enter_context(
            self.host.executor(session=session, prompt=self.tools.prompt, resources=bound)
        )
        return other

    def __call__(self, name: str, /, **arguments: Any) -> Outcome:
        call = ToolCall(name, arguments)
        if self.driver == "sync":
            return self.tools.dispatch(call)
        return asyncio.run(self._adispatch(call))

    def at_once(self, *calls: tuple[str, dict[str, Any]]) -> list[Outcome]:
        made = [ToolCall(name, arguments) for name, arguments in calls]
        if self.driver == "sync":
            ended = self.tools.dispatch_all(made)
        else:
            ended = asyncio.run(self._adispatch_all(made))
        return [each for each in ended if isinstance(each, Outcome)]

    async def _adispatch(self, call: ToolCall) -> Outcome:
        return await self.tools.adispatch(call)

    async def _adispatch_all(self, calls: list[ToolCall]) -> list[Outcome | BaseException]:
        return await self.tools.adispatch_all(calls)


@pytest.fixture(params=["sync", "async"])
def yard(request: pytest.FixtureRequest) -> Iterator[Yard]:
    with ExitStack() as stack:
        yield Yard(request.param, stack)


@pytest.fixture
def file_section() -> Any:
    """Make the section of the file tools, with policies."""

    def make(*policies: ToolPolicy, tools: tuple[Tool[Any, Any], ...] = ()) -> MarkdownSection:
        own = [read_file, write_file, edit_file, delete_file, copy_file, move_file]
        return MarkdownSection(key="files", title="Files", tools=tools or own, policies=policies)

    return make


@pytest.fixture
def steps() -> Any:
    """Make a section of tools that do nothing, with policies."""

    def make(
        *names: str, policies: tuple[ToolPolicy, ...] = (), key: str = "steps", **options: Any
    ) -> MarkdownSection:
        return MarkdownSection(
            key=key,
            title="Steps",
            tools=[step(name, **options) for name in names],
            policies=policies,
        )

    return make


@pytest.fixture(
    scope="module",
    params=[
        "typed",
        "schemed",
        pytest.param("served", marks=pytest.mark.slow),
        pytest.param("reference", marks=[pytest.mark.slow, pytest.mark.long]),
    ],
)
def suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """The same file tools of four origins."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "root").mkdir()
    if request.param == "reference":
        return Reference(folder, request.getfixturevalue("npm"))
    if request.param == "served":
        pytest.importorskip("mcp")
    return {"typed": Typed, "schemed": Schemed, "served": Served}[request.param](folder)
