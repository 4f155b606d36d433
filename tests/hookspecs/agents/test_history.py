"""A conversation goes back as every provider takes it, whatever a model or a store put into it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from toolstile_hookspecs.agents.messages import (
    CallAnswer,
    CallMade,
    Message,
    Role,
    paired,
    sendable,
)
from toolstile_hookspecs.agents.provider import ModelRequest

USER = Message.user("Go")


def reply(*calls: CallMade, text: str = "", **more: Any) -> Message:
    return Message(Role.ASSISTANT, text, calls, **more)


def results(*ids: str) -> Message:
    return Message.results([CallAnswer(id_, "look", f"of {id_}") for id_ in ids])


def sent(*messages: Message) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the ids of all calls, and those of all results with their texts."""
    made = sendable([USER, *messages])
    calls = [call.id for message in made for call in message.calls]
    return calls, [(each.call_id, each.text) for message in made for each in message.answers]


A, B, C = (CallMade(f"ours-{name}", "look", provider_id="call_0") for name in "abc")


def test_a_call_goes_back_under_the_providers_id_where_no_earlier_call_has_it() -> None:
    first = [reply(A), results("ours-a")]
    assert sent(*first) == (["call_0"], [("call_0", "of ours-a")])
    calls, told = sent(*first, reply(B, C), results("ours-b", "ours-c"))
    # What was sent before is sent alike, so that a provider's cache knows it.
    assert calls == ["call_0", "ours-b", "ours-c"]
    assert told == [
        ("call_0", "of ours-a"),
        ("ours-b", "of ours-b"),
        ("ours-c", "of ours-c"),
    ]


def test_a_call_without_an_id_has_the_hosts() -> None:
    assert sent(reply(CallMade("ours", "look")), results("ours"))[0] == ["ours"]


def test_ids_of_a_session_of_an_earlier_release_are_told_apart() -> None:
    same, none = CallMade("call_0", "look"), CallMade("", "look")
    calls, told = sent(
        reply(same, same, none), results("call_0", "", "call_0"), reply(same), results("call_0")
    )
    assert calls == ["call_0", "call_0-2", "call-2", "call_0-3"]
    assert [id_ for id_, _ in told] == calls


def test_arguments_go_back_as_an_object(subtests: pytest.Subtests) -> None:
    for arguments, expected in [
        ('{"a": 1}', '{"a": 1}'),
        ('{"a": "x', "{}"),
        ("", "{}"),
        ("null", "{}"),
        ("[1]", "{}"),
        ('"a"', "{}"),
        ('{"a": NaN}', "{}"),
        ('{"a": 1} and', "{}"),
        ('{"a": "\\ud83d"}', "{}"),
        ('{"a": "\ud83d"}', "{}"),
        ('{"a": "\n"}', "{}"),
        ('{"a": "\U0001f600"}', '{"a": "\U0001f600"}'),
    ]:
        with subtests.test(arguments=arguments, expected=expected):
            [_, asked, _] = sendable([USER, reply(CallMade("a", "look", arguments)), results("a")])
            assert asked.calls[0].arguments == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("look_up-2", "look_up-2"),
        ("", "_"),
        ("functions.look up", "functions_look_up"),
        ("l\u00f6\ud83dk", "l__k"),
        ("x" * 200, "x" * 64),
    ],
)
def test_names_go_back_as_providers_take_them(name: str, expected: str) -> None:
    [_, asked, told] = sendable([USER, reply(CallMade("a", name)), results("a")])
    assert (asked.calls[0].name, told.answers[0].name) == (expected, expected)


def test_halves_of_characters_are_escaped_everywhere() -> None:
    half = "\ud83d"
    items = ({"type": half, "in": [{"a": half, "n": 1}], half: None},)
    told = Message.results([CallAnswer("a", "look", half)])
    asked = reply(CallMade("a", "look"), text=half, dialect="x", items=items)
    request = ModelRequest(half, [Message.user(half), asked, told])
    repr(request).encode()
    assert request.messages[1].items == (
        {"type": "\\ud83d", "in": [{"a": "\\ud83d", "n": 1}], "\\ud83d": None},
    )
    assert request.messages[2].answers[0].text == "\\ud83d"


def test_a_call_without_a_result_and_a_result_without_a_call() -> None:
    lost, late = CallMade("lost", "look"), CallMade("late", "look")
    messages = [
        results("nobody's"),
        USER,
        reply(lost, late),
        USER,
        results("late", "other"),
        reply(text="Done."),
        results("late"),
    ]
    made = paired(messages)
    assert [message.role.value for message in made] == [
        *("user", "assistant", "tool", "user", "assistant")
    ]
    [unknown, known] = made[2].answers
    assert (unknown.call_id, unknown.is_error) == ("lost", True)
    assert "not known" in unknown.text
    assert known.text == "of late"
    assert paired(made) == made


def test_what_is_sendable_is_not_made_so_again() -> None:
    request = ModelRequest("", [USER, reply(A), results("ours-a")])
    assert replace(request, timeout=1.0).messages is request.messages
    assert sendable([*request.messages]) == request.messages
