"""A pytest plugin: which functions each test reaches, and how long it takes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.state import state

from mutating.reach import Reach


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
        self.reach.add_phase(report.nodeid, report.duration, failed=report.failed)
