"""A plugin of one file that moves money with the tools of a package."""

from __future__ import annotations

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


@hookimpl
def toolstile_sections() -> list[MarkdownSection]:
    """Offer the tools."""
    return [MarkdownSection(key="transfers", title="Transfers", tools=[transfer])]
