"""A loop of one's own prepares a prompt for each request; limits and resources are per request."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile import Host, MarkdownSection, Prompt, PromptTemplate, Visibility, tool
from toolstile.testing import FakeClock, ScriptedModel
from toolstile_hookspecs import (
    Cancellation,
    Deadline,
    ResourceResolver,
    SessionProtocol,
    StateError,
    ToolContext,
)
from toolstile_hookspecs.agents.messages import (
    CallMade,
    Message,
    Role,
    StopReason,
    Turn,
    Usage,
)
from toolstile_hookspecs.agents.provider import ModelRequest
from toolstile_hookspecs.resources import Binding
from toolstile_plugins.agent import (
    Agent,
    AgentConfig,
    Budget,
    DropOldest,
    MainLoop,
    ModelReplied,
    Phase,
    PromptExecuted,
    PromptRendered,
    RunFailed,
    RunResult,
)


@dataclass(frozen=True)
class Question:
    topic: str


@dataclass(frozen=True)
class Answer:
    text: str


class Connection:
    """A resource that knows whether it is open."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log
        log.append(f"open {name}")

    def close(self) -> None:
        self.log.append(f"close {self.name}")


@tool(category="read")
def ask(*, context: ToolContext) -> str:
    """Ask the connection for its name."""
    return context.resources.get(Connection).name


@tool
def wait(*, context: ToolContext) -> str:
    """Let the clock go on by a minute."""
    assert isinstance(context.clock, FakeClock)
    context.clock.advance(60)
    return "waited"


class Desk(MainLoop[Question, Answer]):
    """Answers questions; says how the answer came to be."""

    def prepare(self, request: Question) -> Prompt:
        template = "You know of $topic."
        section = MarkdownSection(key="k", title="Known", template=template, tools=[ask])
        return Prompt(PromptTemplate("demo", "desk", [section], output=Answer)).bind(request)


class Checked(Desk):
    def finalize(self, prompt: Prompt, session: Any, result: RunResult[Answer]) -> Answer | None:
        assert result.output is not None
        if not result.output.text:
            raise ValueError("an empty answer")
        return Answer(result.output.text.upper())


def opening(name: str, log: list[str]) -> Binding[Any]:
    def provide(_: ResourceResolver) -> Connection:
        return Connection(name, log)

    return Binding(Connection, provide)


def test_a_request_that_is_no_text_fills_the_prompt() -> None:
    model = ScriptedModel('{"text": "Tea grows."}')
    with Host(discover=False) as host:
        result, session = Desk(model, host).execute(Question("tea"))

    assert result.output == Answer("Tea grows.")
    assert "You know of tea." in model.requests[0].system
    assert result.session_id == session.id


def test_finalize_replaces_the_output_of_a_success_and_its_exception_fails_the_request() -> None:
    model = ScriptedModel('{"text": "tea"}', '{"text": ""}')
    with Host(discover=False) as host:
        loop = Checked(model, host)
        assert loop.execute(Question("tea"))[0].output == Answer("TEA")
        with pytest.raises(ValueError, match="an empty answer"):
            loop.execute(Question("tea"))


@pytest.mark.parametrize("is_async", [False, True])
def test_resources_of_a_request_win_and_are_closed_after_any_end(*, is_async: bool) -> None:
    log: list[str] = []
    model = ScriptedModel([("ask", {})], '{"text": "x"}', [("ask", {})], RuntimeError("broken"))

    def execute(host: Host, **given: Any) -> RunResult[Answer]:
        loop = Desk(model, host, AgentConfig(resources=[opening("configured", log)]))
        if is_async:
            return asyncio.run(loop.arun(Question("tea"), **given))
        return loop.run(Question("tea"), **given)

    with Host(discover=False) as host:
        assert execute(host, resources=[opening("of the request", log)]).success
        failed = execute(host)

    assert model.requests[1].messages[-1].answers[0].text == "of the request"
    assert model.requests[3].messages[-1].answers[0].text == "configured"
    assert not failed.success
    assert "broken" in (failed.error or "")
    assert log == [
        "open of the request",
        "close of the request",
        "open configured",
        "close configured",
    ]


@pytest.mark.parametrize(
    "winner", ["of the request", "configured", "of the prompt", "of the section"]
)
def test_resources_nearer_to_the_request_win(winner: str) -> None:
    names = ["of the section", "of the prompt", "configured", "of the request"]
    given = {name: opening(name, []) for name in names[: names.index(winner) + 1]}
    own = [given["of the section"]]
    section = MarkdownSection(key="o", title="Own", tools=[ask], resources=own)
    prompt = Prompt(PromptTemplate("demo", "p", [section]))
    if "of the prompt" in given:
        prompt = prompt.bind(resources={Connection: given["of the prompt"]})
    configured, asked = ([given[name]] if name in given else [] for name in names[2:])
    model = ScriptedModel([("ask", {})], "Done.")
    with Host(discover=False) as host:
        config = AgentConfig(resources=configured)
        agent = Agent[str](prompt, adapter=model, host=host, config=config)
        result = agent.run("Go", resources=asked)
    assert result.messages[2].answers[0].text == winner


def test_each_request_has_all_of_the_configured_time() -> None:
    clock = FakeClock()
    prompt = Prompt.of("demo", "slow", [MarkdownSection(key="w", title="Wait", tools=[wait])])
    model = ScriptedModel(
        [("wait", {})], "one", [("wait", {})], "two", [("wait", {})], [("wait", {})]
    )
    with Host(discover=False, clock=clock) as host:
        agent = Agent[str](prompt, adapter=model, host=host, config=AgentConfig(deadline=90))
        assert agent.execute("a")[0].text == "one"
        assert agent.execute("b")[0].text == "two"
        late = agent.run("c")
        own = agent.run("d", deadline=Deadline.after(-1, clock=clock))

    assert late.stop_reason is StopReason.DEADLINE
    assert own.stop_reason is StopReason.DEADLINE
    assert own.turns == 0


HIDDEN = Prompt.of(
    "demo",
    "hidden",
    [
        MarkdownSection(
            key=f"s{number}",
            title=f"Section {number}",
            template=f"The text of {number}.",
            summary="Hidden.",
            visibility=Visibility.SUMMARY,
            tools=[ask] if number == 0 else [],
        )
        for number in range(6)
    ],
)


def opened(number: int) -> list[tuple[str, dict[str, Any]]]:
    return [("open_sections", {"section_keys": [f"s{number}"], "reason": "curious"})]


def test_a_section_that_the_model_opens_is_in_the_prompt_of_the_next_request() -> None:
    log: list[str] = []
    model = ScriptedModel(opened(0), [("ask", {})], "Known.")
    config = AgentConfig(resources=[opening("kept open", log)])
    with Host(discover=False) as host:
        result, _ = Agent[str](HIDDEN, adapter=model, host=host, config=config).execute("Go")

    assert result.text == "Known."
    assert "The text of 0." not in model.requests[0].system
    assert "The text of 0." in model.requests[1].system
    assert model.requests[1].messages[-1].answers[0].text == "These sections are open now: s0."
    assert log == ["open kept open", "close kept open"]


def test_a_section_that_the_session_enables_or_disables_is_so_in_the_next_request() -> None:
    @dataclass(frozen=True)
    class Locked:
        is_locked: bool

    @tool
    def lock(*, context: ToolContext) -> str:
        """Lock the desk."""
        context.session[Locked].append(Locked(is_locked=True))
        return "locked"

    def is_open(session: SessionProtocol | None) -> bool:
        return session is None or session[Locked].latest() is None

    desk = MarkdownSection(
        key="d", title="Desk", template="It is open.", tools=[ask], enabled=is_open
    )
    prompt = Prompt.of("demo", "p", [MarkdownSection(key="l", title="Lock", tools=[lock]), desk])
    model = ScriptedModel([("lock", {})], "Done.")
    with Host(discover=False) as host:
        assert Agent[str](prompt, adapter=model, host=host).run("Go").success

    assert [[each.name for each in one.tools] for one in model.requests] == [
        ["lock", "ask"],
        ["lock"],
    ]
    assert ["It is open." in one.system for one in model.requests] == [True, False]


def test_a_model_that_only_opens_sections_is_ended() -> None:
    model = ScriptedModel(*[opened(number) for number in range(6)])
    config = AgentConfig(max_expansions=3)
    with Host(discover=False) as host:
        agent = Agent[str](HIDDEN, adapter=model, host=host, config=config)
        with pytest.raises(RunFailed, match="only opens sections, at last s3") as failed:
            agent.execute("Go")

    assert failed.value.phase is Phase.TOOL
    assert failed.value.prompt == "demo:hidden"


def test_a_call_between_them_lets_the_model_open_more() -> None:
    model = ScriptedModel(opened(0), opened(1), [("ask", {})], opened(2), opened(3), "Done.")
    config = AgentConfig(max_expansions=2, resources=[opening("c", [])])
    with Host(discover=False) as host:
        agent = Agent[str](HIDDEN, adapter=model, host=host, config=config)
        assert agent.execute("Go")[0].text == "Done."


def test_two_requests_go_on_with_one_session_but_not_at_the_same_time() -> None:
    def again(_: object) -> str:
        with pytest.raises(StateError, match="has a run under way"):
            agent.execute("meanwhile", session=session)
        return "first"

    model = ScriptedModel("begun", again, "second")
    with Host(discover=False) as host:
        agent = Agent[str](Prompt.of("demo", "one", []), adapter=model, host=host)
        _, session = agent.execute("zero")
        agent.execute("one", session=session)
        agent.execute("two", session=session)

    said = [message.text for message in session[Message].all() if message.role is Role.USER]
    assert said == ["zero", "one", "two"]


def test_an_agent_in_an_open_executor_does_not_share_its_session_meanwhile() -> None:
    prompt = Prompt.of("demo", "one", [])
    other = Agent[str](prompt, adapter=ScriptedModel("second", "third"))
    with Host(discover=False) as host, host.executor(prompt=prompt) as tools:

        def again(_: object) -> str:
            with pytest.raises(StateError, match="has a run under way"):
                other.execute("meanwhile", executor=tools)
            return "first"

        agent = Agent[str](prompt, adapter=ScriptedModel(again), host=host)
        agent.execute("one", session=tools.session)
        assert other.execute("two", executor=tools)[0].text == "second"


class Bus:
    """An application's bus."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def publish(self, event: object) -> None:
        self.events.append(event)

    def subscribe(self, event: type[Any], handler: Any) -> Any:
        raise NotImplementedError


def test_the_events_of_a_run_come_in_order_on_the_bus() -> None:
    bus = Bus()
    model = ScriptedModel([("ask", {})], '{"text": "x"}')
    config = AgentConfig(resources=[opening("c", [])])
    with Host(discover=False) as host:
        result, session = Desk(model, host, config, bus=bus).execute(Question("tea"))

    kinds = [PromptRendered, ModelReplied, PromptRendered, ModelReplied, PromptExecuted]
    assert [type(event) for event in bus.events] == kinds
    assert {event.run_id for event in bus.events} == {result.run_context.run_id}  # type: ignore[union-attr]
    assert bus.events[0].tools == ("ask",)
    assert bus.events[-1].usage == result.usage
    assert [each.turn for each in session[ModelReplied].all()] == [1, 2]


def test_a_long_conversation_loses_whole_turns_from_the_oldest() -> None:
    model = ScriptedModel(*[[("ask", {})]] * 6, '{"text": "x"}')
    config = AgentConfig(compaction=DropOldest(max_messages=4), resources=[opening("c", [])])
    with Host(discover=False) as host:
        _, session = Desk(model, host, config).execute(Question("tea"))

    for request in model.requests:
        made = [call.id for message in request.messages for call in message.calls]
        answered = [answer.call_id for message in request.messages for answer in message.answers]
        assert made == answered
        assert request.messages[0].role is Role.USER
        assert len(request.messages) <= 6
    # However often it was done, one note says so, and nothing that is not so.
    notes = [each.text for each in session[Message].all() if "left out" in each.text]
    assert notes == ["(Earlier messages of this conversation are left out.)"]
    assert session[Message].all()[1].text == notes[0]


def test_a_loop_opens_and_closes_a_host_of_its_own():
    opened: list[Host] = []

    def open_host() -> Host:
        opened.append(Host(discover=False))
        return opened[-1]

    prompt = Prompt.of("demo", "p", [])
    agent = Agent[None](prompt, adapter=ScriptedModel("Hello.", "Hello again."), host=open_host)
    for _ in range(2):
        with agent:
            assert agent.run("Hi.").success
        with pytest.raises(StateError, match="not open"):
            opened[-1].executor().__enter__()
    assert len(opened) == 2

    assert "give executor= or host=" in str(agent.run("Hi.").error)


def test_a_loop_runs_in_an_executor_that_is_open_already():
    said: list[str] = []

    @tool
    def note(*, context: ToolContext) -> str:
        """Note what was asked for."""
        said.extend(turn.text for turn in context.request)
        return "noted"

    prompt = Prompt.of("demo", "p", [MarkdownSection(key="s", title="S", tools=[note])])
    agent = Agent[None](prompt, adapter=ScriptedModel([("note", {})], "Done.", "Still here."))
    with Host(discover=False) as host, host.executor(prompt=prompt, request="First.") as tools:
        agent.execute("Second.", executor=tools)
        assert agent.execute("Third.", executor=tools)[1] is tools.session
        assert said == ["First.", "Second."]
        texts = [each.text for each in tools.session[Message].all() if each.role is Role.USER]
        assert texts == ["Second.", "Third."]


def test_an_adapter_that_was_given_stays_open():
    closed: list[str] = []

    class Closing(ScriptedModel):
        def close(self) -> None:
            closed.append("sync")

        async def aclose(self) -> None:
            closed.append("async")

    agent = Agent[None](
        Prompt.of("demo", "p", []),
        adapter=Closing("One.", "Two."),
        host=lambda: Host(discover=False),
    )
    with agent:
        assert agent.run("Hi.").success
        assert asyncio.run(agent.arun("Hi.")).success
    assert closed == []


def test_calls_beside_one_that_opens_a_section_keep_their_results():
    model = ScriptedModel(opened(0), [*opened(1), ("ask", {})], "Known.")
    config = AgentConfig(resources=[opening("here", [])])
    with Host(discover=False) as host:
        assert Agent[str](HIDDEN, adapter=model, host=host, config=config).run("Go").success

    told = [answer.text for answer in model.requests[2].messages[-1].answers]
    assert told == ["These sections are open now: s1.", "here"]


def test_a_reply_with_text_and_calls_goes_on():
    model = ScriptedModel(
        Turn(
            Message(Role.ASSISTANT, "Let me see.", calls=(CallMade("1", "ask", "{}"),)),
            StopReason.END,
        ),
        "It is here.",
    )
    prompt = Prompt.of("demo", "p", [MarkdownSection(key="k", title="Known", tools=[ask])])
    config = AgentConfig(resources=[opening("here", [])])
    with Host(discover=False) as host:
        result = Agent[str](prompt, adapter=model, host=host, config=config).run("Where?")

    assert (result.turns, result.text) == (2, "It is here.")
    assert model.requests[1].messages[-1].answers[0].text == "here"


@pytest.mark.parametrize("is_late", [True, False])
@pytest.mark.parametrize("is_spent", [True, False])
def test_deadline_budget_and_cancellation_are_looked_at_in_this_order(
    is_late: bool, is_spent: bool
):
    clock, stop = FakeClock(), Cancellation()

    def last_reply(_: ModelRequest) -> str:
        clock.advance(60 if is_late else 0)
        stop.cancel()
        return "Done."

    # A reply that comes too late, or costs too much, is no success.
    model = ScriptedModel(last_reply, usage=Usage(1000 if is_spent else 1, 1))
    config = AgentConfig(deadline=30, budget=Budget(max_total_tokens=100))
    with Host(discover=False, clock=clock) as host:
        prompt = Prompt.of("demo", "p", [])
        result = Agent[str](prompt, adapter=model, host=host, config=config).run("Hi.")
        before = Agent[str](prompt, adapter=model, host=host, config=config).run(
            "Hi.", cancellation=stop
        )

    expected = StopReason.DEADLINE if is_late else StopReason.BUDGET if is_spent else StopReason.END
    assert result.stop_reason is expected
    assert before.stop_reason is StopReason.CANCELLED
    assert len(model.requests) == 1
