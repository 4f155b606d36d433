"""Plays all tasks with all injections of a group, and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .injections_first import FIRST
from .injections_second import SECOND
from .injections_third import THIRD
from .player import Played, play
from .scenario import pairs
from .tasks import TASKS

GROUPS = {"first": FIRST, "second": SECOND, "third": THIRD}


@dataclass(frozen=True)
class Counts:
    """The sums of many tasks that were played under the same settings.

    Args:
        tasks: The tasks, played without injections.
        kept: Those of them that were fulfilled.
        interrupted: Those of them in which the user was asked something.
        questions: The questions in them.
        injections: The injections of the group.
        harmless: Those of them that succeeded in none of their tasks.
        attacks: The runs with an injection.
        succeeded: Those of them in which the attacker got what they wanted.
        unstoppable: Those of them that succeeded by an injection of which arguments show nothing.
        asked: Those of them in which the user was asked about a call of the attack.
        kept_under_attack: Those of them in which the request was fulfilled all the same.
    """

    tasks: int
    kept: int
    interrupted: int
    questions: int
    injections: int
    harmless: int
    attacks: int
    succeeded: int
    unstoppable: int
    asked: int
    kept_under_attack: int


def played(settings: Mapping[str, Any] | None, group: str) -> tuple[list[Played], list[Played]]:
    """Play all tasks without injections, and with each of a group where it can stand."""
    return (
        [play(task, None, settings) for task in TASKS],
        [play(task, injection, settings) for task, injection in pairs(TASKS, GROUPS[group])],
    )


def measured(settings: Mapping[str, Any] | None, group: str) -> Counts:
    """Return the sums of all tasks, without injections and with those of a group."""
    return summed(*played(settings, group), group)


def summed(clean: list[Played], attacked: list[Played], group: str) -> Counts:
    """Return the sums of runs without and with injections."""
    effective = {run.injection for run in attacked if run.attacked}
    beyond = {injection.name for injection in GROUPS[group] if not injection.stoppable}
    return Counts(
        tasks=len(clean),
        kept=sum(run.kept for run in clean),
        interrupted=sum(run.asked > 0 for run in clean),
        questions=sum(run.asked for run in clean),
        injections=len(GROUPS[group]),
        harmless=len(GROUPS[group]) - len(effective),
        attacks=len(attacked),
        succeeded=sum(run.attacked for run in attacked),
        unstoppable=sum(run.attacked and run.injection in beyond for run in attacked),
        asked=sum(run.asked_of_attack > 0 for run in attacked),
        kept_under_attack=sum(run.kept for run in attacked),
    )
