"""The built-in checkers of a task's completion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from toolstile_hookspecs import DefinitionError, ToolInvoked
from toolstile_hookspecs.agents.guidance import (
    GuidanceContext,
    TaskCompletionChecker,
    TaskCompletionResult,
)
from toolstile_plugins.agent.effects import Consult
from toolstile_plugins.agent.guidance.prompt_guidance import CHECK_SECONDS, is_there
from toolstile_plugins.agent.result import GuidanceProgress
from toolstile_plugins.planning.model import Plan

MAX_NAMED = 3
"""The most open steps or missing files that a checker names."""


@dataclass(frozen=True)
class PlanChecker:
    """Lets a model stop when every step of the session's plan is done, or none is required."""

    require_plan: bool = False

    def check(self, context: GuidanceContext) -> TaskCompletionResult:
        plan = context.session[Plan].latest()
        if plan is None and self.require_plan:
            return TaskCompletionResult.incomplete("A plan is missing; make one, and carry it out.")
        steps = () if plan is None else plan.steps
        return _unless("These steps are open", [s.title for s in steps if s.status != "done"])


@dataclass(frozen=True)
class FileOutputChecker:
    """Lets a model stop when the workspace has all files."""

    files: Sequence[str]

    def __post_init__(self) -> None:
        _several(self.files, "FileOutputChecker")

    def check(self, context: GuidanceContext) -> TaskCompletionResult:
        missing = [file for file in self.files if not is_there(context.filesystem, file)]
        return _unless("These files are missing", missing)


@dataclass(frozen=True)
class ToolsCalledChecker:
    """Lets a model stop when all these tools have succeeded in the session."""

    names: Sequence[str]

    def __post_init__(self) -> None:
        _several(self.names, "ToolsCalledChecker")

    def check(self, context: GuidanceContext) -> TaskCompletionResult:
        # The log of calls stays in the process that made them; the progress is stored.
        done = {event.tool_name for event in context.session[ToolInvoked].all() if event.success}
        done.update(*(each.succeeded for each in context.session[GuidanceProgress].all()))
        missing = [name for name in self.names if name not in done]
        return _unless("These tools have not succeeded yet", missing, len(missing))


@dataclass(frozen=True)
class CompositeChecker:
    """Several checkers as one, asked in order until one decides.

    Args:
        checkers: The checkers.
        all_must_pass: Whether all must pass, or one.
    """

    checkers: Sequence[TaskCompletionChecker]
    all_must_pass: bool = True

    async def check(self, context: GuidanceContext) -> TaskCompletionResult:
        """Return the verdict that decides; if no checker passed, the reasons of all."""
        reasons: list[str] = []
        for checker in self.checkers:
            ask = Consult(partial(checker.check, context), CHECK_SECONDS)
            result: TaskCompletionResult = await ask.aperform()
            if result.complete is not self.all_must_pass:
                return result
            reasons.append(result.feedback or "")
        if self.all_must_pass or not reasons:
            return TaskCompletionResult.ok(" ".join(filter(None, reasons)) or None)
        return TaskCompletionResult.incomplete(" ".join(reasons))


def _several(given: Sequence[str], checker: str) -> None:
    if isinstance(given, str):  # each letter would count
        raise DefinitionError(f"{checker} takes a list; write [{given!r}].")


def _unless(fault: str, missing: Sequence[str], most: int = MAX_NAMED) -> TaskCompletionResult:
    if not missing:
        return TaskCompletionResult.ok()
    more = f", and {len(missing) - most} more" if len(missing) > most else ""
    return TaskCompletionResult.incomplete(f"{fault}: {', '.join(missing[:most])}{more}.")
