"""Stage lookup: the tool of a call, from the prompt or from a plugin."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from toolstile.drivers.commands import Staged, Step
from toolstile.pipeline.call import ActiveCall
from toolstile.pipeline.failures import CallRejected
from toolstile.pipeline.hook_calls import first_result, wrong_answer
from toolstile.pipeline.parse import shown_call
from toolstile.pipeline.plan import DispatchTable, ToolPlan
from toolstile_hookspecs import Status, Tool


def look_up(
    run: ActiveCall, table: DispatchTable, by_name: ToolPlan | None
) -> Generator[Step, Any, ToolPlan]:
    """Return the plan of the tool that plugins know, or else of the prompt's.

    Args:
        run: The call.
        table: What its executor dispatches by.
        by_name: The plan of the prompt's tool of that name, None where it has none.

    Raises:
        CallRejected: When nobody knows the tool.
    """
    tool: Tool[Any, Any] | None = None
    if table.lookups:
        tool = yield from _ask_lookups(run, table)
    plan = by_name if tool is None else run.executor.plan_of(tool)
    if plan is None:
        raise CallRejected(Status.UNKNOWN_TOOL, table.missing.explain(run.call_made.name))
    return plan


def _ask_lookups(run: ActiveCall, table: DispatchTable) -> Staged:
    call, catalog = shown_call(run), run.executor.catalog
    for each in table.lookups:
        found = yield from first_result(run, (each,), call, catalog)
        if found is not None:
            if not isinstance(found, Tool):
                raise wrong_answer(each, found, "a Tool, or None")
            return found  # pyright: ignore[reportUnknownVariableType] - whatever its params are
    return None
