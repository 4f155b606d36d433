"""Children: agents that an agent starts, and their part of its budget."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Unpack

from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.errors import StateError
from toolstile_hookspecs.execution.options import ChildArguments
from toolstile_hookspecs.execution.principal import MAIN_AGENT
from toolstile_hookspecs.handles import ExecutorHandle
from toolstile_hookspecs.limits import BudgetTracker


def child_of(
    context: ToolContext, name: str, **given: Unpack[ChildArguments]
) -> AbstractContextManager[ExecutorHandle]:
    """Return a child of the executor of a running call, for a handler that runs an agent.

    Each call of the child is committed by itself. If the call is abandoned, the child closes.
    Without an executor, as in an isolated process, a `StateError` is raised.
    """
    executor: Any = getattr(context.control, "executor", None)
    if executor is None:
        raise StateError("This context has no executor, so it can have no child; dispatch a call.")
    child = executor.child(name, **{"deadline": context.deadline, **given})
    context.on_abandoned(partial(child.__exit__, None, None, None))
    return child  # type: ignore[no-any-return]


def root_session_id(context: ToolContext) -> str:
    """Return the id of the first parent's session, under which effects and grants are kept."""
    executor: Any = None
    if context.agent != MAIN_AGENT:
        executor = getattr(context.control, "executor", None)
    return context.session.id if executor is None else executor.session_id


class SharedBudget:
    """A budget within another one: spending counts in both, and both must allow."""

    def __init__(self, own: BudgetTracker, around: BudgetTracker) -> None:
        self._own, self._around = own, around

    def spend(self, amount: float, unit: str = "tokens") -> None:
        """Record spending in both; raises when one of them does not allow it."""
        try:
            self._own.spend(amount, unit)
        finally:
            self._around.spend(amount, unit)

    def remaining(self, unit: str = "tokens") -> float | None:
        """Return the smaller rest, or None if neither has a limit."""
        rests = [each.remaining(unit) for each in (self._own, self._around)]
        return min((rest for rest in rests if rest is not None), default=None)
