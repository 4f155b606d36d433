"""While calls are replayed, time passes as it did when they were recorded."""

from __future__ import annotations

from datetime import timedelta

from toolstile_hookspecs.support.text import wire_time
from toolstile_plugins.record import Recording
from toolstile_plugins.record.replayer import RecordedClock


def test_a_call_begins_and_ends_when_it_did(desk, path):
    desk.record(path, ("add", {"a": 1}), ("echo", {"text": "x"}))
    first, second = Recording.load(path).calls
    clock = RecordedClock(first)
    assert clock.monotonic() == 0
    assert clock.now() == first.at
    assert clock.monotonic() == clock.monotonic() == first.seconds

    clock.show(second)
    began = clock.monotonic()
    assert began == (second.at - first.at) / timedelta(seconds=1)
    taken = clock.monotonic() - began
    assert wire_time(clock.now(), taken) == second.envelope["fetchedAt"]


def test_no_time_is_taken_back_where_the_systems_clock_was(desk, path):
    desk.record(path, *[("add", {"a": 1})] * 3)
    calls = Recording.load(path).calls
    times = [timedelta(0), timedelta(minutes=-60), timedelta(minutes=-58)]
    first, *later = (
        call.model_copy(update={"at": calls[0].at + time, "seconds": 5.0})
        for call, time in zip(calls, times, strict=True)
    )
    clock = RecordedClock(first)
    clock.show(later[0])
    assert (clock.now(), clock.monotonic()) == (later[0].at, 5.0)
    clock.show(later[1])
    assert clock.monotonic() == 125.0
