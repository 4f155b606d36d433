"""A stranger's plugin: a ticket is spent in the very decision that keeps its call.

It imports the contract alone, and keeps its table in the database of the stored sessions.
"""

from __future__ import annotations

from typing import Any

from toolstile_hookspecs import CallRefused, MarkdownSection, ToolContext, hookimpl, tool
from toolstile_hookspecs.services.session_store import Decision


@tool(category="write")
def enter(ticket: str, *, context: ToolContext) -> str:
    """Enter with a ticket."""
    context.session[str].append(ticket)
    return ticket


class Spending:
    """A participant: the ticket of one call."""

    name = "the tickets"
    waits = True
    contributes = True

    def __init__(self, ticket: str) -> None:
        self._ticket = ticket

    def prepare(self) -> None:
        """Have nothing to prepare."""

    def contribute(self, decision: Decision) -> None:
        """Spend the ticket where the call is decided; refuse one that was spent."""
        connection: Any = decision.connection
        connection.execute("CREATE TABLE IF NOT EXISTS tickets (ticket TEXT PRIMARY KEY, id TEXT)")
        row = (self._ticket, decision.id)
        if not connection.execute("INSERT OR IGNORE INTO tickets VALUES (?, ?)", row).rowcount:
            raise CallRefused(f"The ticket {self._ticket} was used. Get another one, then retry.")

    def commit(self) -> None:
        """Have nothing more to do."""

    def rollback(self) -> None:
        """Have nothing to undo."""


class Tickets:
    """The plugin."""

    @hookimpl
    def toolstile_sections(self) -> list[Any]:
        return [MarkdownSection(key="tickets", title="Tickets", tools=[enter])]

    @hookimpl
    def toolstile_snapshot(self, context: ToolContext) -> Spending | None:
        call = context.tool_call
        if call is None or call.name != "enter":
            return None
        arguments: Any = call.arguments
        return Spending(str(arguments["ticket"]))
