"""A pytest plugin: the tests are collected once, and each mutant gets a process forked from that.

The quickest of the tests that reach a mutant go first, since it lives until one fails. Nothing says
that a test ends which waits for what the mutant does not do, so each has a limit.
"""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from mutating.reach import Reach
from mutating.verdicts import Verdict

_NOTICED = 1

_LIMIT = 45
"""The seconds of a test, beside ten times its usual ones: a busy machine is not a mutant."""


@dataclass(eq=False)
class Forking:
    """Runs, instead of all tests, those of each mutant until one fails."""

    names: list[str]
    reach: Reach
    become: Callable[[str], object]
    """Has the process go on as a mutant."""
    tell: Callable[[Verdict], None]
    patience: float
    """The most seconds of one mutant's tests; the slowest are left out."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Take one mutant after the other."""
        items = {each.nodeid: each for each in session.items}
        # Else every process would get copies of all that a collection looks at.
        gc.freeze()
        for name in self.names:
            tests = [items[each] for each in self._chosen(name) if each in items]
            self.tell(self._verdict(session, name, tests))
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self) -> tuple[str, str, str]:
        """Say nothing of single tests: a mutant's are meant to fail."""
        return "", "", ""

    def _chosen(self, name: str) -> Iterator[str]:
        left = self.patience
        for test in self.reach.of(name):
            left -= self.reach.seconds[test]
            if left < 0:
                return
            yield test

    def _verdict(self, session: pytest.Session, name: str, tests: list[pytest.Item]) -> Verdict:
        if not tests:
            return Verdict(name, "unreached")
        with tempfile.TemporaryFile() as told:
            child = os.fork()
            if child == 0:
                self._live(session, name, tests, told.fileno())
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            test = told.read().decode()
        if status == 0:
            return Verdict(name, "lived")
        outcome = {_NOTICED: "failed", -signal.SIGALRM: "hung"}.get(status, "died")
        return Verdict(name, outcome, test)

    def _live(
        self, session: pytest.Session, name: str, tests: list[pytest.Item], told: int
    ) -> None:
        """Be the mutant, in a process of its own, for good."""
        status = 2
        try:
            self.become(name)
            for test, following in zip(tests, [*tests[1:], None], strict=True):
                os.ftruncate(told, 0)
                os.pwrite(told, test.nodeid.encode(), 0)
                # What has no handler ends the process, whatever it is waiting for.
                signal.setitimer(signal.ITIMER_REAL, _LIMIT + 10 * self.reach.seconds[test.nodeid])
                test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
                if session.testsfailed:
                    os._exit(_NOTICED)
            status = 0
        finally:
            os._exit(status)
