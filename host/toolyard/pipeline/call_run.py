"""One call on its way: what it has become so far, and what it can be asked and told.

A `CallRun` is what the stages read and write. To the handler it is the `CallControl`
behind the context, to the resources the call that asks, to a job the one to be told
when it is abandoned.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from toolyard.pipeline.batch import BatchOrder, Milestone
from toolyard.pipeline.gates import Gate, Turns
from toolyard.pipeline.limits import Cancelled, Limit
from toolyard.pipeline.marks import ENDED, LOOKUP, NOT_BEGUN, SUCCEEDED
from toolyard.resources.call import CallScope
from toolyard.state.redoing import NOTHING
from toolyard_hookspecs import (
    CallClosed,
    CallRecord,
    Cancellation,
    Deadline,
    HandlerState,
    Outcome,
    ResourceBusyError,
    SnapshotError,
    Stage,
    StateError,
    Status,
    ToolCall,
    ToolContext,
    ToolResult,
)
from toolyard_hookspecs.calls import NO_META

if TYPE_CHECKING:
    from toolyard.executor import Executor
    from toolyard.pipeline.plan import Plan
    from toolyard.state.branch import Branch
    from toolyard_hookspecs import Participant, PolicyDecision


class CallRun:
    """One call on its way through the stages.

    Args:
        executor: What dispatches it.
        call: The call as it came.
        parent: The call whose handler made it, None for a top-level one.
        batch: The order it keeps with calls dispatched beside it, None for a single one.
        index: Its place in the batch.
        on_loop: Whether an event loop waits for it.
    """

    # Slots, all of them filled: every stage of every call reads and writes them.
    __slots__ = (
        "_child_turns",
        "_children",
        "_forget_left",
        "_left",
        "_runs_on",
        "admitted",
        "answer",
        "approved",
        "arguments",
        "asks",
        "batch",
        "branch",
        "call_made",
        "cancellation",
        "claimed",
        "closed",
        "committed",
        "context",
        "copies",
        "crossings",
        "data",
        "deadline",
        "decisions",
        "edited",
        "error",
        "executor",
        "facts",
        "handler_duration",
        "handler_state",
        "has_turn",
        "index",
        "left_child",
        "limit",
        "listeners",
        "on_loop",
        "opened",
        "outcome",
        "params",
        "parent",
        "participants",
        "plan",
        "questions",
        "raises",
        "replayed",
        "reruns",
        "result",
        "rolled_back",
        "scope",
        "serial_ticket",
        "session_changes",
        "stage",
        "started",
        "status",
        "tells_json",
        "text",
        "timestamp",
        "when_abandoned",
    )

    branch: Branch
    scope: CallScope
    context: ToolContext
    result: ToolResult[Any]
    outcome: Outcome

    def __init__(  # noqa: PLR0913, PLR0915 - each is named
        self,
        executor: Executor,
        call: ToolCall,
        *,
        parent: CallRun | None = None,
        batch: BatchOrder | None = None,
        index: int = 0,
        on_loop: bool = False,
    ) -> None:
        self.executor = executor
        self.call_made = call
        self.parent = parent
        self.batch = batch
        self.index = index
        self.on_loop = on_loop
        self.started = executor.monotonic()
        self.timestamp = executor.clock.now()
        self.participants: list[Participant] = []
        self.plan: Plan | None = None
        self.arguments: bytes | str = b"{}"
        self.params: Any = None
        self.limit: Limit | None = None
        self.opened = False
        self.admitted = False
        self.committed = False
        self.has_turn = False
        self.stage: Stage = LOOKUP
        self.status: Status = SUCCEEDED
        self.text = ""
        # Whether the text is the value's JSON, so that it need not be kept beside it.
        self.tells_json = False
        self.data: bytes | None = None
        self.error: BaseException | None = None
        self.raises: BaseException | None = None
        # What left a nested call, on its way through the handler that made it.
        self.left_child: BaseException | None = None
        self.rolled_back = False
        # Whether plugins were asked to answer in the handler's place; they are, once.
        self.claimed = False
        self.replayed = False
        self.reruns = 0
        self.handler_duration: float | None = None
        self.handler_state: HandlerState = NOT_BEGUN
        # What the handler and the reducers of its value changed in the session, or why it
        # cannot be told; for tools that are idempotent, and observers that take it.
        self.session_changes: str | SnapshotError = NOTHING
        self.answer: Any = None
        self.decisions: tuple[PolicyDecision, ...] = ()
        self.closed: str | None = None
        self.serial_ticket: Any = None
        self.facts: Mapping[str, Any] = NO_META
        # What gives the traces that go along into the process of an isolated handler, by plugin.
        self.crossings: tuple[tuple[str, Callable[[], Any]], ...] = ()
        # What hears of each stage the call enters, by plugin.
        self.listeners: tuple[tuple[str, Callable[[Stage], object]], ...] = ()
        self.copies: dict[str, Any] | None = None
        self.asks: tuple[str, ...] = ()
        self.approved: str | None = None
        # Whether a person has changed the arguments.
        self.edited = False
        self.questions = 0
        self.when_abandoned: Callable[[], None] | None = None
        self._left: Cancellation | None = None
        self._forget_left: Callable[[], None] | None = None
        # Whether its own handler was given up, and may not have ended.
        self._runs_on = False
        self._children: list[CallRun] | None = None
        self._child_turns: Turns | None = None
        if parent is None:
            self.cancellation = call.cancellation
            ends = call.deadline
            self.deadline = executor.deadline if ends is None else _earlier(executor.deadline, ends)
        else:
            self.cancellation = parent.cancellation
            self.deadline = _earlier(parent.deadline, call.deadline)
            parent.adopt(self)

    # --- what the stages ask ---

    @property
    def root(self) -> CallRun:
        """The top-level call of its tree."""
        run = self
        while run.parent is not None:
            run = run.parent
        return run

    @property
    def unusual(self) -> bool:
        """Whether its event says more than that it succeeded."""
        return bool(
            self.parent is not None
            or self.replayed
            or self.reruns
            or self.decisions
            or self.rolled_back
        )

    @property
    def name(self) -> str:
        """The tool's own name, or the one that was asked for."""
        return self.plan.tool.name if self.plan is not None else self.call_made.name

    @property
    def turns(self) -> Turns:
        """The queue in which calls commit: the session's, the parent's or the dry run's own."""
        above = self.parent or self.executor.rehearsal
        return self.executor.runtime.turns if above is None else above.child_turns()

    def child_turns(self) -> Turns:
        """The queue in which calls nested in this one commit."""
        if self._child_turns is None:
            with _lock:
                turns: Turns | None = self._child_turns
                self._child_turns = Turns() if turns is None else turns
        return self._child_turns

    def limit_without_timeout(self) -> Limit:
        """The limit of everything but the handler: the deadline and the cancellation."""
        return Limit(None, self.deadline, self.left())

    def left(self) -> Cancellation | None:
        """Return what tells that nobody waits for the call any more, None where nothing can."""
        if self.parent is None:
            return self.cancellation
        if self._left is None:
            self._left = Cancellation()
            if self.cancellation is not None:
                self._forget_left = self.cancellation.on_cancel(self._left.cancel)
            if self.closed is not None:
                self._left.cancel()
        return self._left

    def check_limits(self) -> None:
        """Raise when the call is cancelled, abandoned or out of time."""
        if self.closed is not None:
            raise CallClosed(self.closed)
        if self.cancellation is not None and self.cancellation.aborted:
            msg = "Request was cancelled"
            raise Cancelled(msg)
        if self.deadline is not None:
            self.deadline.check()

    def passed(self, milestone: Milestone) -> None:
        """Let the later calls of the batch go on."""
        if self.batch is not None:
            self.batch.passed(milestone, self.index)

    def open(self) -> None:
        """Fork the branch and make the context that checks see, which changes nothing."""
        self.fork()
        self.opened = True

    def fork(self) -> None:
        """Fork a branch from the newest state, with resources and a context of its own."""
        above = self.parent or self.executor.rehearsal
        base = self.executor.session if above is None else above.branch
        self.branch = base.fork()
        self._make_context(above)

    def renew(self) -> None:
        """Fork again from the newest state, for checks or a run that start afresh."""
        self.scope.close()
        self.fork()
        self.participants = []

    def take_turn(self) -> Gate | None:
        """Take the turn to commit; return what to wait for, if it is another's."""
        self.has_turn = True
        return self.turns.take(self)

    def give_turn_back(self) -> None:
        """Let others commit while this call waits for something else."""
        if self.has_turn:
            self.has_turn = False
            self.turns.give_back(self)

    def _make_context(self, above: CallRun | None) -> None:
        parent = self.parent
        executor = self.executor
        self.scope = CallScope(
            executor.resources, parent=above.scope if above is not None else None, owner=self
        )
        context: ToolContext = _new(ToolContext)
        fields = context.__dict__
        fields.update(executor.context_fields)
        fields["session"] = self.branch
        fields["resources"] = self.scope
        fields["deadline"] = self.deadline
        fields["abort_signal"] = self.cancellation or Cancellation()
        fields["tool_call"] = self.call_made
        fields["parent"] = parent.context if parent is not None else None
        fields["control"] = self
        self.context = context

    def adopt(self, child: CallRun) -> None:
        """Take note of a nested call."""
        if self._children is None:
            self._children = []
        self._children.append(child)

    def end(self) -> None:
        """Give back everything a call holds while it lasts."""
        if self.admitted:
            self.executor.runtime.leave(self)
        if self.has_turn:
            self.give_turn_back()
        if self.opened:
            self.branch.close(_OVER)
            self.scope.close()
            if self.closed is None:
                self._let_go()
        if self.serial_ticket is not None and self.closed is None:
            self.serial_ticket.withdraw()
        if self.closed is not None and not self._runs_on:
            self.ended_late()
        if self._forget_left is not None:
            self._forget_left()
        if self.parent is not None:
            self.parent.disown(self)
        if self.batch is not None:
            self.passed(ENDED)
        self.closed = self.closed or _ENDED

    def _let_go(self) -> None:
        """Break the circles through the context, which would wait for the garbage collector."""
        del self.context, self.scope, self.branch
        self.opened = False

    def disown(self, child: CallRun) -> None:
        """Forget a nested call that has ended."""
        if self._children is not None and child in self._children:
            self._children.remove(child)

    # --- told by a job ---

    def abandon(self, reason: str) -> None:
        """Close everything the handler could still change; it may run on for ever."""
        self._runs_on = True
        self._shut(reason)

    def _shut(self, reason: str) -> None:
        if self.closed is not None:
            return
        self.closed = reason
        if self.when_abandoned is not None:
            self.when_abandoned()
        if self._left is not None:
            self._left.cancel()
        # Its own thread may be ending it at this very moment.
        branch, scope = getattr(self, "branch", None), getattr(self, "scope", None)
        if branch is not None and scope is not None:
            branch.close(f"{self.name} {reason}")
            scope.abandon(self.name)
        if self.serial_ticket is not None:
            self.serial_ticket.abandon()
        for child in list(self._children or ()):
            child._shut(f"was called by {self.name}, which {reason}")  # noqa: SLF001 - its own kind

    def ended_late(self) -> None:
        """Hear that an abandoned handler, or what abandoned this call, has ended after all."""
        if self.opened:
            self.scope.release_abandoned()
        if self.serial_ticket is not None:
            self.serial_ticket.withdraw()

    # --- asked by the resources ---

    @property
    def root_id(self) -> CallRun:
        """What the call's tree is known by."""
        return self.root

    def check_open(self) -> None:
        """Raise `CallClosed` once the call is abandoned or has ended."""
        if self.closed is not None:
            msg = f"{self.name} {self.closed}"
            raise CallClosed(msg)

    def before_exclusive(self, kind: type[Any]) -> Gate | None:
        """Return what to wait for before an exclusive resource may be had.

        Raises:
            ResourceBusyError: When it could not be had without keeping others from it while a
                person looks at the diff, or in a dry run.
        """
        self.check_exclusive(kind.__name__)
        root = self.root
        return root.batch.before(ENDED, root.index) if root.batch is not None else None

    def count_question(self, more: int) -> None:
        """Let the calls around this one know that a person is being asked within them."""
        each = self.parent
        with _lock:
            while each is not None:
                each.questions += more
                each = each.parent

    def pause_timeout(self) -> None:
        """Stop the handler's timeout while it waits for others."""
        each: CallRun | None = self
        while each is not None:
            if each.limit is not None:
                each.limit.pause()
            each = each.parent

    def resume_timeout(self) -> None:
        """Let the handler's timeout go on."""
        each: CallRun | None = self
        while each is not None:
            if each.limit is not None:
                each.limit.resume()
            each = each.parent

    # --- asked by plugins ---

    def handler_ended(self, state: HandlerState) -> None:
        """Note how the handler ended, unless nobody waited for that any more."""
        cancelled = self.cancellation is not None and self.cancellation.aborted
        if self.closed is None and not cancelled:
            self.handler_state = state

    def keep(self, effect_id: str) -> CallRecord:
        """Return what the call came to, and mark the session as holding what it changed."""
        plan, result, value = self.plan, self.result, self.data
        assert plan is not None  # noqa: S101 - it has run
        if value is None and result.value is not None:
            value = plan.tool.result_codec.encode(result.value)
        changes = self.session_changes
        if changes == NOTHING:
            return CallRecord(result, value)
        self.branch.mark_applied(effect_id)
        if isinstance(changes, SnapshotError):
            return CallRecord(result, value, unportable=str(changes))
        return CallRecord(result, value, changes)

    def note_changes(self) -> None:
        """Keep what the call has changed in the session so far."""
        try:
            self.session_changes = self.branch.changes()
        except SnapshotError as error:
            self.session_changes = error

    # --- asked by the handler ---

    def call(self, call: ToolCall) -> Outcome:
        """Dispatch a nested call and wait for it."""
        self.check_open()
        if _is_on_loop():
            msg = (
                f"{self.name} runs on an event loop; write: await context.acall({call.name!r}, ...)"
            )
            raise StateError(msg)
        return self.executor.dispatch_nested(self._meant(call), self)

    def acall(self, call: ToolCall) -> Awaitable[Outcome]:
        """Dispatch a nested call."""
        self.check_open()
        return self.executor.adispatch_nested(self._meant(call), self)

    def _meant(self, call: ToolCall) -> ToolCall:
        """Return the call by the name that the configuration has given the tool it means."""
        assert self.plan is not None  # noqa: S101 - it has a handler, which calls
        name = self.plan.tool.siblings.get(call.name)
        return call if name is None else replace(call, name=name)

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Pass a progress report to whoever listens."""
        self.check_open()
        listener = self.executor.on_progress
        if listener is not None:
            listener(self.call_made, done, total, message)

    def check_exclusive(self, what: str) -> None:
        """Raise where others would be kept from it while a person looks, or in a dry run."""
        each: CallRun | None = self
        while each is not None:
            if each.asks or each.questions or each.executor.dry_run:
                raise ResourceBusyError(_not_to_be_had(what, each))
            each = each.parent

    def note(self, name: str, value: object) -> None:
        """Keep a fact for the event."""
        self.check_open()
        self.facts = {**self.facts, name: value}

    def __str__(self) -> str:
        """Return how log messages name it."""
        return f"{self.name} ({self.call_made.id})"


def _not_to_be_had(what: str, run: CallRun) -> str:
    if run.executor.dry_run:
        when = "in a dry run"
    elif run.questions:
        when = f"while a person is asked about a call within {run.name}"
    else:
        when = f"before a person has approved {run.name}"
    return f"{what} cannot be had {when}: one call at a time has it. Do without it."


def _is_on_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


_new: Any = object.__new__
_lock = threading.Lock()
_ENDED = "has ended, so nothing can be done on its behalf any more."
_OVER = "The call is over, so it can neither read nor change the session any more."


def _earlier(one: Deadline | None, other: Deadline | None) -> Deadline | None:
    if one is None or other is None:
        return one or other
    return one if one.remaining() <= other.remaining() else other
