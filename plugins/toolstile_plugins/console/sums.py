"""Sums over the lines of records, by half an hour, so that no chart reads calls again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from toolstile_hookspecs import Stage, Status, Verdict

SPAN: Final = 1800
"""The seconds of each sum."""
OUTCOME: Final = "outcome"
STAGE: Final = "stage"
WAIT: Final = "wait"
REFUSAL: Final = "refusal"
ANSWERED: Final = "until the answer"
WENT_ON: Final = "after the answer"
PERSON: Final = "a person"
STAGES: Final = {
    **dict.fromkeys(("lookup", "parse", "deadline", "check", "reserve", "snapshot"), "checks"),
    Stage.EXECUTE.value: "handler",
    **dict.fromkeys(
        ("render", "validate", "on_result", "prepare", "commit", "telemetry"), "keeping"
    ),
}
"""The stages in the groups of a timeline. The time of people has its own sums."""


class Sum(NamedTuple):
    """A number of calls, and the seconds of all of them."""

    at: int  # the beginning of the half hour, in seconds since 1970
    kind: str
    name: str
    number: int
    seconds: float


class Waited(NamedTuple):
    """The end of the line of a call that waited, and the time of a person's answer, if known."""

    since: datetime
    answered: datetime | None


def sums_of(
    lines: Iterable[tuple[int, Any]], waited: Callable[[str, str, str], Waited | None]
) -> list[Sum]:
    """Return the sums of read lines; `waited` finds a wait before a session, a call and a time."""
    found: dict[tuple[int, str, str], list[float]] = {}
    for _, said in lines:
        # `toolstile record verify` names the damaged lines.
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            if said["kind"] != "call":
                continue
            began, seconds = datetime.fromisoformat(said["at"]), said["seconds"]
            at = int((began + timedelta(seconds=seconds)).timestamp()) // SPAN * SPAN
            for kind, name, spent in _shares(said, began, waited):
                each = found.setdefault((at, kind, name), [0, 0.0])
                each[0] += 1
                each[1] += spent
    return [Sum(*key, int(number), seconds) for key, (number, seconds) in found.items()]


def _shares(
    said: dict[str, Any], began: datetime, waited: Callable[[str, str, str], Waited | None]
) -> list[tuple[str, str, float]]:
    seconds, status = said["seconds"], said["status"]
    shares = [(OUTCOME, status, seconds)]
    stages: list[tuple[str, float]] = said.get("stages", [])
    ends: list[float] = [*(start for _, start in stages[1:]), seconds]
    spent: dict[str, float] = {}
    for (stage, start), end in zip(stages, ends, strict=False):
        group = STAGES.get(stage, PERSON)
        spent[group] = spent.get(group, 0.0) + max(0.0, end - start)
    asked = spent.pop(PERSON, 0.0)
    shares += [(STAGE, name, share) for name, share in spent.items()]
    approval = said.get("approval")
    if approval and status != Status.PENDING:
        answer, rest = asked, 0.0
        if (wait := waited(said["session"], said["id"], said["at"])) is not None:
            answered = wait.answered or began
            answer = max(0.0, (answered - wait.since).total_seconds())
            rest = max(0.0, (began - answered).total_seconds())
        shares += [(WAIT, ANSWERED, answer), (WAIT, WENT_ON, rest)]
    if status == Status.DENIED:
        decisions: list[dict[str, str]] = said.get("decisions", [])
        rules = [each.get("policy") for each in decisions if each["verdict"] == Verdict.DENY]
        rule = rules[-1] if rules else PERSON if approval else None
        shares.append((REFUSAL, rule or "other", 0.0))
    return shares
