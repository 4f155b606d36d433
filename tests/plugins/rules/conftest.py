"""An office whose tools are ruled by a configuration: both drivers, a clock that stands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import WithJsonSchema

from toolstile import Executor, Host
from toolstile_hookspecs import Outcome, Tool, ToolCall, ToolContext, ToolResult, tool


@dataclass(frozen=True)
class Line:
    """A line of an order."""

    article: str
    count: int = 1
    note: str | None = None


@tool(category="side_effect", tags=("mail",))
def send_email(
    to: list[str], body: str, cc: list[str] | None = None, priority: Literal["low", "high"] = "low"
) -> str:
    """Send an e-mail."""
    return "sent"


@tool(category="side_effect", consequence="high")
def pay(amount: float, to: str, memo: str = "") -> str:
    """Pay somebody."""
    return "paid"


@tool(category="write")
def write_note(path: str, text: str) -> str:
    """Write a note."""
    return "written"


@tool(category="read")
def read_note(path: str) -> str:
    """Read a note."""
    return "read"


@tool(category="read")
def fetch(url: str) -> str:
    """Fetch a page."""
    return "fetched"


@tool(category="write")
def order(lines: list[Line], urgent: bool = False) -> str:
    """Order articles."""
    return "ordered"


@tool(category="write")
def tidy(path: str, *, context: ToolContext) -> ToolResult[str]:
    """Write a note through another tool."""
    done = context.call("write_note", {"path": path, "text": "tidy"})
    return ToolResult.ok(done.text) if done.success else ToolResult.error(done.text)


@dataclass(frozen=True)
class Options:
    """Options of a command."""

    shell_cmd: str = ""


@dataclass(frozen=True)
class Mode:
    """A mode, whose source is one of a few."""

    source: Literal["web", "disk"] = "web"


@tool(category="side_effect")
def run(
    command: str,
    *,
    files: list[str],
    site: Annotated[str, WithJsonSchema({"type": "string", "format": "uri"})],
    options: Options = Options(),
    mode: Mode = Mode(),
    where: Path | None = None,
) -> str:
    """Run a command."""
    return "run"


def _accept(params: Any, *, context: ToolContext) -> ToolResult[str]:
    return ToolResult.ok(json.dumps(params))


# As a server of another language has it: nobody says that there are no other arguments.
OPEN_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "size": {"type": "integer"},
        "owner": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
    },
    "required": ["name"],
}
upload: Tool[Any, Any] = Tool(
    name="upload", description="Upload something.", params_schema=OPEN_SCHEMA, handler=_accept
)

TOOLS = (run, send_email, pay, write_note, read_note, fetch, order, tidy, upload)


class Office:
    """A host whose policies are those of a file, and calls of its tools."""

    def __init__(self, driver: str, folder: Path, stack: ExitStack) -> None:
        self.driver = driver
        self.file = folder / "toolstile.toml"
        self._stack = stack
        self.tools: Executor

    def open(
        self, *rules: Mapping[str, Any], text: str = "", given: Any = None, **options: Any
    ) -> Office:
        """Open the host with tables of policies, and an executor with what is given to it."""
        self.file.write_text(text + "".join(map(table, rules)))
        host = self._stack.enter_context(
            Host(config=self.file, discover=options.pop("discover", True), tools=TOOLS, **options)
        )
        self.host = host
        self.tools = self._stack.enter_context(host.executor(**(given or {})))
        return self

    def __call__(self, name: str, /, **arguments: Any) -> Outcome:
        call = ToolCall(name, arguments)
        if self.driver == "sync":
            return self.tools.dispatch(call)
        return asyncio.run(self._later(call))

    def at_once(self, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
        made = [ToolCall(name, arguments) for name, arguments in calls]
        if self.driver == "sync":
            return self.tools.dispatch_all(made)
        return asyncio.run(self._all_later(made))

    async def _later(self, call: ToolCall) -> Outcome:
        return await self.tools.adispatch(call)

    async def _all_later(self, calls: list[ToolCall]) -> list[Any]:
        return await self.tools.adispatch_all(calls)


def table(rule: Mapping[str, Any]) -> str:
    """Return a table of a policy, of the kind `rule` unless it says another."""
    fields = {"kind": "rule", **rule}
    return "[[policies]]\n" + "".join(
        f"{json.dumps(key)} = {_toml(each)}\n" for key, each in fields.items()
    )


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


class Clock:
    """A clock that stands, at ten o'clock on a Monday."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 5, 10, tzinfo=UTC)
        self.seconds = 0.0

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture(params=["sync", "async"])
def office(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Office]:
    with ExitStack() as stack:
        yield Office(request.param, tmp_path, stack)


@pytest.fixture
def clock() -> Clock:
    return Clock()
