"""One story told over each adapter, sync and async, streamed or not, ends in the same way."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.plugins.agent.providers.played_server import (
    USAGE,
    Cut,
    Hang,
    Paused,
    Played,
    Scripted,
    called,
    said,
)
from tests.plugins.agent.providers.providers import NAMES, PROVIDERS, Provider

from toolstile import Host, MarkdownSection, Prompt, PromptTemplate, tool
from toolstile_hookspecs import (
    ApprovalAnswer,
    Cancellation,
    ConfigurationError,
    ToolContext,
    ToolInvoked,
    ToolResult,
)
from toolstile_hookspecs.agents.messages import Message, StopReason
from toolstile_hookspecs.agents.provider import (
    CallDelta,
    Delta,
    FaultType,
    ModelRequest,
    ProviderError,
    ThrottleError,
)
from toolstile_hookspecs.testing.provider_adapter import calls_of
from toolstile_plugins.agent import (
    Agent,
    AgentConfig,
    ModelReplied,
    PromptExecuted,
    PromptRendered,
    Retries,
    RunFailed,
    effects as requesting,
)

pytestmark = [pytest.mark.slow, pytest.mark.much_alike(4)]
WAIT = 30.0


@dataclass(frozen=True)
class Note:
    text: str


@dataclass(frozen=True)
class Count:
    notes: int


@tool(category="write", contained=True)
def note(text: str, *, context: ToolContext) -> str:
    """Write a note."""
    context.session[Note].append(Note(text))
    if "crash" in text:
        raise RuntimeError("out of ink")
    if "fail" in text:
        return ToolResult.error("The pen broke. Use another text, then retry.")
    return f"noted {text}"


@tool(requires_confirmation=True)
def send(to: str) -> str:
    """Send the notes."""
    return f"sent to {to}"


SECTIONS = [MarkdownSection(key="n", title="Notes", tools=[note, send])]
PROMPT = Prompt.of("demo", "notes", SECTIONS)
COUNTING = Prompt(PromptTemplate("demo", "count", output=Count, sections=SECTIONS))


@dataclass
class Story:
    """A run that has ended."""

    played: Played
    result: Any
    error: RunFailed | None
    conversation: list[Any]
    notes: list[str]
    events: list[str]
    heard: list[Delta] = field(default_factory=list)

    @property
    def text_heard(self) -> str:
        return "".join(delta for delta in self.heard if isinstance(delta, str))

    @property
    def answers(self) -> list[tuple[str, bool]]:
        return [answer for _, _, _, answers in self.conversation for answer in answers]


class Bus:
    """Notes the events of a run in their order."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def subscribe(self, event: Any, handler: Any) -> Any:
        raise NotImplementedError

    def publish(self, event: object) -> None:
        match event:
            case PromptRendered():
                self.told.append(f"rendered {' '.join(event.tools)}")
            case ModelReplied():
                self.told.append(f"replied {event.stop_reason} {event.usage == USAGE}")
            case PromptExecuted():
                self.told.append(f"executed {event.stop_reason}")
            case _:
                pass

    def tool_invoked(self, event: ToolInvoked) -> None:
        back = " rolled back" if event.rolled_back else ""
        self.told.append(f"{event.tool_name} {event.status.value}{back}")


@dataclass(frozen=True)
class Teller:
    """Tells stories over one adapter, in one of the four ways."""

    provider: Provider
    is_async: bool
    is_streamed: bool
    stack: ExitStack

    def tell(
        self,
        *script: Scripted,
        prompt: Prompt = PROMPT,
        config: AgentConfig | None = None,
        adapter: type[Any] | None = None,
        cancels: bool = False,
    ) -> Story:
        made, played = self.provider.serve(self.stack, *script, adapter=adapter)
        bus, heard, stop = Bus(), [], Cancellation()
        config = config or AgentConfig(retries=Retries(attempts=3))
        canceller = threading.Thread(target=lambda: (played.asked.wait(), stop.cancel()))
        if cancels:
            canceller.start()
        with Host(
            discover=False, approver=lambda _: ApprovalAnswer.deny("Ada is on leave.")
        ) as host:
            with host.executor(prompt=prompt) as tools:
                session = tools.session
            session.dispatcher.subscribe(ToolInvoked, bus.tool_invoked)
            agent = Agent[Any](prompt, adapter=made, host=host, config=config, bus=bus)
            given: dict[str, Any] = {
                "session": session,
                "listen": heard.append if self.is_streamed else None,
                "cancellation": stop if cancels else None,
            }
            result, error = self._run(agent, made, given)
        if cancels:
            canceller.join()
        conversation = [
            (
                message.role.value,
                message.text,
                [(call.name, call.arguments) for call in message.calls],
                [(answer.text, answer.is_error) for answer in message.answers],
            )
            for message in session[Message].all()
        ]
        notes = [each.text for each in session[Note].all()]
        return Story(played, result, error, conversation, notes, bus.told, heard)

    def _run(self, agent: Agent[Any], adapter: Any, given: Any) -> tuple[Any, RunFailed | None]:
        async def run() -> Any:
            async with adapter:
                return await agent.aexecute("Go", **given)

        try:
            result, _ = asyncio.run(run()) if self.is_async else agent.execute("Go", **given)
        except RunFailed as failed:
            return failed.result, failed
        return result, None


WAYS = [(False, False), (False, True), (True, False), (True, True)]


@pytest.fixture(params=NAMES)
def provider(request: pytest.FixtureRequest) -> Provider:
    return PROVIDERS[request.param]


@pytest.fixture(params=WAYS, ids=["sync", "sync-streamed", "async", "async-streamed"])
def teller(
    request: pytest.FixtureRequest, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Teller]:
    monkeypatch.setattr(requesting, "FIRST_WAIT", 0.001)
    with ExitStack() as stack:
        yield Teller(provider, *request.param, stack)


streamed = pytest.mark.parametrize(
    "teller",
    [way for way in WAYS if way[1]],
    ids=["sync-streamed", "async-streamed"],
    indirect=True,
)


RENDERED = "rendered note send"
USED = "replied tool_use True"
ENDED = "replied end True"


def test_two_calls_are_carried_out_and_answered(teller: Teller):
    story = teller.tell(
        called(("note", {"text": "a"}), ("note", {"text": "b"}), text="I note both."),
        said("Both are noted."),
    )

    assert (story.result.text, story.result.turns) == ("Both are noted.", 2)
    assert story.result.usage == USAGE + USAGE
    assert story.notes == ["a", "b"]
    [user, asked, told, last] = story.conversation
    assert user == ("user", "Go", [], [])
    assert asked[:2] == ("assistant", "I note both.")
    assert [(name, json.loads(given)) for name, given in asked[2]] == [
        ("note", {"text": "a"}),
        ("note", {"text": "b"}),
    ]
    assert told == ("tool", "", [], [("noted a", False), ("noted b", False)])
    assert last == ("assistant", "Both are noted.", [], [])
    ended = [RENDERED, USED, "note succeeded", "note succeeded", RENDERED, ENDED, "executed end"]
    assert story.events == ended
    if teller.is_streamed:
        assert story.text_heard == "I note both.Both are noted."
        calls = [(name, given) for _, name, given in calls_of(story.heard)]
        assert calls == [("note", {"text": "a"}), ("note", {"text": "b"})]
        assert len(story.heard) > len(calls) + 2


def test_the_model_recovers_from_a_denial(teller: Teller):
    story = teller.tell(
        called(("send", {"to": "Ada"})), called(("note", {"text": "for Ada"})), said("Noted.")
    )

    assert story.result.text == "Noted."
    assert story.notes == ["for Ada"]
    [(denied, is_error), noted] = story.answers
    assert is_error
    assert "Ada is on leave." in denied
    assert noted == ("noted for Ada", False)
    assert story.events[2] == "send denied"


def test_a_failure_is_rolled_back_and_told(teller: Teller):
    story = teller.tell(
        called(("note", {"text": "fail"}), ("note", {"text": "crash"}), ("note", {"text": "b"})),
        said("One is noted."),
    )

    assert story.notes == ["b"]
    assert story.answers == [
        ("The pen broke. Use another text, then retry.", False),
        ("Internal error in note: out of ink", True),
        ("noted b", False),
    ]
    told = ["note error rolled back", "note failed rolled back", "note succeeded"]
    assert sorted(story.events[2:5]) == told


def test_an_answer_that_does_not_fit_is_asked_for_again(teller: Teller):
    story = teller.tell(said('{"notes": "many"}'), said('{"notes": 2}'), prompt=COUNTING)

    assert story.result.output == Count(2)
    assert "notes" in story.conversation[2][1]
    assert story.conversation[2][0] == "user"


@pytest.mark.parametrize("type_", [FaultType.RATE_LIMIT, FaultType.UNAVAILABLE])
def test_a_fault_that_passes_is_waited_for(teller: Teller, type_: FaultType):
    story = teller.tell(ProviderError("Later.", type_, retry_after=0.01), said("Now."))

    assert (story.result.text, story.result.turns) == ("Now.", 1)
    assert len(story.played.requests) == 2
    assert story.played.requests[0] == story.played.requests[1]
    assert story.events == [RENDERED, ENDED, "executed end"]


@pytest.mark.parametrize("type_", [FaultType.QUOTA, FaultType.REFUSED])
def test_a_fault_that_stays_ends_the_run_at_once(teller: Teller, type_: FaultType):
    story = teller.tell(ProviderError("No more.", type_), said("never"))

    assert story.error is not None
    assert isinstance(story.error.__cause__, ProviderError)
    assert not isinstance(story.error.__cause__, ThrottleError)
    assert (story.error.__cause__.type, story.error.__cause__.retry_safe) == (type_, False)
    assert "No more." in story.result.error
    assert "sk-of-nobody" not in story.result.error
    assert len(story.played.requests) == 1
    assert story.events == [RENDERED, "executed error"]


def test_a_fault_that_lasts_ends_the_run_after_all_tries(teller: Teller):
    fault = ProviderError("Overloaded.", FaultType.UNAVAILABLE, retry_after=0.01)
    story = teller.tell(*[fault] * 3)

    assert story.error is not None
    throttled = story.error.__cause__
    assert isinstance(throttled, ThrottleError)
    assert (throttled.type, throttled.attempts) == (FaultType.UNAVAILABLE, 3)
    assert (throttled.retry_after, throttled.retry_safe) == (0.01, True)
    assert "Overloaded." in str(throttled)
    assert isinstance(throttled.__cause__, ProviderError)


def test_a_reply_that_does_not_come_is_asked_for_again(teller: Teller):
    story = teller.tell(Hang(), said("Here."), config=AgentConfig(timeout=1.0))

    assert story.result.text == "Here."
    assert len(story.played.requests) == 2


@streamed
def test_a_stream_that_stands_still_is_asked_for_again(teller: Teller):
    hung = Hang(called(("note", {"text": "a long text for a note"})), after=1)
    story = teller.tell(hung, said("Here."), config=AgentConfig(timeout=1.0))

    assert story.result.text == "Here."
    assert story.notes == []


@pytest.mark.parametrize("is_clean", [False, True], ids=["broken", "ended"])
@streamed
def test_a_stream_that_is_cut_in_a_call_runs_nothing_and_is_not_told_twice(
    teller: Teller, is_clean: bool
):
    turn = called(("note", {"text": "a long text for a note"}))
    story = teller.tell(Cut(turn, is_clean=is_clean), said("never"))

    assert story.error is not None
    assert isinstance(story.error.__cause__, ProviderError)
    assert story.error.__cause__.retry_safe
    assert isinstance(story.heard[-1], CallDelta)
    assert story.conversation == [("user", "Go", [], [])]
    assert (story.notes, len(story.played.requests)) == ([], 1)


@pytest.mark.parametrize("is_clean", [False, True], ids=["broken", "ended"])
@streamed
def test_a_stream_that_is_cut_before_anything_was_heard_is_asked_for_again(
    teller: Teller, is_clean: bool
):
    turn = called(("note", {"text": "a"}))
    story = teller.tell(Cut(turn, is_clean=is_clean, after=1), turn, said("Noted."))

    assert story.result.text == "Noted."
    assert story.notes == ["a"]


@streamed
def test_a_stream_that_is_cut_after_text_is_not_told_twice(teller: Teller):
    told = said("A long answer that breaks off.")
    story = teller.tell(Cut(told, after_text='"A'), said("never"))

    assert story.error is not None
    assert len(story.played.requests) == 1
    assert "A long answer that breaks off.".startswith(story.text_heard)
    assert story.text_heard


def test_malformed_arguments_are_told_to_the_model(teller: Teller):
    story = teller.tell(
        called(("note", '{"text": 3')), called(("note", {"text": "c"})), said("Noted.")
    )

    assert story.notes == ["c"]
    assert story.answers[0][1]
    assert story.answers[1] == ("noted c", False)


def test_an_unknown_tool_is_told_to_the_model(teller: Teller):
    story = teller.tell(called(("nota", {"text": "a"})), said("I cannot."))

    [(told, is_error)] = story.answers
    assert is_error
    assert "nota" in told
    assert "note" in told
    assert story.result.text == "I cannot."


def test_an_empty_answer_is_asked_for_again(teller: Teller):
    story = teller.tell(said(""), said("Hello."))

    assert (story.result.text, story.result.turns) == ("Hello.", 2)
    assert [text for role, text, _, _ in story.conversation if role == "user"] == [
        "Go",
        "Your reply was empty. Give your answer, or call a tool.",
    ]


def test_a_model_that_only_answers_nothing_fails(teller: Teller):
    story = teller.tell(*[said("")] * 3)

    assert story.error is not None
    assert "empty" in str(story.error)
    assert not story.result.success


def test_a_reply_that_is_cut_off_is_no_success(teller: Teller):
    cut = called(("note", {"text": "a"}), text="I am", stop=StopReason.MAX_TOKENS)
    story = teller.tell(cut)

    assert story.error is not None
    assert story.result.stop_reason is StopReason.MAX_TOKENS
    assert story.notes == []
    assert [is_error for _, is_error in story.answers] == [True]
    assert story.events == [RENDERED, "replied max_tokens True", "executed max_tokens"]


def test_a_refusal_is_no_success(teller: Teller):
    story = teller.tell(said("I cannot help with that.", StopReason.REFUSED))

    assert story.error is not None
    assert story.result.stop_reason is StopReason.REFUSED
    assert story.result.text == "I cannot help with that."
    assert story.events == [RENDERED, "replied refused True", "executed refused"]


def test_a_cancelled_run_ends_while_the_model_is_asked(teller: Teller):
    story = teller.tell(Hang(), said("never"), cancels=True)

    assert story.error is not None
    assert story.result.stop_reason is StopReason.CANCELLED
    assert story.conversation == [("user", "Go", [], [])]
    assert len(story.played.requests) == 1


def test_cancelling_closes_a_request_of_the_event_loop_at_once(provider: Provider):
    stop = Cancellation()

    async def run(adapter: Any, played: Played, host: Host) -> None:
        async with adapter:
            agent = Agent[str](PROMPT, adapter=adapter, host=host)
            running = asyncio.create_task(agent.aexecute("Go", cancellation=stop))
            assert await asyncio.to_thread(played.asked.wait, WAIT)
            assert not played.left.is_set()
            stop.cancel()
            with pytest.raises(RunFailed, match="cancelled"):
                await running
            assert await asyncio.to_thread(played.left.wait, WAIT)

    with ExitStack() as stack, Host(discover=False) as host:
        asyncio.run(run(*provider.serve(stack, Hang(), said("never")), host))


def test_a_cancelled_request_of_a_thread_is_closed_by_its_timeout_and_not_sent_again(
    provider: Provider,
):
    with ExitStack() as stack:
        teller = Teller(provider, False, False, stack)
        story = teller.tell(Hang(), said("never"), cancels=True, config=AgentConfig(timeout=1.0))
        assert story.result.stop_reason is StopReason.CANCELLED
        assert story.played.left.wait(WAIT)
        _join_requests()
        assert len(story.played.requests) == 1


def _join_requests() -> None:
    for thread in threading.enumerate():
        if thread.name == "toolstile-model":
            thread.join()


def test_a_stream_is_not_heard_after_its_run_was_cancelled(provider: Provider):
    paused, stop, heard = Paused(said("One two three four five six.")), Cancellation(), []

    def listen(delta: Delta) -> None:
        heard.append(delta)
        stop.cancel()

    with ExitStack() as stack, Host(discover=False) as host:
        adapter, _ = provider.serve(stack, paused)
        with pytest.raises(RunFailed, match="cancelled"):
            Agent[str](PROMPT, adapter=adapter, host=host).execute(
                "Go", listen=listen, cancellation=stop
            )
        told = "".join(heard)
        paused.go_on.set()
        _join_requests()
    assert told
    assert "".join(heard) == told


def test_a_setting_that_the_provider_does_not_take_ends_the_run(teller: Teller):
    with pytest.raises(ConfigurationError, match="does not take the setting 'warmth'"):
        teller.tell(said("never"), config=AgentConfig(settings={"warmth": 1}))


@pytest.mark.parametrize("slip", ["a missing result", "results in another order", "a changed item"])
def test_a_slip_is_refused(provider: Provider, slip: str):
    class Slipping(provider.adapter):  # type: ignore[name-defined, misc]
        def arguments(self, request: ModelRequest) -> dict[str, Any]:
            given = deepcopy(super().arguments(request))
            if len(request.messages) > 1:
                provider.wire().slips[slip](given)
            return given

    script = called(("note", {"text": "a"}), ("note", {"text": "b"})), said("never")
    with ExitStack() as stack:
        story = Teller(provider, False, False, stack).tell(*script, adapter=Slipping)

    assert story.error is not None
    assert isinstance(story.error.__cause__, ProviderError)
    assert story.error.__cause__.type is FaultType.REFUSED
    assert story.played.refused
