"""Children: executors of agents that another agent starts, with a part of its authority."""

# ruff: noqa: SLF001 - made of the fields of its parent, which is a class that imports this

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final
from weakref import WeakSet

from toolstile.options import ChildOptions
from toolstile.plugins.offered_tools import ToolOffers, fitted
from toolstile.policies.rule_set import faults_of, tools_within
from toolstile.policies.rules import named, refuse_duplicates
from toolstile.resources.container import LendingContainer
from toolstile.runtime import runtime_of
from toolstile.settings import validate_table
from toolstile_hookspecs import (
    BudgetTracker,
    ConfigurationError,
    Deadline,
    Prompt,
    StateError,
    ToolSelector,
)
from toolstile_hookspecs.execution.children import SharedBudget

_NOT_KEPT: Final = (
    "The child {!r} of {} cannot have session='own', because such a session would be kept "
    "even if the transaction is not. Use session='share' or 'fork', or make the child of the "
    "executor."
)


def narrowed(child: Any, prompt: Prompt) -> Prompt:
    """Return a prompt with the tools that a child may call, and that depend on no other."""
    known: tuple[Prompt, Prompt] | None = child.narrowed
    if known is None or known[0] is not prompt:
        tools = [tool for section in prompt.everywhere() for tool in section.tools]
        why, only = "it is not among the tools of this agent", child._manner.only
        left_out = {tool: why for tool in tools if not all(each.selects(tool) for each in only)}
        known = child.narrowed = prompt, fitted(ToolOffers().without(prompt, left_out))
    return known[1]


def make_child(parent: Any, kind: type[Any], given: Mapping[str, Any]) -> Any:
    """Return a child of an executor; see `Executor.child`."""
    options = validate_table(ChildOptions, given, plugin=None, source="executor.child")
    if parent.retired is not None:
        raise StateError(parent.retired)
    if parent.dry_run:
        parent._rehearse()
    if options.session == "own" and parent.within is not None:
        raise StateError(_NOT_KEPT.format(options.name, parent.within))
    path, host = f"{parent.agent}/{options.name}", parent._host
    rules = (*parent._manner.rules, *named(options.rules, place=path))
    refuse_duplicates([*host.policies, *rules])
    only = () if options.tools is None else (ToolSelector(tools=frozenset(options.tools)),)
    chosen: Any = [SimpleNamespace(name=f"tools of {path}", selector=each) for each in only]
    known, absent = tools_within(parent.prompt, parent.catalog), host.plugins.absent_tools()
    if faults := faults_of([*chosen, *rules], known, absent):
        raise ConfigurationError("\n".join(faults))
    if options.session == "fork":
        child: Any = parent.transaction(f"agent {path}")
    else:
        child = object.__new__(kind)
        child.__dict__.update(parent.__dict__, session=parent.session, parent=parent)
        child.transactions, child.children = WeakSet(), WeakSet()
        parent.children.add(child)
    values: dict[type[Any], Any] = {}
    if (budget := options.budget) is not None:
        around = parent.resources.get(BudgetTracker, None)
        values[BudgetTracker] = budget if around is None else SharedBudget(budget, around)
    child.resources = LendingContainer(parent.resources, values)
    ends = [each for each in (child.deadline, options.deadline) if each is not None]
    child.agent, child.deadline = path, min(ends, key=Deadline.remaining, default=None)
    child._manner = replace(child._manner, only=parent._manner.only + only, rules=rules)
    child._plans = child.narrowed = None
    child.event_fields = {**child.event_fields, "agent": path}
    child.context_fields = {**child.context_fields, "agent": path, "prompt": child.prompt}
    if options.session == "own":
        child.home = child.session = parent.home.apart()
        child.journal, child._set_up = None, {}
        child.runtime = runtime_of(child.home, parent.runtime)
        child.event_fields["session_id"] = child.home.id
    return child
