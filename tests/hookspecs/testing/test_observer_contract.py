"""Every check of the contract of observers finds the fault that it is for."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest

from toolstile_hookspecs import ToolResult, hookimpl
from toolstile_hookspecs.testing import ObserverContract
from toolstile_hookspecs.testing.observers import EveryOutcome, wait_for_a_person

pytestmark = pytest.mark.slow

TESTS = sorted(name for name in vars(ObserverContract) if name.startswith("test_"))


class Observer:
    """An observer without fault, to be made worse."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.broken = False

    @hookimpl
    def toolstile_telemetry(self, event):
        if self.broken:
            raise OSError("The disk is full.")
        self.lines.append(f"{event.tool_name} {event.status} {event.shown_arguments}")


@pytest.fixture
def check(toolstile_tools, caplog, capsys):
    """Run one of the contract's tests on an observer."""
    ends = EveryOutcome()

    def check(name: str, observer: Any, heard: Any = len) -> None:
        given = {
            "open_with": lambda *plugins: toolstile_tools(
                *plugins, ends, approver=wait_for_a_person
            ),
            "plugin": observer,
            "heard": lambda bench: heard(observer.lines),
            "written": lambda bench: "\n".join(observer.lines),
            "break_it": lambda: setattr(observer, "broken", True),
            "caplog": caplog,
            "capsys": capsys,
        }
        test = getattr(ObserverContract(), name)
        names = test.__code__.co_varnames[1 : test.__code__.co_argcount]
        test(**{each: given[each] for each in names})

    yield check
    ends.over.set()


@pytest.mark.parametrize("name", TESTS)
def test_a_good_observer_passes(check, name):
    check(name, Observer())


def test_what_was_heard_may_be_any_number_and_must_be_one(check):
    name = "test_it_hears_of_every_call_once"
    check(name, Observer(), lambda lines: float(len(lines)))
    check(name, Observer(), lambda lines: Decimal(len(lines)))
    with pytest.raises(AssertionError, match="`heard` gives None"):
        check(name, Observer(), lambda lines: None)


def test_an_observer_that_raises_for_what_it_does_not_expect(check):
    class Fragile(Observer):
        @hookimpl
        def toolstile_telemetry(self, event):
            self.lines.append(event.tool.name)

    with pytest.raises(AssertionError, match="unknown_tool: Plugin Fragile failed in"):
        check("test_it_takes_every_outcome", Fragile())


def test_a_trace_that_raises(check):
    class Tracing(Observer):
        @hookimpl
        @contextmanager
        def toolstile_trace(self):
            yield
            raise OSError("The collector is gone.")

    with pytest.raises(AssertionError, match="Plugin Tracing failed to end its trace"):
        check("test_it_takes_every_outcome", Tracing())


@pytest.mark.parametrize("times", [0, 2])
def test_an_observer_that_counts_wrongly(check, times):
    class Miscounting(Observer):
        @hookimpl
        def toolstile_telemetry(self, event):
            self.lines += [event.tool_name] * (times if event.status == "denied" else 1)

    with pytest.raises(AssertionError, match="denied"):
        check("test_it_hears_of_every_call_once", Miscounting())


def test_a_plugin_that_does_more_than_observe(check):
    class Meddling(Observer):
        @hookimpl
        def toolstile_execute(self, tool):
            return ToolResult.ok(None, "Done.") if tool.name == "failed" else None

    with pytest.raises(AssertionError):
        check("test_it_changes_no_outcome", Meddling())


def test_an_observer_that_keeps_its_notes_in_the_session(check):
    class SupportsNotes(Observer):
        @hookimpl
        def toolstile_on_result(self, tool, context):
            context.session[str].append(tool.name)

    with pytest.raises(AssertionError, match="It changes the session"):
        check("test_it_changes_no_outcome", SupportsNotes())


def test_a_failure_that_reaches_the_call(check):
    class Vetoing(Observer):
        @hookimpl
        def toolstile_on_result(self, tool):
            if self.broken:
                raise OSError("The disk is full.")

    with pytest.raises(AssertionError):
        check("test_a_failure_inside_changes_no_outcome", Vetoing())


@pytest.mark.parametrize(
    "told", [lambda event: str(event.arguments), lambda event: repr(event.error), lambda _: ""]
)
def test_what_is_written_in_clear_or_not_at_all(check, told):
    class Telling(Observer):
        @hookimpl
        def toolstile_telemetry(self, event):
            self.lines += filter(None, [told(event)])

    with pytest.raises(AssertionError, match=r"in clear|written nothing"):
        check("test_nothing_secret_is_written", Telling())


@pytest.mark.parametrize("tell", [logging.getLogger("shop").debug, print], ids=["log", "print"])
def test_what_is_logged_or_printed_in_clear(check, tell):
    class Chatty(Observer):
        @hookimpl
        def toolstile_telemetry(self, event):
            tell(f"called with {event.arguments}")

    with pytest.raises(AssertionError, match=r"in clear in (the log|standard output)"):
        check("test_nothing_secret_is_logged_or_printed", Chatty())
