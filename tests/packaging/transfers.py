"""A plugin of one file that moves money with the tools of a package, and waits for who looks on."""

from __future__ import annotations

import socket

from toolstile_hookspecs import MarkdownSection, ToolContext, ToolResult, hookimpl, tool

CHANGE = "UPDATE account SET cents = cents + ? WHERE name = ?"


@tool(category="write", consequence="high")
def transfer(source: str, target: str, cents: int, *, context: ToolContext) -> ToolResult[None]:
    """Move money from one account to another."""
    for change, name in ((cents, target), (-cents, source)):
        outcome = context.call("sql_execute", {"sql": CHANGE, "params": [change, name]})
        if not outcome.success:
            return ToolResult.error(outcome.text)
    return ToolResult.ok(None, message=f"{cents} moved.")


@tool(category="read", timeout=None)
def wait_for(port: int) -> str:
    """Connect to whoever waits for this, and go on when they have seen enough."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.recv(1)
    return "seen"


@hookimpl
def toolstile_sections() -> list[MarkdownSection]:
    """Offer the tools."""
    return [MarkdownSection(key="transfers", title="Transfers", tools=[transfer, wait_for])]
