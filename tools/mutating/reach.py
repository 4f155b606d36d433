"""The tests that reach a function, with their times."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Reach:
    """The results of the tests when nothing is changed."""

    tests: dict[str, list[str]] = field(default_factory=dict)
    """By function, the tests that reach it, the quickest first."""
    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    """A test that fails all the same says nothing of a mutant and is left out."""

    def add_phase(self, test: str, seconds: float, *, failed: bool) -> None:
        """Add what a test's set-up, the test itself or its end took, and whether it failed."""
        self.seconds[test] = self.seconds.get(test, 0.0) + seconds
        if failed and test not in self.failed:
            self.failed.append(test)

    def of(self, mutant: str) -> list[str]:
        """The tests that reach the function that this mutant is of."""
        return self.tests.get(mutant.partition("__mutmut_")[0], [])

    def control(self) -> str:
        """A mutant that does not exist, of the function that most tests reach: it must live."""
        return max(sorted(self.tests), key=lambda each: len(self.tests[each])) + "__mutmut_0"

    def save(self, file: Path) -> None:
        """Keep it for the processes that run the mutants."""
        file.write_text(json.dumps(asdict(self), indent=1), "utf-8")

    @classmethod
    def load(cls, file: Path) -> Reach:
        """Return what was kept."""
        return cls(**json.loads(file.read_text("utf-8")))
