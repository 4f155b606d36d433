"""The same file tools in four suites: typed, by a schema, of a published server, and of our own."""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import Tool, ToolContext, ToolResult, tool

from .careless import SCHEMAS, CarelessFiles, schema_of

FILESYSTEM = "@modelcontextprotocol/server-filesystem@2026.8.31"
CARELESS = Path(__file__).parent / "careless.py"
LIMIT = 120.0
COMPOSED = unicodedata.normalize("NFC", "é.txt")

CONTENTS = {
    "a.txt": "one",
    "b.txt": "two",
    "sub/b.txt": "three",
    "sub/inner/c.txt": "four",
    COMPOSED: "five",
    "straße.txt": "six",
    "file.txt": "seven",
    ".env": "eight",
}
"""The files of the directory, to be read before they are changed."""


class Suite:
    """A directory, and a host whose tools work in it.

    Attributes:
        offered: What the tools are called without `files_`.
    """

    offered: frozenset[str] = frozenset(SCHEMAS)

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.folder = folder

    def host(self, policies: Iterable[Mapping[str, Any]] = ()) -> Host:
        """Return a host with policies of a configuration, which is not open."""
        return Host(discover=["policies"], settings=self.settings(policies), tools=self.tools())

    def settings(self, policies: Iterable[Mapping[str, Any]], **plugins: Any) -> Settings:
        return Settings(policies=tuple(policies), plugins=plugins, timeout=LIMIT)

    def tools(self) -> list[Tool[Any, Any]]:
        return []

    def reset(self) -> None:
        """Put the files back."""
        shutil.rmtree(self.root, ignore_errors=True)
        for name, text in CONTENTS.items():
            file = self.root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (self.root / "link").symlink_to("sub/inner")
        (self.root / "twin.txt").symlink_to("a.txt")

    def changed(self) -> list[str]:
        """Return which of the files are not as they were."""
        return [
            name
            for name, text in CONTENTS.items()
            if not (self.root / name).is_file() or (self.root / name).read_text() != text
        ]


class Typed(Suite):
    """Functions with typed parameters."""

    def tools(self) -> list[Tool[Any, Any]]:
        run = CarelessFiles(self.root)

        def read_text_file(path: str) -> str:
            return run.read_text_file(path=path)

        def read_multiple_files(paths: list[str]) -> str:
            return run.read_text_file(paths=paths)

        def write_file(path: str, content: str = "x") -> str:
            return run.write_file(content, path=path)

        def edit_file(path: Path, edits: list[str] | None = None) -> str:
            return run.edit_file(edits, path=str(path))

        def move_file(source: str, destination: str) -> str:
            return run.move_file(source, destination)

        made = (read_text_file, read_multiple_files, write_file, edit_file, move_file)
        return [offered(each) for each in (*made, *_further(run))]


def _further(run: CarelessFiles) -> Iterable[Callable[..., str]]:
    def write_files(files: list[dict[str, str]]) -> str:
        return run.write_file(files=files)

    def save(files: dict[str, str]) -> str:
        return run.write_file(files=files)

    def log(path: str = "a.txt") -> str:
        return run.write_file(path=path)

    def put(where: Path) -> str:
        return run.write_file(where=str(where))

    def keep(page: str) -> str:
        return run.write_file(page=page)

    return write_files, save, log, put, keep


def offered(function: Callable[..., Any], **options: Any) -> Tool[Any, Any]:
    reads = function.__name__.startswith("read")
    category, consequence = ("read", "low") if reads else ("delete", "high")
    function.__doc__ = "Do what its name says."
    made: Tool[Any, Any] = tool(
        name=f"files_{function.__name__}",
        category=category,
        consequence=consequence,
        **options,
    )(function)
    return made


class Schemed(Suite):
    """Handlers whose parameters a JSON Schema describes, which lets any other argument pass."""

    def tools(self) -> list[Tool[Any, Any]]:
        return [self._made(name) for name in SCHEMAS]

    def _made(self, name: str) -> Tool[Any, Any]:
        run = getattr(CarelessFiles(self.root), name)

        def handler(params: Any, *, context: ToolContext) -> ToolResult[str]:
            return ToolResult.ok(run(**params))

        reads = name.startswith("read")
        return Tool[Any, str](
            name=f"files_{name}",
            description="Do what its name says.",
            handler=handler,
            params_schema=schema_of(name),
            category="read" if reads else "delete",
            consequence="low" if reads else "high",
        )


class Served(Suite):
    """The tools of a server behind the gateway; its home is the directory."""

    def host(self, policies: Iterable[Mapping[str, Any]] = ()) -> Host:
        pins = str(self.folder / "pins.json")
        mcp = {"pins": pins, "wait": LIMIT, "servers": {"files": self.server()}}
        settings = self.settings(policies, mcp=mcp)
        return Host(discover=["policies", "mcp"], settings=settings)

    def server(self) -> dict[str, Any]:
        env = {"HOME": str(self.root)}
        return {"command": sys.executable, "args": [str(CARELESS), str(self.root)], "env": env}


class Reference(Served):
    """The reference server of file tools, as npm has it."""

    offered = frozenset(
        {"read_text_file", "read_multiple_files", "write_file", "edit_file", "move_file"}
    )

    def __init__(self, folder: Path, npm: Any) -> None:
        super().__init__(folder)
        self._npm = npm

    def server(self) -> dict[str, Any]:
        env = {"PATH": self._npm.environment()["PATH"], "HOME": str(self.root)}
        program = self._npm.program("mcp-server-filesystem", FILESYSTEM)
        return {"command": program, "args": [str(self.root)], "env": env}


class Running:
    """A suite with an open host, of which each test has an executor of its own."""

    def __init__(self, suite: Suite, stack: ExitStack, policies: list[dict[str, Any]]) -> None:
        suite.root.mkdir(exist_ok=True)
        self.suite = suite
        self.host = stack.enter_context(suite.host(policies))

    def executor(self) -> Executor:
        self.suite.reset()
        return self.host.executor()
