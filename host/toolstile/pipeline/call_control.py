"""The control of a running call, through which its handler, plugins and resources ask it."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from toolstile.drivers.limit import HAS_ENDED, Abandonment
from toolstile.pipeline.batch import Milestone
from toolstile.pipeline.failures import unreadable
from toolstile.pipeline.hook_calls import log_observer_error, on_worker
from toolstile.pipeline.masking import holds_secrets, log_failure, without_masked
from toolstile.pipeline.review import is_asked_later
from toolstile.pipeline.undoing import OfPerson, take_back
from toolstile.resources.exclusive import CallOwner
from toolstile.state.replay import NOTHING
from toolstile_hookspecs import (
    Answer,
    CallRecord,
    Cancellation,
    Deadline,
    HandlerState,
    Outcome,
    ResourceBusyError,
    SnapshotError,
    StateError,
    ToolCall,
    ToolContext,
    ToolValidationError,
)
from toolstile_hookspecs.calls import APPROVAL
from toolstile_hookspecs.codecs import PortableValues
from toolstile_hookspecs.execution.undo import UNDONE_CALLS, UndoNote
from toolstile_hookspecs.support.event_loop import is_on_loop
from toolstile_hookspecs.support.process import renewed_in_forks

if TYPE_CHECKING:
    from toolstile.drivers.limit import Limit
    from toolstile.pipeline.call import ActiveCall
    from toolstile.resources.exclusive import OneShotGate


log = logging.getLogger("toolstile.pipeline")
_APPROVED = frozenset({Answer.APPROVED.value, Answer.EDITED.value})
_registering = renewed_in_forks(__name__, "_registering", threading.Lock)


class CallControlImpl:
    """A running call, as the contract's `CallControl` and the resources' `CallOwner`."""

    __slots__ = ("_call", "parent")

    def __init__(self, call: ActiveCall, parent: CallOwner | None) -> None:
        self._call = call
        self.parent = parent

    def check_open(self) -> None:
        """Raise `CallClosed` once the call is abandoned or has ended."""
        self._call.check_open()

    # --- asked by the handler ---

    @property
    def is_approved(self) -> bool:
        """True once a person has approved the call; see `execution.approvals`."""
        return self._call.attributes.get(APPROVAL) in _APPROVED

    def call(self, call: ToolCall) -> Outcome:
        """Dispatch a nested call and wait for it."""
        caller = self._call
        caller.check_open()
        if is_on_loop():
            raise StateError(
                f"{caller.name} runs on an event loop; write: await "
                f"context.acall({call.name!r}, ...)"
            )
        return caller.executor.dispatch_nested(self._meant(call), caller)

    def acall(self, call: ToolCall) -> Awaitable[Outcome]:
        """Dispatch a nested call."""
        caller = self._call
        caller.check_open()
        return caller.executor.adispatch_nested(self._meant(call), caller)

    @property
    def executor(self) -> object:
        """The executor of the call; see `execution.children`."""
        return self._call.executor

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Pass a progress report to the listener."""
        call = self._call
        call.check_open()
        listener = call.executor.on_progress
        if listener is not None:
            listener(call.call_made, done, total, message)

    def set_attribute(self, name: str, value: object) -> None:
        """Set an attribute of the event."""
        self._call.set_attribute(name, value)

    def check_exclusive(self, what: str) -> None:
        """Raise where others would be kept from it while a person looks, or in a dry run."""
        each: ActiveCall | None = self._call
        while each is not None:
            asks = each.asks and not is_asked_later(each)
            if asks or each.questions or each.executor.dry_run:
                raise ResourceBusyError(_not_to_be_had(what, each))
            each = each.parent

    def on_abandoned(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back when the call is abandoned, at once if it was; return an undo function."""
        call = self._call
        if call.closed is HAS_ENDED:
            call.check_open()
        with _registering:
            if (abandonment := call.abandonment) is None:
                text = "A callback of %s failed, which was to end what it runs elsewhere."
                abandonment = Abandonment(partial(log_failure, call, log, text, call))
                call.abandonment = abandonment
        forget = abandonment.add(callback)
        if call.closed is not None or call.executor.retired is not None:
            call.tell_abandoned()
        return forget

    # --- asked by plugins ---

    @property
    def is_of_person(self) -> bool:
        """True for an undo that the application, not a model, has asked for."""
        return isinstance(self._call.executor, OfPerson)

    def crossings(self) -> list[bytes]:
        """Return the traces to continue in another process; log traces that cannot."""
        found: list[bytes] = []
        for plugin, make in self._call.crossings:
            try:
                crossing = make()
                if crossing is not None:
                    found.append(json.dumps(PortableValues().write(crossing)).encode())
            except Exception:  # noqa: BLE001 - logged without secrets
                text = "The trace of plugin %s cannot go along into a process."
                log_observer_error(self._call, log, plugin, "toolstile_trace", text)
        return found

    @property
    def handler_state(self) -> HandlerState:
        """The progress of the handler."""
        return self._call.handler_state

    @property
    def is_over(self) -> bool:
        """True when the top-level call around it has ended, and with it the transaction."""
        root = self._call.root
        within = root.executor.within
        # A savepoint that was kept ends as the transaction around it does.
        while within is not None and within.committed and within.closed is not None:
            within = within.executor.within
        return root.ended and (within is None or not within.keeps or within.closed is not None)

    def keep(self, effect_id: str) -> CallRecord:
        """Return the call's record, and mark the session as holding its changes."""
        call = self._call
        tool, result, value = call.tool, call.result, call.data
        if value is None and result.value is not None:
            value = tool.result_codec.encode(result.value)
        if value is not None:
            # A value that cannot be read could not answer a later call.
            try:
                tool.result_codec.decode(value)
            except ToolValidationError as error:
                raise unreadable(call.name, "value", error) from error
        changes: str | None = None
        unportable: str | None = None
        if call.session_changes != NOTHING:
            call.branch.mark_applied(effect_id)
            if isinstance(call.session_changes, SnapshotError):
                unportable = str(call.session_changes)
            else:
                changes = call.session_changes
        if call.result_secrets:
            result, changes = without_masked(result, changes)
        secret = holds_secrets(call, result.message, value, changes, unportable)
        return CallRecord(result, value, changes, unportable, secret)

    @property
    def undone_around(self) -> tuple[str, ...]:
        """The ids of the calls that are undone by the calls around it, or in its transaction."""
        own, above = self._call.attributes.get(UNDONE_CALLS, ()), cast("Any", self.parent)
        return own if above is None else (*above.undone_around, *own)

    def undo_notes(self) -> list[UndoNote]:
        """Return the notes of the session; this read never conflicts, because values do."""
        return [*self._call.branch.now(UndoNote)]

    def take_back(self, notes: Iterable[UndoNote], *, keep: bool) -> Any:
        """Undo calls on the call's branch; see `undoing.take_back`."""
        return take_back(self._call, notes, keep=keep)

    # --- asked by the resources ---

    @property
    def context(self) -> ToolContext:
        """The call's context."""
        return self._call.context

    @property
    def deadline(self) -> Deadline | None:
        """The deadline of a wait."""
        return self._call.deadline

    @property
    def cancellation(self) -> Cancellation | None:
        """The cancellation that ends a wait from outside."""
        return self._call.cancellation

    @property
    def root_id(self) -> Hashable:
        """The id of the call's tree; the calls of a transaction are one tree."""
        return self._call.root if self.parent is None else self.parent.root_id

    def before_exclusive(self, kind: type[Any]) -> OneShotGate | None:
        """Return the gate to wait at before the call takes an exclusive resource.

        Raises:
            ResourceBusyError: When it could not be had without keeping others from it while a
                person looks at the diff, or in a dry run.
        """
        self.check_exclusive(kind.__name__)
        root = self._call.root
        return root.batch.before(Milestone.ENDED, root.index) if root.batch is not None else None

    def off_loop(self, function: Callable[[], Any]) -> Awaitable[Any]:
        """Call a function that may wait; see `on_worker`."""
        return self._call.executor.engine.asynchronous.attend(on_worker(self._call, function))

    @contextmanager
    def paused(self) -> Generator[None]:
        """Pause the handler's timeout, and the timeouts of the calls around it, during a wait."""
        limits: list[Limit] = []
        each: ActiveCall | None = self._call
        while each is not None:
            limits += [] if each.limit is None else [each.limit]
            each = each.parent
        for limit in limits:
            limit.pause()
        try:
            yield
        finally:
            for limit in limits:
                limit.resume()

    def __str__(self) -> str:
        return str(self._call)

    def _meant(self, call: ToolCall) -> ToolCall:
        """Return the call by the name that the configuration has given the tool it means."""
        name = self._call.tool.renamed_tools.get(call.name)
        return call if name is None else replace(call, name=name)


def _not_to_be_had(what: str, call: ActiveCall) -> str:
    if call.executor.dry_run:
        when = "in a dry run"
    elif call.questions:
        when = f"while a person is asked about a call within {call.name}"
    else:
        when = f"before a person has approved {call.name}"
    return f"{what} cannot be had {when}: one call at a time has it. Continue without it."
