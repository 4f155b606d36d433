"""Stops: which calls they concern, what becomes of these, and how long the stops last."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest

from toolstile import (
    ConfigurationError,
    Host,
    PolicyDecision,
    Principal,
    StateError,
    Status,
    ToolCall,
    ToolContext,
    TransactionFailed,
    hookimpl,
    tool,
)
from toolstile_hookspecs.calls import SettlingCall

REASON = "The prices are wrong."


class Note(str):
    """An item of a slice."""

    __slots__ = ()


@tool
def note(text: str, context: ToolContext) -> str:
    """Note a text."""
    context.session[Note].append(Note(text))
    return "Noted."


@tool(category="read")
def look() -> str:
    """Look."""
    return "Seen."


def call(tools, name="note", **arguments):
    return tools.dispatch(ToolCall(name, arguments))


def notes(tools):
    return [*tools.session[Note].all()]


def in_thread(function, *args):
    """Start a function; return a function that waits for its answer."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(function(*args)))
    thread.start()

    def answer():
        thread.join(30)
        return answers[0]

    return answer


def soon(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


# --- Which calls


def test_a_stopped_call_does_not_begin_and_its_model_reads_the_reason(host_in):
    ran = []

    @tool(category="side_effect")
    def pay() -> str:
        """Pay."""
        ran.append(1)
        return "Paid."

    host = host_in(pay)
    with host.executor() as tools:
        host.stop(REASON)
        outcome = call(tools, "pay")
    assert (outcome.status, ran) == (Status.DENIED, [])
    assert outcome.text == (
        "pay was stopped: The prices are wrong. Nothing of it has run. Do not retry it: tell the "
        "user, or continue without it."
    )
    advice = outcome.event.attributes["toolstile.for_operator"]
    assert re.fullmatch(
        r"Stopped: all calls, by host at [-0-9: ]+ UTC: The prices are wrong\.", advice
    )


def test_a_call_that_an_application_makes_as_the_ledger_does_is_stopped(host_in):
    host = host_in(note)
    with host.executor() as tools:
        host.stop(REASON)
        outcome = tools.dispatch(SettlingCall("note", {"text": "a"}))
    assert outcome.text.startswith("note was stopped: The prices are wrong.")
    assert notes(tools) == []


@pytest.mark.parametrize(
    ("scope", "stopped"),
    [
        ({}, {"note", "look"}),
        ({"tool": "no*"}, {"note"}),
        ({"tool": "pay"}, set()),
        ({"principal": "ann"}, {"note", "look"}),
        ({"principal": "test ann"}, {"note", "look"}),
        ({"principal": "bob"}, set()),
        ({"session": "desk"}, {"note", "look"}),
        ({"session": "other"}, set()),
        ({"server": "shop"}, set()),
    ],
)
def test_a_stop_has_a_scope(host_in, scope, stopped):
    host = host_in(note, look)
    with host.executor(session_id="desk", principal=Principal("test", "ann")) as tools:
        host.stop(REASON, **scope)
        found = {"note": call(tools, text="a"), "look": call(tools, "look")}
        assert {name for name, outcome in found.items() if not outcome.success} == stopped
        host.go()
        assert call(tools, text="a").success


def test_a_stop_of_a_server_concerns_its_tools(host_in):
    host = host_in(replace(look, name="shop_look", origin="shop"), look)
    with host.executor() as tools:
        host.stop(REASON, server="shop")
        assert call(tools, "shop_look").status is Status.DENIED
        assert call(tools, "look").success


def test_the_stop_of_a_tool_concerns_the_calls_around_it(host_in):
    began, go_on = threading.Event(), threading.Event()

    @tool
    def book(context: ToolContext) -> str:
        """Book."""
        context.call("note", {"text": "booked"})
        began.set()
        go_on.wait(10)
        return "Booked."

    host = host_in(book, note, timeout=None)
    with host.executor() as tools:
        answer = in_thread(call, tools, "book")
        began.wait(10)
        # The nested call has joined; only the decision of the call around it is left.
        host.stop(REASON, tool="note")
        go_on.set()
        assert answer().status is Status.CANCELLED
        assert notes(tools) == []
        host.go()
        assert call(tools, "book").success


# --- Running calls


@pytest.mark.parametrize("is_contained", [True, False])
def test_a_running_handler_is_abandoned_and_rolled_back(host_in, is_contained):
    began, go_on = threading.Event(), threading.Event()

    @tool(contained=is_contained)
    def work(context: ToolContext) -> str:
        """Work."""
        context.session[Note].append(Note("done"))
        began.set()
        go_on.wait(10)
        return "Done."

    host = host_in(work)
    with host.executor() as tools:
        answer = in_thread(call, tools, "work")
        began.wait(10)
        host.stop(REASON)
        stopped = time.monotonic()
        outcome = answer()
        assert time.monotonic() - stopped < 0.2 + 0.3  # the machine may be busy
        go_on.set()
        assert outcome.status is Status.CANCELLED
        assert outcome.text.startswith("work was stopped: The prices are wrong. Its changes ")
        assert ("effects outside" in outcome.text) is not is_contained
        assert notes(tools) == []


def test_on_an_event_loop_too(host_in):
    @tool
    async def wait_long(context: ToolContext) -> str:
        """Wait."""
        context.session[Note].append(Note("done"))
        await asyncio.sleep(20)
        return "Done."

    host = host_in(wait_long)

    async def stop_it():
        async with asyncio.timeout(5):
            with host.executor() as tools:
                calls = [ToolCall("wait_long"), ToolCall("wait_long")]
                batch = asyncio.create_task(tools.adispatch_all(calls))
                one = asyncio.create_task(tools.adispatch(ToolCall("wait_long")))
                await asyncio.sleep(0.1)
                await asyncio.to_thread(host.stop, REASON)
                return [*await batch, await one], notes(tools)

    outcomes, kept = asyncio.run(stop_it())
    assert {outcome.status for outcome in outcomes} == {Status.CANCELLED}
    assert kept == []


def test_a_batch_is_stopped_whole(host_in):
    began = threading.Barrier(3)

    @tool
    def work(text: str, context: ToolContext) -> str:
        """Work."""
        context.session[Note].append(Note(text))
        began.wait(10)
        time.sleep(0.5)
        return "Done."

    host = host_in(work)
    with host.executor() as tools:
        calls = [ToolCall("work", {"text": text}) for text in "ab"]
        answer = in_thread(tools.dispatch_all, calls)
        began.wait(10)
        host.stop(REASON)
        assert {outcome.status for outcome in answer()} == {Status.CANCELLED}
        assert notes(tools) == []


@pytest.mark.parametrize("scope", [{}, {"tool": "note"}])
def test_a_transaction_is_stopped_whole(host_in, scope):
    host = host_in(replace(note, contained=True), replace(look, contained=True))
    with host.executor() as tools:
        work = tools.transaction("two notes")
        assert call(work, text="a").success
        host.stop(REASON, **scope)
        assert not call(work, text="b").success
        assert call(work, "look").success is bool(scope)
        with pytest.raises(TransactionFailed) as caught:
            work.commit()
        assert str(caught.value).startswith(
            "The transaction 'two notes' was stopped: The prices are wrong. Its changes are rolled"
        )
        assert notes(tools) == []
        host.go()
        with tools.transaction("a note") as again:
            call(again, text="c")
            host.stop(REASON, tool="look")
        assert notes(tools) == ["c"]


@pytest.mark.parametrize("seconds", [None, 0.05])
def test_a_transaction_that_was_open_during_a_stop_is_not_kept_afterwards(host_in, seconds):
    host, other = host_in(replace(note, contained=True)), host_in()

    def stop_for_a_moment():
        other.stop(REASON, seconds=seconds)
        if seconds is None:
            other.go()
        soon(lambda: not other.stops())

    with host.executor() as tools:
        stop_for_a_moment()
        with tools.transaction("a note") as kept:
            assert call(kept, text="a").success
        work = tools.transaction("two notes")
        assert call(work, text="b").success
        stop_for_a_moment()
        assert call(work, text="c").success
        with pytest.raises(TransactionFailed, match="was stopped: The prices are wrong"):
            work.commit()
        assert host.stops() == ()
        assert call(tools, text="d").success
        assert notes(tools) == ["a", "d"]


@pytest.mark.parametrize("stopped", [True, False])
def test_a_transaction_that_is_older_than_the_memory_of_stops_is_kept_only_without_any(
    host_in, monkeypatch, stopped
):
    monkeypatch.setattr(import_module("toolstile.stops"), "REMEMBERED", timedelta(seconds=0.05))
    host, other = host_in(replace(note, contained=True)), host_in()
    other.stop(REASON)
    other.go()
    with host.executor() as tools:
        work = tools.transaction("a note")
        assert call(work, text="a").success
        if stopped:
            other.stop(REASON)
            other.go()
        time.sleep(0.1)
        # A change removes the stop that has ended.
        if stopped:
            other.go()
            with pytest.raises(TransactionFailed, match="open for more than a day, and there were"):
                work.commit()
        else:
            work.commit()
        assert notes(tools) == ([] if stopped else ["a"])


def test_a_savepoint_is_stopped_alone_if_the_stop_concerns_only_its_calls(host_in):
    host = host_in(replace(note, contained=True), replace(look, contained=True))
    with host.executor() as tools:
        work = tools.transaction("a look")
        assert call(work, "look").success
        inner = work.transaction("a note")
        assert call(inner, text="a").success
        host.stop(REASON, tool="note")
        host.go()
        with pytest.raises(TransactionFailed, match="was stopped: The prices are wrong"):
            inner.commit()
        work.commit()
        assert (str(work.ended.status), notes(tools)) == ("committed", [])


def test_a_stopped_transaction_says_so_although_it_conflicts(host_in):
    @tool(contained=True)
    def count(context: ToolContext) -> int:
        """Count the notes."""
        return len(context.session[Note].all())

    host = host_in(replace(note, contained=True), count)
    with host.executor() as tools:
        work = tools.transaction("a count")
        assert call(work, "count").success
        assert call(tools, text="a").success
        host.stop(REASON)
        with pytest.raises(TransactionFailed, match="was stopped: The prices are wrong"):
            work.commit()
        assert (work.ended.status, work.ended.reruns) == ("rolled_back", 0)


def test_a_stopped_call_reads_the_same_in_a_second_run_although_a_rule_denies_it(host_in):
    class Closing:
        name = "closing"
        is_closed = False

        def check(self, tool, params, *, context):
            is_denied = self.is_closed and tool.name == "note"
            return PolicyDecision.deny("Closed.") if is_denied else PolicyDecision.allow()

        def on_result(self, tool, params, result, *, context):
            return None

    @tool(contained=True)
    def read_last(context: ToolContext) -> str:
        """Read the last note."""
        len(context.session[Note].all())
        return "Read."

    rule = Closing()
    host = host_in(replace(note, contained=True), read_last, policies=[rule])
    with host.executor() as tools:
        work = tools.transaction("a note")
        assert call(work, "read_last").success
        assert call(tools, text="other").success
        rule.is_closed = True
        host.stop(REASON, tool="note")
        assert call(work, text="a").status is Status.DENIED
        work.commit()
        assert work.ended.reruns == 1


def wait_for_a_person(host_in, *, ends, **options):
    """Stop a call, a batch and a card that wait for a person; return their outcomes."""
    ran = []

    @tool(requires_confirmation=True, contained=True)
    def erase(context: ToolContext) -> str:
        """Erase."""
        ran.append(1)
        context.session[Note].append(Note("erased"))
        return "Erased."

    class Late:
        def __call__(self, request):
            asked.set()
            go_on.wait(10)
            return True

        turn = __call__

    host, outcomes = host_in(erase, approver=Late(), **options), []
    with host.executor() as tools:
        for make in (
            lambda: [call(tools, "erase")],
            lambda: tools.dispatch_all([ToolCall("erase", {}), ToolCall("erase", {})]),
        ):
            asked, go_on = threading.Event(), threading.Event()
            answer = in_thread(make)
            asked.wait(10)
            host.stop(REASON)
            if ends:
                host.go()
            if ends or "approval_timeout" not in options:
                go_on.set()
            outcomes += answer()
            go_on.set()
            host.go()
        assert notes(tools) == []
    return outcomes, ran


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("more", [{}, {"approval_timeout": 60}])
@pytest.mark.parametrize("approve_by", ["call", "turn"])
def test_a_call_that_waits_for_a_person_is_stopped(host_in, caplog, ends, more, approve_by):
    outcomes, ran = wait_for_a_person(host_in, ends=ends, approve_by=approve_by, **more)
    assert ran == []
    for outcome in outcomes:
        assert outcome.status is Status.DENIED
        assert outcome.text.startswith("erase was stopped: The prices are wrong.")
    assert "approver failed" not in caplog.text


@pytest.mark.parametrize("ends", [False, True])
def test_a_call_whose_diff_waits_for_a_person_is_stopped(host_in, ends):
    outcomes, ran = wait_for_a_person(host_in, ends=ends, approve_diff=True)
    assert len(ran) == 3
    for outcome in outcomes:
        assert outcome.status is Status.CANCELLED
        assert outcome.text.startswith("erase was stopped: The prices are wrong.")


def test_an_answer_that_comes_with_the_stop_is_too_late(host_in):
    """The handler does not begin, although its driver has not looked for the stop meanwhile."""

    def stop_and_agree(request):
        host.stop(REASON)
        return True

    ran = []

    @tool(requires_confirmation=True)
    def erase() -> str:
        """Erase."""
        ran.append(1)
        return "Erased."

    host = host_in(erase, approver=stop_and_agree)
    with host.executor() as tools:
        assert call(tools, "erase").status is Status.DENIED
    assert ran == []


@pytest.mark.parametrize("ends", [False, True])
def test_a_handler_without_a_timeout_cannot_commit(host_in, ends):
    @tool
    def work(context: ToolContext) -> str:
        """Work."""
        context.session[Note].append(Note("done"))
        host.stop(REASON)
        if ends:
            other.go()
        return "Done."

    host, other = host_in(note, work, timeout=None), host_in()
    with host.executor() as tools:
        assert call(tools, "work").status is Status.CANCELLED
        assert notes(tools) == []
        if ends:
            assert call(tools, text="a").success


# --- How long


def test_a_stop_outlives_its_host_and_says_who_when_and_why(host_in):
    before = datetime.now(UTC)
    host_in(note).stop(REASON, by="ann", tool="note")
    other = host_in(note)
    (stop,) = other.stops()
    assert (stop.by, stop.reason, stop.kind, stop.name) == ("ann", REASON, "tool", "note")
    assert before <= stop.at <= datetime.now(UTC)
    assert str(stop) == f"calls of tool note, by ann at {stop.at:%F %R} UTC: {REASON}"
    with other.executor() as tools:
        assert call(tools, text="a").status is Status.DENIED


def test_a_stop_ends_after_its_time(host_in):
    host = host_in(note)
    with host.executor() as tools:
        host.stop(REASON, seconds=0.3)
        assert call(tools, text="a").status is Status.DENIED
        soon(lambda: call(tools, text="a").success)
        assert host.stops() == ()
        host.stop(REASON, tool="other", seconds=3600)
        (stop,) = host.stops()
        assert stop.until - stop.at == timedelta(hours=1)
        assert str(stop).startswith(f"calls of tool other until {stop.until:%F %R} UTC, by host at")


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1, 0, True, "5"])
def test_the_time_of_a_stop_is_a_positive_number(host_in, seconds):
    host = host_in(note)
    with pytest.raises(ValueError, match="seconds: expected a positive number of seconds"):
        host.stop(REASON, seconds=seconds)
    assert host.stops() == ()
    host.stop(REASON, seconds=1e300)
    assert [stop.reason for stop in host.stops()] == [REASON]


def test_any_host_ends_the_stops_of_all(host_in):
    host, other = host_in(note, look), host_in()
    host.stop(REASON, tool="note")
    other.stop("Closed.", tool="look")
    with host.executor() as tools:
        assert not call(tools, text="a").success
        assert call(tools, "look").text.startswith("look was stopped: Closed. Nothing")
        assert len(host.stops()) == 2
        other.go()
        other.go()
        assert host.stops() == ()
        assert call(tools, text="a").success
        assert call(tools, "look").success


def test_hosts_of_other_configurations_run_on(host_in, tmp_path):
    host_in().stop(REASON)
    with Host(discover=False, tools=[note]) as host, host.executor() as tools:
        assert call(tools, text="a").success
        host.stop(REASON)
        assert not call(tools, text="a").success
    with Host(discover=False, tools=[note]) as host, host.executor() as tools:
        assert call(tools, text="a").success


@pytest.mark.parametrize(
    ("reason", "scope"), [(" ", {}), ("x", {"tol": "a"}), ("x", {"tool": "a", "session": "b"})]
)
def test_a_stop_has_a_reason_and_one_scope(host_in, reason, scope):
    host = host_in()
    with pytest.raises(ConfigurationError, match="A stop has a reason, which models read, and at"):
        host.stop(reason, **scope)
    assert host.stops() == ()


def test_a_host_that_cannot_take_a_slot_says_so(place, host_in, caplog):
    (place / ".toolstile").write_text("")
    host = host_in(note)
    with host.executor() as tools:
        assert call(tools, text="a").success
    assert "no other process can stop this one." in caplog.text


# --- The handshake


class _Holding:
    """A participant that commits when it is let."""

    def __init__(self):
        self.deciding, self.go_on = threading.Event(), threading.Event()

    def prepare(self):
        pass

    def commit(self):
        self.deciding.set()
        self.go_on.wait(20)

    def rollback(self):
        pass


def test_a_stop_waits_for_a_decision_and_names_the_process_of_one_that_hangs(host_in, monkeypatch):
    holding = _Holding()

    class Plugin:
        @hookimpl
        def toolstile_snapshot(self):
            return holding

    host, other = host_in(note, plugins=[Plugin()]), host_in()
    with host.executor() as tools:
        answer = in_thread(call, tools, "note")
        answer = in_thread(lambda: call(tools, text="a"))
        holding.deciding.wait(10)
        stopping = in_thread(other.stop, REASON)
        soon(lambda: other.stops() != ())
        time.sleep(0.2)
        holding.go_on.set()
        assert answer().success
        stopping()
        other.go()
        holding.deciding.clear()
        holding.go_on.clear()
        answer = in_thread(lambda: call(tools, text="b"))
        holding.deciding.wait(10)
        monkeypatch.setattr("toolstile.stops.PATIENCE", 0.2)
        with pytest.raises(StateError, match=f"A decision of process {os.getpid()} has not ended"):
            other.stop(REASON)
        # The stop is in force all the same.
        assert call(tools, text="c").status is Status.DENIED
        holding.go_on.set()
        assert answer().success


@pytest.mark.skipif(sys.platform == "win32", reason="a stop reaches no other process there")
def test_a_process_that_died_within_a_decision_is_not_waited_for(place, host_in):
    script = """
import sys, time
from pathlib import Path
from toolstile.stops import Gate
class Call:
    mark = 0
    committed, error, parent, stops = True, None, None, None
gate = Gate(Path(sys.argv[1]), None, decides=True)
gate.enter(Call())
print("deciding", flush=True)
time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, place / ".toolstile/stops"], stdout=subprocess.PIPE
    ) as dying:
        assert dying.stdout is not None
        assert dying.stdout.readline() == b"deciding\n"
        dying.send_signal(signal.SIGKILL)
    started = time.monotonic()
    host_in().stop(REASON)
    assert time.monotonic() - started < 2
    assert len([*(place / ".toolstile/stops").glob("*.slot")]) == 1


def test_a_closed_host_gives_its_slot_back(place, host_in):
    host = host_in(note)
    slots = place / ".toolstile/stops"
    assert not slots.exists()
    with host.executor():
        assert len([*slots.glob("*.slot")]) == 1
    host.close()
    assert [*slots.glob("*.slot")] == []
    assert (place / ".toolstile/stops/.gitignore").read_text() == "*\n"


def test_a_call_without_changes_sets_no_mark(host_in):
    host = host_in(look)
    with host.executor() as tools:
        call(tools, "look")
        taken = []
        host.engine.gate.enter = taken.append
        assert call(tools, "look").success
    assert taken == []


def test_no_mark_stays_after_calls_that_end_early(host_in):
    @tool
    def fail(context: ToolContext) -> str:
        """Fail."""
        context.session[Note].append(Note("a"))
        raise KeyboardInterrupt

    host = host_in(note, fail)
    with host.executor() as tools:
        for name in ("note", "fail"):
            with suppress(KeyboardInterrupt):
                call(tools, name, **({"text": "a"} if name == "note" else {}))
        assert not any(host.engine.gate.numbers[1:].tolist())
        assert len(host.engine.gate.free) == 4095
