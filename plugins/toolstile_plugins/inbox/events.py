"""Events of questions and grants: decisions of people, and expired questions.

The store adds an event, sealed, in the transaction of its cause, and keeps the event until both
listeners have received it: the record of a host, and the session of the event.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

from toolstile_hookspecs import (
    NOTICE,
    Clock,
    Principal,
    SessionProtocol,
    StateError,
    ToolstileError,
)
from toolstile_hookspecs.services.approval_store import (
    ApprovalStore,
    EventRecord,
    Listener,
    Moment,
    Question,
)
from toolstile_hookspecs.services.json_forms import JsonForm
from toolstile_hookspecs.services.replay import Recorder
from toolstile_hookspecs.support.text import wire_time
from toolstile_plugins.inbox.seal import Seal

log = logging.getLogger("toolstile.inbox")


@dataclass(frozen=True, slots=True)
class ApprovalEvent:
    """An answer to a question, its end without an answer, or a grant that was added or revoked.

    Args:
        id: The id; an event that is delivered again after a crash has the same id.
        act: `approved`, `denied`, `edited`, `expired`, `withdrawn`, `granted` or `revoked`.
        at: The time; aware.
        tool: The name of the tool.
        subject: The ticket of the question, or the id of the grant.
        session: The id of the session.
        call: The id of the call of the question; "" for a revoked grant.
        by: The person; None without an answer.
        via: The way of the answer, such as `command line`.
        reason: The reason of a denial, or a description of the grant.
    """

    id: str
    act: str
    at: Moment
    tool: str
    subject: str
    session: str
    call: str = ""
    by: Principal | None = None
    via: str = ""
    reason: str | None = None

    @property
    def described(self) -> str:
        """The event in words, without the time."""
        by = "" if self.by is None else f" by {self.by.source} {self.by.id} ({self.via})"
        why = f": {self.reason}" if self.reason else ""
        return f"{self.tool} {self.subject} {self.act}{by}{why}"

    def wire(self) -> dict[str, Any]:
        """Return the event as JSON data."""
        return {**EVENT.data(self), "at": wire_time(self.at)}


EVENT: Final = JsonForm(ApprovalEvent)


def event_of(question: Question, act: str, at: datetime, **more: Any) -> ApprovalEvent:
    """Return the event of an act on a question."""
    name, call, session = question.ticket, question.call_id, question.session_id
    return ApprovalEvent(uuid4().hex, act, at, question.tool, name, session, call, **more)


@dataclass(eq=False, slots=True)
class Events:
    """Delivers the events of an inbox to the record of the host and to sessions.

    Events are sealed, so that only a holder of the key can make one. As calls end, at least
    `interval` seconds pass between two polls for events to record.
    """

    store: ApprovalStore
    seal: Seal
    clock: Clock
    recorder: Recorder | None
    interval: float
    polled: float | None = None

    def sealed(self, event: ApprovalEvent) -> EventRecord:
        """Return an event in its stored form."""
        return EventRecord(event.session, event.at, self.seal.seal_event(EVENT.text(event)))

    def newest(self, most: int) -> list[ApprovalEvent]:
        """Return the newest events, the newest first."""
        kept = self.store.events(self.clock.now(), most)
        return [event for event in map(self._read, kept) if event is not None]

    def to_session(self, session: SessionProtocol) -> None:
        """Publish the events that a session has not received yet."""
        self._tell("session", session.dispatcher.publish, session.id)

    def to_record(self, *, is_due: bool = True) -> None:
        """Write the events without a record to the record of the host, if any.

        Unless `is_due`, this polls only after the interval.
        """
        recorder = self.recorder
        if recorder is None:
            return
        now = self.clock.monotonic()
        if is_due or self.polled is None or now - self.polled >= self.interval:
            self.polled = now
            try:
                self._tell("record", lambda event: recorder.note("approval", event.wire()))
            except (OSError, ToolstileError):
                log.exception("Answers could not be recorded; the next host tries.", extra=NOTICE)

    def _tell(
        self,
        listener: Listener,
        hear: Callable[[ApprovalEvent], object],
        session_id: str | None = None,
    ) -> None:
        def heard(record: EventRecord) -> None:
            if (event := self._read(record)) is not None:
                hear(event)

        self.store.tell(listener, self.clock.now(), heard, session_id=session_id)

    def _read(self, record: EventRecord) -> ApprovalEvent | None:
        """Return an event; log a forged event and return None."""
        try:
            return EVENT.read(json.loads(self.seal.event_of(record.sealed)))
        except StateError as error:
            log.warning("%s It is left out.", error)
            return None
