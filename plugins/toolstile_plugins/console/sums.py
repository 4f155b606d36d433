"""Sums over the lines of records, by half an hour, so that no chart reads calls again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from toolstile_hookspecs import Status, Verdict

SPAN: Final = 1800
"""The seconds of each sum."""
OUTCOME: Final = "Calls by outcome"
STAGE: Final = "Time by stage, without people"
WAIT: Final = "Waits for people, on average"
REFUSAL: Final = "Refusals by rule"
ANSWERED: Final = "until the answer"
WENT_ON: Final = "after the answer"
PERSON: Final = "a person"
_CHECKS: Final = {"lookup", "parse", "deadline", "check", "reserve", "snapshot"}
_STAGES: Final = {**dict.fromkeys(_CHECKS, "checks"), "execute": "handler", "approve": PERSON}
"""The stages in the groups of a timeline. The time of people has its own sums."""


class Sum(NamedTuple):
    """A number of calls, and the seconds of all of them."""

    at: int  # the beginning of the half hour, in seconds since 1970
    kind: str
    name: str
    number: int
    seconds: float


Waited = Callable[[str, str, str], tuple[str, str, str | None] | None]
"""Finds the line of a call before a time: its status, its end, and the time of the answer."""


def sums_of(calls: Iterable[Any], waited: Waited) -> list[Sum]:
    """Return the sums of the lines of calls."""
    found: dict[tuple[int, str, str], tuple[int, float]] = {}
    for said in calls:
        began = datetime.fromisoformat(said["at"]).astimezone(UTC)
        ended = began + timedelta(seconds=said["seconds"])
        at = int(ended.timestamp()) // SPAN * SPAN
        # `toolstile record verify` names the damaged lines.
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            for kind, name, seconds in [*_shares(said, began, waited)]:
                number, before = found.get((at, kind, name), (0, 0.0))
                found[at, kind, name] = number + 1, before + seconds
    return [Sum(*key, *value) for key, value in found.items()]


def _shares(
    said: dict[str, Any], began: datetime, waited: Waited
) -> Iterator[tuple[str, str, float]]:
    seconds, status, approval = said["seconds"], said["status"], said.get("approval")
    yield OUTCOME, status, seconds
    stages: list[tuple[str, float]] = said.get("stages", [])
    spent = dict[str, float]()
    for (stage, start), end in zip(stages, [*(at for _, at in stages[1:]), seconds], strict=False):
        group = _STAGES.get(stage, "keeping")
        spent[group] = spent.get(group, 0.0) + max(0.0, end - start)
    answer, rest = spent.pop(PERSON, 0.0), 0.0
    yield from ((STAGE, name, share) for name, share in spent.items())
    if approval and status != Status.PENDING:
        before = waited(said["session"], said["id"], began.isoformat())
        if before is not None and before[0] == Status.PENDING:
            asked, answered = (datetime.fromisoformat(each or said["at"]) for each in before[1:])
            answer = max(0.0, (answered - asked).total_seconds())
            rest = max(0.0, (began - answered).total_seconds())
        yield WAIT, ANSWERED, answer
        yield WAIT, WENT_ON, rest
    if status == Status.DENIED:
        decisions: list[dict[str, str]] = said.get("decisions", [])
        rules = [each.get("policy") for each in decisions if each["verdict"] == Verdict.DENY]
        yield REFUSAL, (rules[-1] if rules else PERSON if approval else None) or "other", 0.0
