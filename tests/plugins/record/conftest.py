"""Fixtures of the record's tests: a desk of tools, and hosts that record or replay it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import SecretStr

from toolstile import Host
from toolstile_hookspecs import (
    DeadlineExceededError,
    ExecutorHandle,
    Interrupt,
    MarkdownSection,
    Outcome,
    PolicyDecision,
    PromptEvaluationError,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    VisibilityExpansionRequired,
    append_all,
    hookimpl,
    tool,
)
from toolstile_plugins.record import Recorder, RecordFile, Recording, Replayer


@dataclass(frozen=True)
class Note:
    text: str

    def render(self) -> str:
        return f"note: {self.text}"


@dataclass(frozen=True)
class Count:
    number: int


ran: list[str] = []
"""The tools whose handlers ran."""


@tool(category="read")
def add(a: int, b: int = 1) -> int:
    """Add two integers."""
    ran.append("add")
    return a + b


@tool(category="write", contained=True)
def note(text: str, *, context: ToolContext) -> ToolResult[Note]:
    """Keep a note and count it."""
    ran.append("note")
    before = context.session[Count].latest()
    context.session[Count].seed(Count(before.number + 1 if before else 1))
    return ToolResult.ok(Note(text), message=f"Noted {text!r}.")


@tool(category="read")
def notes(*, context: ToolContext) -> list[str]:
    """List the notes."""
    ran.append("notes")
    count = context.session[Count].latest()
    return [
        f"{count.number if count else 0} in all",
        *(n.text for n in context.session[Note].all()),
    ]


@tool
def twice(text: str, *, context: ToolContext) -> str:
    """Keep a note twice, by calls of its own."""
    ran.append("twice")
    return "; ".join(context.call("note", {"text": text}).text for _ in range(2))


@tool
def log_in(user: str, password: SecretStr) -> str:
    """Sign in."""
    ran.append("log_in")
    if user == "eve":
        raise RuntimeError(f"no {password.get_secret_value()} for eve")
    return f"{user} is in with {password.get_secret_value()}"


@tool
def fetch() -> ToolResult[str]:
    """Give much that the model need not read."""
    ran.append("fetch")
    return ToolResult.ok("not for the model", "Fetched.", exclude_value_from_context=True)


@tool
def echo(text: str) -> str:
    """Say it again."""
    ran.append("echo")
    return text


@tool(category="read")
def nest(depth: int) -> Any:
    """Put a list into a list into a list."""
    ran.append("nest")
    value: Any = "core"
    for _ in range(depth):
        value = [value]
    return value


class Stopped(KeyboardInterrupt):
    """A host's own."""


@tool
def fail(how: str) -> None:
    """Fail in one of many ways."""
    ran.append("fail")
    raise {
        "late": DeadlineExceededError("too late"),
        "over": PromptEvaluationError("enough of it"),
        "pause": Interrupt("a person is needed"),
        "open": VisibilityExpansionRequired(("manual",), "to read it"),
        "broken": RuntimeError("broken"),
        "stop": KeyboardInterrupt(),
        "signal": Stopped(),
    }[how]


@tool(requires_confirmation=True)
def send(to: str, amount: int) -> str:
    """Send money."""
    ran.append("send")
    return f"sent {amount} to {to}"


@dataclass(frozen=True)
class Badge:
    name: str
    key: SecretStr

    def render(self) -> str:
        return f"badge of {self.name}"


@tool
def badge(name: str, loudly: bool = False) -> ToolResult[Badge]:
    """Make a badge, and tell what is to be kept to oneself."""
    ran.append("badge")
    key = "k3y-very-secret"
    message = f"The key is {key}." if loudly else "Made."
    return ToolResult.ok(Badge(name, SecretStr(key)), message=message)


TOOLS: list[Tool[Any, Any]] = [
    *(add, note, notes, twice, log_in, fetch, echo, fail, send),
    *(badge, nest),
]


class Desk:
    """The tools, and a policy."""

    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        def set_up(session: Any) -> None:
            session[Note].register(Note, append_all)

        return [MarkdownSection(key="desk", title="Desk", tools=TOOLS, on_session=set_up)]

    @hookimpl
    def toolstile_check(self, tool: Tool[Any, Any], params: Any) -> PolicyDecision | None:
        if tool.name == "echo" and params.text == "forbidden":
            return PolicyDecision.deny("Nobody may say that. Say something else.")
        return None

    @hookimpl
    def toolstile_on_result(self, tool: Tool[Any, Any], result: ToolResult[Any]) -> None:
        if tool.name == "badge" and result.value.name == "eve":
            raise RuntimeError(f"no {result.value.key.get_secret_value()} for eve")


@contextmanager
def recording(
    path: Path, *, auth: Any = None, plugins: Iterable[object] = (), **options: Any
) -> Iterator[Any]:
    """Give what dispatches calls of the desk, each of which is recorded."""
    with Host(discover=False, plugins=[Desk(), *plugins], **options) as host:
        recorder = Recorder(RecordFile(path), host.clock)
        host.register(recorder)
        try:
            with host.executor(auth=auth) as tools:
                yield tools
        finally:
            recorder.close()


@contextmanager
def replaying(path: Path, **options: Any) -> Iterator[tuple[Any, Replayer]]:
    """Give what dispatches calls of the desk, each of which is answered from the record."""
    replay = Replayer(Recording.load(path), **options)
    with Host(discover=False, plugins=[Desk(), replay], approver=replay.approve) as host:
        ran.clear()
        with host.executor() as tools:
            yield tools, replay


def call(tools: ExecutorHandle, name: str, /, **arguments: Any) -> Outcome:
    return tools.dispatch(ToolCall(name, arguments))


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a record that tell of calls, as plain JSON."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [line for line in lines if line["kind"] == "call"]


def outcome_of(made: Outcome) -> dict[str, Any]:
    """Return an envelope without the time."""
    envelope = made.envelope()
    del envelope["fetchedAt"]
    return envelope


def record(path: Path, *calls: Any, **options: Any) -> tuple[list[Outcome], Any]:
    """Record calls; return their outcomes, and the state they have made."""
    with recording(path, **options) as tools:
        return [tools.dispatch(ToolCall(*each)) for each in calls], state_of(tools)


def state_of(tools: ExecutorHandle) -> Any:
    return list(tools.session[Note].all()), list(tools.session[Count].all())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


@pytest.fixture
def desk() -> SimpleNamespace:
    """Everything above."""
    ran.clear()
    return SimpleNamespace(
        Count=Count,
        Desk=Desk,
        Note=Note,
        call=call,
        lines_of=lines_of,
        outcome_of=outcome_of,
        ran=ran,
        record=record,
        recording=recording,
        replaying=replaying,
        state_of=state_of,
    )
