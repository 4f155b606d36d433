"""The control of a running call, through which its handler, plugins and resources ask it."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from toolstile.drivers.limit import HAS_ENDED, Abandonment
from toolstile.pipeline.batch import Milestone
from toolstile.pipeline.failures import unreadable
from toolstile.pipeline.hook_calls import log_observer_error, on_worker
from toolstile.pipeline.masking import holds_secrets, log_failure, without_masked
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

    __slots__ = ("_run", "parent")

    def __init__(self, run: ActiveCall, parent: CallOwner | None) -> None:
        self._run = run
        self.parent = parent

    def check_open(self) -> None:
        """Raise `CallClosed` once the call is abandoned or has ended."""
        self._run.check_open()

    # --- asked by the handler ---

    @property
    def is_approved(self) -> bool:
        """True once a person has approved the call; see `execution.approved`."""
        return self._run.attributes.get(APPROVAL) in _APPROVED

    def call(self, call: ToolCall) -> Outcome:
        """Dispatch a nested call and wait for it."""
        run = self._run
        run.check_open()
        if is_on_loop():
            raise StateError(
                f"{run.name} runs on an event loop; write: await context.acall({call.name!r}, ...)"
            )
        return run.executor.dispatch_nested(self._meant(call), run)

    def acall(self, call: ToolCall) -> Awaitable[Outcome]:
        """Dispatch a nested call."""
        run = self._run
        run.check_open()
        return run.executor.adispatch_nested(self._meant(call), run)

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Pass a progress report to whoever listens."""
        run = self._run
        run.check_open()
        listener = run.executor.on_progress
        if listener is not None:
            listener(run.call_made, done, total, message)

    def set_attribute(self, name: str, value: object) -> None:
        """Set an attribute of the event."""
        self._run.set_attribute(name, value)

    def check_exclusive(self, what: str) -> None:
        """Raise where others would be kept from it while a person looks, or in a dry run."""
        each: ActiveCall | None = self._run
        while each is not None:
            if each.asks or each.questions or each.executor.dry_run:
                raise ResourceBusyError(_not_to_be_had(what, each))
            each = each.parent

    def on_abandoned(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back when the call is given up, at once where it is; return what takes that back."""
        run = self._run
        if run.closed is HAS_ENDED:
            run.check_open()
        with _registering:
            if (abandonment := run.abandonment) is None:
                text = "A callback of %s failed, which was to end what it runs elsewhere."
                abandonment = Abandonment(partial(log_failure, run, log, text, run))
                run.abandonment = abandonment
        forget = abandonment.add(callback)
        if run.closed is not None or run.executor.retired is not None:
            run.tell_abandoned()
        return forget

    # --- asked by plugins ---

    def crossings(self) -> list[bytes]:
        """Return the traces that go along into another process; log those that cannot."""
        found: list[bytes] = []
        for plugin, make in self._run.crossings:
            try:
                crossing = make()
                if crossing is not None:
                    found.append(json.dumps(PortableValues().write(crossing)).encode())
            except Exception:  # noqa: BLE001 - logged without secrets
                text = "The trace of plugin %s cannot go along into a process."
                log_observer_error(self._run, log, plugin, "toolstile_trace", text)
        return found

    @property
    def handler_state(self) -> HandlerState:
        """The progress of the handler."""
        return self._run.handler_state

    @property
    def is_over(self) -> bool:
        """True when the top-level call around it has ended."""
        return self._run.root.ended

    def keep(self, effect_id: str) -> CallRecord:
        """Return what the call came to, and mark the session as holding what it changed."""
        run = self._run
        tool, result, value = run.tool, run.result, run.data
        if value is None and result.value is not None:
            value = tool.result_codec.encode(result.value)
        if value is not None:
            # What cannot be read could not answer a later call.
            try:
                tool.result_codec.decode(value)
            except ToolValidationError as error:
                raise unreadable(run.name, "value", error) from error
        changes: str | None = None
        unportable: str | None = None
        if run.session_changes != NOTHING:
            run.branch.mark_applied(effect_id)
            if isinstance(run.session_changes, SnapshotError):
                unportable = str(run.session_changes)
            else:
                changes = run.session_changes
        if run.result_secrets:
            result, changes = without_masked(result, changes)
        secret = holds_secrets(run, result.message, value, changes, unportable)
        return CallRecord(result, value, changes, unportable, secret)

    # --- asked by the resources ---

    @property
    def context(self) -> ToolContext:
        """The call's context."""
        return self._run.context

    @property
    def deadline(self) -> Deadline | None:
        """The deadline of a wait."""
        return self._run.deadline

    @property
    def cancellation(self) -> Cancellation | None:
        """The cancellation that ends a wait from outside."""
        return self._run.cancellation

    @property
    def root_id(self) -> ActiveCall:
        """The id of the call's tree."""
        return self._run.root

    def before_exclusive(self, kind: type[Any]) -> OneShotGate | None:
        """Return what to wait for before an exclusive resource may be had.

        Raises:
            ResourceBusyError: When it could not be had without keeping others from it while a
                person looks at the diff, or in a dry run.
        """
        self.check_exclusive(kind.__name__)
        root = self._run.root
        return root.batch.before(Milestone.ENDED, root.index) if root.batch is not None else None

    def off_loop(self, function: Callable[[], Any]) -> Awaitable[Any]:
        """Call a function that may wait; see `on_worker`."""
        return self._run.executor.engine.asynchronous.attend(on_worker(self._run, function))

    @contextmanager
    def paused(self) -> Generator[None]:
        """Stop the handler's timeout, and those of the calls around it, while it waits."""
        limits: list[Limit] = []
        each: ActiveCall | None = self._run
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
        """Return how log messages name the call."""
        return str(self._run)

    def _meant(self, call: ToolCall) -> ToolCall:
        """Return the call by the name that the configuration has given the tool it means."""
        name = self._run.tool.renamed_tools.get(call.name)
        return call if name is None else replace(call, name=name)


def _not_to_be_had(what: str, run: ActiveCall) -> str:
    if run.executor.dry_run:
        when = "in a dry run"
    elif run.questions:
        when = f"while a person is asked about a call within {run.name}"
    else:
        when = f"before a person has approved {run.name}"
    return f"{what} cannot be had {when}: one call at a time has it. Continue without it."
