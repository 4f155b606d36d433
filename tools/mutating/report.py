"""The score, and what lived."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mutating.verdicts import Verdict

WANTED = 0.85
"""The part of all mutants that tests must notice."""

_SAME = Path(__file__).with_name("same.toml")


@dataclass
class Report:
    """The verdicts on the mutants that were drawn."""

    verdicts: list[Verdict]
    changed: Callable[[str], tuple[str, str]]
    """Gives, by a mutant's name, the lines that were there, and those that are there instead."""

    @property
    def score(self) -> float:
        """The part that was noticed; mutants that change nothing count as not noticed."""
        return sum(each.is_noticed for each in self.verdicts) / len(self.verdicts)

    @property
    def is_enough(self) -> bool:
        """True where the tests noticed what they must."""
        return self.score >= WANTED

    def __str__(self) -> str:
        return "\n".join([*self._living(), "", *self._table()])

    def _table(self) -> list[str]:
        drawn = Counter(each.package for each in self.verdicts)
        noticed = Counter(each.package for each in self.verdicts if each.is_noticed)
        return [
            "| package | mutants | noticed | score |",
            "| --- | ---: | ---: | ---: |",
            *(_row(f"`{each}`", noticed[each], drawn[each]) for each in sorted(drawn)),
            _row("all", noticed.total(), drawn.total()),
        ]

    def _living(self) -> list[str]:
        reasons = {
            (each["from"], each["to"]): each["why"]
            for each in tomllib.loads(_SAME.read_text("utf-8"))["mutant"]
        }
        lines: list[str] = []
        for each in sorted(self.verdicts, key=lambda each: each.name):
            if not each.is_noticed:
                was, became = self.changed(each.name)
                why = reasons.get((was, became))
                lines.append(f"{each.name} {each.outcome}" + (f": {why}" if why else ""))
                lines += [*_signed("-", was), *_signed("+", became)]
        return lines


def _row(name: str, noticed: int, drawn: int) -> str:
    return f"| {name} | {drawn} | {noticed} | {noticed / drawn:.0%} |"


def _signed(sign: str, text: str) -> list[str]:
    return [f"    {sign} {line}" for line in text.splitlines()]
