"""Comparison of calls with their recording."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from toolstile_hookspecs import Status
from toolstile_plugins.record.matching import key_of
from toolstile_plugins.record.reader import Numbered

_OF_THE_TIME: Final = frozenset({"fetchedAt", "replayed"})
"""Says when and how it was answered, not what came out."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A recorded call beside what it came to now.

    Args:
        recorded: The call.
        now: The envelope that came out now, None where the call was not made.
        status: What became of it now.
        skipped: Why it was not made.
        passes: Whether it was denied then and nothing denies it now. It is answered with what was
            said then, since a policy that looks at files does not find them in a replay.
    """

    recorded: Numbered
    now: Mapping[str, Any] | None = None
    status: Status | None = None
    skipped: str | None = None
    passes: bool = False
    differs: bool = field(init=False)

    def __post_init__(self) -> None:
        """Compare."""
        before = _outcome(self.recorded.call.envelope)
        # As JSON: Python takes true for 1.
        differs = self.now is not None and key_of(_outcome(self.now)) != key_of(before)
        object.__setattr__(self, "differs", differs)

    def wire(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        wire: dict[str, Any] = {
            "line": self.recorded.line,
            "id": self.recorded.call.id,
            "tool": self.recorded.call.tool,
            "same": not self.differs and self.now is not None,
            "recorded": self.recorded.call.envelope,
        }
        if self.skipped is not None:
            return {**wire, "skipped": self.skipped}
        if self.passes:
            wire["passes"] = True
        return {**wire, "now": self.now}

    def diff(self) -> list[str]:
        """Return the lines of a unified diff, from what was recorded to what came out."""
        now = self.now or {}
        lines = difflib.unified_diff(
            _lines(self.recorded.call.envelope), _lines(now), "recorded", "now", lineterm="", n=2
        )
        return list(lines)


def _outcome(envelope: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in envelope.items() if name not in _OF_THE_TIME}


def _lines(envelope: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for name, value in _outcome(envelope).items():
        if name == "tool":
            continue
        text = value
        if not isinstance(value, str):
            text = json.dumps(value, indent=2, ensure_ascii=False)
        lines += f"{name}: {text}".split("\n")
    return lines
