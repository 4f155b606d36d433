"""What the hooks offer: tools, a policy, a resource, a participant, a trace, a dialect."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from pydantic import BaseModel

from toolstile_hookspecs import (
    Outcome,
    PolicyDecision,
    Prompt,
    SessionProtocol,
    Stage,
    Tool,
    ToolCall,
    ToolContext,
    ToolExample,
    ToolResult,
    append_all,
    tool,
)

HEARD: list[str] = []
"""The hooks that were called, and what they were told of."""


class Settings(BaseModel):
    """The table `[plugins.first]`."""

    title: str = "Notes"


@dataclass(frozen=True)
class Note:
    """What a session remembers."""

    text: str

    def render(self) -> str:
        """Return what a model reads."""
        return f"- {self.text}"


@dataclass
class Notebook:
    """A resource: where notes are printed."""

    title: str
    printed: list[str] = field(default_factory=list)


@tool(category="write", consequence="low", tags=["first"])
def note(text: str, *, context: ToolContext) -> ToolResult[Note]:
    """Note a text."""
    notebook = context.resources.get(Notebook)
    notebook.printed.append(text)
    return ToolResult.ok(Note(text), message=f"{notebook.title}: noted.")


@dataclass(frozen=True)
class Counting:
    """The params of `count`."""

    prefix: str = ""


def count(params: Counting, *, context: ToolContext) -> ToolResult[int]:
    """Count notes."""
    found = context.session[Note].where(lambda each: each.text.startswith(params.prefix))
    return ToolResult.ok(len(found))


COUNT: Tool[Counting, int] = Tool(
    name="count_notes",
    description="Count the notes that begin with a text.",
    handler=count,
    category="read",
    consequence="low",
    examples=(ToolExample("Count all notes.", Counting(), 0),),
)


@tool(category="write", requires_confirmation=True)
def tear_out(*, context: ToolContext) -> ToolResult[None]:
    """Remove all notes."""
    context.session[Note].clear()
    return ToolResult.ok(message="Torn out.")


@tool(category="write")
def spill(*, context: ToolContext) -> ToolResult[None]:
    """Note something, and fail."""
    context.session.dispatch(Note("ink"))
    return ToolResult.error("The ink was spilt. Use note, then retry.")


@tool(category="read", tags=["remote"])
def far() -> str:
    """Be answered elsewhere."""
    return "here"


TOOLS = (note, COUNT, tear_out, spill, far)


def prepare_session(session: SessionProtocol) -> None:
    """Register the reducer of notes."""
    session[Note].register(Note, append_all)


@dataclass
class Curfew:
    """A policy that configuration can make: no tool of a category."""

    category: str = "delete"
    name: str = "first_curfew"

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Deny the category."""
        if tool.category == self.category:
            return PolicyDecision.deny(f"{tool.name} is out of bounds. Use another tool.")
        return PolicyDecision.allow()

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Remember nothing."""


class Mark:
    """A participant of every call."""

    def prepare(self) -> None:
        """Have nothing that can fail."""

    def commit(self) -> None:
        """Say so."""
        HEARD.append("commit")

    def rollback(self) -> None:
        """Say so."""
        HEARD.append("rollback")

    def join(self) -> None:
        """Be part of the call around it."""

    def diff(self) -> str:
        """Show no change."""
        return ""


class Span:
    """A trace that hears of stages."""

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End."""

    def stage(self, stage: Stage) -> None:
        """Hear of a stage."""
        HEARD.append(f"stage {stage.value}")

    def crossing(self) -> AbstractContextManager[None]:
        """Go along into a process."""
        return nullcontext()


class Lines:
    """A dialect of lines: `NAME JSON`."""

    name = "first_lines"

    def schemas(self, tools: Prompt | Iterable[Tool[Any, Any]]) -> list[dict[str, Any]]:
        """Return names and schemas."""
        found = tools.tools() if isinstance(tools, Prompt) else tools
        return [{"name": each.name, "schema": each.params_codec.schema()} for each in found]

    def calls(self, reply: Any) -> list[ToolCall]:
        """Read lines."""
        parts = (line.partition(" ") for line in str(reply).splitlines())
        return [
            ToolCall(name, arguments, id=str(number))
            for number, (name, _, arguments) in enumerate(parts)
        ]

    def results(self, outcomes: Sequence[Outcome | BaseException]) -> list[dict[str, Any]]:
        """Return what each call came to."""
        return [
            {"line": json.dumps(each.text if isinstance(each, Outcome) else str(each))}
            for each in outcomes
        ]

    def recorded(self, document: Any) -> list[ToolCall] | None:
        """Know no recorded conversation."""
        return None
