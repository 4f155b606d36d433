"""Calls that come to every end there is, for observers to hear of."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

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
from toolstile_hookspecs.testing.stubs import Bench
from toolstile_hookspecs.tools import Tool
from toolstile_hookspecs.transactions import Participant

SECRET: Final = "hunter2-open-sesame"  # noqa: S105 - made up
LONG: Final = 30.0
"""Seconds after which a handler ends that nobody waits for."""


@dataclass(frozen=True)
class Login:
    """The params of the tools.

    Args:
        user: Who.
        password: What nobody may read.
    """

    user: str
    password: SecretStr


@dataclass(frozen=True)
class Ticket:
    """The value that they return.

    Args:
        user: Whose.
        token: What nobody may read.
    """

    user: str
    token: SecretStr


class EveryOutcome:
    """A plugin whose tools come to every end; each tool is named for it."""

    def __init__(self) -> None:
        self.over = threading.Event()
        """Set when nobody looks any more: what still runs ends."""
        handlers = {
            "succeeded": _succeed,
            "failed": _fail,
            "error": _raise,
            "timed_out": self._take_long,
            "deadline": _be_late,
            "raised": _interrupt,
            "conflict": _conflict,
            "nested": _call_another,
            **dict.fromkeys(
                ("invalid", "denied", "pending", "cancelled", "commit_failed", "unknown"), _succeed
            ),
        }
        self._tools = tuple(_tool(name, handler) for name, handler in handlers.items())

    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection]:
        """Offer the tools."""
        return [MarkdownSection(key="every-outcome", title="Outcomes", tools=self._tools)]

    @hookimpl
    def toolstile_check(self, tool: Tool[Any, Any]) -> PolicyDecision | None:
        """Deny the one that is to be denied."""
        if tool.name == "denied":
            return PolicyDecision.deny("It cannot be called.")
        return None

    @hookimpl
    def toolstile_snapshot(self, tool: Tool[Any, Any]) -> Participant | None:
        """Take part in the ones that are not to be committed."""
        if tool.name == "unknown":
            return LosingAnswer()
        return BadlyCommitting() if tool.name == "commit_failed" else None

    def _take_long(self, params: Login, *, context: ToolContext) -> ToolResult[Ticket]:  # noqa: ARG002 - a handler
        self.over.wait(LONG)
        return ToolResult.error("It took too long. Retry it.")


class BadlyCommitting:
    """A participant that fails where it must not."""

    def prepare(self) -> None:
        """Do nothing."""

    def commit(self) -> None:
        """Fail."""
        raise OSError(f"The disk is gone, with {SECRET}.")

    def rollback(self) -> None:
        """Do nothing."""


class LosingAnswer(BadlyCommitting):
    """A participant that cannot tell whether the call is kept."""

    def prepare(self) -> None:
        """Fail."""
        raise DecisionUnknownError(f"The answer was lost, with {SECRET}.")


def wait_for_a_person(request: ApprovalRequest) -> ApprovalAnswer:  # noqa: ARG001 - an approver's
    """Let the call be resumed later."""
    return ApprovalAnswer.pending()


def every_call() -> Sequence[tuple[str, ToolCall]]:
    """Return a call for every status, each with the status that it comes to."""
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


def _tool(name: str, handler: Any) -> Tool[Any, Any]:
    return Tool[Login, Ticket](
        name=name,
        description=f"Come to the end: {name}.",
        handler=handler,
        requires_confirmation=name == "pending",
        timeout=0.05 if name == "timed_out" else LONG,
    )


def _succeed(params: Login, *, context: ToolContext) -> ToolResult[Ticket]:  # noqa: ARG001 - a handler
    return ToolResult.ok(Ticket(params.user, params.password), message=f"Signed in with {SECRET}.")


def _fail(params: Login, *, context: ToolContext) -> ToolResult[Ticket]:  # noqa: ARG001 - a handler
    return ToolResult.error(f"{SECRET} is wrong. Ask for another, then retry.")


def _raise(params: Login, *, context: ToolContext) -> ToolResult[Ticket]:  # noqa: ARG001 - a handler
    raise OSError(f"No way in with {SECRET}.")


def _be_late(params: Login, *, context: ToolContext) -> ToolResult[Ticket]:  # noqa: ARG001 - a handler
    raise DeadlineExceededError("The deadline has passed.")


def _interrupt(params: Login, *, context: ToolContext) -> ToolResult[Ticket]:  # noqa: ARG001 - a handler
    raise Interrupt("A person is needed.")


def _conflict(params: Login, *, context: ToolContext) -> ToolResult[Ticket]:  # noqa: ARG001 - a handler
    raise ConflictError("Another call changed it.")


def _call_another(params: Login, *, context: ToolContext) -> ToolResult[Ticket]:
    context.call("succeeded", {"user": params.user, "password": SECRET})
    return ToolResult.ok(Ticket(params.user, params.password))
