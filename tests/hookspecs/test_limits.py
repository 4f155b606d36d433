"""Deadlines, heartbeats and cancellation."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from toolstile_hookspecs import (
    BudgetTracker,
    Cancellation,
    Deadline,
    DeadlineExceededError,
    DefinitionError,
    Heartbeat,
    SystemClock,
)


class Clock:
    def __init__(self):
        self.time = 100.0

    def now(self):
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.time)

    def monotonic(self):
        return self.time


def test_a_deadline_counts_down_on_its_clock():
    clock = Clock()
    deadline = Deadline.after(10, clock=clock)
    assert deadline.remaining() == 10
    deadline.check()
    clock.time += 10
    assert deadline.elapsed()
    with pytest.raises(DeadlineExceededError, match="has passed"):
        deadline.check()
    clock.time += 5
    assert deadline.remaining() == -5


def test_a_deadline_may_be_a_timedelta_or_a_moment():
    clock = Clock()
    assert Deadline.after(timedelta(minutes=1), clock=clock).remaining() == 60
    moment = clock.now() + timedelta(seconds=5)
    assert Deadline.until(moment, clock=clock).remaining() == pytest.approx(5)


def test_a_moment_needs_a_time_zone():
    with pytest.raises(DefinitionError, match="no time zone; give an aware datetime"):
        Deadline.until(datetime(2026, 1, 1))  # noqa: DTZ001 - what is refused


def test_the_system_clock_is_aware_and_only_grows():
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    assert clock.monotonic() <= clock.monotonic()


def test_a_heartbeat_tells_how_long_ago_it_was():
    clock, beats = Clock(), []
    heart = Heartbeat(lambda: beats.append(1), clock=clock)
    clock.time += 3
    assert heart.elapsed() == 3
    heart.beat()
    assert (heart.elapsed(), beats) == (0, [1])


def test_a_cancellation_tells_each_callback_once():
    stop, heard = Cancellation(), []
    stop.on_cancel(lambda: heard.append("kept"))
    take_back = stop.on_cancel(lambda: heard.append("taken back"))
    take_back()
    take_back()
    stop.cancel()
    stop.cancel()
    assert (stop.aborted, heard) == (True, ["kept"])


def test_a_late_callback_is_told_at_once():
    stop, heard = Cancellation(), []
    stop.cancel()
    stop.on_cancel(lambda: heard.append(1))()
    assert heard == [1]


def test_cancelling_from_many_threads_tells_once():
    stop, heard = Cancellation(), []
    stop.on_cancel(lambda: heard.append(1))
    threads = [threading.Thread(target=stop.cancel) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert heard == [1]


def test_a_budget_can_be_told_by_its_methods():
    class Budget:
        def spend(self, amount, unit="tokens"):
            pass

        def remaining(self, unit="tokens"):
            return None

    assert isinstance(Budget(), BudgetTracker)


def test_a_deadline_that_would_never_come_is_refused():
    with pytest.raises(DefinitionError, match="Deadline nan would never come"):
        Deadline.after(float("nan"))
    with pytest.raises(DefinitionError, match="Deadline '5' would never come"):
        Deadline("5")
    for seconds in ("5", [5]):
        with pytest.raises(DefinitionError, match=r"would never come; give a number, or none\."):
            Deadline.after(seconds)
    assert Deadline.after(float("-inf")).elapsed()
    assert not Deadline.after(float("inf")).elapsed()
