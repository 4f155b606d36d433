"""The conformance suites of a dispatcher and of its start marks, to subclass.

They kill, stop and continue processes.
"""

# ruff: noqa: S311 - random instants are no secrets

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from toolstile_hookspecs.services.dispatcher import (
    DispatchedCall,
    Dispatcher,
    DispatchOutcome,
    DispatchState,
    StartMark,
    StartMarks,
    run_once,
    withdraw,
)
from toolstile_hookspecs.testing.dispatch_processes import (
    PATIENCE,
    PAUSE,
    STANDSTILL,
    Kills,
    Make,
    Processes,
)
from toolstile_hookspecs.testing.suite import Contract

FEW = 40
PER_WAVE = 16
"""Calls that are submitted at once."""
_logger = logging.getLogger(__name__)


def soon(seconds: float) -> datetime:
    """Return the moment in so many seconds."""
    return datetime.now(UTC) + timedelta(seconds=seconds)


class DispatcherContract(Contract, dispatcher=Dispatcher, make=()):
    """Tests of a dispatcher; the fixture `make` of a subclass returns a function that makes one.

    The function takes no arguments and can be pickled, because each process of a test makes a
    dispatcher with it, over the same calls. Let workers count as dead after about a second.

    Example:
        >>> import pytest
        >>> from functools import partial
        >>> class TestMine(DispatcherContract):
        ...     @pytest.fixture
        ...     def make(self, tmp_path):
        ...         return partial(MyDispatcher, tmp_path / "calls.db")
    """

    @pytest.fixture
    def make(self) -> Make:
        """Return a function that makes a dispatcher."""
        self._must_give("make", "gives a function that makes a dispatcher")

    @pytest.fixture
    def number_of_calls(self) -> int:
        """Return the number of calls while workers are killed; more calls show more."""
        return FEW

    @pytest.fixture
    def dispatcher(self, make: Make) -> Generator[Dispatcher]:
        """Return the dispatcher of this process."""
        with closing(make()) as dispatcher:
            yield dispatcher

    @pytest.fixture
    def processes(self, make: Make, tmp_path: Path) -> Generator[Processes]:
        """Return the workers and hosts of the test."""
        processes = Processes(make, tmp_path)
        try:
            yield processes
        finally:
            processes.close()

    # --- outcomes ---

    def test_each_caller_gets_its_outcome(
        self, dispatcher: Dispatcher, processes: Processes
    ) -> None:
        """A key that comes again is answered, and does not run again."""
        processes.worker()
        calls = [processes.call(f"k{number}") for number in range(5)]
        failing = processes.call("f", fault="No such order.")
        *told, failed = submitted(dispatcher, *calls, calls[0], failing)
        assert [outcome.value for outcome in told] == [f'"k{n}"' for n in (0, 1, 2, 3, 4, 0)]
        assert {(outcome.state, outcome.text) for outcome in told} == {
            (DispatchState.RESULT, "Noted.")
        }
        assert failed == DispatchOutcome(
            DispatchState.FAILURE, "No such order.", error="ValueError"
        )
        assert submitted(dispatcher, failing, calls[3]) == [failed, told[3]]
        assert sorted(processes.noted()) == ["f", "k0", "k1", "k2", "k3", "k4"]
        assert dispatcher.withdraw("k3") == dispatcher.cancel("k3") == told[3]
        assert [dispatcher.find(key) for key in ("k3", "f", "other")] == [told[3], failed, None]

    def test_calls_of_a_higher_priority_begin_first(
        self, dispatcher: Dispatcher, processes: Processes
    ) -> None:
        """Of one priority the first that was submitted does."""
        processes.worker(1)

        async def run() -> None:
            first = asyncio.ensure_future(dispatcher.submit(processes.call("first", held=True)))
            await asyncio.to_thread(processes.await_note, "first")
            later = [
                asyncio.ensure_future(dispatcher.submit(processes.call(key, priority=priority)))
                for key, priority in (("a", 0), ("b", 1), ("c", -1))
            ]
            await asyncio.sleep(0.1)
            processes.let_go()
            await asyncio.gather(first, *later)

        asyncio.run(run())
        assert processes.noted() == ["first", "b", "a", "c"]

    def test_other_versions_are_refused(self, dispatcher: Dispatcher, processes: Processes) -> None:
        processes.worker()
        submitted(dispatcher, processes.call("k"))
        (told,) = submitted(dispatcher, processes.call("new", version="2.0.0"))
        assert told.state is DispatchState.NOT_RUN
        assert "2.0.0" in told.text
        assert "1.0.0" in told.text
        assert processes.noted() == ["k"]

    def test_without_a_worker_it_does_not_run(
        self, dispatcher: Dispatcher, processes: Processes
    ) -> None:
        late = processes.call("late", begin_by=soon(0.2))
        (told,) = submitted(dispatcher, late)
        assert told.state is DispatchState.NOT_RUN
        assert told.text
        processes.worker()
        assert submitted(dispatcher, processes.call("next"), late)[1] == told
        assert processes.noted() == ["next"]

    # --- withdrawn, cancelled, late ---

    def test_what_is_withdrawn_never_begins(
        self, dispatcher: Dispatcher, processes: Processes
    ) -> None:
        """Neither a waiting call nor a later one; the callers get `not_run`."""

        async def run() -> DispatchOutcome:
            waiting = asyncio.ensure_future(dispatcher.submit(processes.call("waiting")))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            withdrawn = await asyncio.to_thread(dispatcher.withdraw, "waiting")
            assert withdrawn == await waiting
            return await waiting

        assert asyncio.run(run()).state is DispatchState.NOT_RUN
        withdrawn = dispatcher.cancel("later")
        assert withdrawn is not None
        assert withdrawn.state is DispatchState.NOT_RUN
        processes.worker()
        told = submitted(
            dispatcher, *(processes.call(key) for key in ("later", "waiting", "other"))
        )
        assert [outcome.state.value for outcome in told] == ["not_run", "not_run", "result"]
        assert processes.noted() == ["other"]

    def test_what_runs_is_not_withdrawn(self, dispatcher: Dispatcher, processes: Processes) -> None:
        processes.worker()

        def look() -> None:
            processes.await_note("k")
            assert dispatcher.withdraw("k") is dispatcher.find("k") is None
            age = dispatcher.heartbeat("k")
            assert age is not None
            assert age >= 0
            processes.let_go()

        assert while_running(dispatcher, processes.call("k", held=True), look).value == '"k"'
        assert dispatcher.heartbeat("k") is None

    def test_what_is_cancelled_ends(self, dispatcher: Dispatcher, processes: Processes) -> None:
        processes.worker()

        def cancel() -> None:
            processes.await_note("k")
            dispatcher.cancel("k")

        told = while_running(dispatcher, processes.call("k", held=True), cancel)
        assert told.state is DispatchState.UNKNOWN
        assert told.text

    def test_what_takes_too_long_ends(self, dispatcher: Dispatcher, processes: Processes) -> None:
        processes.worker(1)
        late = processes.call("k", held=True, deadline=soon(0.5))
        told, other = submitted(dispatcher, late, processes.call("other"))
        assert (told.state, other.state) == (DispatchState.UNKNOWN, DispatchState.RESULT)

    # --- deaths ---

    @pytest.mark.parametrize("repeatable", [False, True])
    def test_the_call_of_a_killed_worker_is_taken_over(
        self, dispatcher: Dispatcher, processes: Processes, *, repeatable: bool
    ) -> None:
        first = processes.worker()

        def kill() -> None:
            processes.await_note("k")
            first.kill()
            processes.let_go()
            processes.worker()

        call = processes.call("k", held=True, repeatable=repeatable)
        told = while_running(dispatcher, call, kill)
        assert told.state is (DispatchState.RESULT if repeatable else DispatchState.UNKNOWN)
        assert processes.noted() == (["k", "k"] if repeatable else ["k"])
        assert submitted(dispatcher, call)[0].state is told.state
        found = dispatcher.find("k")
        assert found is not None
        assert found.state is told.state

    @pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no process can be stopped here")
    def test_a_worker_that_stands_still_is_heard_when_it_goes_on(
        self, dispatcher: Dispatcher, processes: Processes
    ) -> None:
        """Its call is unknown meanwhile, and runs nowhere else."""
        first = processes.worker()

        def stop() -> None:
            processes.await_note("k")
            processes.worker()
            os.kill(first.pid, signal.SIGSTOP)

        told = while_running(dispatcher, processes.call("k", held=True), stop)
        assert told.state is DispatchState.UNKNOWN
        processes.let_go()
        os.kill(first.pid, signal.SIGCONT)
        until = time.monotonic() + PATIENCE
        while (late := dispatcher.withdraw("k")) is None or late.state is DispatchState.UNKNOWN:
            assert time.monotonic() < until, "the late result is not recorded"
            time.sleep(PAUSE)
        assert late.value == '"k"'
        assert [one.state.value for one in submitted(dispatcher, processes.call("n"))] == ["result"]
        assert processes.noted() == ["k", "n"]

    def test_the_call_of_a_killed_host_goes_on(
        self, dispatcher: Dispatcher, processes: Processes
    ) -> None:
        """Another host that submits the key joins it; a waiting call can be withdrawn."""
        processes.worker(1)
        call, next_ = processes.call("k", held=True), processes.call("next")
        host = processes.host(call, next_)
        processes.await_note("k")
        host.kill()
        withdrawn = dispatcher.withdraw("next")
        assert withdrawn is not None
        assert withdrawn.state is DispatchState.NOT_RUN
        processes.let_go()
        (told,) = submitted(dispatcher, call)
        assert told.value == '"k"'
        assert processes.noted() == ["k"]

    def test_a_worker_that_is_asked_to_stop_ends_its_calls(
        self, dispatcher: Dispatcher, processes: Processes
    ) -> None:
        worker = processes.worker(1)
        calls = [processes.call("k", held=True), processes.call("left", begin_by=soon(1))]

        async def run() -> list[DispatchOutcome]:
            first = asyncio.ensure_future(dispatcher.submit(calls[0]))
            await asyncio.to_thread(processes.await_note, "k")
            second = asyncio.ensure_future(dispatcher.submit(calls[1]))
            worker.terminate()
            await asyncio.sleep(0.2)
            processes.let_go()
            return [await first, await second]

        told = asyncio.run(run())
        assert [outcome.state.value for outcome in told] == ["result", "not_run"]
        worker.join(PATIENCE)
        assert worker.exitcode == 0

    @pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no process can be stopped here")
    @pytest.mark.parametrize("repeatable", [False, True])
    def test_a_worker_that_stood_still_may_take_over_its_own_call(
        self, dispatcher: Dispatcher, processes: Processes, *, repeatable: bool
    ) -> None:
        """There is no other worker, so the same process takes it over."""
        worker = processes.worker(8)
        call = processes.call("k", held=True, repeatable=repeatable)

        def stop() -> None:
            processes.await_note("k")
            os.kill(worker.pid, signal.SIGSTOP)
            time.sleep(STANDSTILL)
            os.kill(worker.pid, signal.SIGCONT)
            submitted(dispatcher, processes.call("next"))
            processes.let_go()

        told = while_running(dispatcher, call, stop)
        if repeatable:
            assert told.state is DispatchState.RESULT
        else:
            assert told.state in {DispatchState.RESULT, DispatchState.UNKNOWN}
            assert sorted(processes.noted()) == ["k", "next"]

    def test_nothing_is_doubled_or_lost(
        self, dispatcher: Dispatcher, processes: Processes, number_of_calls: int
    ) -> None:
        """Every fourth call runs until its worker is killed; others stand still, a host dies."""
        calls = [
            processes.call(f"k{at}", held=at % 4 == 0, seconds=random.uniform(0, 0.1))
            for at in range(number_of_calls)
        ]
        kills = Kills(processes)
        host = processes.host(*calls[:PER_WAVE:2])

        async def run() -> dict[str, DispatchOutcome]:
            told: dict[str, asyncio.Future[DispatchOutcome]] = {}
            held: list[str] = []
            while len(told) < number_of_calls or held:
                wave = calls[len(told) : len(told) + PER_WAVE]
                for call in wave:
                    told[call.key] = asyncio.ensure_future(dispatcher.submit(call))
                # Wait for the wave before, so that shorter calls begin and end meanwhile.
                await asyncio.to_thread(kills.until_met, held, lambda key: told[key].done())
                if held:
                    host.kill()
                held = [call.key for call in wave[::4]]
            async with asyncio.timeout(2 * PATIENCE):
                await asyncio.gather(*told.values())
            return {key: future.result() for key, future in told.items()}

        told = {key: outcome.state for key, outcome in asyncio.run(run()).items()}
        ran = Counter(processes.noted())
        assert {key: runs for key, runs in ran.items() if runs > 1} == {}
        known, unknown = (
            {key for key, state in told.items() if state is wanted}
            for wanted in (DispatchState.RESULT, DispatchState.UNKNOWN)
        )
        assert known | unknown == told.keys()
        assert known <= ran.keys()
        assert kills.met <= unknown
        assert len(unknown) * 4 >= number_of_calls
        _logger.info(
            "%s kills met %s running calls of %s; %s are unknown.",
            *(kills.number, len(kills.met), number_of_calls, len(unknown)),
        )


def submitted(dispatcher: Dispatcher, *calls: DispatchedCall) -> list[DispatchOutcome]:
    """Submit calls at once, and return their outcomes in order."""

    async def run() -> list[DispatchOutcome]:
        async with asyncio.timeout(20 * PATIENCE):
            return list(await asyncio.gather(*map(dispatcher.submit, calls)))

    return asyncio.run(run())


def while_running(
    dispatcher: Dispatcher, call: DispatchedCall, meanwhile: Callable[[], object]
) -> DispatchOutcome:
    """Submit a call, and do something on a thread until it has ended."""

    async def run() -> DispatchOutcome:
        waiting: Awaitable[DispatchOutcome] = asyncio.ensure_future(dispatcher.submit(call))
        await asyncio.to_thread(meanwhile)
        async with asyncio.timeout(PATIENCE):
            return await waiting

    return asyncio.run(run())


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


class StartMarksContract(Contract, marks=StartMarks, others=StartMarks):
    """Tests of marks; the fixture `marks` of a subclass returns an empty store of marks.

    `others` returns the same marks, as another process would open them, or the same object if
    there can be no second one.

    Example:
        >>> import pytest
        >>> class TestMine(StartMarksContract):
        ...     @pytest.fixture
        ...     def marks(self, tmp_path):
        ...         return MyMarks(tmp_path)
    """

    @pytest.fixture
    def marks(self) -> StartMarks:
        """Return empty marks."""
        self._must_give("marks", "gives empty marks")

    @pytest.fixture
    def others(self, marks: StartMarks) -> StartMarks:
        """Return the same marks, opened again."""
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
