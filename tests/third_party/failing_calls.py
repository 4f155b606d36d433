"""A plugin of one file whose calls fail, in several ways, after they have changed state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolstile_bfcl import Backends
from toolstile_bfcl.json_form import state_form

from toolstile_hookspecs import MarkdownSection, ToolContext, ToolResult, hookimpl, tool

FAULT = "injected fault"


@dataclass(frozen=True)
class Wanted:
    """A nested call."""

    name: str
    arguments: dict[str, Any]


def make(calls: list[Wanted], context: ToolContext) -> str:
    """Make nested calls, the last of which changes state; say whether it did."""
    outcomes = [context.call(each.name, each.arguments) for each in calls]
    return FAULT if outcomes[-1].success else outcomes[-1].text


@tool
def raise_after(calls: list[Wanted], *, context: ToolContext) -> None:
    """Make calls, then raise."""
    raise RuntimeError(make(calls, context))


@tool
async def raise_after_waiting(calls: list[Wanted], *, context: ToolContext) -> None:
    """Make calls from a coroutine, then raise."""
    outcomes = [await context.acall(each.name, each.arguments) for each in calls]
    raise RuntimeError(FAULT if outcomes[-1].success else outcomes[-1].text)


@tool
def refuse_after(calls: list[Wanted], *, context: ToolContext) -> ToolResult[None]:
    """Make calls, then answer with a failure."""
    return ToolResult.error(make(calls, context))


@tool
def raise_after_change(suite: str, calls: list[Wanted], *, context: ToolContext) -> None:
    """Make calls, then raise, saying whether they changed what this call can see."""
    before = state_form(context.resources.get(Backends).view(suite))
    make(calls, context)
    after = state_form(context.resources.get(Backends).view(suite))
    raise RuntimeError(FAULT if before != after else "nothing was changed")


@hookimpl
def toolstile_sections() -> list[MarkdownSection]:
    """Offer the tools."""
    tools = [raise_after, raise_after_waiting, refuse_after, raise_after_change]
    return [MarkdownSection(key="failing-calls", title="Failing calls", tools=tools)]


@hookimpl
def toolstile_on_result(context: ToolContext) -> None:
    """Veto the calls whose id asks for it."""
    if context.tool_call is not None and context.tool_call.id.startswith("veto-"):
        raise RuntimeError(FAULT)
