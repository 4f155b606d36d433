"""A plugin of one file whose calls fail, in several ways, after they have changed state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolyard_bfcl import Backends
from toolyard_bfcl.json_form import state_form

from toolyard_hookspecs import MarkdownSection, ToolContext, ToolResult, hookimpl, tool

FAULT = "injected fault"


@dataclass(frozen=True)
class Wanted:
    """A nested call."""

    name: str
    arguments: dict[str, Any]


def make(calls: list[Wanted], context: ToolContext) -> None:
    """Make nested calls; whether they succeed does not matter."""
    for each in calls:
        context.call(each.name, each.arguments)


@tool
def raise_after(calls: list[Wanted], *, context: ToolContext) -> None:
    """Make calls, then raise."""
    make(calls, context)
    raise RuntimeError(FAULT)


@tool
async def raise_after_waiting(calls: list[Wanted], *, context: ToolContext) -> None:
    """Make calls from a coroutine, then raise."""
    for each in calls:
        await context.acall(each.name, each.arguments)
    raise RuntimeError(FAULT)


@tool
def refuse_after(calls: list[Wanted], *, context: ToolContext) -> ToolResult[None]:
    """Make calls, then answer with a failure."""
    make(calls, context)
    return ToolResult.error(FAULT)


@tool
def raise_after_change(suite: str, calls: list[Wanted], *, context: ToolContext) -> None:
    """Make calls, then raise, saying whether they changed what this call can see."""
    before = state_form(context.resources.get(Backends).view(suite))
    make(calls, context)
    after = state_form(context.resources.get(Backends).view(suite))
    raise RuntimeError(FAULT if before != after else "nothing was changed")


@hookimpl
def toolyard_sections() -> list[MarkdownSection]:
    """Offer the tools."""
    tools = [raise_after, raise_after_waiting, refuse_after, raise_after_change]
    return [MarkdownSection(key="failing-calls", title="Failing calls", tools=tools)]


@hookimpl
def toolyard_on_result(context: ToolContext) -> None:
    """Veto the calls whose id asks for it."""
    if context.tool_call is not None and context.tool_call.id.startswith("veto-"):
        raise RuntimeError(FAULT)
