"""The ends of calls, whether `dispatch` returned or raised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from toolstile_hookspecs import (
    ExecutorHandle,
    Outcome,
    RenderedPrompt,
    SessionProtocol,
    Stage,
    Status,
    ToolCall,
    ToolInvoked,
    VisibilityExpansionRequired,
)
from toolstile_hookspecs.calls import APPROVAL, DIFF, DRY_RUN
from toolstile_hookspecs.support.text import wire_time


@dataclass(frozen=True, slots=True)
class Ending:
    """A call that has ended."""

    call: ToolCall  # the call as it came
    tool: str  # the tool's own name, or the requested name
    status: Status
    stage: Stage | None  # the last stage that it reached; None where that is not known
    seconds: float | None  # the time that it took; None where that is not known
    text: str  # the text for the model
    envelope: Mapping[str, Any]  # the wire form, without the call's id
    notes: tuple[str, ...] = ()  # further remarks, such as that it was rolled back
    diff: str | None = None  # the changes it would have made; None unless it was a dry run
    unanswered: bool = False  # true when it was denied because no person answered for it
    preface: str = ""  # the beginning of the text: the result's message, without its value

    @property
    def success(self) -> bool:
        """True when the call succeeded."""
        return self.status is Status.SUCCEEDED

    def wire(self) -> dict[str, Any]:
        """Return the envelope with the call's id, its status, and the diff of a dry run."""
        return {"id": self.call.wire_id, **self.shown, **self.envelope}

    @property
    def shown(self) -> dict[str, str]:
        """The status, and the diff of a dry run, which are not a part of the envelope."""
        diff = {} if self.diff is None else {"diff": self.diff}
        return {"status": str(self.status), **diff}


class Endings:
    """Makes endings; an exception is completed by the session's event of its call."""

    def __init__(self, session: SessionProtocol) -> None:
        self.session = session
        self._events: dict[str, ToolInvoked] = {}
        session.dispatcher.subscribe(ToolInvoked, self._keep)

    def dispatch(self, tools: ExecutorHandle, call: ToolCall) -> Ending:
        """Dispatch a call and return its ending, also where that is an exception.

        Only an exception that ends the process passes; a tool's `sys.exit` does not.
        """
        try:
            outcome = tools.dispatch(call)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except VisibilityExpansionRequired as request:
            return self._opened(call, request, tools.expand(request))
        except BaseException as error:  # noqa: BLE001 - it becomes an envelope
            return self.of(call, error)
        return self.of(call, outcome)

    def of(self, call: ToolCall, outcome: Outcome | BaseException) -> Ending:
        """Return the ending of a dispatched call."""
        event = self._events.pop(call.id, None)
        if isinstance(outcome, Outcome):
            return _ended(call, outcome)
        if event is not None and event.success:
            # It was committed before that: an observer has raised it.
            said = str(outcome) or f"{type(outcome).__name__} was raised"
            if isinstance(outcome, SystemExit):
                said = "something asked the process to exit, which no tool or plugin can"
            return _ended(call, Outcome(event), f"kept; after it, {said}")
        text = str(outcome) or f"{type(outcome).__name__} ended the call."
        if isinstance(outcome, SystemExit):
            text = "The tool, or a plugin, asked the process to exit, which it cannot."
        name = event.tool_name if event is not None else call.name
        envelope = {"tool": name, "fetchedAt": wire_time(datetime.now(UTC)), "error": text}
        if event is None:
            return Ending(call, name, Status.RAISED, None, None, text, envelope)
        return Ending(call, *_progress(event), text, envelope, _notes(event))

    def known(self, call: ToolCall) -> Outcome | BaseException | None:
        """Return the end of a call that the session knows, or None."""
        event = self._events.get(call.id)
        if event is None:
            return None
        return event.error if event.status is Status.RAISED and event.error else Outcome(event)

    def _opened(
        self, call: ToolCall, request: VisibilityExpansionRequired, rendered: RenderedPrompt
    ) -> Ending:
        event = self._events.pop(call.id)
        text = f"Opened {', '.join(request.section_keys)}. The prompt is now:\n{rendered.text}"
        fetched_at = wire_time(event.timestamp, event.duration)
        envelope = {"tool": event.tool_name, "fetchedAt": fetched_at, "data": text}
        tool, seconds = event.tool_name, event.duration
        return Ending(call, tool, Status.SUCCEEDED, Stage.TELEMETRY, seconds, text, envelope)

    def _keep(self, event: ToolInvoked) -> None:
        if event.parent_id is None:
            self._events[event.call.id] = event


def _ended(call: ToolCall, outcome: Outcome, *notes: str) -> Ending:
    event = outcome.event
    diff = event.attributes.get(DIFF) if _is_rehearsed(event) else None
    return Ending(
        call,
        *_progress(event),
        outcome.text,
        outcome.envelope(),
        notes=(*_notes(event), *notes),
        diff=None if diff is None else str(diff),
        unanswered=event.attributes.get(APPROVAL) == "unanswered",
        preface=outcome.result.message,
    )


def _progress(event: ToolInvoked) -> tuple[str, Status, Stage, float]:
    return event.tool_name, event.status, event.stage, event.duration


def _is_rehearsed(event: ToolInvoked) -> bool:
    return event.success and bool(event.attributes.get(DRY_RUN))


_APPROVALS: Final = {
    "approved": "approved when asked for",
    "edited": "approved when asked for, with edited arguments",
}


def _notes(event: ToolInvoked) -> tuple[str, ...]:
    notes: list[str] = []
    approval = _APPROVALS.get(str(event.attributes.get(APPROVAL)))
    if approval is not None:
        notes.append(approval)
    if event.rolled_back and not _is_rehearsed(event):
        # Toolstile cannot undo the effects of a tool that is not contained.
        where = "" if event.tool is not None and event.tool.contained else " here"
        notes.append(f"rolled back: nothing it changed{where} remains")
    if event.replayed:
        notes.append("answered from a record, not run again")
    if event.reruns:
        notes.append("run again; only the last run counts")
    return tuple(notes)
