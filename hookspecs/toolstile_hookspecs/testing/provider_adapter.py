"""The conformance suite of an adapter of a provider, to subclass."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

import pytest

from toolstile_hookspecs.agents.messages import (
    CallAnswer,
    CallMade,
    Message,
    Role,
    StopReason,
    Turn,
    Usage,
)
from toolstile_hookspecs.agents.provider import (
    CallDelta,
    Delta,
    FaultType,
    ModelRequest,
    ProviderAdapter,
    ProviderError,
)
from toolstile_hookspecs.decorator import tool
from toolstile_hookspecs.errors import ConfigurationError
from toolstile_hookspecs.testing.suite import Contract

Play = Callable[..., ProviderAdapter]
Ask = Callable[..., Turn]


@tool(category="read")
def look_up(word: str) -> str:
    """Look a word up."""
    return word


USER: Final = Message.user("What do these words mean?")
WAIT: Final = 3.0
CALLS: Final = (("look_up", {"word": "one"}), ("look_up", {"word": "two"}))


def saying(text: str, stop_reason: StopReason = StopReason.END) -> Turn:
    """Return a turn that says something."""
    return Turn(Message(Role.ASSISTANT, text), stop_reason, Usage(20, 5))


def calling(*calls: tuple[str, Mapping[str, Any]]) -> Turn:
    """Return a turn with calls; the provider gives them their ids."""
    made = tuple(CallMade("", name, json.dumps(dict(given))) for name, given in calls)
    return Turn(Message(Role.ASSISTANT, calls=made), StopReason.TOOL_USE, Usage(20, 5))


def asking(*messages: Message, **more: Any) -> ModelRequest:
    """Return a request with a tool and a bound for its time."""
    return ModelRequest("You explain words.", messages, [look_up], timeout=20, **more)


def calls_of(deltas: Iterable[Delta]) -> list[tuple[str, str, Any]]:
    """Return the calls that the deltas of a stream come to: their ids, names and arguments."""
    made: dict[str, CallMade] = {}
    for delta in deltas:
        if isinstance(delta, CallDelta):
            before = made.get(delta.id, CallMade(delta.id, delta.name, ""))
            made[delta.id] = replace(before, arguments=before.arguments + delta.arguments)
    return [(call.id, call.name, call.params) for call in made.values()]


class ProviderAdapterContract(Contract, play=("turn",)):
    """Tests of an adapter; the fixture `play` of a subclass returns a function of a script.

    `play(*script)` returns an adapter whose provider, a server of the subclass, answers each
    request with the next entry: a `Turn`, or the fault of a `ProviderError`.

    Example:
        >>> import pytest
        >>> class TestMine(ProviderAdapterContract):
        ...     @pytest.fixture
        ...     def play(self, my_server):
        ...         def play(*script):
        ...             my_server.script = iter(script)
        ...             return MyAdapter("some-model", url=my_server.url)
        ...         return play
    """

    @pytest.fixture
    def play(self) -> Play:
        """Return a function that returns an adapter."""
        self._must_give("play", "gives a function of a script that returns an adapter")

    @pytest.fixture(
        params=[(False, False), (False, True), (True, False), (True, True)],
        ids=["sync", "sync-streamed", "async", "async-streamed"],
    )
    def ask(self, request: pytest.FixtureRequest) -> Ask:
        """Return a function that sends a request in one of the four ways."""
        is_async, is_streamed = request.param

        def ask(adapter: ProviderAdapter, request: ModelRequest) -> Turn:
            heard: list[Delta] = []
            listen = heard.append if is_streamed else None

            async def asked() -> Turn:
                try:
                    return await adapter.asend(request, listen)
                finally:
                    await adapter.aclose()

            turn = asyncio.run(asked()) if is_async else adapter.send(request, listen)
            if is_streamed:
                assert "".join(delta for delta in heard if isinstance(delta, str)) == turn.text
                assert calls_of(heard) == [
                    (call.id, call.name, call.params) for call in turn.tool_calls
                ]
            return turn

        return ask

    def test_it_tells_its_provider_and_its_model(self, play: Play) -> None:
        """Spans and messages name both."""
        adapter = play(saying("Hello."))
        assert adapter.name
        assert adapter.model

    def test_a_text_is_read_with_its_tokens(self, play: Play, ask: Ask) -> None:
        turn = ask(play(saying("Words, words.")), asking(USER))
        assert (turn.text, turn.tool_calls) == ("Words, words.", ())
        assert turn.stop_reason is StopReason.END
        assert turn.usage == Usage(20, 5)
        assert turn.message.role is Role.ASSISTANT

    def test_calls_are_read_in_their_order(self, play: Play, ask: Ask) -> None:
        turn = ask(play(calling(*CALLS)), asking(USER))
        read = [(call.name, json.loads(call.arguments)) for call in turn.tool_calls]
        assert read == [(name, dict(given)) for name, given in CALLS]
        assert turn.stop_reason is StopReason.TOOL_USE
        assert len({call.id for call in turn.tool_calls}) == len(CALLS)

    def test_a_conversation_goes_on(self, play: Play, ask: Ask) -> None:
        """The provider takes its replies back, the results of calls, and the user's texts."""
        adapter = play(calling(*CALLS), saying("Both are numbers."), saying("Good-bye."))
        first = ask(adapter, asking(USER)).message
        answers = [CallAnswer(call.id, call.name, "a number") for call in first.calls]
        told = [USER, first, Message.results(answers)]
        second = ask(adapter, asking(*told)).message
        assert second.text == "Both are numbers."
        last = ask(adapter, asking(*told, second, Message.user("Thank you.")))
        assert last.text == "Good-bye."

    def test_it_goes_on_after_broken_arguments_and_ids_that_come_again(self, play: Play) -> None:
        """The provider's own items go back with the calls as the request has them."""
        broken = [
            CallMade("call_0", "look_up", given) for given in ('{"word": "one"}', '{"word": "t')
        ]
        reply = Turn(Message(Role.ASSISTANT, calls=(*broken,)), StopReason.TOOL_USE, Usage(20, 5))
        adapter, messages = play(reply, reply, saying("Done.")), [USER]
        for _ in range(2):
            said = adapter.send(asking(*messages)).message
            answers = [CallAnswer(call.id, call.name, "a word") for call in said.calls]
            messages += [said, Message.results(answers)]
        assert adapter.send(asking(*messages)).text == "Done."

    @pytest.mark.parametrize("dialect", ["", "of-another-provider"])
    def test_it_goes_on_with_the_conversation_of_another(
        self, play: Play, ask: Ask, dialect: str
    ) -> None:
        """Messages with unknown items are written from their neutral fields."""
        items = ({"unknown": "item"},) if dialect else ()
        call = CallMade("call_of_another", "look_up", '{"word": "one"}')
        theirs = Message(Role.ASSISTANT, "Let me see.", (call,), (), dialect, items)
        result = Message.results([CallAnswer(call.id, call.name, "a number", is_error=True)])
        turn = ask(play(saying("A number.")), asking(USER, theirs, result))
        assert turn.text == "A number."

    @pytest.mark.parametrize("reason", [StopReason.MAX_TOKENS, StopReason.REFUSED])
    def test_a_reply_that_is_not_whole_says_so(
        self, play: Play, ask: Ask, reason: StopReason
    ) -> None:
        assert ask(play(saying("I am", reason)), asking(USER)).stop_reason is reason

    def test_an_answer_with_a_schema_is_asked_for(self, play: Play, ask: Ask) -> None:
        properties = {"words": {"type": "integer"}}
        schema = {"type": "object", "properties": properties, "required": ["words"]}
        turn = ask(play(saying('{"words": 2}')), asking(USER, output=schema))
        assert json.loads(turn.text) == {"words": 2}

    def test_a_setting_that_it_does_not_take_is_an_error(self, play: Play, ask: Ask) -> None:
        adapter = play(saying("The first answer."))
        with pytest.raises(ConfigurationError, match="tempratur"):
            ask(adapter, asking(USER, settings={"tempratur": 1}))
        assert ask(adapter, asking(USER)).text == "The first answer."

    @pytest.mark.parametrize("type_", list(FaultType))
    def test_a_fault_is_told_and_nothing_is_asked_again(
        self, play: Play, ask: Ask, type_: FaultType
    ) -> None:
        """The loop decides about retries."""
        adapter = play(ProviderError("It is over.", type_), saying("The second answer."))
        with pytest.raises(ProviderError) as raised:
            ask(adapter, asking(USER))
        assert raised.value.type is type_
        assert ask(adapter, asking(USER)).text == "The second answer."

    def test_it_tells_when_the_provider_wants_to_be_asked_again(self, play: Play, ask: Ask) -> None:
        fault = ProviderError("Slowly.", FaultType.RATE_LIMIT, retry_after=WAIT)
        with pytest.raises(ProviderError) as raised:
            ask(play(fault), asking(USER))
        assert raised.value.retry_after == WAIT

    def test_an_exception_of_the_listener_is_no_fault_of_the_provider(self, play: Play) -> None:
        """Such as a closed standard output."""

        def listen(_: Delta) -> None:
            raise BrokenPipeError

        with pytest.raises(BrokenPipeError):
            play(saying("Words, words.")).send(asking(USER), listen)

    def test_several_threads_use_one_adapter(self, play: Play) -> None:
        texts = [f"Answer {number}." for number in range(4)]
        adapter = play(*map(saying, texts))
        with ThreadPoolExecutor(len(texts)) as pool:
            turns = list(pool.map(adapter.send, [asking(USER)] * len(texts)))
        assert sorted(turn.text for turn in turns) == texts

    def test_it_can_be_closed_twice(self, play: Play) -> None:
        adapter = play(saying("Hello."))
        adapter.send(asking(USER))
        adapter.close()
        adapter.close()
