"""The surroundings of a call: all that the pipeline asks of an executor, and of others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Protocol

from toolstile.pipeline.plan import DispatchTable, ToolPlan
from toolstile.policies.approval_tokens import RedeemedToken, TokenSigner
from toolstile.policies.persistence import PolicyStore
from toolstile.policies.rule_set import Governed
from toolstile.resources.container import Container
from toolstile.resources.exclusive import CallOwner
from toolstile.runtime import Engine, Runtime
from toolstile.settings import Settings
from toolstile.state.journal import Journal
from toolstile.state.session import Session
from toolstile_hookspecs import (
    Answer,
    ApprovalAnswer,
    Approver,
    Binding,
    Catalog,
    Clock,
    Deadline,
    Outcome,
    PolicyStoreLocation,
    Principal,
    Prompt,
    Secret,
    Tool,
    ToolCall,
)
from toolstile_hookspecs.context import CallControl
from toolstile_hookspecs.execution.change_set import ChangeSet
from toolstile_hookspecs.execution.options import Progress, Purpose


class Control(CallOwner, CallControl, Protocol):
    """A running call, as handlers, plugins and resources know it."""


class Resumption:
    """The answer with which a pending call is resumed.

    Args:
        token: The token that the pending call came with.
        answer: The person's answer.
        changes: The change set that was shown, to be kept without running the call again.
    """

    __slots__ = ("_answer", "changes", "redeemed", "token")

    def __init__(
        self, token: object, answer: ApprovalAnswer, changes: ChangeSet | None = None
    ) -> None:
        if changes is not None and changes.is_read and answer.answer is Answer.EDITED:
            # Because a model has read the result that the arguments gave.
            answer = replace(answer, answer=Answer.DENIED, arguments=None)
        self.token = token
        self.changes = changes
        self.redeemed: RedeemedToken | None = None
        self._answer: ApprovalAnswer | None = answer

    def answer_to(self, digest: str) -> ApprovalAnswer | None:
        """Return the answer if it was given to a request with this digest; it is, once."""
        if self.redeemed is None or not self.redeemed.covers(digest):
            return None
        answer, self._answer = self._answer, None
        return answer

    def forget_answer(self) -> None:
        """Have the person asked again, because the call now has another result."""
        self._answer = None

    def denies(self, digest: str) -> bool:
        """Tell whether the answer denies a request with this digest."""
        is_denial = self._answer is not None and self._answer.answer is Answer.DENIED
        return is_denial and self.redeemed is not None and self.redeemed.covers(digest)

    def has_place(self, digest: str) -> bool:
        """Tell whether the call took its place, with these params, before it was pending."""
        return self.redeemed is not None and self.redeemed.has_place(digest)


class Environment(Protocol):
    """The surroundings of a call, which its executor provides.

    Attributes:
        session_id: The id of the first parent's session, which tokens and effects are bound to.
        journal: The journal of a stored session.
        counting: The journal of the session in which policies count calls.
        agent: The path of the agent that makes the calls.
        retired: Why it takes no calls any more; work that calls run elsewhere must end then.
        runtime: The state that the calls of one session share.
        engine: The threads, the background loop and the drivers.
        resources: The open resources of the session.
        keeper: The store of policies that outlive the session.
        asks_by_turn: Whether the questions of a batch stand on one card.
        within: The root of the transaction or dry run that the calls are part of, or None.
        home: The session whose log, counts and commit turn the calls share.
        attributes: The attributes that every call begins with.
        event_fields: The fields that the events of all calls have in common.
        context_fields: The fields that the contexts of all calls have in common.
    """

    home: Session
    session_id: str
    journal: Journal | None
    counting: Journal | None
    agent: str
    retired: str | None
    runtime: Runtime
    engine: Engine
    catalog: Catalog
    clock: Clock
    resources: Container
    keeper: PolicyStore | None
    within: Any
    dry_run: bool
    strict_depends: bool
    deadline: Deadline | None
    approver: Approver | None
    approval_timeout: float | None
    asks_by_turn: bool
    on_progress: Progress | None
    max_arguments: int
    max_text: int
    principal: Principal | None
    auth: Secret | None
    attributes: Mapping[str, Any]
    event_fields: dict[str, Any]
    context_fields: dict[str, Any]

    @property
    def session(self) -> Any:
        """The session as it shows itself to the application."""
        ...

    @property
    def new_control(self) -> Callable[[Any, Control | None], Control]:
        """The maker of the control of a call, given the call and its parent's control."""
        ...

    @property
    def seal(self) -> TokenSigner:
        """The signer of the tokens of calls that wait for approval."""
        ...

    def monotonic(self) -> float:
        """Return the clock's seconds."""
        ...

    def table(self) -> DispatchTable:
        """Return the table that calls are dispatched by."""
        ...

    def plan_of(self, tool: Tool[Any, Any]) -> ToolPlan:
        """Return the plan of a tool that a lookup hook gave."""
        ...

    def dispatch_nested(self, call: ToolCall, parent: Any) -> Outcome:
        """Dispatch a call that a sync handler makes."""
        ...

    def adispatch_nested(self, call: ToolCall, parent: Any) -> Coroutine[Any, Any, Outcome]:
        """Dispatch a call that an async handler makes."""
        ...


class ExecutorHost(Governed, Protocol):
    """The host, as far as its executors ask it."""

    clock: Clock
    configuration: Settings
    resources: tuple[Binding[Any], ...]
    kept_apart: PolicyStoreLocation | None
    purpose: Purpose

    @property
    def engine(self) -> Engine:
        """The threads, the background loop and the drivers."""
        ...

    @property
    def approver(self) -> Approver | None:
        """The approver: the one given, else the configured one."""
        ...

    def session_of(self, session_id: str | None = None) -> Session:
        """Return the stored session of an id, or a new one in memory."""
        ...

    @property
    def seal(self) -> TokenSigner:
        """The signer of the tokens of calls that wait for approval."""
        ...

    @property
    def original_prompt(self) -> Prompt:
        """The same prompt with the texts of the code, and all tools."""
        ...

    def offered(
        self, prompt: Prompt, tags: Collection[str] = (), without_tags: Collection[str] = ()
    ) -> Prompt:
        """Return a prompt with the texts that are overridden, and the tools that are on offer."""
        ...
