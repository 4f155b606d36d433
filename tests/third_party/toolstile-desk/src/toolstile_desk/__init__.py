"""A help desk: its tickets, and the policies that say who may ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolstile_hookspecs import (
    MarkdownSection,
    PolicyDecision,
    Section,
    SessionProtocol,
    Tool,
    ToolContext,
    ToolResult,
    append_all,
    hookimpl,
    tool,
)


@dataclass(frozen=True)
class Ticket:
    """A ticket of a session."""

    title: str

    def render(self) -> str:
        """Return the text for a model."""
        return f"# {self.title}"


@tool(category="write", consequence="low")
def open_ticket(title: str) -> ToolResult[Ticket]:
    """Open a ticket."""
    return ToolResult.ok(Ticket(title))


def prepare_session(session: SessionProtocol) -> None:
    """Register the reducer of tickets."""
    session[Ticket].register(Ticket, append_all)


@dataclass
class Members:
    """A policy: only active members of a group call tools, as one source tells them."""

    source: str
    group: str
    name: str = "desk_members"

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Look at source, group and claims of the principal."""
        asks = context.principal
        if asks is None or asks.source != self.source or self.group not in asks.groups:
            return PolicyDecision.deny(f"Only members of {self.group} may call {tool.name}.")
        if asks.claims.reveal().get("suspended"):
            return PolicyDecision.deny(f"{asks.id} is suspended and cannot call {tool.name}.")
        return PolicyDecision.allow()

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Remember nothing."""


@dataclass
class AskedFor:
    """A policy: a title of a ticket takes its words from what staff asked for."""

    group: str
    name: str = "desk_asked_for"

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        """Compare the title with the turns of the request, unless nobody of the group asks."""
        asks = context.principal
        if asks is None or self.group not in asks.groups:
            return PolicyDecision.deny(f"Only members of {self.group} may call {tool.name}.")
        own = [turn.text for turn in context.request if turn.user_id == asks.id]
        asked = " ".join(own).casefold().split()
        missing = [word for word in params.title.casefold().split() if word not in asked]
        if missing:
            return PolicyDecision.deny(f"{asks.id} did not ask for {', '.join(missing)}.")
        return PolicyDecision.allow()

    def on_result(
        self, tool: Tool[Any, Any], params: Any, result: ToolResult[Any], *, context: ToolContext
    ) -> None:
        """Remember nothing."""


@hookimpl
def toolstile_sections() -> Sequence[Section]:
    """Offer the tickets."""
    return [
        MarkdownSection(key="desk", title="Desk", tools=[open_ticket], on_session=prepare_session)
    ]


@hookimpl
def toolstile_policies() -> Mapping[str, type[Any]]:
    """Offer the kinds of policies."""
    return {"desk_members": Members, "desk_asked_for": AskedFor}
