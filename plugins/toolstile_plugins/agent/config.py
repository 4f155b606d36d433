"""The configuration of an agent, and the arguments of one request that win over it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict, TypeVar

from toolstile_hookspecs import (
    Approver,
    Binding,
    Cancellation,
    Deadline,
    DefinitionError,
    ExecutorHandle,
    Heartbeat,
    Principal,
    RunContext,
    SessionProtocol,
)
from toolstile_hookspecs.agents.guidance import FeedbackProviderConfig, TaskCompletionChecker
from toolstile_hookspecs.agents.provider import Listener
from toolstile_plugins.agent.budget import Budget, Price, TokenBudgetTracker
from toolstile_plugins.agent.compaction import Compaction
from toolstile_plugins.agent.request import Retries
from toolstile_plugins.agent.settings import MAX_TURNS

Resources = Mapping[type[Any], Any] | Iterable[Binding[Any]]


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """The bounds and the manner of an agent's runs; each request may give its own of some.

    Args:
        max_turns: The most replies of the model.
        max_expansions: The most batches in a row that only open sections.
        output_retries: How often the model may correct an answer that does not fit.
        max_refusals: How often in a row its stop is refused, without a call that succeeds between.
        retries: The bounds of asking a provider once more.
        settings: The settings of the model, such as `temperature`; only these are sent.
        timeout: Seconds for one reply, None for the client's own.
        compaction: Makes the conversation shorter where it gets long, None for never.
        deadline: Seconds for each run.
        budget: What each run may use.
        prices: By model, for budgets that limit the cost; else those of `[plugins.agent.prices]`.
        resources: Resources for the tools; those of a request win, type by type.
        approver: Answers for a person, else the host's.
        feedback_providers: The `FeedbackProviderConfig`s beside those of the prompt.
        task_completion: The `TaskCompletionChecker` beside that of the prompt.
        slices: The types in a session that is read from the state of a run, as no section has them.

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
        """Check that the end of a run is not that of all runs."""
        if isinstance(self.deadline, Deadline):
            msg = (
                "AgentConfig: deadline is a number of seconds, of which each run has all; give the "
            )
            raise DefinitionError(f"{msg}Deadline to one request, as execute(deadline=...).")


class RequestArguments(TypedDict, total=False):
    """The arguments beside a request.

    Args:
        session: The session to go on with.
        session_id: Its id, where a store keeps it.
        executor: The open executor to run in, which stays open. Session, resources, approver and
            principal are those of the executor.
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


Given = TypeVar("Given", bound=RequestArguments)


def known(given: Given, type_: type[RequestArguments] = RequestArguments) -> Given:
    """Return the arguments of a request; a misspelt `principal` is not left out in silence."""
    if unknown := sorted(given.keys() - (names := type_.__annotations__).keys()):
        raise TypeError(f"A request takes no {', '.join(unknown)}; it takes {', '.join(names)}.")
    if not isinstance(given.get("deadline"), Deadline | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError("The deadline of a request is a moment: give Deadline.after(seconds).")
    return given
