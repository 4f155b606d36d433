"""One attempt at a request: what the request and the configuration say, as one."""

from __future__ import annotations

import sys
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypedDict
from uuid import uuid4

from toolstile_hookspecs import (
    Approver,
    Binding,
    BudgetTracker,
    Cancellation,
    ConfigurationError,
    Deadline,
    ExecutorHandle,
    Heartbeat,
    HostHandle,
    PluginError,
    Principal,
    Prompt,
    RunContext,
    SessionProtocol,
    StateError,
    hide,
    secrets_in,
)
from toolstile_hookspecs.agents.messages import Message, StopReason
from toolstile_hookspecs.agents.provider import Listener, ProviderAdapter
from toolstile_hookspecs.execution.executor_arguments import ExecutorArguments
from toolstile_hookspecs.resources import as_bindings
from toolstile_hookspecs.services.counter import Counter
from toolstile_hookspecs.sessions import Dispatcher
from toolstile_hookspecs.support.process import renewed_in_forks
from toolstile_plugins.agent.budget import Budget, Price, TokenBudgetTracker
from toolstile_plugins.agent.events import ModelReplied
from toolstile_plugins.agent.guidance.prompt_guidance import GUIDANCE
from toolstile_plugins.agent.output import OutputType
from toolstile_plugins.agent.result import Answers, RunFailed, RunResult, RunState, TicketAnswer
from toolstile_plugins.agent.run import Run, RunOptions

if TYPE_CHECKING:
    from toolstile_plugins.agent.spans import RunSpans

CONVERSATION: Final = (Message, ModelReplied, *GUIDANCE)
"""The types that each session of an agent has."""
Resources = Mapping[type[Any], Any] | Iterable[Binding[Any]]


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The bounds and the surroundings of an agent's runs; each request may give its own.

    Args:
        options: The bounds and the manner of a run.
        deadline: Seconds for each run.
        budget: What each run may use.
        prices: By model, for budgets that limit the cost; else those of `[plugins.agent.prices]`.
        resources: Resources for the tools; those of a request win, type by type.
        approver: Answers for a person, else the host's.
        slices: The types in a session that is read from the state of a run, as no section has them.
    """

    options: RunOptions = field(default_factory=RunOptions)
    deadline: float | None = None
    budget: Budget | None = None
    prices: Mapping[str, Price] | None = None
    resources: Resources = ()
    approver: Approver | None = None
    slices: Sequence[type[Any]] = ()


class RequestArguments(TypedDict, total=False):
    """The arguments beside a request.

    Args:
        session: The session to go on with.
        session_id: Its id, where a store keeps it.
        deadline: The end of the run.
        budget: What the run may use.
        tracker: The tracker of a run around this one, which shares its budget.
        resources: Resources for the tools.
        approver: Answers for a person.
        principal: The user for whom the run goes.
        run_context: Ids for correlation; the `run_id` is new for each run.
        heartbeat: Told of life before and after each reply and each batch.
        cancellation: Cancels the run from any thread.
        listen: Receives the text as it arrives.
    """

    session: SessionProtocol | None
    session_id: str | None
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


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts that all attempts of an agent share.

    Args:
        adapter: The adapter of the provider.
        host: The open host.
        config: The bounds of each run.
        bus: One more place where events are published.
    """

    adapter: ProviderAdapter
    host: HostHandle
    config: AgentConfig
    bus: Dispatcher | None = None


@dataclass(frozen=True, slots=True)
class WaitingRun:
    """A run that waits for people, and what they have answered.

    Args:
        state: Its state.
        answers: From ticket to answer.
    """

    state: RunState
    answers: Answers

    def by_call(self) -> dict[str, TicketAnswer | None]:
        """Return the answers by the ids of the calls, None for those without one."""
        return {each.call.id: self.answers.get(each.ticket) for each in self.state.waiting}


class Attempt:
    """One attempt at a request.

    Args:
        around: The parts that all attempts share.
        prompt: The prompt.
        given: What was said beside the request.
        said: What the user says, None for a run that is resumed.
        waits: The run that is resumed.
    """

    def __init__(
        self,
        around: Surroundings,
        prompt: Prompt,
        given: RequestArguments,
        *,
        said: str | None = None,
        waits: WaitingRun | None = None,
    ) -> None:
        self._around = around
        self._given = given
        self.prompt = prompt
        self.said = said
        self.state = None if waits is None else waits.state
        self.answers: dict[str, TicketAnswer | None] = {} if waits is None else waits.by_call()
        """From the id of each call that waits to its answer, None where there is none yet."""
        self.failed: RunResult[Any] | None = None
        """The result so far of a run that has failed."""
        self._deadline = self._end()
        self._tracker = self._budget()
        self._context = self._ids()

    def executor(self) -> AbstractContextManager[ExecutorHandle]:
        """Return the executor, to be entered; its resources are open until it is left."""
        given, around = self._given, self._around
        arguments: ExecutorArguments = {
            "prompt": self.prompt,
            "session": self._session(),
            "session_id": self._session_id(),
            "approver": given.get("approver") or around.config.approver,
            "deadline": self._deadline,
            "principal": given.get("principal"),
            "adapter": around.adapter,
            "heartbeat": given.get("heartbeat"),
            "run_context": self._context,
            "resources": self._resources(),
        }
        if self.said is not None:
            arguments["request"] = self.said
        return around.host.executor(**arguments)

    def run(self, tools: ExecutorHandle) -> Run:
        """Return the run in an executor."""
        around, given, state = self._around, self._given, self.state
        output = self.prompt.template.output
        if self._tracker is not None and self._tracker.budget.key is not None:
            counter: Any = tools.resources.get(Counter)  # type: ignore[type-abstract]  # a protocol
            self._tracker.count_in(counter, around.host.clock)
        run = Run(
            tools,
            around.adapter,
            around.config.options,
            self._context,
            None if output is None else OutputType(output, f"{self.prompt.ns}:{self.prompt.key}"),
            self._deadline,
            self._tracker,
            self._price(),
            given.get("cancellation"),
            given.get("heartbeat"),
            given.get("listen"),
            around.bus,
            around.host.clock,
            _spans_of(around),
        )
        if state is not None:
            run.turns, run.usage = state.turns, state.usage
            if self._tracker is not None:
                self._tracker.record(state.run_id, state.usage, run.price)
        return run

    def failure(self, run: Run, error: Exception) -> RunResult[Any]:
        """Return the result of a run that has failed; its error is without credentials."""
        reason = error.stop_reason if isinstance(error, RunFailed) else StopReason.ERROR
        principal = self._given.get("principal")
        secrets = [*secrets_in(None if principal is None else principal.auth)]
        result: RunResult[Any] = run.result(reason, error=hide(str(error), secrets))
        if isinstance(error, RunFailed):
            error.prompt, error.result = run.prompt, result
        self.failed = result
        return result

    @property
    def is_stored(self) -> bool:
        """True where the session is found again by its id alone."""
        return self._session_id() is not None

    def _session_id(self) -> str | None:
        given = self._given.get("session_id")
        if given is None and self.state is not None and self.state.session is None:
            return self.state.session_id
        return given

    def _session(self) -> SessionProtocol | None:
        session = self._given.get("session")
        if session is None and self.state is not None and self.state.session is not None:
            kinds = (*CONVERSATION, *self._around.config.slices)
            return self._around.host.session(self.state.session, kinds=kinds)
        return session

    def _end(self) -> Deadline | None:
        if (given := self._given.get("deadline")) is not None:
            return given
        config, budget = self._around.config, self._given.get("budget")
        limits = [config.deadline, *(each.deadline for each in (budget, config.budget) if each)]
        seconds = min((limit for limit in limits if limit is not None), default=None)
        if seconds is None:
            return None
        return Deadline.after(seconds, clock=self._around.host.clock)

    def _budget(self) -> TokenBudgetTracker | None:
        if (shared := self._given.get("tracker")) is not None:
            return shared
        budget = self._given.get("budget") or self._around.config.budget
        return None if budget is None else TokenBudgetTracker(budget)

    def _price(self) -> Price | None:
        """Return the price of the model, where the budget limits the cost."""
        if self._tracker is None or self._tracker.budget.max_cost is None:
            return None
        around, model = self._around, self._around.adapter.model
        prices = around.config.prices
        if prices is None:
            with suppress(PluginError):  # the host may go without the plugin
                prices = around.host.settings("agent").prices
        price = (prices or {}).get(model)
        if price is None:
            raise ConfigurationError(
                f"The budget limits the cost, and there is no price for {model}; add it: "
                f'[plugins.agent.prices."{model}"] with input and output, per million tokens.'
            )
        return price

    def _ids(self) -> RunContext:
        given, state = self._given.get("run_context"), self.state
        if state is not None:
            return replace(given or RunContext(), run_id=state.run_id, request_id=state.request_id)
        context = replace(given, run_id=uuid4().hex) if given is not None else RunContext()
        return replace(context, request_id=context.request_id or uuid4().hex)

    def _resources(self) -> list[Binding[Any]]:
        """Return the resources of the configuration and of the request, whose types win."""
        bound = {
            binding.kind: binding
            for source in (self._around.config.resources, self._given.get("resources") or ())
            for binding in as_bindings(source)
        }
        if self._tracker is not None:
            [tracker] = as_bindings({BudgetTracker: self._tracker})
            bound[BudgetTracker] = tracker
        return list(bound.values())


def _spans_of(around: Surroundings) -> RunSpans | None:
    """Return the spans of a run, where the host's calls are traced."""
    # Where the plugin `otel` traces nothing, it is not there, and nothing of this is imported.
    otel = sys.modules.get("toolstile_plugins.otel.spans")
    tracing = None if otel is None else otel.tracing_of(around.host)
    if tracing is None:
        return None
    from toolstile_plugins.agent.spans import RunSpans

    return RunSpans(tracing, around.adapter)


_in_use: set[tuple[int, str]] = set()
_lock = renewed_in_forks(__name__, "_lock", threading.Lock)


@contextmanager
def alone(host: HostHandle, session: SessionProtocol) -> Generator[None]:
    """Have a session of a host for one run, also where it is loaded more than once.

    Raises:
        StateError: When another run of it is under way.
    """
    key = id(host), session.id
    with _lock:
        if key in _in_use:
            raise StateError(
                f"Session {session.id} has a run under way; wait for its end, or give the request "
                "a session of its own."
            )
        _in_use.add(key)
    try:
        yield
    finally:
        with _lock:
            _in_use.discard(key)
