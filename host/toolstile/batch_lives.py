"""The lives of a batch: the pipelines of its calls, and their ends in call order."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from toolstile.drivers.commands import Step
from toolstile.pipeline.call import ActiveCall
from toolstile.pipeline.stages import life_of
from toolstile_hookspecs import Outcome, ToolstileError


def lives_of(
    runs: list[ActiveCall],
) -> tuple[list[Generator[Step, Any, Outcome]], Callable[[int], None]]:
    """Return the pipelines of a batch, and the function that ends one which never began."""

    def end(index: int) -> None:
        if not runs[index].ended:
            runs[index].end()

    return [life_of(run) for run in runs], end


def in_place(
    runs: list[ActiveCall], ended: list[Outcome | BaseException]
) -> list[Outcome | BaseException]:
    """Return the ends of a batch; an exception that is one's own stands in its place."""
    for run, end in zip(runs, ended, strict=True):
        if isinstance(end, ToolstileError):
            end.call = run.call_made
        elif isinstance(end, BaseException) and not isinstance(end, Exception):
            raise end
    return ended
