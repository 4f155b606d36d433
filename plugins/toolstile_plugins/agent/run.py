"""One run: what it was given, how far it has come, and what bounds it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from toolstile_hookspecs import (
    Cancellation,
    Clock,
    Deadline,
    ExecutorHandle,
    Heartbeat,
    Outcome,
    RenderedPrompt,
    RunContext,
    SystemClock,
    VisibilityExpansionRequired,
)
from toolstile_hookspecs.agents.messages import NO_USAGE, Message, StopReason, Turn, Usage
from toolstile_hookspecs.agents.provider import Listener, ModelRequest, ProviderAdapter
from toolstile_hookspecs.sessions import Dispatcher, SlicePolicy, append_all
from toolstile_plugins.agent.budget import BudgetExceeded, Price, TokenBudgetTracker
from toolstile_plugins.agent.compaction import Compaction
from toolstile_plugins.agent.conversation import Conversation, in_call_order
from toolstile_plugins.agent.events import ModelReplied, PromptExecuted, PromptRendered
from toolstile_plugins.agent.guidance.prompt_guidance import Guidance
from toolstile_plugins.agent.output import OutputType
from toolstile_plugins.agent.request import Ask, Retries
from toolstile_plugins.agent.result import Phase, RunFailed, RunResult, RunState, WaitingCall
from toolstile_plugins.agent.settings import MAX_TURNS

MAX_EXPANSIONS = 3

if TYPE_CHECKING:
    from toolstile_plugins.agent.spans import RunSpans

log = logging.getLogger("toolstile.agent")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The bounds and the manner of a run.

    Args:
        max_turns: The most replies of the model.
        max_expansions: The most batches in a row that only open sections.
        output_retries: How often the model may correct an answer that does not fit.
        max_refusals: How often in a row its stop is refused, without a call that succeeds between.
        retries: The bounds of asking a provider once more.
        settings: The settings of the model, such as `temperature`; only these are sent.
        timeout: Seconds for one reply, None for the client's own.
        compaction: Makes the conversation shorter where it gets long, None for never.
    """

    max_turns: int = MAX_TURNS
    max_expansions: int = MAX_EXPANSIONS
    output_retries: int = 2
    max_refusals: int = 3
    retries: Retries = field(default_factory=Retries)
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    timeout: float | None = None
    compaction: Compaction | None = None


@dataclass(slots=True)
class Run:
    """A run under way.

    Args:
        tools: The executor.
        adapter: The adapter of the provider.
        options: The bounds and the manner.
        context: The ids for correlation.
        output: The type of the answer, None where any text will do.
        deadline: The end of the run.
        tracker: The budget, None where nothing bounds it.
        price: The price of the model, None where it is not known.
        cancellation: Cancels the run.
        heartbeat: Told of life before and after each request and each batch.
        listen: Receives the text as it arrives.
        bus: One more place where events are published.
        clock: The source of time.
        spans: Opens the spans of the run, None where nothing is traced.
    """

    tools: ExecutorHandle
    adapter: ProviderAdapter
    options: RunOptions
    context: RunContext
    output: OutputType | None = None
    deadline: Deadline | None = None
    tracker: TokenBudgetTracker | None = None
    price: Price | None = None
    cancellation: Cancellation | None = None
    heartbeat: Heartbeat | None = None
    listen: Listener | None = None
    bus: Dispatcher | None = None
    clock: Clock = field(default_factory=SystemClock)
    spans: RunSpans | None = None
    turns: int = 0
    usage: Usage = NO_USAGE
    text: str = ""
    expansions: int = 0
    corrections: int = 0
    conversation: Conversation = field(init=False)
    guidance: Guidance = field(init=False)
    _asked_at: float = 0.0

    def __post_init__(self) -> None:
        """Find the conversation of the session, and let it keep what the model used."""
        session = self.tools.session
        self.conversation = Conversation(session)
        session[ModelReplied].register(ModelReplied, append_all, SlicePolicy.LOG)
        run_id = self.context.run_id
        self.guidance = Guidance(
            self.tools, self.clock, self.deadline, self.adapter, run_id, self._tell_bus
        )

    @property
    def prompt(self) -> str:
        """The namespace and key of the prompt."""
        return f"{self.tools.prompt.ns}:{self.tools.prompt.key}"

    def check(self, phase: Phase = Phase.REQUEST) -> None:
        """Raise `RunFailed` where the deadline, the budget or a cancellation ends the run."""
        if self.deadline is not None and self.deadline.elapsed():
            msg = f"The deadline of {self.prompt} has passed after {self.turns} replies."
            raise RunFailed(msg, StopReason.DEADLINE, phase)
        if self.tracker is not None:
            try:
                self.tracker.check()
            except BudgetExceeded as error:
                raise RunFailed(str(error), StopReason.BUDGET, Phase.BUDGET) from error
        if self.cancellation is not None and self.cancellation.aborted:
            raise RunFailed(f"{self.prompt} was cancelled.", StopReason.CANCELLED, phase)

    def beat(self) -> None:
        """Tell that the run is alive."""
        if self.heartbeat is not None:
            self.heartbeat.beat()

    def ask(self) -> Ask:
        """Return the next request: the prompt is rendered anew, since sections open and close."""
        if self.turns >= self.options.max_turns:
            msg = f"{self.prompt} came to no end in {self.turns} replies."
            raise RunFailed(msg, StopReason.TURNS)
        self.check()
        self.beat()
        rendered = self._rendered()
        messages = self._messages()
        self._publish(
            PromptRendered(
                **self._ids,
                prompt=self.prompt,
                digest=sha256(rendered.text.encode()).hexdigest(),
                tools=tuple(tool.name for tool in rendered.tools),
            )
        )
        self._asked_at = self.clock.monotonic()
        request = ModelRequest(
            rendered.text,
            messages,
            rendered.tools,
            None if self.output is None else self.output.schema,
            self.options.settings,
            self.options.timeout,
        )
        return Ask(
            self.adapter,
            request,
            self.options.retries,
            self.listen,
            self.deadline,
            self.cancellation,
            self.spans,
        )

    def replied(self, turn: Turn) -> Turn:
        """Keep a reply, count what it used, and return it."""
        self.turns += 1
        self.text = turn.text
        if turn.usage is not None:
            self.usage += turn.usage
            if self.tracker is not None:
                self.tracker.record(self.context.run_id, self.usage, self.price)
        self.conversation.reply(turn)
        event = ModelReplied(
            **self._ids,
            turn=self.turns,
            stop_reason=turn.stop_reason,
            usage=turn.usage,
            duration=self.clock.monotonic() - self._asked_at,
            model=turn.model,
        )
        self.tools.session.dispatch(event)
        self._tell_bus(event)
        self.beat()
        return turn

    def count_expansions(self, outcomes: Sequence[Outcome | BaseException]) -> None:
        """Count the batches in a row that only open sections.

        Raises:
            RunFailed: When there are too many; it names the sections.
        """
        asked = [each for each in outcomes if isinstance(each, VisibilityExpansionRequired)]
        self.expansions = self.expansions + 1 if len(asked) == len(outcomes) > 0 else 0
        if self.expansions > self.options.max_expansions:
            keys = ", ".join(key for each in asked for key in each.section_keys)
            msg = f"{self.prompt}: the model only opens sections, at last {keys}."
            raise RunFailed(msg, StopReason.ERROR, Phase.TOOL)

    def result(self, stop_reason: StopReason, output: Any = None, error: str | None = None) -> Any:
        """Return the result as it is now."""
        # Without its type: Python 3.11 cannot note it in a frozen dataclass with slots.
        result: RunResult[Any] = RunResult(
            stop_reason,
            self.text,
            output,
            error,
            self.tools.session.id,
            self.context,
            self.usage,
            self.turns,
            tuple(self.conversation.all()),
        )
        return result

    @contextmanager
    def under_way(self) -> Generator[list[StopReason]]:
        """Trace the run, and publish at its end why it has ended: the last reason it is given."""
        reasons = [StopReason.CANCELLED]
        span = (
            _UNTRACED
            if self.spans is None
            else self.spans.invoke_agent(self.prompt, self.tools.session.id)
        )
        with span as note:
            try:
                yield reasons
            finally:
                note(reasons[-1], self.usage)
                self._publish(
                    PromptExecuted(
                        **self._ids,
                        prompt=self.prompt,
                        stop_reason=reasons[-1],
                        turns=self.turns,
                        usage=self.usage,
                    )
                )

    def state(self, waiting: Sequence[WaitingCall], *, is_stored: bool) -> RunState:
        """Return the state of a run that waits for a person."""
        session = self.tools.session
        return RunState(
            self.context.run_id,
            self.context.request_id or "",
            self.prompt,
            session.id,
            tuple(waiting),
            self.turns,
            self.usage,
            None if is_stored else session.snapshot().to_json(),
        )

    def _messages(self) -> Sequence[Message]:
        messages, compaction = self.conversation.all(), self.options.compaction
        if compaction is not None:
            shorter = compaction.compact(messages)
            if shorter is not messages:
                self.conversation.replace(shorter)
                messages = shorter
        return in_call_order(messages)

    def _rendered(self) -> RenderedPrompt:
        try:
            return self.tools.prompt.render(self.tools.session)
        except Exception as error:
            raise RunFailed(f"{self.prompt} cannot be rendered: {error}") from error

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
        if self.bus is not None:
            try:
                self.bus.publish(event)
            except Exception:
                log.exception("A bus raised; %s stays published.", type(event).__name__)


def _note_nothing(reason: StopReason, usage: Usage) -> None:
    """Stand in for a span."""


_UNTRACED: Final = nullcontext[Callable[[StopReason, Usage], None]](_note_nothing)
