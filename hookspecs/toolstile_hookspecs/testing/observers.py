"""The conformance suite of an observer, to subclass, and calls with every outcome."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any, Final

import pytest
from pydantic import SecretStr

from toolstile_hookspecs.approval import ApprovalAnswer, ApprovalRequest
from toolstile_hookspecs.calls import Outcome, Status, ToolCall
from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.errors import (
    ConflictError,
    DeadlineExceededError,
    DecisionUnknownError,
    Interrupt,
    ToolstileError,
)
from toolstile_hookspecs.limits import Cancellation
from toolstile_hookspecs.markers import hookimpl
from toolstile_hookspecs.policies import PolicyDecision
from toolstile_hookspecs.results import ToolResult
from toolstile_hookspecs.sections import MarkdownSection
from toolstile_hookspecs.testing.suite import (
    Bench,
    MakeBench,
    OpenBench,
    PluginContract,
    both_drivers,
    complaints,
    state_of,
)
from toolstile_hookspecs.tools import Tool
from toolstile_hookspecs.transactions import Participant


class ObserverContract(PluginContract, plugin=None, heard=("bench",), written=("bench",)):
    """Tests of an observer; the fixture `plugin` of a subclass returns it.

    The suite makes calls with every outcome. `options` are the options of `toolstile_tools`.
    `heard` returns a function of a bench that returns the number of observed calls, `written` one
    that returns the observer's whole output as text, `break_it` one that makes the observer fail
    inside, as without its file. Leave out each of the three that does not apply.

    Example:
        >>> class TestMetrics(ObserverContract):
        ...     @pytest.fixture
        ...     def plugin(self):
        ...         return Metrics()
        ...
        ...     @pytest.fixture
        ...     def heard(self, plugin):
        ...         return lambda bench: plugin.calls.total()
    """

    @pytest.fixture
    def heard(self) -> Callable[[Bench], float]:
        """Return a function that returns the number of observed calls."""
        pytest.skip("This observer does not tell how many calls it has heard of.")

    @pytest.fixture
    def written(self) -> Callable[[Bench], str]:
        """Return a function that returns the whole output."""
        pytest.skip("This observer writes nothing that can be read.")

    @pytest.fixture
    def open_with(
        self, toolstile_tools: MakeBench, options: Mapping[str, Any]
    ) -> Iterator[OpenBench]:
        """Return a function that opens a bench with plugins, for calls with every outcome."""
        ends = EveryOutcome()

        def opened(*plugins: object) -> Bench:
            given = {"approver": wait_for_a_person, **(options if plugins else {})}
            return toolstile_tools(*plugins, ends, **given)

        yield opened
        ends.over.set()

    @both_drivers
    def test_it_takes_every_outcome(
        self, open_with: OpenBench, plugin: object, caplog: pytest.LogCaptureFixture
    ) -> None:
        bench = open_with(plugin)
        for status, call in every_call():
            caplog.clear()
            came_to, _ = dispatched(bench, call)
            assert came_to == status
            assert not complaints(caplog), f"{status}: {complaints(caplog)[0]}"

    @both_drivers
    def test_it_hears_of_every_call_once(
        self, open_with: OpenBench, plugin: object, heard: Callable[[Bench], float]
    ) -> None:
        bench = open_with(plugin)
        for status, call in every_call():
            before, events = heard(bench), len(bench.events)
            is_number = isinstance(before, Number)
            assert is_number, f"`heard` gives {before!r}. Return a number"
            dispatched(bench, call)
            assert heard(bench) - before == len(bench.events) - events, f"{status}: {call.name}"

    @both_drivers
    def test_it_changes_no_outcome(self, open_with: OpenBench, plugin: object) -> None:
        alone, observed = open_with(), open_with(plugin)
        for _, call in every_call():
            assert dispatched(observed, call) == dispatched(alone, call)
        assert _slices(observed) == _slices(alone), "It changes the session"

    def test_a_failure_inside_changes_no_outcome(
        self, open_with: OpenBench, plugin: object, break_it: Callable[[], None]
    ) -> None:
        alone, observed = open_with(), open_with(plugin)
        break_it()
        for _, call in every_call():
            assert dispatched(observed, call) == dispatched(alone, call)

    def test_nothing_secret_is_written(
        self, open_with: OpenBench, plugin: object, written: Callable[[Bench], str]
    ) -> None:
        bench = open_with(plugin)
        for _, call in every_call():
            dispatched(bench, call)
        text: object = written(bench)
        assert isinstance(text, str), f"`written` gives {type(text).__name__}. Return text"
        assert text, "It has written nothing"
        _assert_masked(text, "the output")

    @both_drivers
    def test_nothing_secret_is_logged_or_printed(
        self,
        open_with: OpenBench,
        plugin: object,
        caplog: pytest.LogCaptureFixture,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        caplog.set_level(logging.DEBUG)
        bench = open_with(plugin)
        for _, call in every_call():
            dispatched(bench, call)
        _assert_masked(caplog.text, "the log")
        _assert_masked("\n".join(capsys.readouterr()), "standard output")


def _slices(bench: Bench) -> Any:
    return json.loads(state_of(bench))["slices"]


def _assert_masked(text: str, where: str) -> None:
    found = text.find(SECRET)
    around = text[max(found - 200, 0) : found + 100]
    assert found < 0, f"A secret is in clear in {where}: {around}"


SECRET: Final = "hunter2-open-sesame"  # noqa: S105 - made up
LONG: Final = 30.0
"""Seconds after which an abandoned handler ends."""


@dataclass(frozen=True)
class Login:
    """The params of the tools."""

    user: str
    password: SecretStr


@dataclass(frozen=True)
class Ticket:
    """The value of their results."""

    user: str
    token: SecretStr


class EveryOutcome:
    """A plugin with a tool for every outcome, named after it."""

    def __init__(self) -> None:
        self.over = threading.Event()
        """Set at the end of a test: running handlers end."""
        handlers: dict[str, Any] = {
            "succeeded": _succeed,
            "failed": _fail,
            "error": _raising(lambda: OSError(f"No way in with {SECRET}.")),
            "timed_out": self._take_long,
            "deadline": _raising(lambda: DeadlineExceededError("The deadline has passed.")),
            "raised": _raising(lambda: Interrupt("A person is needed.")),
            "conflict": _raising(lambda: ConflictError("Another call changed it.")),
            "nested": _call_another,
            **dict.fromkeys(
                ("invalid", "denied", "pending", "cancelled", "commit_failed", "unknown"), _succeed
            ),
        }
        self._tools = tuple(
            Tool[Login, Ticket](
                name=name,
                description=f"End as {name}.",
                handler=handler,
                requires_confirmation=name == "pending",
                timeout=0.05 if name == "timed_out" else LONG,
            )
            for name, handler in handlers.items()
        )

    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        return [MarkdownSection(key="every-outcome", title="Outcomes", tools=self._tools)]

    @hookimpl
    def toolstile_check(self, tool: Tool[Any, Any]) -> PolicyDecision | None:
        if tool.name == "denied":
            return PolicyDecision.deny("It cannot be called.")
        return None

    @hookimpl
    def toolstile_snapshot(self, tool: Tool[Any, Any]) -> Participant | None:
        if tool.name == "unknown":
            return LosingAnswer()
        return BadlyCommitting() if tool.name == "commit_failed" else None

    def _take_long(self, params: Login, *, context: ToolContext) -> ToolResult[Ticket]:  # noqa: ARG002 - a handler
        self.over.wait(LONG)
        return ToolResult.error("It took too long. Retry it.")


class BadlyCommitting:
    """A participant that fails in `commit`, which must not fail."""

    def prepare(self) -> None:
        """Do nothing."""

    def commit(self) -> None:
        raise OSError(f"The disk is gone, with {SECRET}.")

    def rollback(self) -> None:
        """Do nothing."""


class LosingAnswer(BadlyCommitting):
    """A participant that cannot tell whether the call is kept."""

    def prepare(self) -> None:
        raise DecisionUnknownError(f"The answer was lost, with {SECRET}.")


def wait_for_a_person(request: ApprovalRequest) -> ApprovalAnswer:  # noqa: ARG001 - an approver's
    """Let the call be resumed later."""
    return ApprovalAnswer.pending()


def every_call() -> Sequence[tuple[str, ToolCall]]:
    """Return a call for every status, each with its status."""
    given: dict[str, Any] = {"user": "ada", "password": SECRET}
    stopped = Cancellation()
    stopped.cancel()
    calls = {
        status.value: ToolCall(status.value, given)
        for status in Status
        if status not in {Status.UNKNOWN_TOOL, Status.INVALID, Status.CANCELLED}
    }
    return [
        *calls.items(),
        ("unknown_tool", ToolCall("no_such_tool", {"user": "ada"})),
        ("invalid", ToolCall("invalid", {"user": 1, "password": SECRET})),
        ("cancelled", ToolCall("cancelled", given, cancellation=stopped)),
        ("succeeded", ToolCall("nested", given)),
    ]


def dispatched(bench: Bench, call: ToolCall) -> tuple[str, str]:
    """Dispatch a call, and return its status and text, also where an exception leaves."""
    try:
        outcome: Outcome = bench.dispatch(call)
    except ToolstileError:
        event = bench.events[-1]
        return event.status.value, event.text
    return outcome.status.value, outcome.text


def _succeed(params: Login, *, context: ToolContext) -> ToolResult[Ticket]:  # noqa: ARG001 - a handler
    return ToolResult.ok(Ticket(params.user, params.password), message=f"Signed in with {SECRET}.")


def _fail(params: Login, *, context: ToolContext) -> ToolResult[Ticket]:  # noqa: ARG001 - a handler
    return ToolResult.error(f"{SECRET} is wrong. Ask for another, then retry.")


def _raising(make: Callable[[], Exception]) -> Any:
    def handler(params: Login, *, context: ToolContext) -> ToolResult[Ticket]:  # noqa: ARG001 - its form
        raise make()

    return handler


def _call_another(params: Login, *, context: ToolContext) -> ToolResult[Ticket]:
    context.call("succeeded", {"user": params.user, "password": SECRET})
    return ToolResult.ok(Ticket(params.user, params.password))
