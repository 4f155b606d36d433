"""One call on its way: its progress so far, from its fork to its end.

The stages read and write an `ActiveCall`, and a job notifies it when the job is
abandoned. Handlers, plugins and resources ask it through its `CallControlImpl`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from toolstile.drivers.limit import HAS_ENDED, Lifetime, Limit
from toolstile.pipeline.batch import BatchOrder, CommitQueue, Milestone, check_call
from toolstile.pipeline.failures import waits_for_itself
from toolstile.resources.call_scope import CallScope
from toolstile.resources.exclusive import holds_up
from toolstile.state.branch import Branch
from toolstile.state.persistent_list import ItemsView
from toolstile.state.replay import NOTHING
from toolstile_hookspecs import (
    Cancellation,
    HandlerState,
    Outcome,
    RequestTurn,
    SnapshotError,
    Stage,
    Status,
    ToolCall,
    ToolContext,
    ToolResult,
)
from toolstile_hookspecs.execution.foreign_tools import ForeignCall, handler_of
from toolstile_hookspecs.support.process import deferred_interrupts, renewed_in_forks

if TYPE_CHECKING:
    from toolstile.pipeline.environment import Control, Environment, Resumption
    from toolstile.pipeline.plan import ToolPlan
    from toolstile.resources.exclusive import Claim, OneShotGate
    from toolstile_hookspecs import Participant, PolicyDecision, Tool

# The marks that every call passes, as module names: before Python 3.12, reading a member
# off its enum takes five times as long.
LOOKUP: Final = Stage.LOOKUP
PARSE: Final = Stage.PARSE
DEADLINE: Final = Stage.DEADLINE
CHECK: Final = Stage.CHECK
RESERVE: Final = Stage.RESERVE
EXECUTE: Final = Stage.EXECUTE
RENDER: Final = Stage.RENDER
VALIDATE: Final = Stage.VALIDATE
ON_RESULT: Final = Stage.ON_RESULT
PREPARE: Final = Stage.PREPARE
COMMIT: Final = Stage.COMMIT
TELEMETRY: Final = Stage.TELEMETRY
SUCCEEDED: Final = Status.SUCCEEDED
NOT_BEGUN: Final = HandlerState.NOT_BEGUN
BEGUN: Final = HandlerState.BEGUN
RETURNED: Final = HandlerState.RETURNED


class ActiveCall(Lifetime["ActiveCall"]):
    """One call on its way through the stages.

    Args:
        executor: The executor that dispatches it.
        call: The call as it came.
        parent: The call whose handler made it, None for a top-level one.
        batch: The order it keeps with calls dispatched beside it, None for a single one.
        index: Its place in the batch.
        on_loop: Whether an event loop waits for it.
        resumption: The answer to resume it with, if it was pending.
        using: The callable that runs a foreign tool this once.
    """

    # Slots, all of them filled: every stage of every call reads and writes them.
    # fmt: off
    __slots__ = (
        "_child_turns", "admitted", "answer", "approved", "arguments", "around", "asks",
        "attributes", "batch", "branch", "claimed", "committed", "context", "control", "crossings",
        "data", "decisions", "diff", "edited", "ended", "error", "executor", "handler_duration",
        "handler_state", "index", "is_bounded", "left_child", "limit", "listeners",
        "mark", "on_loop", "opened", "outcome", "params", "params_shown", "participants", "places",
        "plan", "questions", "raises", "recalled", "replayed", "request", "reruns", "result",
        "result_secrets", "resumption", "rolled_back", "scope", "serial_claim", "session_changes",
        "stage", "started", "status", "stops", "tells_json", "text", "timestamp",
        "tools_within", "turns", "undone", "using",
    )
    # fmt: on

    executor: Environment
    attributes: Mapping[str, Any]
    around: Any
    """The mark of the place that dispatched the call, until the call has ended."""
    ended: bool
    """True once it has given back all that it holds."""

    plan: ToolPlan | None
    request: Sequence[RequestTurn]
    stage: Stage
    opened: bool
    limit: Limit | None

    # The arguments, and a copy of the params for those who look at them.
    arguments: bytes | str
    params: Any
    params_shown: Any
    edited: bool
    """True once a person has changed the arguments."""

    # The admission: questions, answers, places.
    asks: tuple[str, ...]
    questions: int
    approved: str | None
    decisions: tuple[PolicyDecision, ...]
    admitted: bool
    serial_claim: Claim | None
    places: Any
    """The records that it reserved by, before and after, and its reservations at counters."""

    # The transaction.
    participants: list[Participant]
    branch: Branch
    control: Control
    scope: CallScope
    context: ToolContext
    reruns: int
    turns: CommitQueue | None
    """The queue for the turn to commit: the session's, its parent's or its transaction's."""
    undone: bool
    """True once the participants were taken to be rolled back; later ones come too late."""
    committed: bool
    mark: int
    """The mark of its decision in the slot of the host; see `Gate.enter`."""
    tools_within: frozenset[Tool[Any, Any]]
    """The tools of the calls that have joined it."""
    stops: Any
    """The stops that were known when it began, None before that; see `Gate.known`."""

    # The handler's result, or a plugin's answer in its place.
    result: ToolResult[Any]
    answer: Any
    claimed: bool
    """True once plugins were asked to answer in the handler's place."""
    recalled: bool
    """True once approval was skipped because an earlier result answers."""
    replayed: bool
    handler_state: HandlerState
    handler_duration: float | None
    session_changes: str | SnapshotError
    """The changes of the session by handler and reducers, or the reason why they have no JSON."""
    diff: str
    """The changes without secrets, as an approver reads them; "" while no observer takes them."""
    data: bytes | None
    text: str
    tells_json: bool
    """True where the text is the value's JSON, which is kept once."""
    result_secrets: tuple[str, ...]

    # The end.
    status: Status
    error: BaseException | None
    raises: BaseException | None
    left_child: BaseException | None
    """The exception that left a nested call, on its way through the handler that made it."""
    rolled_back: bool
    outcome: Outcome

    # The plugins that follow it.
    crossings: tuple[tuple[str, Callable[[], Any]], ...]
    """The traces that go along into the process of an isolated handler, by plugin."""
    listeners: tuple[tuple[str, Callable[[Stage], object]], ...]
    """The listeners of the stages that the call enters, by plugin."""

    _child_turns: CommitQueue | None

    def __init__(  # noqa: PLR0913 - each is named
        self,
        executor: Environment,
        call: ToolCall,
        *,
        parent: ActiveCall | None = None,
        batch: BatchOrder | None = None,
        index: int = 0,
        on_loop: bool = False,
        resumption: Resumption | None = None,
        using: ForeignCall | None = None,
    ) -> None:
        # Callers need not be type-checked.
        if (
            call.__class__ is not ToolCall
            or call.deadline is not None
            or call.cancellation is not None
        ):
            check_call(call)
        self.call_made = call
        self.executor = executor
        self.started = executor.monotonic()
        self.timestamp = executor.clock.now()
        self.participants = []
        self.on_loop = on_loop
        self.resumption = resumption
        self.using = None if using is None else handler_of(using)
        self.batch, self.index = batch, index
        self.attributes = executor.attributes
        self.around, self.ended = None, False
        self.parent = self.children = self.closed = self.abandonment = self._left = None
        self._forget_left = None
        self._runs_on = False
        if parent is None:
            self.cancellation = call.cancellation
            self.deadline = executor.deadline
        if parent is not None or call.deadline is not None:
            self.begin_within(parent, executor.deadline)
        self.is_bounded = self.deadline is not None or self.cancellation is not None
        self.arguments = b"{}"
        self.stage, self.status = LOOKUP, SUCCEEDED
        self.handler_state = NOT_BEGUN
        self.session_changes = NOTHING
        self.text = self.diff = ""
        self.reruns = self.questions = self.mark = 0
        self.tools_within = _NO_TOOLS
        self.undone = self.opened = self.admitted = self.committed = self.edited = False
        self.tells_json = self.rolled_back = self.claimed = self.recalled = self.replayed = False
        self.plan = self.params = self.limit = self.turns = self.serial_claim = self.stops = None
        self.data = self.error = self.raises = self.left_child = self.answer = None
        self.handler_duration = self.params_shown = self.approved = self._child_turns = None
        self.result_secrets = self.decisions = self.asks = ()
        self.crossings = self.listeners = self.request = self.places = ()
        if parent is not None:
            parent.adopt(self)

    # --- asked by the stages ---

    @property
    def name(self) -> str:
        """The tool's name for models, or the name in the call."""
        return self.plan.tool.label if self.plan is not None else self.call_made.name

    @property
    def tool(self) -> Tool[Any, Any]:
        """Its tool, once that has been looked up."""
        assert self.plan is not None  # noqa: S101 - see above
        return self.plan.tool

    def child_turns(self) -> CommitQueue:
        """The commit queue of the calls nested in this one."""
        if self._child_turns is None:
            with deferred_interrupts(), _lock:
                turns: CommitQueue | None = self._child_turns
                self._child_turns = CommitQueue() if turns is None else turns
        return self._child_turns

    def is_joined_by_another(self) -> bool:
        """Tell whether a nested call has joined this one, and is not done with it."""
        children = self.children
        return children is not None and any(each.committed for each in list(children))

    def adopt_participants(self, participants: list[Participant]) -> bool:
        """Take over participants; return False if the call is rolled back already."""
        with _lock:
            if not self.undone:
                self.participants += participants
            return not self.undone

    def close_participants(self) -> None:
        """Refuse further participants, because the present ones are rolled back now."""
        with _lock:
            self.undone = True

    def passed(self, milestone: Milestone) -> None:
        """Let the later calls of the batch continue."""
        if self.batch is not None:
            self.batch.passed(milestone, self.index)

    def fork(self) -> None:
        """Fork a branch from the newest state, with its own resources and context."""
        executor, parent = self.executor, self.parent
        above = parent or executor.within
        if not self.opened:
            self.control = executor.new_control(self, None if above is None else above.control)
            gate = executor.engine.gate
            self.stops = gate.known
            if gate.numbers[0] != gate.clear:
                self.stops = gate.seen()
                gate.check(self)
            if self.batch is not None:
                self.stops = self.batch.stops = self.batch.stops or self.stops
        control = self.control
        if above is None:
            store = executor.home._store  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - spares each call a call
            branch = self.branch = Branch(store)
            slices = store.head.slices
            # The call stays under this request, however often it forks.
            if slices and not self.opened and (turns := store.found(slices, RequestTurn)).length:
                self.request = ItemsView(turns)
            scope = self.scope = CallScope(executor.resources, None, control)
        else:
            if parent is None:
                # Other hosts may have moved the session after the transaction began.
                above.branch.catch_up()
            branch = self.branch = above.branch.fork()
            self.request = above.request
            scope = self.scope = CallScope(executor.resources, above.scope, control)
        context: ToolContext = _new(ToolContext)
        # As the constructor would, in a fifth of the time; the class has the defaults.
        fields = context.__dict__
        fields.update(executor.context_fields)
        fields["session"] = branch
        fields["resources"] = scope
        fields["abort_signal"] = self.cancellation or Cancellation()
        fields["tool_call"] = self.call_made
        fields["control"] = control
        if self.deadline is not None:
            fields["deadline"] = self.deadline
        if parent is not None:
            fields["parent"] = parent.context
        if self.request:
            fields["request"] = self.request
        self.context = context
        self.opened = True

    def renew(self) -> None:
        """Fork again from the newest state, for checks or a run that start afresh."""
        before = self.scope
        with deferred_interrupts():
            self.fork()
            self.scope.held, before.held = before.held, self.scope.held
            before.close()
        self.participants = []
        self.undone, self.diff = False, ""

    def acquire_commit_turn(self) -> OneShotGate | None:
        """Take the turn to commit; return the gate to wait at if another call has the turn.

        Raises:
            CallRejected: When that other one waits for this call.
        """
        if self.turns is not None:
            return self.turns.gates.get(self)
        above = self.parent or self.executor.within
        # First: interrupted right after it has the turn, it would keep it for good.
        turns = self.turns = self.executor.runtime.turns if above is None else above.child_turns()
        gate = turns.take(self)
        if gate is None:
            return None
        holder = turns.holder
        # The caller has its own only for a moment, to let those go before it that join.
        if holder is not self.parent and holds_up(holder):
            raise waits_for_itself(self.name)
        return gate

    def release_commit_turn(self) -> None:
        """Let others commit while this call waits for something else."""
        turns = self.turns
        if turns is not None:
            turns.give_back(self)
            self.turns = None
            self.scope.release_held()

    def end(self) -> None:
        """Give back everything a call holds while it lasts; interrupted, it is done again."""
        if self.admitted or self.rolled_back:
            self.executor.runtime.calls.pop(id(self), None)
        if (turns := self.turns) is not None:
            turns.give_back(self)
            self.turns = None
        if self.mark:
            self.executor.engine.gate.leave(self)
        if self.resumption is not None and self.resumption.redeemed is not None:
            self.resumption.redeemed.release()
        if self.opened:
            if not self.committed or self.serial_claim is not None or not self.scope.close_unused():
                self._let_go()
            if self.closed is None and not self.children and self.parent is None:
                self.closed = HAS_ENDED
            else:
                self.over()
            if self.closed is HAS_ENDED and not self.children:
                # Circles through what it was given would wait for the collector. A nested call
                # that is just opening still looks at it, to find it closed.
                self.opened = False
                self.abandonment = None
                del self.context, self.control, self.scope, self.branch, self.participants
        else:
            self.over()
        if self.batch is not None:
            self.passed(Milestone.ENDED)
        self.ended = True

    def _let_go(self) -> None:
        # The commit has closed it.
        if not self.committed:
            self.branch.close(_OVER)
        with deferred_interrupts():
            try:
                self.scope.close()
            except BaseException as interruption:  # noqa: BLE001 - it leaves when the call has ended
                self.raises = self.raises or interruption
            if self.serial_claim is not None:
                self._leave_place(self.serial_claim)

    def _leave_place(self, claim: Claim) -> None:
        """Let the next call of a serial tool begin, once all of this one is kept or put back."""
        if self.scope.ended:
            within = self.executor.within if self.committed and self.parent is None else None
            claim.leave(None if within is None else within.keep_place(claim))

    def cut_off(self, reason: str) -> None:
        """Close everything that the handler could still change; see `Lifetime`."""
        # Its own thread may be ending it at this very moment.
        patience = PATIENCE if self.plan is not None and self.plan.is_async else 0.0
        branch, scope = getattr(self, "branch", None), getattr(self, "scope", None)
        if branch is not None and scope is not None:
            branch.close(f"{self.name} {reason}, {_NO_SESSION}")
            scope.abandon(self.name, patience=patience)
        if self.serial_claim is not None:
            self.serial_claim.abandon(patience=patience)

    def ended_late(self) -> None:
        """Note that an abandoned handler, or the caller that abandoned this call, has ended."""
        if self.opened:
            self.scope.release_abandoned()
            if self.serial_claim is not None:
                self._leave_place(self.serial_claim)

    @contextmanager
    def telling_rollback(self) -> Generator[None]:
        """Let only the observers of the rollback set attributes of the call."""
        token = _told_of.set(self)
        try:
            yield
        finally:
            _told_of.reset(token)

    def set_attribute(self, name: str, value: object) -> None:
        """Set an attribute of the event; once the call is over, only during its rollback."""
        if self.closed is not None and _told_of.get() is not self:
            self.check_open()
        self.attributes = {**self.attributes, name: value}

    def __str__(self) -> str:
        return f"{self.name} ({self.call_made.id})"


PATIENCE: Final = 2.0
"""Seconds for which others wait for a cancelled task to end; a thread may never end."""
_new: Any = object.__new__
_lock = renewed_in_forks(__name__, "_lock", threading.Lock)
_NO_TOOLS: Final[frozenset[Any]] = frozenset()
_told_of: Final[ContextVar[ActiveCall | None]] = ContextVar("toolstile_told_of", default=None)
_NO_SESSION = "so it can neither read nor change the session any more."
_OVER = f"The call is over, {_NO_SESSION}"
