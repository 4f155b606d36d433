"""One run: its configuration and arguments, its progress and its limits."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar
from uuid import uuid4

from toolstile_hookspecs import (
    Approver,
    Binding,
    BudgetTracker,
    Cancellation,
    Clock,
    ConfigurationError,
    Deadline,
    DefinitionError,
    ExecutorHandle,
    Heartbeat,
    HostHandle,
    Outcome,
    Principal,
    Prompt,
    PromptEvaluationError,
    RunContext,
    SessionProtocol,
    StateError,
    Status,
    SystemClock,
    ToolInvoked,
    TransactionFailed,
    TransactionHandle,
    TransactionStatus,
    VisibilityExpansionRequired,
    hide,
    secrets_in,
)
from toolstile_hookspecs.agents.guidance import FeedbackProviderConfig, TaskCompletionChecker
from toolstile_hookspecs.agents.messages import (
    NO_USAGE,
    CallAnswer,
    CallMade,
    Message,
    StopReason,
    Turn,
    Usage,
    paired,
)
from toolstile_hookspecs.agents.provider import Listener, ModelRequest, ProviderAdapter
from toolstile_hookspecs.execution.children import SharedBudget
from toolstile_hookspecs.execution.principal import MAIN_AGENT
from toolstile_hookspecs.resources import as_bindings
from toolstile_hookspecs.sections import OpenedSections
from toolstile_hookspecs.services.approval_store import ApprovalStore, QuestionState
from toolstile_hookspecs.services.counter import Counter
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_hookspecs.sessions import Dispatcher, SlicePolicy, append_all
from toolstile_hookspecs.support.process import new_id
from toolstile_plugins.agent.budget import (
    Budget,
    BudgetExceeded,
    Price,
    TokenBudgetTracker,
    amounts_of,
    price_of,
)
from toolstile_plugins.agent.conversation import UNSAID, Compaction, Conversation
from toolstile_plugins.agent.effects import Ask, Carry, Loop, Retries
from toolstile_plugins.agent.guidance.prompt_guidance import GUIDANCE, Guidance
from toolstile_plugins.agent.output import OutputType
from toolstile_plugins.agent.result import (
    Answers,
    ModelReplied,
    Phase,
    PromptExecuted,
    PromptRendered,
    RunFailed,
    RunResult,
    RunState,
    UnkeptRun,
    WaitingCall,
    answers_by_call,
    pending_outcome,
)
from toolstile_plugins.agent.settings import MAX_TURNS

if TYPE_CHECKING:
    from toolstile_plugins.agent.spans import RunSpans

Resources = Mapping[type[Any], Any] | Iterable[Binding[Any]]


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The limits and the configuration of an agent's runs; a request may override some of them.

    Args:
        max_turns: The most replies of the model.
        max_expansions: The most batches in a row that only open sections.
        output_retries: How often the model may correct an answer that does not fit.
        max_refusals: How often in a row its stop is refused, without a successful call between.
        retries: The limits of retries of a request to the provider.
        settings: The settings of the model, such as `temperature`; only these are sent.
        timeout: Seconds for one reply, None for the client's own.
        compaction: Makes a long conversation shorter, None for never.
        deadline: Seconds for each run.
        budget: The budget of each run.
        prices: By model, for budgets that limit the cost; else those of `[plugins.agent.prices]`.
        resources: Resources for the tools; those of a request win, type by type.
        approver: Answers for a person, else the host's.
        feedback_providers: The `FeedbackProviderConfig`s beside those of the prompt.
        task_completion: The `TaskCompletionChecker` beside that of the prompt.
        slices: Further types in a session that is read from the state of a run.

    Raises:
        DefinitionError: When `deadline` is not a number.
    """

    max_turns: int = MAX_TURNS
    max_expansions: int = 3
    output_retries: int = 2
    max_refusals: int = 3
    retries: Retries = field(default_factory=Retries)
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    timeout: float | None = None
    compaction: Compaction | None = None
    deadline: float | None = None
    budget: Budget | None = None
    prices: Mapping[str, Price] | None = None
    resources: Resources = ()
    approver: Approver | None = None
    feedback_providers: Sequence[FeedbackProviderConfig] = ()
    task_completion: TaskCompletionChecker | None = None
    slices: Sequence[type[Any]] = ()

    def __post_init__(self) -> None:
        if isinstance(self.deadline, Deadline):  # which would be one end for all runs
            raise DefinitionError(
                "AgentConfig: deadline is a number of seconds for each run; give a Deadline to one "
                "request, as execute(deadline=...)."
            )


class RequestArguments(TypedDict, total=False):
    """The arguments beside a request.

    Args:
        session: The session to continue.
        session_id: The id of a stored session.
        executor: The open executor to run in, which stays open. Session, resources, approver and
            principal are those of the executor. In a child the model reads the text of the agent's
            own prompt, and the run counts in the child's budget, too.
        deadline: The end of the run.
        budget: The budget of the run.
        tracker: The tracker of a run around this one, which shares its budget.
        resources: Resources for the tools.
        approver: Answers for a person.
        principal: The user on whose behalf the agent acts.
        run_context: Ids for correlation; the `run_id` is new for each run.
        heartbeat: Beats before and after each reply and each batch.
        cancellation: Cancels the run from any thread.
        listen: Receives the text as it arrives.
        transaction: Whether one decision at the end keeps the changes of all calls of the run, or
            of none. The conversation stays in either case.
    """

    session: SessionProtocol | None
    session_id: str | None
    executor: ExecutorHandle | None
    deadline: Deadline | None
    budget: Budget | None
    tracker: TokenBudgetTracker | None
    resources: Resources
    approver: Approver | None
    principal: Principal | None
    run_context: RunContext | None
    heartbeat: Heartbeat | None
    cancellation: Cancellation | None
    listen: Listener | None
    transaction: bool


Given = TypeVar("Given", bound=RequestArguments)


def known(given: Given, type_: type[RequestArguments] = RequestArguments) -> Given:
    """Return the arguments of a request; raise for an unknown one, such as a misspelt name."""
    if unknown := sorted(given.keys() - (names := type_.__annotations__).keys()):
        raise TypeError(f"A request takes no {', '.join(unknown)}; it takes {', '.join(names)}.")
    if not isinstance(given.get("deadline"), Deadline | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError("The deadline of a request is a moment: give Deadline.after(seconds).")
    return given


OPEN_SECTIONS: Final = "open_sections"
"""The name of the tool with which a model opens sections."""
CONVERSATION: Final = (Message, ModelReplied, UnkeptRun, *GUIDANCE)
"""The types that each session of an agent has."""

log = logging.getLogger("toolstile.agent")

_OVERTAKEN: Final = (
    "Another process answers a request of session {session}. Send the request again in a moment."
)
_LATER: Final = "The new request is kept, and answered after the question that waits."
_USED: Final = (
    "This request was not added: another request of the conversation has the request_id {id!r} and "
    "a different text. Send the new text with a new request_id."
)


class Overtaken(StateError):
    """Another process has added to the conversation; this reply is not kept."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts that all runs of an agent share; without a host each request has an executor."""

    adapter: ProviderAdapter
    host: HostHandle | None
    config: AgentConfig
    bus: Dispatcher | None = None  # a second place where events are published


class Run:
    """A run of a prompt, which begins in an executor.

    It has the user's message `said`, or resumes a state with answers; calls without one wait on.
    """

    tools: ExecutorHandle
    calls: ExecutorHandle
    """Where its calls run: the executor, or the transaction of the run."""
    conversation: Conversation
    guidance: Guidance

    def __init__(
        self,
        around: Surroundings,
        prompt: Prompt,
        given: RequestArguments,
        *,
        said: str | None = None,
        resumed: tuple[RunState, Answers] | None = None,
    ) -> None:
        state = None if resumed is None else resumed[0]
        self._around = around
        self._given = given
        self._state = state
        self._prompt = prompt
        self.said = said
        self._request = said if said and said != UNSAID else ""
        self.answers = {} if resumed is None else answers_by_call(*resumed)
        """From the id of each waiting call to its answer, None if it has no answer yet."""
        self.name = f"{prompt.ns}:{prompt.key}"
        self.adapter = around.adapter
        self.config = around.config
        self.clock: Clock = SystemClock() if around.host is None else around.host.clock
        self.context = _ids(given.get("run_context"), state)
        self.cancellation = given.get("cancellation")
        type_ = prompt.template.output
        self.output = None if type_ is None else OutputType(type_, self.name)
        self.turns = 0 if state is None else state.turns
        self.text = ""
        self.corrections = 0
        self.failed: RunResult[Any] | None = None
        """The result so far of a run that has failed."""
        budget = given.get("budget") or self.config.budget
        # The run ends with the budget, or with the request, else as the configuration says.
        own = None if given.get("deadline") else self.config.deadline
        limits = [own, None if budget is None else budget.deadline]
        ends = [Deadline.after(each, clock=self.clock) for each in limits if each is not None]
        ends += [each for each in [given.get("deadline")] if each is not None]
        self._deadline = min(ends, key=Deadline.remaining, default=None)
        own_tracker = None if budget is None else TokenBudgetTracker(budget)
        self._tracker = given.get("tracker") or own_tracker
        executor: Any = given.get("executor")
        self._is_child = getattr(executor, "agent", MAIN_AGENT) != MAIN_AGENT
        self._shared: BudgetTracker | None = None
        """The budget of the child that it runs in."""
        if self._is_child:
            self._shared = executor.resources.get(BudgetTracker, None)
        needed = self._tracker is not None and self._tracker.budget.max_cost is not None
        self._price = price_of(self.adapter.model, self.config.prices, around.host, needed=needed)
        self.usage = NO_USAGE if state is None else self._priced(state.usage)
        self._spans = _spans_of(around)
        self._expansions = self._vain = 0
        self._asked_at = 0.0
        self._seen = 0
        self.note = ""
        self._work: TransactionHandle | None = None
        self._has_told_unkept = False
        self.waits: dict[str, tuple[WaitingCall, Outcome]] = {}
        """The calls that wait for a person, by their ids."""

    # --- Its executor ---------------------------------------------------------------------------

    def executor(self) -> AbstractContextManager[ExecutorHandle]:
        """Return the executor, to be entered; its resources are open until it is left."""
        given, config, host, state = self._given, self.config, self._around.host, self._state
        if (executor := given.get("executor")) is not None:
            return nullcontext(executor)
        if host is None:
            msg = "Nothing carries calls out: give executor= or host=, or use `with loop:`."
            raise ConfigurationError(msg)
        session = given.get("session")
        if session is None and state is not None and state.session is not None:
            session = host.session(state.session, kinds=(*CONVERSATION, *config.slices))
        sources = [config.resources, given.get("resources") or ()]
        if self._tracker is not None:
            sources.append({BudgetTracker: self._tracker})
        bound = {each.kind: each for source in sources for each in as_bindings(source)}
        return host.executor(
            prompt=self._prompt,
            session=session,
            session_id=self._session_id(),
            approver=given.get("approver") or config.approver,
            deadline=self._deadline,
            principal=given.get("principal"),
            adapter=self.adapter,
            heartbeat=given.get("heartbeat"),
            run_context=self.context,
            resources=list(bound.values()),
            request=self._request,
        )

    def begin(self, tools: ExecutorHandle) -> None:
        """Find the conversation of an executor's session, and count the tokens so far."""
        session, tracker = tools.session, self._tracker
        self.tools = self.calls = tools
        self.conversation = Conversation(session)
        session[ModelReplied].register(ModelReplied, append_all, SlicePolicy.LOG)
        self.guidance = Guidance(
            tools,
            self._around.host,
            self.config,
            deadline=self._deadline,
            adapter=self.adapter,
            cancellation=self.cancellation,
            run_id=self.context.run_id,
            publish=self._tell_bus,
        )
        # The request for a child comes from a model, and not from the user.
        if self._request and self._given.get("executor") is not None and not self._is_child:
            tools.request(self._request)
        if tracker is not None and tracker.budget.key is not None:
            counter: Any = tools.resources.get(Counter)  # type: ignore[type-abstract]  # a protocol
            tracker.count_in(counter, self.clock)
        for each in () if self._state is None else self._state.waiting:
            known = pending_outcome(each.call, each.ticket, None, session.id)
            self.waits[each.call.id] = each, known
        if tracker is not None and self._state is not None:
            tracker.record(self._state.run_id, self.usage)

    @contextmanager
    def lending(self) -> Generator[None]:
        """Lend the calls in a given executor the budget, adapter, ids and heartbeat of this run."""
        lend: Any = getattr(self._given.get("executor"), "lend", None)
        if lend is None:
            yield
            return
        values: dict[type[Any], object] = {}
        if (own := self._tracker) is not None:
            values[BudgetTracker] = own if self._shared is None else SharedBudget(own, self._shared)
        fields: dict[str, Any] = {"adapter": self.adapter, "run_context": self.context}
        if (heartbeat := self._given.get("heartbeat")) is not None:
            fields["heartbeat"] = heartbeat
        with lend(values, **fields):
            yield

    def begin_transaction(self) -> None:
        """Begin the transaction of its calls, if the request asks for one."""
        if self._given.get("transaction"):
            self.calls = self._work = work = self.tools.transaction(self.name)
            self.guidance.view = work.view

    def end_transaction(self, reason: str = "") -> Loop[None]:
        """Keep the changes of all calls, or put them back for a reason; only once.

        Raises `RunFailed` if nothing is kept, or it is unknown which changes are.
        """
        work, self._work = self._work, None
        if work is None:
            return
        fate = self.tools.session[UnkeptRun]
        try:
            if reason:
                yield Carry(partial(work.rollback, reason), partial(work.arollback, reason))
                fate.replace(UnkeptRun(reason))
            else:
                yield Carry(work.commit, work.acommit)
                fate.replace()
        except TransactionFailed as error:
            is_known = error.ended.status is not TransactionStatus.UNKNOWN
            fate.replace(UnkeptRun(error.ended.reason if is_known else ""))
            raise RunFailed(str(error), phase=Phase.TOOL) from error

    def say(self) -> bool:
        """Add the user's request unless the conversation has it; return whether it was added."""
        # Tell the model once if the changes of the previous run are not kept.
        if not self._has_told_unkept:
            self._has_told_unkept = True
            fate = self.tools.session[UnkeptRun]
            found = fate.all()
            for each in found[-1:]:
                self.conversation.add(Message.user(each.notice))
            if found or self._work:
                # If the process ends in the transaction, the next run finds this one.
                fate.replace(*([UnkeptRun()] if self._work else []))
        if self.said is None:
            return False
        request = Message.user(self.said, self.context.request_id)
        is_added = self.conversation.add(request)
        if not is_added and request not in self.conversation.all():
            self.note = _USED.format(id=request.request_id)
        return is_added

    def look(self, calls: Sequence[CallMade]) -> None:
        """Find the open calls that wait for a person, and the answers that came meanwhile."""
        if calls and self.said is not None:
            given = self._given.get("run_context") or RunContext()
            id_, is_new = self.conversation.request(given.request_id, self.said)
            self.context = replace(self.context, request_id=id_ or self.context.request_id)
            self.note = _LATER if is_new else ""
        left = [call for call in calls if self.answers.get(call.id) is None]
        if left and self.tools.resources.get(ApprovalStore, None) is not None:  # type: ignore[type-abstract]
            from toolstile_plugins.inbox.inbox import Inbox  # few hosts have one
            from toolstile_plugins.inbox.resumption import answers_among, asked_about

            inbox = self.tools.resources.get(Inbox)
            principal = getattr(self.tools, "principal", None)
            asked = asked_about(self.tools, left)
            # Because an answer is for the principal of its call, calls of others keep waiting.
            own = [each for each in asked.values() if each.principal == principal]
            answers = answers_among(inbox, own)
            for call in left:
                if (found := asked.get(call.id)) is not None:
                    token = inbox.seal.call_of(found).token if found in own else None
                    ids = found.ticket, token, self.tools.session.id
                    self.wait_for(pending_outcome(call, *ids))
                    self.answers[call.id] = answers.get(found.ticket)
        history = self.tools.session[ToolInvoked].all() if left else ()
        newest = {event.call_id: event for event in history}
        for call in left:
            event = newest.get(call.id)
            if event and event.status is Status.PENDING and self.answers.get(call.id) is None:
                self.wait_for(Outcome(event))

    def wait_for(self, outcome: Outcome) -> None:
        """Note that a call waits for a person."""
        self.waits[outcome.call.id] = WaitingCall.of(outcome), outcome
        self.answers[outcome.call.id] = None

    def settle(self, answers: Sequence[CallAnswer]) -> None:
        """Add the results of calls to the conversation, then end the questions about them."""
        self.conversation.answer(answers)
        # Only now, because another process takes up the call of a question that has ended.
        waited = [self.waits[each.call_id] for each in answers if each.call_id in self.waits]
        store: Any = waited and self.tools.resources.get(ApprovalStore, None)  # type: ignore[type-abstract]
        for call, _ in waited if store else ():
            store.end(call.ticket, QuestionState.RESUMED)

    def _session_id(self) -> str | None:
        given = self._given.get("session_id")
        if given is None and self._state is not None and self._state.session is None:
            return self._state.session_id
        return given

    # --- Its limits -----------------------------------------------------------------------------

    def check(self, phase: Phase = Phase.REQUEST, cause: Exception | None = None) -> None:
        """Raise `RunFailed` if the deadline, the budget or a cancellation ends the run."""
        if self._deadline is not None and self._deadline.elapsed():
            msg = f"The deadline of {self.name} has passed after {self.turns} replies."
            raise RunFailed(msg, StopReason.DEADLINE, phase) from cause
        if self._tracker is not None:
            try:
                self._tracker.check()
            except BudgetExceeded as error:
                raise RunFailed(str(error), StopReason.BUDGET, Phase.BUDGET) from error
        shared = self._shared
        for unit in amounts_of(self.usage):
            left = None if shared is None else shared.remaining(unit)
            if left is not None and left < 0:
                msg = f"{self.name} has used up the {unit} of the budget that it shares."
                raise RunFailed(msg, StopReason.BUDGET, Phase.BUDGET) from cause
        if self.cancellation is not None and self.cancellation.aborted:
            raise RunFailed(f"{self.name} was cancelled.", StopReason.CANCELLED, phase)

    def count_expansions(self, outcomes: Sequence[Outcome | BaseException]) -> None:
        """Count the batches in a row that only open sections; fail after too many."""
        asked = [keys for each in outcomes if (keys := _asked_for(each)) is not None]
        opened = OpenedSections.of(self.tools.session)
        self._expansions = self._expansions + 1 if len(asked) == len(outcomes) > 0 else 0
        # The tool refuses a section that is open; a handler may ask for one all the same.
        vain = [
            keys
            for each, keys in ((each, _asked_for(each)) for each in outcomes)
            if keys is not None and (isinstance(each, Outcome) or opened.issuperset(keys))
        ]
        self._vain += bool(vain)
        for count, last, fault in (
            (self._vain, vain, "asks again and again for sections that it cannot open"),
            (self._expansions, asked, "only opens sections"),
        ):
            if last and count > self.config.max_expansions:
                keys = ", ".join(key for each in last for key in each)
                msg = f"{self.name}: the model {fault}, at last {keys}."
                raise RunFailed(msg, StopReason.ERROR, Phase.TOOL)

    def beat(self) -> None:
        """Show that the run is alive."""
        if (heartbeat := self._given.get("heartbeat")) is not None:
            heartbeat.beat()

    def _priced(self, usage: Usage) -> Usage:
        if self._price is None or usage.cost is not None:
            return usage
        return replace(usage, cost=self._price.of(usage))

    # --- Its requests and replies ---------------------------------------------------------------

    def ask(self) -> Ask:
        """Return the next request; its prompt is rendered each time, since sections open."""
        if self.turns >= self.config.max_turns:
            msg = f"{self.name} came to no end in {self.turns} replies."
            raise RunFailed(msg, StopReason.TURNS)
        self.check()
        self.beat()
        try:
            seen = self.tools if self._work is None else self._work.view()
            given = seen.session, seen.resources
            rendered = self.tools.prompt.render(*given)
            if self._is_child and self._prompt.sections:
                rendered = replace(rendered, text=self._prompt.render(*given).text)
        except Exception as error:
            raise RunFailed(f"{self.name} cannot be rendered: {error}") from error
        messages: Sequence[Message] = paired(self.conversation.all())
        if self.config.compaction is not None:
            shorter = self.config.compaction.compact(messages)
            if shorter is not messages:
                self.conversation.replace(shorter)
                messages = shorter
        self._seen = len(self.conversation.all())
        tools = tuple(tool.name for tool in rendered.tools)
        digest = sha256(rendered.text.encode()).hexdigest()
        self._publish(PromptRendered(**self._ids, prompt=self.name, digest=digest, tools=tools))
        self._asked_at = self.clock.monotonic()
        output = None if self.output is None else self.output.schema
        more = output, self.config.settings, self.config.timeout
        request = ModelRequest(rendered.text, messages, rendered.tools, *more)
        bounds = self._given.get("listen"), self._deadline, self.cancellation, self._spans

        def use(usage: Usage) -> None:
            usage = self._priced(usage)
            self.usage += usage
            for unit, amount in amounts_of(usage).items():
                with suppress(PromptEvaluationError):  # `check` tells that it is used up
                    if self._shared is not None:
                        self._shared.spend(amount, unit)
            if self._tracker is not None:
                self._tracker.record(self.context.run_id, self.usage)

        check = partial(self.check, Phase.RESPONSE)
        return Ask(self.adapter, request, self.config.retries, *bounds, check, use)

    def replied(self, turn: Turn) -> Turn:
        """Keep a reply, give its calls ids of the host, and return it; may raise `Overtaken`."""
        calls = [replace(call, id=new_id(), provider_id=call.id) for call in turn.tool_calls]
        turn = replace(turn, message=replace(turn.message, calls=tuple(calls)))
        self.turns += 1
        self.text = turn.text
        if not self.conversation.reply(turn, self._seen):
            raise Overtaken(_OVERTAKEN.format(session=self.tools.session.id))
        event = ModelReplied(
            **self._ids,
            turn=self.turns,
            stop_reason=turn.stop_reason,
            usage=None if turn.usage is None else self._priced(turn.usage),
            duration=self.clock.monotonic() - self._asked_at,
            model=turn.model,
        )
        self.tools.session.dispatch(event)
        self._tell_bus(event)
        self.beat()
        return turn

    # --- Its end --------------------------------------------------------------------------------

    def result(
        self, stop_reason: StopReason, output: Any = None, error: str | None = None
    ) -> RunResult[Any]:
        """Return the result so far."""
        # Without its type: Python 3.11 cannot note it in a frozen dataclass with slots.
        ended = stop_reason, self.text, output, error
        so_far = self.tools.session.id, self.context, self.usage, self.turns
        return RunResult(*ended, *so_far, tuple(self.conversation.all()), note=self.note)

    def pending(self) -> Loop[RunResult[Any]]:
        """Return the result of a run that waits for people, with the state that resumes it."""
        yield from self.end_transaction("a call waits for a person, which a transaction cannot.")
        open_calls, session = self.conversation.open_calls(), self.tools.session
        waits = [self.waits[call.id] for call in open_calls if call.id in self.waits]
        waiting = tuple(call for call, _ in waits)
        is_stored = self._session_id() is not None and SessionStore in self.tools.resources
        # A stored session is found by its id.
        kept = None if is_stored else session.snapshot().to_json()
        ids = self.context.run_id, self.context.request_id or "", self.name, session.id
        state = RunState(*ids, waiting, self.turns, self.usage, kept)
        result = self.result(StopReason.PENDING)
        return replace(result, waiting=tuple(known for _, known in waits), state=state)

    def fail(self, error: Exception) -> StopReason:
        """Keep the result of a failed run, without credentials; return the reason of its end."""
        reason = error.stop_reason if isinstance(error, RunFailed) else StopReason.ERROR
        principal = self._given.get("principal")
        secrets = [*secrets_in(None if principal is None else principal.auth)]
        for event in self.tools.session[ToolInvoked].all():
            secrets += secrets_in(event.params)
        self.failed = self.result(reason, error=hide(str(error), secrets))
        if isinstance(error, RunFailed):
            error.args = (self.failed.error, *error.args[1:])
            error.prompt, error.result = self.name, self.failed
        return reason

    @contextmanager
    def under_way(self) -> Generator[list[StopReason]]:
        """Trace the run, and publish its end with the last reason in the list."""
        reasons, id_, spans = [StopReason.CANCELLED], self.tools.session.id, self._spans
        with _UNTRACED if spans is None else spans.invoke_agent(self.name, id_) as note:
            try:
                yield reasons
            finally:
                note(reasons[-1], self.usage)
                now: dict[str, Any] = {**self._ids, "turns": self.turns, "usage": self.usage}
                self._publish(PromptExecuted(**now, prompt=self.name, stop_reason=reasons[-1]))

    # --- Its events -----------------------------------------------------------------------------

    @property
    def _ids(self) -> dict[str, Any]:
        context = self.context
        return {
            "run_id": context.run_id,
            "request_id": context.request_id or "",
            "attempt": context.attempt,
            "worker_id": context.worker_id,
        }

    def _publish(self, event: object) -> None:
        self.tools.session.dispatcher.publish(event)
        self._tell_bus(event)

    def _tell_bus(self, event: object) -> None:
        if self._around.bus is not None:
            try:
                self._around.bus.publish(event)
            except Exception:
                log.exception("A bus raised; %s stays published.", type(event).__name__)


def _asked_for(outcome: Outcome | BaseException) -> Sequence[str] | None:
    if isinstance(outcome, VisibilityExpansionRequired):
        return outcome.section_keys
    if not isinstance(outcome, Outcome) or outcome.success or outcome.call.name != OPEN_SECTIONS:
        return None
    # Once all sections are open, the tool is not offered, and no params are read.
    arguments: Any = outcome.call.arguments
    try:
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
        return [str(key) for key in given["section_keys"]]
    except (ValueError, TypeError, KeyError):
        return ()


def _ids(given: RunContext | None, state: RunState | None) -> RunContext:
    if state is not None:
        return replace(given or RunContext(), run_id=state.run_id, request_id=state.request_id)
    context = replace(given, run_id=uuid4().hex) if given is not None else RunContext()
    return replace(context, request_id=context.request_id or uuid4().hex)


_UNTRACED: Final = nullcontext[Callable[[StopReason, Usage], None]](lambda _reason, _usage: None)


def _spans_of(around: Surroundings) -> RunSpans | None:
    # Because it is imported only to trace, nothing is imported here if the plugin is unused.
    otel = sys.modules.get("toolstile_plugins.otel.spans")
    tracing = None if otel is None or around.host is None else otel.tracing_of(around.host)
    if tracing is None:
        return None
    from toolstile_plugins.agent.spans import RunSpans

    return RunSpans(tracing, around.adapter)
