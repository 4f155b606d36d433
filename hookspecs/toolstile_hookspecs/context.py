"""The context that a handler gets beside its params."""

# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from toolstile_hookspecs._schema.secrets import Secret
from toolstile_hookspecs.calls import Outcome, ToolCall
from toolstile_hookspecs.errors import DefinitionError, StateError
from toolstile_hookspecs.execution.principal import Principal, RequestTurn, one_principal
from toolstile_hookspecs.execution.prompt_parts import NoResources
from toolstile_hookspecs.limits import (
    BudgetTracker,
    Cancellation,
    Clock,
    Deadline,
    Heartbeat,
    SystemClock,
)
from toolstile_hookspecs.services.filesystem import Filesystem

if TYPE_CHECKING:
    from toolstile_hookspecs.prompts import Prompt, RenderedPrompt
    from toolstile_hookspecs.resources import CallResources
    from toolstile_hookspecs.services.replay import CallRecord, HandlerState
    from toolstile_hookspecs.sessions import SessionProtocol


@dataclass(frozen=True, slots=True)
class RunContext:
    """Ids that correlate a run with the systems around it.

    Args:
        run_id: This run of the agent.
        request_id: The request that started it.
        attempt: The number of the attempt at the request, from 1.
        worker_id: The machine or process that runs it.
        tags: Further labels.
    """

    run_id: str = field(default_factory=lambda: uuid4().hex)
    request_id: str | None = None
    attempt: int = 1
    worker_id: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class InflightCall:
    """A call that was admitted and has not ended."""

    call_id: str
    tool_name: str


class CallControl(Protocol):
    """The host's side of a running call, behind the methods of `ToolContext` of these names."""

    def call(self, call: ToolCall) -> Outcome:
        """Dispatch a nested call and wait for it."""

    def acall(self, call: ToolCall) -> Awaitable[Outcome]:
        """Dispatch a nested call."""

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Pass a progress report on."""

    def set_attribute(self, name: str, value: object) -> None:
        """Set an attribute of the call's event."""

    def paused(self) -> AbstractContextManager[None]:
        """Stop the timeouts of the handler and its callers while it waits to begin."""

    def check_exclusive(self, what: str) -> None:
        """Raise `ResourceBusyError` where the call can have nothing for itself alone."""

    def on_abandoned(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call back when the call is abandoned; return a function that takes this back."""

    def crossings(self) -> Sequence[bytes]:
        """Return traces to enter in the process of the handler, as JSON; see `CrossingTrace`."""

    @property
    def handler_state(self) -> HandlerState:
        """The progress of the handler, for plugins that depend on its effects."""

    @property
    def is_over(self) -> bool:
        """True when the top-level call around it has ended, kept or rolled back."""

    def keep(self, effect_id: str) -> CallRecord:
        """Return the record of a successful call, in a participant's `prepare` or `join`.

        A `Replay` of the same id then changes nothing in this session.
        """


@dataclass(frozen=True, repr=False)
class ToolContext:
    """The context a call runs in; frozen, and the call's own.

    Args:
        session: The call's branch of the session.
        resources: Resources by type; transactional ones are the call's own branch.
        prompt: The prompt whose tools are called.
        adapter: The application's adapter to the provider.
        deadline: The end of the evaluation.
        heartbeat: Extends a lease during long work.
        run_context: Ids for correlation.
        principal: The user or the program for whom the call runs.
        user_id: The id of the principal.
        auth: The credentials of the principal, masked in every text.
        request: The texts of the user when the call was made, oldest first.
        client: The application's own client for its services.
        abort_signal: Set when the call is cancelled from outside.
        clock: The source of time, in place of `time` itself.
        inflight: Calls of this session that were admitted and have not ended.
        tool_call: The call itself.
        parent: The context of the call that made this one, or None.
        transaction: The context of the transaction that a top-level call is part of, or None.
        control: The host behind the methods; None in a context made by hand.
        agent: The path of the agent that made the call, such as `main/reader`.

    Example:
        >>> context = ToolContext(session=None)  # type: ignore[arg-type]
        >>> context.cancelled
        False
    """

    session: SessionProtocol
    resources: CallResources = field(default_factory=NoResources)
    prompt: Prompt | None = None
    adapter: Any = None
    deadline: Deadline | None = None
    heartbeat: Heartbeat | None = None
    run_context: RunContext | None = None
    principal: Principal | None = None
    user_id: str | None = None
    auth: Secret | None = field(default=None, repr=False)
    request: Sequence[RequestTurn] = ()
    client: Any = field(default=None, repr=False)
    abort_signal: Cancellation = field(default_factory=Cancellation, repr=False)
    clock: Clock = field(default_factory=SystemClock, repr=False)
    inflight: Sequence[InflightCall] = ()
    tool_call: ToolCall | None = None
    parent: ToolContext | None = field(default=None, repr=False)
    transaction: ToolContext | None = None
    control: CallControl | None = field(default=None, repr=False)
    agent: str = "main"

    def __post_init__(self) -> None:
        """Derive `user_id` and `auth` from `principal`, and refuse resources without `get`."""
        if not hasattr(self.resources, "get"):
            raise DefinitionError(
                f"ToolContext: its resources are not open: {type(self.resources).__qualname__} has "
                "no get(). Enter it, as in `with prompt.resources as resources`, and give those."
            )
        vars(self).update(one_principal(self.principal, self.user_id, self.auth))

    def __repr__(self) -> str:
        """Return the call's id alone, since texts reach the model."""
        return f"ToolContext({self.tool_call.id if self.tool_call is not None else ''})"

    @property
    def rendered_prompt(self) -> RenderedPrompt | None:
        """The prompt as the model would get it now, or None; see `Prompt.render`.

        Sections' look-ups in the session count as reads of the call.
        """
        return None if self.prompt is None else self.prompt.render(self.session, self.resources)

    @property
    def filesystem(self) -> Filesystem | None:
        """The workspace, or None without one."""
        return self.resources.get(Filesystem, None)  # type: ignore[type-abstract]  # a protocol

    @property
    def budget_tracker(self) -> BudgetTracker | None:
        """The budget, or None without one."""
        return self.resources.get(BudgetTracker, None)  # type: ignore[type-abstract]  # a protocol

    @property
    def cancelled(self) -> bool:
        """True when the call was cancelled; check it before slow work."""
        return self.abort_signal.aborted

    def beat(self) -> None:
        """Report a sign of life."""
        if self.heartbeat is not None:
            self.heartbeat.beat()

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report the progress of the work; also a heartbeat."""
        self.beat()
        if self.control is not None:
            self.control.progress(done, total, message)

    def set_attribute(self, name: str, value: object) -> None:
        """Set an attribute of the call's event, under `plugin.name`.

        Raises:
            CallClosed: When the call was abandoned or has ended, but for `toolstile_rollback`.
        """
        if self.control is not None:
            self.control.set_attribute(name, value)

    def on_abandoned(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` once the call is abandoned, to end work of the handler elsewhere.

        Callbacks run newest first on the abandoning thread, or at once if the call is abandoned
        already. They must not wait; exceptions are logged. The returned function takes it back.
        """
        if self.control is None:
            return self.abort_signal.on_cancel(callback)
        return self.control.on_abandoned(callback)

    def check_exclusive(self, what: str) -> None:
        """Check that the call may have something for itself alone; `what` names it.

        Raises:
            ResourceBusyError: In a dry run, and before a person has approved the changes.
        """
        if self.control is not None:
            self.control.check_exclusive(what)

    def call(self, name: str, arguments: str | Mapping[str, Any] = "{}") -> Outcome:
        """Call another tool from a sync handler; its changes become part of this call's."""
        return self._control().call(self._nested(name, arguments))

    def acall(self, name: str, arguments: str | Mapping[str, Any] = "{}") -> Awaitable[Outcome]:
        """Call another tool from an async handler."""
        return self._control().acall(self._nested(name, arguments))

    def _nested(self, name: str, arguments: str | Mapping[str, Any]) -> ToolCall:
        return ToolCall(name, arguments, meta=self.tool_call.meta if self.tool_call else {})

    def _control(self) -> CallControl:
        if self.control is None:
            raise StateError(
                "This context belongs to no running call, so it cannot call other tools. "
                "Dispatch through an executor."
            )
        return self.control
