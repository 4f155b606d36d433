"""A pytest plugin: which functions each test reaches, and how long it takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state


@dataclass
class Reach:
    """What is known of the tests when nothing is changed."""

    tests: dict[str, list[str]] = field(default_factory=dict)
    """By function, the tests that reach it, the quickest first."""
    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    """What fails all the same, says nothing of a mutant and is left out."""

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


class Reaching:
    """Sees which functions run during each test."""

    def __init__(self) -> None:
        self.reach = Reach()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Iterator[None]:
        """Have the functions say that they were called."""
        set_mutant_under_test("stats")
        try:
            return (yield)
        finally:
            set_mutant_under_test("")
            for function, tests in self.reach.tests.items():
                sound = set(tests).difference(self.reach.failed)
                self.reach.tests[function] = sorted(sound, key=self._quickest_first)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Note what one test reached."""
        # A new set, since threads of the last test may still be adding to it.
        state()._stats = set()
        result = yield
        for function in tuple(state()._stats):
            self.reach.tests.setdefault(function, []).append(item.nodeid)
        return result

    def _quickest_first(self, test: str) -> tuple[float, str]:
        return self.reach.seconds[test], test

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how long it took, and whether it failed."""
        known = self.reach.seconds
        known[report.nodeid] = known.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.reach.failed.append(report.nodeid)
