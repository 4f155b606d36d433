"""The conformance suite of marks of a start, to subclass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from typing import Any, ClassVar

import pytest

from toolstile_hookspecs.services.dispatcher import DispatchedCall, DispatchOutcome, DispatchState
from toolstile_hookspecs.services.start_marks import StartMark, StartMarks, run_once, withdraw
from toolstile_hookspecs.testing.suite import Contract

PAID = DispatchOutcome(DispatchState.RESULT, "Paid.", '{"at": 1}', excluded=True)
UNKNOWN = DispatchOutcome(DispatchState.UNKNOWN, "It was killed.")
CALL = DispatchedCall("k", "pay", "1.0.0", "{}")


class _Runner:
    def __init__(self, outcome: DispatchOutcome = PAID, before: Callable[[], Any] = bool) -> None:
        self.tools: Mapping[str, str | None] = {"pay": "1.0.0"}
        self.runs = 0
        self._outcome = outcome
        self._before = before

    def run(self, call: DispatchedCall, begin: Callable[[], bool]) -> DispatchOutcome:  # noqa: ARG002 - the protocol's
        self._before()
        if not begin():
            return DispatchOutcome(DispatchState.NOT_RUN)
        self.runs += 1
        return self._outcome

    def end(self, key: str, reason: str) -> None:
        pass


class StartMarksContract(Contract):
    """Tests of marks; a subclass says with `marks` how empty ones are made.

    `others` gives the same marks, as another process would open them; where there can be none, it
    gives the same object.

    Example:
        >>> import pytest
        >>> class TestMine(StartMarksContract):
        ...     @pytest.fixture
        ...     def marks(self, tmp_path):
        ...         return MyMarks(tmp_path)
    """

    _gives: ClassVar[Mapping[str, type[Any] | None]] = {"marks": StartMarks, "others": StartMarks}
    _takes: ClassVar[Mapping[str, Collection[str]]] = {}

    @pytest.fixture
    def marks(self) -> StartMarks:
        """Return empty marks."""
        self._must_give("marks", "gives empty marks")

    @pytest.fixture
    def others(self, marks: StartMarks) -> StartMarks:
        """Return the same marks, opened once more."""
        return marks

    def test_one_attempt_makes_the_mark(self, marks: StartMarks, others: StartMarks) -> None:
        """An attempt that asks again after a lost answer still has it."""
        assert marks.get("k") is None
        assert marks.begin("k", "a") is None
        assert others.begin("k", "b") == StartMark("a")
        assert others.get("k") == StartMark("a")
        assert marks.begin("k", "a") is None
        assert others.begin("K", "b") is None

    def test_a_mark_is_replaced_by_one_attempt(self, marks: StartMarks, others: StartMarks) -> None:
        marks.begin("k", "a")
        assert others.begin("k", "b", over="a") is None
        assert marks.begin("k", "c", over="a") == StartMark("b")
        assert not marks.finish("k", "a", PAID)
        assert others.finish("k", "b", PAID)
        assert marks.get("k") == StartMark("b", PAID)

    def test_a_known_outcome_is_not_replaced(self, marks: StartMarks, others: StartMarks) -> None:
        marks.begin("k", "a")
        assert marks.finish("k", "a", UNKNOWN)
        assert others.begin("k", "b") == StartMark("a", UNKNOWN)
        assert others.begin("k", "b", over="a") is None
        assert marks.get("k") == StartMark("b")
        others.finish("k", "b", PAID)
        assert marks.begin("k", "c", over="b") == StartMark("b", PAID)
        assert not marks.finish("none", "a", PAID)
        assert marks.get("none") is None

    def test_a_withdrawn_call_never_begins(self, marks: StartMarks, others: StartMarks) -> None:
        runner = _Runner(before=lambda: withdraw(others, "k"))
        assert run_once(marks, CALL, runner).state is DispatchState.NOT_RUN
        assert run_once(marks, CALL._replace(repeatable=True), runner).state is (
            DispatchState.NOT_RUN
        )
        assert runner.runs == 0

    @pytest.mark.parametrize("repeatable", [False, True])
    def test_attempts_at_once_run_it_once(
        self, marks: StartMarks, others: StartMarks, *, repeatable: bool
    ) -> None:
        """Also within one process: no attempt has the mark of another."""
        call, together = CALL._replace(repeatable=repeatable), Barrier(6)
        runners = [_Runner(before=together.wait) for _ in range(6)]

        def attempt(number: int) -> DispatchOutcome:
            return run_once((marks, others)[number % 2], call, runners[number])

        with ThreadPoolExecutor(6) as pool:
            outcomes = list(pool.map(attempt, range(6)))
        assert sum(runner.runs for runner in runners) == 1
        assert {outcome.state for outcome in outcomes} <= {
            DispatchState.RESULT,
            DispatchState.UNKNOWN,
        }
        assert run_once(marks, call, runners[0]) == PAID

    def test_a_lost_attempt_is_unknown(self, marks: StartMarks, others: StartMarks) -> None:
        """A repeatable call runs again, and the lost attempt records nothing."""
        marks.begin("k", "lost")
        runner = _Runner()
        told = run_once(others, CALL, runner)
        assert (told.state, runner.runs) == (DispatchState.UNKNOWN, 0)
        assert told.text
        assert run_once(others, CALL._replace(repeatable=True), runner) == PAID
        assert runner.runs == 1
        assert not marks.finish("k", "lost", UNKNOWN)

    def test_an_attempt_that_did_not_begin_says_so(self, marks: StartMarks) -> None:
        class Refusing(_Runner):
            def run(self, call: DispatchedCall, begin: Callable[[], bool]) -> DispatchOutcome:  # noqa: ARG002 - the protocol's
                return DispatchOutcome(DispatchState.NOT_RUN, "Its params do not fit.")

        assert run_once(marks, CALL, Refusing()).text == "Its params do not fit."
        runner = _Runner()
        assert run_once(marks, CALL, runner).state is DispatchState.NOT_RUN
        assert runner.runs == 0

    def test_an_attempt_that_goes_on_late_is_heard(
        self, marks: StartMarks, others: StartMarks
    ) -> None:
        began, go_on = Event(), Event()

        class Slow(_Runner):
            def run(self, call: DispatchedCall, begin: Callable[[], bool]) -> DispatchOutcome:
                outcome = super().run(call, begin)
                began.set()
                go_on.wait()
                return outcome

        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(run_once, marks, CALL, Slow())
            began.wait()
            try:
                assert run_once(others, CALL, _Runner()).state is DispatchState.UNKNOWN
            finally:
                go_on.set()
            assert late.result() == PAID
        assert run_once(others, CALL, _Runner()) == PAID
