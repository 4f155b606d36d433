"""A conversation that is made shorter keeps the requests that the model works on."""

from __future__ import annotations

import pytest

from toolstile_hookspecs.agents.messages import CallAnswer, CallMade, Message, Role
from toolstile_plugins.agent import DropOldest


def asked(text: str) -> Message:
    return Message.user(text, f"id of {text}")


def turns(number: int) -> list[Message]:
    calls = [CallMade(f"c{n}", "look") for n in range(number)]
    return [
        message
        for call in calls
        for message in (
            Message(Role.ASSISTANT, calls=(call,)),
            Message.results([CallAnswer(call.id, "look", "seen")]),
        )
    ]


DONE = Message(Role.ASSISTANT, "Done.")
NOTE = "(Earlier messages of this conversation are left out.)"


@pytest.mark.parametrize(
    ("messages", "kept"),
    [
        ([asked("a"), *turns(8)], ["a", NOTE]),
        ([asked("a"), DONE, asked("b"), *turns(8)], ["b", NOTE]),
        ([asked("a"), *turns(8), DONE, asked("b")], [NOTE, "b"]),
        ([asked("a"), *turns(1), asked("b"), *turns(8)], ["a", "b", NOTE]),
        ([asked("a"), *turns(8), asked("b")], ["a", NOTE, "b"]),
        ([asked("a"), DONE, Message.user("finish it"), *turns(8)], ["a", NOTE]),
        ([Message.user("of nobody"), *turns(8)], [NOTE]),
    ],
)
def test_the_requests_without_an_answer_are_kept(messages: list[Message], kept: list[str]) -> None:
    shorter = DropOldest(4).compact(messages)
    assert [each.text for each in shorter if each.role is Role.USER] == kept
    assert len(shorter) < len(messages)


def test_a_short_conversation_is_left_as_it_came() -> None:
    messages = [asked("a"), *turns(2)]
    assert DropOldest(4).compact(messages) is messages
