"""A request has its own result, ids, budget, events and end, whatever runs beside it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile import Host, MarkdownSection, Prompt, PromptTemplate, tool
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import (
    ApprovalAnswer,
    BudgetTracker,
    Cancellation,
    Deadline,
    Heartbeat,
    Principal,
    PromptEvaluationError,
    RunContext,
    Secret,
    StateError,
    ToolContext,
    ToolInvoked,
)
from toolstile_hookspecs.agents.messages import Message, Role, StopReason, Turn, Usage
from toolstile_hookspecs.agents.provider import (
    FaultType,
    ModelRequest,
    ProviderError,
    ThrottleError,
)
from toolstile_plugins.agent import (
    Agent,
    AgentConfig,
    AgentSettings,
    Budget,
    ModelReplied,
    Phase,
    Price,
    PromptExecuted,
    PromptRendered,
    Retries,
    RunFailed,
    RunResult,
    RunState,
    TicketAnswer,
    TokenBudgetTracker,
)

WAIT = 30.0
FREE = {"slow": Price(0.0, 0.0)}


@dataclass(frozen=True)
class Note:
    text: str


@tool(category="write", contained=True)
def note(text: str, *, context: ToolContext) -> str:
    """Write a note."""
    context.session[Note].append(Note(text))
    return f"noted {text}"


@tool(requires_confirmation=True)
def send(to: str) -> str:
    """Send the notes."""
    return f"sent to {to}"


PROMPT = Prompt.of("demo", "desk", [MarkdownSection(key="d", title="Desk", tools=[note, send])])


def prompt_of(*tools: Any) -> Prompt:
    return Prompt.of("demo", "desk", [MarkdownSection(key="d", title="Desk", tools=tools)])


class Blocked:
    """A model that answers when it is told to, or never."""

    name = "blocked"
    model = "slow"

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.answers = threading.Event()
        self.requests = 0

    def send(self, request: ModelRequest, listen: Any = None) -> Turn:
        self.requests += 1
        self.asked.set()
        assert self.answers.wait(WAIT)
        return Turn(Message(Role.ASSISTANT, "At last."), usage=Usage(7, 1))

    async def asend(self, request: ModelRequest, listen: Any = None) -> Turn:
        self.requests += 1
        self.asked.set()
        await asyncio.sleep(WAIT)
        raise AssertionError

    def close(self) -> None:
        """Close nothing."""


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Any:
    def run(agent: Agent[Any], said: str, **given: Any) -> RunResult[Any]:
        if request.param == "sync":
            return agent.run(said, **given)
        return asyncio.run(agent.arun(said, **given))

    return run


@pytest.fixture(params=["sync", "async"])
def execute(request: pytest.FixtureRequest) -> Any:
    def execute(agent: Agent[Any], said: str, **given: Any) -> Any:
        if request.param == "sync":
            return agent.execute(said, **given)
        return asyncio.run(agent.aexecute(said, **given))

    return execute


# --- Results that never raise


def test_a_result_says_all_of_a_request(run: Any) -> None:
    model = ScriptedModel([("note", {"text": "a"})], "Done.")
    context = RunContext(request_id="r-1")
    with Host(discover=False) as host:
        agent = Agent[str](PROMPT, adapter=model, host=host)
        result = run(agent, "Go", run_context=context, session_id="s-1")

    assert (result.success, result.text, result.output, result.error) == (True, "Done.", None, None)
    assert (result.stop_reason, result.turns) == (StopReason.END, 2)
    assert result.usage == Usage(200, 20)
    assert result.session_id == "s-1"
    assert result.run_context.request_id == "r-1"


FAILURES: dict[StopReason, tuple[list[Any], dict[str, Any]]] = {
    StopReason.TURNS: ([[("note", {"text": "a"})]] * 3, {}),
    StopReason.DEADLINE: ([], {"deadline": Deadline.after(0)}),
    StopReason.BUDGET: (["Too much."], {"budget": Budget(max_input_tokens=50)}),
    StopReason.REFUSED: ([Turn(Message(Role.ASSISTANT, "No."), StopReason.REFUSED)], {}),
    StopReason.MAX_TOKENS: ([Turn(Message(Role.ASSISTANT, "So"), StopReason.MAX_TOKENS)], {}),
    StopReason.ERROR: ([ProviderError("no such model", FaultType.REFUSED)], {}),
}


@pytest.mark.parametrize("reason", FAILURES)
def test_a_run_that_fails_has_a_result_too(run: Any, reason: StopReason) -> None:
    script, given = FAILURES[reason]
    with Host(discover=False) as host:
        config = AgentConfig(max_turns=2)
        agent = Agent[str](PROMPT, adapter=ScriptedModel(*script), host=host, config=config)
        result = run(agent, "Go", **given)

    assert (result.success, result.stop_reason) == (False, reason)
    assert "demo:desk" in result.error or "budget" in result.error
    assert result.session_id
    assert result.run_context is not None


def test_what_a_loop_raises_by_itself_is_a_result_with_its_session(run: Any) -> None:
    class Strict(Agent[str]):
        def finalize(self, prompt: Prompt, session: Any, result: RunResult[str]) -> str:
            raise ValueError("not good enough")

    ended: list[PromptExecuted] = []
    with Host(discover=False) as host, host.executor() as tools:
        tools.session.dispatcher.subscribe(PromptExecuted, ended.append)
        agent = Strict(PROMPT, adapter=ScriptedModel("Done."), host=host)
        result = run(agent, "Go", session=tools.session)

    assert (result.stop_reason, result.error) == (StopReason.ERROR, "not good enough")
    assert (result.text, result.turns) == ("Done.", 1)
    assert result.session_id == tools.session.id
    assert [event.stop_reason for event in ended] == [StopReason.ERROR]


def test_a_request_that_cannot_be_prepared_is_a_result(run: Any) -> None:
    class Broken(Agent[str]):
        def prepare(self, request: str | None) -> Prompt:
            raise LookupError(f"no prompt for {request}")

    with Host(discover=False) as host:
        result = run(Broken(PROMPT, adapter=ScriptedModel(), host=host), "Go")

    assert (result.stop_reason, result.error) == (StopReason.ERROR, "no prompt for Go")


def test_the_error_of_a_result_is_without_the_users_credentials(run: Any) -> None:
    @tool
    def look(*, context: ToolContext) -> str:
        """Look into the account."""
        assert context.principal is not None
        assert context.principal.auth is not None
        raise PromptEvaluationError(f"Refused: {context.principal.auth.reveal()}")

    principal = Principal("https://id.example.org", "ada", auth=Secret("hunter2"))
    with Host(discover=False) as host:
        agent = Agent[str](prompt_of(look), adapter=ScriptedModel([("look", {})]), host=host)
        result = run(agent, "Go", principal=principal)

    assert "Refused: " in result.error
    assert "hunter2" not in result.error


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_process_is_raised(leaving: type[BaseException]) -> None:
    def stop(_: ModelRequest) -> str:
        raise leaving

    with Host(discover=False) as host, pytest.raises(leaving):
        Agent[str](PROMPT, adapter=ScriptedModel(stop), host=host).run("Go")


# --- Errors with their phase and their prompt


@tool
def stop_all() -> str:
    """End the evaluation."""
    raise PromptEvaluationError("It cannot go on.")


def faulty(fault: Exception) -> Callable[[ModelRequest], str]:
    def answer(_: ModelRequest) -> str:
        raise fault

    return answer


OWN = ValueError("the client's own")
CLASSIFIED = ProviderError("overloaded", FaultType.REFUSED)
CLASSIFIED.__cause__ = OWN
PHASES: list[tuple[Phase, list[Any], dict[str, Any]]] = [
    (Phase.REQUEST, [], {"deadline": Deadline.after(0)}),
    (Phase.RESPONSE, [CLASSIFIED], {}),
    (Phase.RESPONSE, [faulty(OWN)], {}),
    (Phase.TOOL, [[("stop_all", {})]], {}),
    (Phase.BUDGET, ["Too much."], {"budget": Budget(max_output_tokens=1)}),
]


def test_an_error_has_its_phase_its_prompt_and_its_cause(
    execute: Any, subtests: pytest.Subtests
) -> None:
    for phase, script, given in PHASES:
        with subtests.test(phase=phase, script=script, given=given):
            with Host(discover=False) as host:
                agent = Agent[str](prompt_of(stop_all), adapter=ScriptedModel(*script), host=host)
                with pytest.raises(PromptEvaluationError) as failed:
                    execute(agent, "Go", **given)

            error = failed.value
            assert isinstance(error, RunFailed)
            assert (error.phase, error.prompt) == (phase, "demo:desk")
            if phase is Phase.RESPONSE:
                causes = [error.__cause__, error.__cause__ and error.__cause__.__cause__]
                assert OWN in causes


def test_a_prompt_that_cannot_be_rendered_fails_in_the_phase_of_the_request(execute: Any) -> None:
    section = MarkdownSection(key="d", title="Desk", template="For $name.")
    prompt = Prompt(PromptTemplate("demo", "desk", [section]))
    with Host(discover=False) as host, pytest.raises(RunFailed, match="name") as failed:
        execute(Agent(prompt, adapter=ScriptedModel(), host=host), "Go")

    assert (failed.value.phase, failed.value.prompt) == (Phase.REQUEST, "demo:desk")


# --- A run that waits


def test_a_run_that_waits_goes_on_from_its_json_alone(run: Any) -> None:
    first = ScriptedModel([("note", {"text": "a"}), ("send", {"to": "Ada"})])
    with Host(discover=False, approver=lambda _: ApprovalAnswer.pending("t-1")) as host:
        agent = Agent[str](PROMPT, adapter=first, host=host)
        result = run(agent, "Go")
        assert (result.success, result.stop_reason) == (False, StopReason.PENDING)
        token = result.waiting[0].approval_token
        text = result.state.to_json()
        assert token not in text

        config = AgentConfig(slices=[Note])
        other = Agent[str](PROMPT, adapter=ScriptedModel("Sent."), host=host, config=config)
        answers = {"t-1": TicketAnswer(token, ApprovalAnswer.approve())}
        resumed, session = other.resume(RunState.from_json(text), answers)

    assert resumed.text == "Sent."
    assert resumed.usage == Usage(200, 20)
    assert (resumed.run_context, session[Note].all()) == (
        resumed.run_context,
        (Note("a"),),
    )
    assert resumed.run_context.run_id == result.run_context.run_id


# --- Events


def test_the_events_of_a_run_come_in_order_with_its_ids(execute: Any) -> None:
    events: list[Any] = []
    model = ScriptedModel([("note", {"text": "a"})], "Done.")
    context = RunContext("theirs", request_id="r-1", attempt=3, worker_id="w-7")
    with Host(discover=False) as host, host.executor() as tools:
        for kind in (PromptRendered, ModelReplied, ToolInvoked, PromptExecuted):
            tools.session.dispatcher.subscribe(kind, events.append)
        agent = Agent[str](PROMPT, adapter=model, host=host)
        result, _ = execute(agent, "Go", session=tools.session, run_context=context)

    assert [type(event) for event in events] == [
        PromptRendered,
        ModelReplied,
        ToolInvoked,
        PromptRendered,
        ModelReplied,
        PromptExecuted,
    ]
    own = [event for event in events if not isinstance(event, ToolInvoked)]
    ids = {(each.run_id, each.request_id, each.attempt, each.worker_id) for each in own}
    assert ids == {(result.run_context.run_id, "r-1", 3, "w-7")}
    assert result.run_context.run_id != "theirs"
    assert events[0].tools == ("note", "send")
    assert len(events[0].digest) == 64
    assert events[1].usage == Usage(100, 10)
    assert events[1].duration >= 0
    assert (events[-1].stop_reason, events[-1].turns) == (StopReason.END, 2)


def test_attempts_at_a_request_share_its_id_and_no_run_id(run: Any) -> None:
    with Host(discover=False) as host:
        agent = Agent[str](PROMPT, adapter=ScriptedModel("One.", "Two."), host=host)
        contexts = [
            run(agent, "Go", run_context=RunContext(request_id="r-1", attempt=n)).run_context
            for n in (1, 2)
        ]

    assert {context.request_id for context in contexts} == {"r-1"}
    assert [context.attempt for context in contexts] == [1, 2]
    assert len({context.run_id for context in contexts}) == 2


def test_a_subscriber_and_a_bus_that_raise_change_nothing(
    execute: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Bus:
        def publish(self, event: object) -> None:
            raise RuntimeError("the bus is full")

        def subscribe(self, event: Any, handler: Any) -> Any:
            raise NotImplementedError

    def raising(event: object) -> None:
        raise RuntimeError("no")

    model = ScriptedModel([("note", {"text": "a"})], "Done.")
    with Host(discover=False) as host, host.executor() as tools:
        tools.session.dispatcher.subscribe(ModelReplied, raising)
        agent = Agent[str](PROMPT, adapter=model, host=host, bus=Bus())
        result, session = execute(agent, "Go", session=tools.session)

    assert result.text == "Done."
    assert len(session[ModelReplied].all()) == 2
    assert "A bus raised" in caplog.text


# --- Surroundings of handlers


def test_handlers_have_the_surroundings_of_their_request(execute: Any) -> None:
    seen: list[ToolContext] = []

    @tool
    def look(*, context: ToolContext) -> float | None:
        """Look around."""
        seen.append(context)
        context.beat()
        assert context.budget_tracker is not None
        context.budget_tracker.spend(5)
        assert isinstance(context.resources.get(BudgetTracker), TokenBudgetTracker)
        return context.budget_tracker.remaining()

    model = ScriptedModel([("look", {})], "Done.")
    heartbeat = Heartbeat()
    context = RunContext(request_id="r-1", tags={"team": "blue"})
    with Host(discover=False) as host:
        agent = Agent[str](prompt_of(look), adapter=model, host=host)
        given = {"heartbeat": heartbeat, "run_context": context}
        result, session = execute(agent, "Go", budget=Budget(max_total_tokens=1000), **given)

    [one] = seen
    assert one.adapter is model
    assert one.heartbeat is heartbeat
    assert one.run_context == result.run_context
    assert one.run_context is not None
    assert one.run_context.tags == {"team": "blue"}
    assert session[Message].all()[2].answers[0].text == "885.0"


def test_the_loop_beats_before_and_after_each_request_and_each_batch(execute: Any) -> None:
    beats: list[str] = []
    heartbeat = Heartbeat(lambda: beats.append("beat"))

    @tool
    def look() -> str:
        """Look around."""
        beats.append("batch")
        return "seen"

    def asked(answer: Any) -> Callable[[ModelRequest], Any]:
        def reply(_: ModelRequest) -> Any:
            beats.append("request")
            return answer

        return reply

    model = ScriptedModel(asked([("look", {})]), asked("Done."))
    with Host(discover=False) as host:
        execute(Agent(prompt_of(look), adapter=model, host=host), "Go", heartbeat=heartbeat)

    for index, name in enumerate(beats):
        if name != "beat":
            assert (beats[index - 1], beats[index + 1]) == ("beat", "beat"), beats
    assert [name for name in beats if name != "beat"] == ["request", "batch", "request"]


# --- Requests beside one another


def keep_apart(request: ModelRequest) -> Any:
    """Write what was asked for once, then say how it came out."""
    last = request.messages[-1]
    if last.role is Role.USER:
        return [("note", {"text": last.text})]
    return last.answers[0].text


def assert_apart(results: list[tuple[RunResult[Any], Any]]) -> None:
    assert [result.text for result, _ in results] == [f"noted {n}" for n in range(len(results))]
    assert [list(session[Note].all()) for _, session in results] == [
        [Note(str(n))] for n in range(len(results))
    ]
    assert {result.usage for result, _ in results} == {Usage(200, 20)}
    assert len({result.session_id for result, _ in results}) == len(results)


def test_parallel_requests_of_one_loop_are_apart_on_threads() -> None:
    model = ScriptedModel(*[keep_apart] * 16)
    config = AgentConfig(budget=Budget(max_total_tokens=250))
    with Host(discover=False) as host, ThreadPoolExecutor(8) as pool:
        agent = Agent[str](PROMPT, adapter=model, host=host, config=config)
        assert_apart(list(pool.map(lambda n: agent.execute(str(n)), range(8))))


def test_parallel_requests_of_one_loop_are_apart_in_tasks() -> None:
    model = ScriptedModel(*[keep_apart] * 16)
    config = AgentConfig(budget=Budget(max_total_tokens=250))

    async def main(agent: Agent[str]) -> list[Any]:
        return await asyncio.gather(*(agent.aexecute(str(n)) for n in range(8)))

    with Host(discover=False) as host:
        agent = Agent[str](PROMPT, adapter=model, host=host, config=config)
        assert_apart(asyncio.run(main(agent)))


def test_a_session_that_is_in_use_is_an_error_until_the_run_has_ended() -> None:
    model = Blocked()
    with Host(discover=False) as host, host.executor() as tools, ThreadPoolExecutor(1) as pool:
        agent = Agent[str](PROMPT, adapter=model, host=host)
        first = pool.submit(agent.execute, "one", session=tools.session)
        assert model.asked.wait(WAIT)
        with pytest.raises(StateError, match=f"Session {tools.session.id} has a run under way"):
            agent.execute("two", session=tools.session)
        copy = host.session(tools.session.snapshot().to_json(), kinds=[Message, ModelReplied])
        with pytest.raises(StateError, match="has a run under way"):
            agent.execute("two", session=copy)
        model.answers.set()
        first.result(WAIT)
        agent.execute("three", session=tools.session)

        said = [each.text for each in tools.session[Message].all() if each.role is Role.USER]
    assert said == ["one", "three"]


# --- Cancelling


def test_cancelling_ends_a_request_to_the_model_at_once() -> None:
    model, stop = Blocked(), Cancellation()
    with Host(discover=False) as host, ThreadPoolExecutor(1) as pool:
        agent = Agent[str](PROMPT, adapter=model, host=host)
        running = pool.submit(agent.run, "Go", cancellation=stop)
        assert model.asked.wait(WAIT)
        stop.cancel()
        result = running.result(WAIT / 2)
        model.answers.set()

    assert (result.stop_reason, result.turns, model.requests) == (StopReason.CANCELLED, 0, 1)


def test_a_reply_after_cancelling_is_dropped_and_its_tokens_count() -> None:
    model, stop, tracker = Blocked(), Cancellation(), TokenBudgetTracker(Budget(max_cost=1))
    with Host(discover=False) as host, ThreadPoolExecutor(1) as pool:
        agent = Agent[str](PROMPT, adapter=model, host=host, config=AgentConfig(prices=FREE))
        running = pool.submit(agent.run, "Go", cancellation=stop, tracker=tracker)
        assert model.asked.wait(WAIT)
        stop.cancel()
        result = running.result(WAIT / 2)
        model.answers.set()
        for thread in threading.enumerate():
            if thread.name == "toolstile-model":
                thread.join()

    assert (len(result.messages), result.text) == (1, "")
    assert tracker.consumed == Usage(7, 1, cost=0.0)


def test_cancelling_a_task_ends_a_request_to_the_model_at_once() -> None:
    model = Blocked()

    async def main(agent: Agent[str]) -> None:
        task = asyncio.create_task(agent.arun("Go"))
        await asyncio.to_thread(model.asked.wait, WAIT)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Host(discover=False) as host:
        asyncio.run(main(Agent[str](PROMPT, adapter=model, host=host)))

    assert model.requests == 1


def test_a_cancelled_run_of_the_event_loop_ends_at_once() -> None:
    model, stop = Blocked(), Cancellation()

    async def main(agent: Agent[str]) -> RunResult[str]:
        task = asyncio.create_task(agent.arun("Go", cancellation=stop))
        await asyncio.to_thread(model.asked.wait, WAIT)
        stop.cancel()
        return await task

    with Host(discover=False) as host:
        result = asyncio.run(main(Agent[str](PROMPT, adapter=model, host=host)))

    assert (result.stop_reason, model.requests) == (StopReason.CANCELLED, 1)


def test_a_provider_that_lets_the_agent_wait_too_long_is_told_with_its_tries(execute: Any) -> None:
    limited = ProviderError("slow down", FaultType.RATE_LIMIT, retry_after=WAIT)
    config = AgentConfig(retries=Retries(total_delay=WAIT / 2))
    model = ScriptedModel(limited, "never")
    with Host(discover=False) as host, pytest.raises(RunFailed, match="slow down") as failed:
        execute(Agent[str](PROMPT, adapter=model, host=host, config=config), "Go")

    throttled = failed.value.__cause__
    assert isinstance(throttled, ThrottleError)
    assert (throttled.type, throttled.attempts) == (FaultType.RATE_LIMIT, 1)
    assert (throttled.retry_after, throttled.retry_safe) == (WAIT, True)
    assert throttled.__cause__ is limited


def test_a_wait_that_the_deadline_does_not_leave_is_not_begun(execute: Any) -> None:
    limited = ProviderError("slow down", FaultType.RATE_LIMIT, retry_after=WAIT)
    config = AgentConfig(retries=Retries(total_delay=2 * WAIT))
    model = ScriptedModel(limited, "never")
    deadline = Deadline.after(WAIT / 2)
    with Host(discover=False) as host, pytest.raises(RunFailed, match="slow down") as failed:
        execute(Agent(PROMPT, adapter=model, host=host, config=config), "Go", deadline=deadline)

    assert isinstance(failed.value.__cause__, ThrottleError)
    assert len(model.requests) == 1


def test_tries_are_further_and_further_apart_and_not_evenly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    model = ScriptedModel(*[ProviderError("overloaded")] * 7)
    config = AgentConfig(retries=Retries(attempts=7, total_delay=60))
    with Host(discover=False) as host:
        agent = Agent[str](PROMPT, adapter=model, host=host, config=config)
        assert asyncio.run(agent.arun("Go")).stop_reason is StopReason.ERROR

    least = [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
    assert all(low <= wait <= min(low + 0.5, 8.0) for low, wait in zip(least, waits, strict=True))
    assert any(wait != low for low, wait in zip(least, waits, strict=True))


def test_missing_usage_is_noted_once_and_not_guessed(
    execute: Any, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    class Silent(ScriptedModel):
        model = f"silent {request.node.name}"

    model = Silent([("note", {"text": "a"})], "Done.", usage=None)
    with Host(discover=False) as host:
        result, _ = execute(Agent[str](PROMPT, adapter=model, host=host), "Go")

    assert result.usage == Usage()
    noted = [each.getMessage() for each in caplog.records if Silent.model in each.getMessage()]
    assert noted == [
        f"scripted does not report the tokens of {Silent.model}: no budget counts them."
    ]


def test_nothing_is_asked_again_after_cancelling() -> None:
    stop = Cancellation()

    def limited(_: ModelRequest) -> str:
        stop.cancel()
        raise ProviderError("slow down", FaultType.RATE_LIMIT, retry_after=WAIT)

    model = ScriptedModel(limited, "never")
    config = AgentConfig(retries=Retries(total_delay=2 * WAIT))
    with Host(discover=False) as host:
        agent = Agent[str](PROMPT, adapter=model, host=host, config=config)
        result = agent.run("Go", cancellation=stop)

    assert (result.stop_reason, len(model.requests)) == (StopReason.CANCELLED, 1)


class Desk:
    """A host whose tool writes a note and waits to be cancelled."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.runs = 0

        @tool(category="write", contained=True)
        async def linger(*, context: ToolContext) -> str:
            """Write a note and wait."""
            self.runs += 1
            context.session[Note].append(Note("half"))
            self.began.set()
            await asyncio.sleep(WAIT)
            return "late"

        self.prompt = prompt_of(linger, note)

    def wait_within(self, session: Any) -> None:
        """Wait until one call is kept and the other is under way."""
        assert self.began.wait(WAIT)
        ends = time.monotonic() + WAIT
        while not session[Note].all():
            assert time.monotonic() < ends
            time.sleep(0.01)


CALLS = [("note", {"text": "whole"}), ("linger", {})]


def assert_rolled_back(session: Any, desk: Desk, model: ScriptedModel) -> None:
    assert list(session[Note].all()) == [Note("whole")]
    assert (desk.runs, len(model.requests)) == (1, 1)
    first, second = session[Message].all()[-1].answers
    assert first.text == "noted whole"
    assert second.is_error


def test_cancelling_rolls_running_calls_back() -> None:
    desk, stop, model = Desk(), Cancellation(), ScriptedModel(CALLS, "never")
    with Host(discover=False) as host, host.executor() as tools, ThreadPoolExecutor(1) as pool:
        agent = Agent[str](desk.prompt, adapter=model, host=host)
        running = pool.submit(agent.run, "Go", session=tools.session, cancellation=stop)
        desk.wait_within(tools.session)
        stop.cancel()
        result = running.result(WAIT / 2)

        assert result.stop_reason is StopReason.CANCELLED
        assert_rolled_back(tools.session, desk, model)


def test_a_task_that_is_cancelled_in_the_midst_of_calls_repeats_none_of_them() -> None:
    desk, model = Desk(), ScriptedModel(CALLS, lambda request: request.messages[-1].text)

    async def main(agent: Agent[str], session: Any) -> str:
        task = asyncio.create_task(agent.arun("Go", session=session))
        await asyncio.to_thread(desk.wait_within, session)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert_rolled_back(session, desk, model)
        return (await agent.arun("And now?", session=session)).text

    with Host(discover=False) as host, host.executor() as tools:
        agent = Agent[str](desk.prompt, adapter=model, host=host)
        assert asyncio.run(main(agent, tools.session)) == "And now?"

    assert desk.runs == 1


def test_an_argument_that_a_request_does_not_take_is_refused(run: Any) -> None:
    model: Any = ScriptedModel("never asked")
    with Host(discover=False) as host:
        result = run(Agent[str](PROMPT, adapter=model, host=host), "Go on.", principle=None)
    assert "takes no principle; it takes" in result.error
    assert model.requests == []


def test_a_run_that_waits_is_resumed_by_its_own_prompt_alone() -> None:
    model = ScriptedModel([("send", {"to": "Ada"})], "Sent.")
    other = Prompt.of("demo", "other", [])
    with Host(discover=False, approver=lambda _: ApprovalAnswer.pending("t")) as host:
        agent = Agent[str](PROMPT, adapter=model, host=host)
        asked = agent.run("Send it.")
        assert asked.state is not None
        token = asked.waiting[0].approval_token
        assert token is not None
        answers = {"t": TicketAnswer(token, ApprovalAnswer.approve())}
        with pytest.raises(StateError, match="a run of demo:desk; resume it by an agent"):
            Agent[str](other, adapter=model, host=host).resume(asked.state, answers)
        assert agent.resume(asked.state, answers)[0].text == "Sent."


def test_the_time_of_a_requests_budget_wins_over_that_of_the_configuration() -> None:
    config = AgentConfig(budget=Budget(deadline=1e-9))
    with Host(discover=False) as host:
        agent = Agent[str](PROMPT, adapter=ScriptedModel("Done."), host=host, config=config)
        assert agent.run("Go on.").stop_reason == "deadline"
        assert agent.run("Go on.", budget=Budget(deadline=WAIT)).text == "Done."


@pytest.mark.parametrize("own", [60, -1])
@pytest.mark.parametrize("of_budget", [60, 1e-9])
def test_the_earlier_one_of_a_requests_deadline_and_its_budgets_holds(
    own: float, of_budget: float
) -> None:
    given: Any = {"deadline": Deadline.after(own), "budget": Budget(deadline=of_budget)}
    with Host(discover=False) as host:
        result = Agent[str](PROMPT, adapter=ScriptedModel("Done."), host=host).run("Go", **given)
    assert result.success is (own > 0 and of_budget > 1)


def test_a_deadline_of_a_request_is_a_moment(run: Any) -> None:
    with Host(discover=False) as host:
        result = run(Agent[str](PROMPT, adapter=ScriptedModel(), host=host), "Go", deadline=60)
    assert "give Deadline.after(seconds)" in result.error


def test_settings_that_may_hold_a_key_are_not_in_a_repr() -> None:
    settings: Any = {"extra_headers": {"authorization": "sk-of-nobody"}}
    assert "sk-of-nobody" not in repr(AgentConfig(settings=settings))
    assert "sk-of-nobody" not in repr(AgentSettings(settings=settings))


def test_a_person_of_the_request_answers_before_that_of_the_configuration_and_the_hosts(
    run: Any,
) -> None:
    def denying(why: str) -> Any:
        return lambda _: ApprovalAnswer.deny(why)

    model = ScriptedModel(*[[("send", {"to": "Ada"})], "Done."] * 2)
    config = AgentConfig(approver=denying("configured"))
    with Host(discover=False, approver=denying("of the host")) as host:
        agent = Agent[str](PROMPT, adapter=model, host=host, config=config)
        results = [run(agent, "Go", approver=denying("of the request")), run(agent, "Go")]

    texts = [result.messages[2].answers[0].text for result in results]
    assert ["of the request" in texts[0], "configured" in texts[1]] == [True, True]


# --- Answers of people


@tool(requires_confirmation=True)
def end_it() -> str:
    """End the evaluation once a person allows it."""
    raise PromptEvaluationError("It cannot go on.")


def test_a_token_that_is_not_the_calls_is_told_and_the_call_goes_on_waiting() -> None:
    model = ScriptedModel([("send", {"to": "Ada"}), ("send", {"to": "Bob"})], "Sent.")
    tickets = iter(["a", "b"])
    with Host(discover=False, approver=lambda _: ApprovalAnswer.pending(next(tickets))) as host:
        agent = Agent[str](PROMPT, adapter=model, host=host)
        asked, session = agent.execute("Send both.")
        assert asked.state is not None
        tokens = [each.approval_token or "" for each in asked.waiting]
        yes = ApprovalAnswer.approve()
        for wrong in (tokens[0][:-1], "", tokens[1]):
            answers = {"a": TicketAnswer(wrong, yes), "b": TicketAnswer(tokens[1], yes)}
            with pytest.raises(StateError, match="'a' does not belong to its call, which keeps w"):
                agent.resume(asked.state, answers, session=session)
        # Nothing has run, and both tokens hold.
        assert [event.status for event in session[ToolInvoked].all()] == ["pending"] * 2
        answers = {
            ticket: TicketAnswer(token, yes) for ticket, token in zip("ab", tokens, strict=True)
        }
        assert agent.resume(asked.state, answers, session=session)[0].text == "Sent."


def test_calls_that_share_a_ticket_are_told_apart_by_their_tokens() -> None:
    model = ScriptedModel([("send", {"to": "Ada"}), ("send", {"to": "Bob"})], "Sent.")
    with Host(discover=False, approver=lambda _: ApprovalAnswer.pending("t")) as host:
        agent = Agent[str](PROMPT, adapter=model, host=host)
        result, session = agent.execute("Send both.")
        for outcome in result.waiting:
            assert result.state is not None
            answers = {"t": TicketAnswer(outcome.approval_token or "", answer=True)}
            result, _ = agent.resume(result.state, answers, session=session)

    assert result.text == "Sent."
    texts = [each.text for message in session[Message].all() for each in message.answers]
    assert texts == ["sent to Ada", "sent to Bob"]


def test_an_answer_needs_the_token_of_the_call() -> None:
    model = ScriptedModel([("send", {"to": "Ada"})], "Sent.")
    with Host(discover=False, approver=lambda _: ApprovalAnswer.pending("t")) as host:
        agent = Agent[str](PROMPT, adapter=model, host=host)
        asked = agent.run("Send it.")
        assert asked.state is not None
        answer: Any = ApprovalAnswer.approve()
        with pytest.raises(TypeError, match="The answer to 't' has no token: give TicketAnswer"):
            agent.resume(asked.state, {"t": answer})
    wrong: Any
    for wrong in [(None, True), ("token", "yes"), ("token", None)]:
        with pytest.raises(TypeError, match="give the approval_token of the outcome, and True"):
            TicketAnswer(*wrong)


def test_an_approved_call_that_ends_the_run_leaves_the_results_beside_it(execute: Any) -> None:
    model = ScriptedModel([("end_it", {}), ("send", {"to": "Ada"})])
    with Host(discover=False, approver=lambda _: ApprovalAnswer.pending()) as host:
        agent = Agent[str](prompt_of(end_it, send), adapter=model, host=host)
        asked, session = execute(agent, "Go")
        answers = {
            each.ticket: TicketAnswer(outcome.approval_token, answer=True)
            for each, outcome in zip(asked.state.waiting, asked.waiting, strict=True)
        }
        with pytest.raises(RunFailed, match="It cannot go on") as failed:
            agent.resume(asked.state, answers, session=session)

    assert failed.value.phase is Phase.TOOL
    answered = session[Message].all()[-1].answers
    assert [(each.name, each.is_error) for each in answered] == [("end_it", True), ("send", False)]
