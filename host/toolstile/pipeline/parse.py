"""Stages lookup and parse: the tool that a call means, and its arguments as typed params."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, cast

from toolstile.drivers.job import Staged, Step
from toolstile.pipeline.call import ActiveCall
from toolstile.pipeline.failures import CallRejected, unreadable
from toolstile.pipeline.hook_calls import WrapperStack, first_result, wrong_answer
from toolstile.pipeline.plan import DispatchTable, ToolPlan
from toolstile.plugins.offered_tools import names_of_dependencies
from toolstile_hookspecs import Status, Tool, ToolCall, ToolValidationError
from toolstile_hookspecs.codecs import as_json

log = logging.getLogger(__name__)


def shown_call(call: ActiveCall) -> ToolCall:
    """Return the call for plugins to see, and make it immutable from now on."""
    given = call.call_made.arguments
    if not isinstance(given, (str, bytes, MappingProxyType)):
        call.call_made = replace(call.call_made, arguments=_unchangeable(given))
    return call.call_made


def _unchangeable(arguments: Mapping[str, Any]) -> str | bytes | Mapping[str, Any]:
    try:
        return as_json(arguments)
    except ToolValidationError:
        # It will be refused, unless a plugin knows how to parse it.
        is_object = isinstance(cast("object", arguments), Mapping)
        return MappingProxyType(dict(arguments)) if is_object else arguments


def look_up(
    call: ActiveCall, table: DispatchTable, by_name: ToolPlan | None
) -> Generator[Step, Any, ToolPlan]:
    """Return the plan of the tool that plugins know, or else of the prompt's tool of that name.

    Raises:
        CallRejected: When the tool is unknown.
    """
    tool: Tool[Any, Any] | None = None
    if table.lookups:
        tool = yield from _ask_lookups(call, table)
    plan = by_name if tool is None else _plan_of(call, table, tool)
    if plan is None:
        missing, name = table.missing, call.call_made.name
        remedy = missing.withheld.get(str(name), "")
        raise CallRejected(Status.UNKNOWN_TOOL, missing.explain(name), remedy)
    if call.parent is not None:
        _check_declared(call, call.parent.tool, plan.tool)
    return plan


def _plan_of(call: ActiveCall, table: DispatchTable, tool: Tool[Any, Any]) -> ToolPlan | None:
    missing = table.missing
    if tool.name in missing.left_out or not all(each.selects(tool) for each in missing.only):
        return None
    offered = table.plans.get(tool.name)
    # The catalog's tool stands for the tool that is offered here, which may be corrected.
    is_same = offered is not None and tool is call.executor.catalog.get(tool.name)
    return offered if is_same else call.executor.plan_of(tool)


def _ask_lookups(call: ActiveCall, table: DispatchTable) -> Staged:
    made, catalog = shown_call(call), call.executor.catalog
    for each in table.lookups:
        found = yield from first_result(call, (each,), made, catalog)
        if found is not None:
            if not isinstance(found, Tool):
                raise wrong_answer(each, found, "a Tool, or None")
            return found  # pyright: ignore[reportUnknownVariableType] - whatever its params are
    return None


def _check_declared(call: ActiveCall, caller: Tool[Any, Any], tool: Tool[Any, Any]) -> None:
    """Check that the caller of a nested call declares the tool in its `depends_on`.

    Raises:
        CallRejected: When it does not, and the configuration is strict about it.
    """
    if tool is caller or not {*names_of_dependencies(caller)}.isdisjoint(tool.policy_names):
        return
    if call.executor.strict_depends:
        raise CallRejected(
            Status.DENIED,
            f"{caller.label} cannot call {tool.label}, which its depends_on does not name. This "
            "requires human intervention.",
        )
    _warn_of_undeclared(caller, tool)


@lru_cache(maxsize=1024)
def _warn_of_undeclared(caller: Tool[Any, Any], tool: Tool[Any, Any]) -> None:
    """Log it, once for each two tools."""
    log.warning(
        "Tool %r calls %r, which its depends_on does not name. Add the name to depends_on, so that "
        "people see all tools that they approve.",
        caller.name,
        tool.name,
    )


def parse(call: ActiveCall, tool: Tool[Any, Any], made: ToolCall) -> None:
    """Turn the call's arguments into params, by the tool's own types.

    Raises:
        ToolValidationError: Naming every fault at once.
        CallRejected: When there is too much of them.
    """
    given = made.arguments
    arguments = given if isinstance(given, str) else as_json(given)
    if len(arguments) > call.executor.max_arguments:
        raise CallRejected(
            Status.INVALID,
            f"Invalid arguments for {call.name}: {len(arguments):,} bytes, "
            f"{call.executor.max_arguments:,} are allowed. Send less, then retry.",
        )
    call.arguments = arguments
    # Everyone who reads the arguments again finds the params that the handler is given.
    call.params, call.arguments = tool.params_codec.read(arguments)


def ask_parsers(call: ActiveCall, table: DispatchTable, made: ToolCall) -> Staged:
    """Turn the call's arguments into params, through the plugins that have a say in it."""
    tool = call.tool
    wrapped = WrapperStack()
    try:
        for each in table.parse_wrappers:
            wrapped.enter(each, tool, made)
        params = yield from first_result(call, table.parses, tool, made)
        if params is None:
            parse(call, tool, made)
            params = call.params
    except BaseException as error:  # noqa: BLE001 - the wrappers see it first
        params = wrapped.fail(error)
    else:
        params = wrapped.leave(params)
    # A plugin may still hold the parsed params, so the call gets its own copy.
    call.arguments = tool.params_codec.encode(params)
    try:
        call.params = tool.params_codec.decode(call.arguments)
    except ToolValidationError as error:
        if tool.params_codec.fits(params) is None:
            raise unreadable(call.name, "params", error) from error
        raise
