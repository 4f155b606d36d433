"""The line of a call says when it entered its stages, and which trace it belongs to."""

from __future__ import annotations

from itertools import pairwise

from opentelemetry.sdk.trace import TracerProvider

from toolstile.testing import FakeClock
from toolstile_hookspecs import ToolCall, hookimpl
from toolstile_plugins.record import Recording
from toolstile_plugins.record.commands import show_call
from toolstile_plugins.screen import Screen

PASSED = ["lookup", "parse", "deadline", "check", "reserve", "execute", "render", "validate"]


class Slow:
    """Lets time pass in the checks."""

    def __init__(self, clock):
        self.clock = clock

    @hookimpl
    def toolstile_check(self):
        self.clock.advance(2.5)


def test_the_stages_are_recorded_in_their_order_with_the_seconds_since_the_call_began(desk, path):
    with desk.recording(path) as tools:
        desk.call(tools, "add", a=1)
    [line] = desk.lines_of(path)
    assert [stage for stage, _ in line["stages"]][: len(PASSED)] == PASSED
    times = [at for _, at in line["stages"]]
    assert all(early <= late for early, late in pairwise(times))
    assert 0 <= times[0] <= times[-1] <= line["seconds"]


def test_each_stage_takes_until_the_next_one_and_the_last_until_the_end(desk, path):
    clock = FakeClock()
    with desk.recording(path, plugins=[Slow(clock)], clock=clock) as tools:
        desk.call(tools, "add", a=1)
    [entry] = Recording.load(path).calls
    taken = dict(entry.stage_seconds)
    assert taken["check"] == 2.5
    assert sum(taken.values()) == entry.seconds == 2.5


def test_a_call_that_ended_early_has_the_stages_that_it_reached(desk, path):
    with desk.recording(path) as tools:
        tools.dispatch(ToolCall("nonesuch"))
        desk.call(tools, "add", a="1")
    unknown, invalid = desk.lines_of(path)
    assert [stage for stage, _ in unknown["stages"]] == ["lookup"]
    assert [stage for stage, _ in invalid["stages"]] == ["lookup", "parse"]


def test_a_nested_call_has_stages_of_its_own(desk, path):
    with desk.recording(path) as tools:
        desk.call(tools, "twice", text="a")
    for line in desk.lines_of(path):
        assert [stage for stage, _ in line["stages"]].count("execute") == 1


def test_the_trace_is_the_one_that_is_current_whoever_began_it(desk, path):
    tracer = TracerProvider().get_tracer("app")
    with desk.recording(path) as tools:
        with tracer.start_as_current_span("request") as span:
            desk.call(tools, "twice", text="a")
        desk.call(tools, "add", a=2)
    *within, after = desk.lines_of(path)
    expected = f"{span.get_span_context().trace_id:032x}"
    assert [line["trace"] for line in within] == [expected] * 3
    assert "trace" not in after


def test_a_person_is_shown_how_long_each_stage_took(desk, path, capsys):
    clock = FakeClock()
    with desk.recording(path, plugins=[Slow(clock)], clock=clock) as tools:
        desk.call(tools, "add", a=1)
    [entry] = Recording.load(path).calls
    show_call(Screen(), entry)
    assert "check 2.5 s\n" in capsys.readouterr().out
