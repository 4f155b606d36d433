"""A run is read while it goes on; its result is the same, and leaving it early cancels it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest

import toolstile_plugins.agent as agent_plugin
from toolstile import Host, MarkdownSection, Prompt, PromptTemplate, tool
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import Cancellation, RunContext, ToolInvoked
from toolstile_hookspecs.agents.guidance import (
    FeedbackProviderConfig,
    FeedbackTrigger,
    GuidanceContext,
    TaskCompletionResult,
)
from toolstile_hookspecs.agents.messages import CallMade, Message, Role, StopReason, Turn, sendable
from toolstile_hookspecs.agents.provider import CallDelta, FaultType, ModelRequest, ProviderError
from toolstile_plugins.agent import Agent, Piece, PromptExecuted, RunFailed, RunResult
from toolstile_plugins.agent.guidance import prompt_guidance

WAIT = 30.0


@dataclass(frozen=True)
class Sum:
    total: int


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@tool(depends_on=["add"])
def twice(a: int, *, context: Any) -> str:
    """Double an integer."""
    return context.call("add", {"a": a, "b": a}).text


SECTIONS = [MarkdownSection(key="s", title="Sums", tools=[add, twice])]
PROMPT = Prompt.of("demo", "sums", SECTIONS)


class Spelling(ScriptedModel):
    """A model whose text arrives letter by letter; it waits before the last where told to."""

    def __init__(self, *script: Any) -> None:
        super().__init__(*script)
        self.goes_on = threading.Event()
        self.goes_on.set()

    def send(self, request: ModelRequest, listen: Any = None) -> Turn:
        turn = super().send(request)
        for letter in turn.text[:-1]:
            listen(letter)
        assert self.goes_on.wait(WAIT)
        listen(turn.text[-1:])
        return turn

    async def asend(self, request: ModelRequest, listen: Any = None) -> Turn:
        turn = ScriptedModel.send(self, request)
        for letter in turn.text[:-1]:
            listen(letter)
        if not self.goes_on.is_set():
            await asyncio.sleep(WAIT)
        listen(turn.text[-1:])
        return turn


def calling(text: str, *calls: tuple[str, Any]) -> Turn:
    turn = ScriptedModel(list(calls)).send(ModelRequest("", []))
    return replace(turn, message=replace(turn.message, text=text))


class Reader:
    """Reads streams, sync or async."""

    def __init__(self, *, is_async: bool) -> None:
        self.is_async = is_async

    def read(self, agent: Agent[Any], heard: list[Any] | None = None, **given: Any) -> list[Any]:
        """Return all pieces; those heard before an error are in the list that is given."""
        pieces = [] if heard is None else heard

        async def main() -> None:
            async for piece in agent.astream("Go", **given):
                pieces.append(piece)

        if self.is_async:
            asyncio.run(main())
        else:
            pieces.extend(agent.stream("Go", **given))
        return pieces

    def leave(self, agent: Agent[Any], **given: Any) -> None:
        """Leave the iteration after the first piece."""

        async def main() -> None:
            async with aclosing(agent.astream("Go", **given)) as stream:
                async for _ in stream:
                    break

        if self.is_async:
            asyncio.run(main())
            return
        for _ in agent.stream("Go", **given):
            break


@pytest.fixture(params=["sync", "async"])
def reader(request: pytest.FixtureRequest) -> Reader:
    return Reader(is_async=request.param == "async")


def test_text_arrives_in_pieces_and_the_result_is_that_of_execute(reader: Reader) -> None:
    script = [calling("I add. ", ("add", {"a": 1, "b": 2})), '{"total": 3}']
    prompt = Prompt(PromptTemplate("demo", "sums", SECTIONS, output=Sum))
    with Host(discover=False) as host:
        agent = Agent[Sum](prompt, adapter=Spelling(*script), host=host)
        given: Any = {"session_id": "s-1", "run_context": RunContext(request_id="r-1")}
        *pieces, result = reader.read(agent, **given)
        plain = Agent[Sum](prompt, adapter=ScriptedModel(*script), host=host)
        expected, _ = plain.execute("Go", **given)

    assert [piece for piece in pieces if isinstance(piece, str)] == [*"I add. ", *'{"total": 3}']
    assert result.output == Sum(3)
    assert same(result) == same(expected)


def same(result: RunResult[Any]) -> RunResult[Any]:
    return replace(result, run_context=None, messages=tuple(sendable(result.messages)))


def test_pieces_of_a_call_arrive_before_it_is_made(reader: Reader) -> None:
    model = ScriptedModel([("add", {"a": 1, "b": 2})], "3.")
    with Host(discover=False) as host:
        arriving, made, ended, *_ = reader.read(Agent[str](PROMPT, adapter=model, host=host))

    assert arriving == CallDelta(made.provider_id, "add", '{"a": 1, "b": 2}')
    assert ended.call_id == made.id


def test_events_tell_of_calls_that_are_made_and_ended(reader: Reader) -> None:
    model = Spelling(calling("So:", ("twice", {"a": 2})), "4.")
    with Host(discover=False) as host:
        pieces = reader.read(Agent[str](PROMPT, adapter=model, host=host))

    [made] = [piece for piece in pieces if isinstance(piece, CallMade)]
    [ended] = [piece for piece in pieces if isinstance(piece, ToolInvoked)]
    assert pieces == [*"So:", made, ended, *"4.", pieces[-1]]
    assert pieces[-1].text == "4."
    assert (made.name, ended.call_id, ended.text) == ("twice", made.id, "4")


def test_a_run_that_fails_raises_at_the_end_of_its_text(reader: Reader) -> None:
    model = Spelling(Turn(Message(Role.ASSISTANT, "So"), StopReason.MAX_TOKENS))
    heard: list[Any] = []
    with Host(discover=False) as host, pytest.raises(RunFailed, match="cut off"):
        reader.read(Agent[str](PROMPT, adapter=model, host=host), heard)

    assert heard == ["S", "o"]


def test_what_was_heard_is_not_asked_for_again(reader: Reader) -> None:
    class Cut(Spelling):
        def send(self, request: ModelRequest, listen: Any = None) -> Turn:
            super().send(request, listen)
            raise ProviderError("the stream broke off", FaultType.UNAVAILABLE)

        async def asend(self, request: ModelRequest, listen: Any = None) -> Turn:
            return self.send(request, listen)

    model = Cut("Half", "never")
    with Host(discover=False) as host, pytest.raises(RunFailed, match="broke off"):
        reader.read(Agent[str](PROMPT, adapter=model, host=host))

    assert len(model.requests) == 1


def test_leaving_early_cancels_the_run_and_frees_its_session(reader: Reader) -> None:
    model = Spelling("Endless", "Again.")
    model.goes_on.clear()
    ended: list[PromptExecuted] = []
    with Host(discover=False) as host, host.executor() as tools:
        tools.session.dispatcher.subscribe(PromptExecuted, ended.append)
        agent = Agent[str](PROMPT, adapter=model, host=host)
        reader.leave(agent, session=tools.session)
        assert [event.stop_reason for event in ended] == [StopReason.CANCELLED]
        model.goes_on.set()
        assert reader.read(agent, session=tools.session)[-1].text == "Again."


@dataclass(frozen=True)
class Judge:
    """Guides a model, and takes its time."""

    begun: threading.Event
    goes_on: threading.Event
    answered: threading.Event
    name: str = "judge"

    def should_run(self, context: GuidanceContext) -> bool:
        self.begun.set()
        self.goes_on.wait(WAIT)
        self.answered.set()
        return True

    def provide(self, context: GuidanceContext) -> None:
        """Say nothing."""

    def check(self, context: GuidanceContext) -> TaskCompletionResult:
        self.should_run(context)
        return TaskCompletionResult.ok()


@pytest.mark.parametrize("phase", ["feedback", "completion"])
def test_a_run_that_is_cancelled_does_not_wait_for_its_guidance(
    reader: Reader, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_guidance, "FEEDBACK_SECONDS", WAIT)
    judge, stop = Judge(*(threading.Event() for _ in range(3))), Cancellation()
    every = FeedbackProviderConfig(judge, FeedbackTrigger(every_n_calls=1))
    template = PromptTemplate(
        "demo",
        "sums",
        SECTIONS,
        feedback_providers=[every] if phase == "feedback" else [],
        task_completion=judge if phase == "completion" else None,
    )
    model = Spelling(calling("So:", ("add", {"a": 1, "b": 2})), "3.")
    stopping = threading.Thread(target=lambda: (judge.begun.wait(WAIT), stop.cancel()))
    stopping.start()
    with Host(discover=False) as host, host.executor() as tools:
        agent = Agent[str](Prompt(template), adapter=model, host=host)
        with pytest.raises(RunFailed, match="was cancelled") as failed:
            reader.read(agent, session=tools.session, cancellation=stop)
        assert not judge.answered.is_set()
        judge.goes_on.set()
        stopping.join()
        told = [each.text for message in tools.session[Message].all() for each in message.answers]

    assert failed.value.stop_reason is StopReason.CANCELLED
    assert told == ["3"]


def test_a_cancellation_of_the_request_ends_its_stream(reader: Reader) -> None:
    stop = Cancellation()
    model = Spelling("Endless")
    model.goes_on.clear()
    timer = threading.Timer(0.2, stop.cancel)
    timer.start()
    with Host(discover=False) as host, pytest.raises(RunFailed) as failed:
        reader.read(Agent[str](PROMPT, adapter=model, host=host), cancellation=stop)
    model.goes_on.set()

    assert failed.value.stop_reason is StopReason.CANCELLED


def test_a_task_that_reads_a_stream_takes_it_along_when_it_is_cancelled() -> None:
    model = Spelling("Endless")
    model.goes_on.clear()
    ended: list[PromptExecuted] = []
    heard = asyncio.Event()

    async def read(agent: Agent[str], session: Any) -> None:
        async for _ in agent.astream("Go", session=session):
            heard.set()

    async def main(agent: Agent[str], session: Any) -> None:
        task = asyncio.create_task(read(agent, session))
        await heard.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        for _ in range(100):
            if ended:
                break
            await asyncio.sleep(0.01)

    with Host(discover=False) as host, host.executor() as tools:
        tools.session.dispatcher.subscribe(PromptExecuted, ended.append)
        asyncio.run(main(Agent[str](PROMPT, adapter=model, host=host), tools.session))

    assert [event.stop_reason for event in ended] == [StopReason.CANCELLED]


def test_all_that_a_stream_yields_is_exported_by_the_plugin():
    yielded = {each.__name__ for each in get_args(Piece) if each is not str}
    assert yielded == {"CallDelta", "CallMade", "ThoughtDelta", "ToolInvoked"}
    for name in (*yielded, "RunResult"):
        assert hasattr(agent_plugin, name), name
