"""A plugin whose tools have to be confirmed; it is served in the tests and by real processes."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import SecretStr

from toolstile_hookspecs import MarkdownSection, Outcome, ToolContext, ToolResult, hookimpl, tool


@dataclass(frozen=True)
class Erased:
    name: str


@tool(category="delete", consequence="high", requires_confirmation=True)
def erase(name: str, *, context: ToolContext) -> int:
    """Erase something for good, and count what was erased."""
    context.session[Erased].append(Erased(name))
    return len(context.session[Erased].all())


@tool(category="read")
def erased(*, context: ToolContext) -> list[str]:
    """Say what was erased."""
    return [each.name for each in context.session[Erased].all()]


@tool(category="write", contained=True, requires_confirmation=True)
def mark(name: str, *, context: ToolContext) -> str:
    """Mark something, which is contained."""
    context.session[Erased].append(Erased(name))
    return "marked"


@tool(requires_confirmation=True)
def log_in(user: str, password: SecretStr) -> str:
    """Log in."""
    return f"{user} has logged in"


def _told(outcome: Outcome) -> ToolResult[None]:
    return ToolResult.ok(None, message=f"{outcome.status}: {outcome.text}")


@tool
def erase_within(name: str, *, context: ToolContext) -> ToolResult[None]:
    """Let another tool erase something."""
    return _told(context.call("erase", {"name": name}))


@tool
async def erase_within_async(name: str, *, context: ToolContext) -> ToolResult[None]:
    """Let another tool erase something, waiting for it."""
    return _told(await context.acall("erase", {"name": name}))


@hookimpl
def toolstile_sections() -> list[MarkdownSection]:
    return [
        MarkdownSection(
            key="confirming",
            title="Confirming",
            tools=[erase, erased, mark, log_in, erase_within, erase_within_async],
        )
    ]
