"""Backtests: recorded calls are made again under the policies as they are configured now.

Results come from the record, and no handler runs. A question that nobody was asked then is
approved, so that the calls behind it go on as they did.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs import HostHandle
from toolstile_plugins.record.reader import Recording
from toolstile_plugins.record.replay_run import Comparison, replayed
from toolstile_plugins.record.replayer import Replayer
from toolstile_plugins.rules.explanation import judged

NO_POLICY: Final = "(none)"
"""The name where a call is not judged by any policy."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the verdict on calls of one tool.

    Args:
        tool: The name of the tool.
        policy: The policy that decides so now, or that no longer decides as it did.
        was: The verdict then.
        now: The verdict now.
        calls: The number of such calls.
        first: The record and the line of the first one.
        reason: The reason of the first one.
    """

    tool: str
    policy: str
    was: str
    now: str
    calls: int
    first: str
    reason: str

    def wire(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Report:
    """The changes that a backtest found.

    Args:
        calls: The number of calls that were made again.
        changes: The changes by tool, policy and verdicts, in the order they were found.
    """

    calls: int = 0
    _found: dict[tuple[str, str, str, str], Change] = field(
        default_factory=dict[tuple[str, str, str, str], Change]
    )

    @property
    def changes(self) -> list[Change]:
        """The changes, those of most calls first."""
        return sorted(self._found.values(), key=lambda change: -change.calls)

    def add(self, path: Path, comparison: Comparison) -> None:
        """Count a call."""
        self.calls += 1
        call = comparison.recorded.call
        was, before = judged(call.status, call.decisions)
        now, after = judged(comparison.status, comparison.decisions)
        if was == now:
            return
        decision = after or before
        policy = NO_POLICY if decision is None else decision.policy or NO_POLICY
        key = call.tool, policy, was, now
        known = self._found.get(key)
        reason = "" if decision is None else decision.reason or ""
        self._found[key] = Change(
            *key,
            calls=1 if known is None else known.calls + 1,
            first=f"{path}:{comparison.recorded.line}" if known is None else known.first,
            reason=reason if known is None else known.reason,
        )


def backtest(host: HostHandle, paths: Iterable[Path]) -> Report:
    """Return what the policies of a host decide otherwise than the recorded ones did.

    Args:
        host: The open host, with the policies to try and the tools of the records.
        paths: The records.

    Raises:
        RecordError: One cannot be read, or is not a record.
    """
    report = Report()
    for path in paths:
        recording = Recording.load(path)
        replayer = Replayer(recording, approves=True)
        for comparison in replayed(host, recording, replayer):
            report.add(path, comparison)
    return report
