"""A card shows a question in a chat, and its buttons answer for whoever the chat vouches for."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace

import pytest

from toolstile_hookspecs import (
    Answer,
    PolicyDecision,
    Principal,
    QuestionClosedError,
    StateError,
    ToolCall,
    hookimpl,
)
from toolstile_hookspecs.services.approval_store import AnswerRecord, QuestionState
from toolstile_plugins.inbox.cards import MOST, Cards

from .conftest import BOB, House, inbox_of, only, say

CALL = ToolCall("pay", {"to": "ada", "amount": 5}, id="call-1")
EVE = Principal("https://chat.example.org", "eve")


@pytest.fixture
def tools(house: House):
    tools = house.tools(house.host(wait="pending"), principal=BOB)
    tools.dispatch(CALL)
    return tools


@pytest.fixture
def cards(tools):
    return Cards(inbox_of(tools), via="chat")


def values_of(cards: Cards) -> dict[str, str]:
    card = cards.card(only(cards.inbox))
    return {button.label: button.value for button in card.buttons}


def texts_of(block: object) -> list[str]:
    """Return all texts of a message of Slack."""
    if isinstance(block, dict):
        own = [block["text"]] if isinstance(block.get("text"), str) else []
        return own + [text for item in block.values() for text in texts_of(item)]
    return [text for item in block for text in texts_of(item)] if isinstance(block, list) else []


def test_a_button_that_is_pressed_twice_says_who_was_first(cards):
    values = values_of(cards)
    cards.answer(values["Approve"], EVE)
    for value in values.values():
        with pytest.raises(
            QuestionClosedError, match=r"was approved by eve .* \(chat\)\. The first answer"
        ):
            cards.answer(value, BOB)


@pytest.mark.parametrize(
    ("settings", "by", "told"),
    [
        ({"answerers": [{"users": ["ada"]}]}, EVE, "lets eve answer"),
        ({"four_eyes": True}, BOB, "another person must answer"),
        ({}, Principal("chat", ""), "needs a name"),
    ],
)
def test_a_button_that_somebody_presses_who_may_not_says_so(house, settings, by, told):
    tools = house.tools(house.host(wait="pending", **settings), principal=BOB)
    tools.dispatch(CALL)
    cards = Cards(inbox_of(tools))
    with pytest.raises(StateError, match=told):
        cards.answer(values_of(cards)["Approve"], by)
    assert only(cards.inbox).state is QuestionState.WAITING


@pytest.mark.parametrize(
    "alter",
    [
        lambda value: value[:-2] + "A=",
        lambda value: value[:40] + ("B" if value[40] == "A" else "A") + value[41:],
        lambda _: "",
        lambda _: "größer \udcff",
    ],
)
def test_an_altered_button_says_so(cards, alter):
    with pytest.raises(StateError, match="This button was altered"):
        cards.answer(alter(values_of(cards)["Approve"]), EVE)
    assert only(cards.inbox).state is QuestionState.WAITING


def test_a_button_of_another_inbox_says_so(cards, tmp_path):
    value = values_of(cards)["Approve"]
    other = House(tmp_path / "other", stack := ExitStack())
    with stack, pytest.raises(StateError, match="belongs to another inbox"):
        Cards(inbox_of(other.tools(other.host()))).answer(value, EVE)


def test_a_value_that_somebody_finds_is_no_answer_in_the_store(tools, cards, house):
    """As by a shell of the agent that reads the chat and finds the file."""
    question = only(cards.inbox)
    for found in (values_of(cards)["Approve"].encode(), question.sealed):
        given = AnswerRecord(Answer.APPROVED, EVE, "shell", house.clock.now(), sealed=found)
        answer = cards.inbox.answer_to(replace(question, answer=given))
        assert (answer.answer, answer.answered) == (Answer.DENIED, False)
    with pytest.raises(StateError, match="This button was altered"):
        cards.answer(question.sealed.decode(), EVE)


# --- As messages


def test_a_card_is_a_message_of_slack(cards):
    message = cards.card(only(cards.inbox)).slack()
    assert message["text"] == "pay (write, high consequence)"
    header, reasons, *_, actions = message["blocks"]
    assert header["text"]["text"] == message["text"]
    assert reasons["text"]["text"].startswith("pay requires confirmation.\nfor bob (os)\n")
    buttons = {button["text"]["text"]: button for button in actions["elements"]}
    assert {name: button["style"] for name, button in buttons.items()} == {
        "Approve": "primary",
        "Deny": "danger",
    }
    assert len({button["action_id"] for button in buttons.values()}) == 2
    assert all(len(button["value"]) <= 2000 for button in buttons.values())
    cards.answer(buttons["Approve"]["value"], EVE)
    json.dumps(message)


ATTACK = "```\n<!channel> *Approved by security.* [Approve](https://evil.example.org) \u202e"


@pytest.fixture
def attacked(house: House):
    tools = house.tools(house.host(wait="pending"))
    tools.dispatch(ToolCall("pay", {"to": ATTACK}))
    return Cards(inbox_of(tools))


def test_no_text_of_a_call_is_markup_in_slack(attacked):
    message = attacked.card(only(attacked.inbox)).slack()

    def kinds(block):
        if isinstance(block, dict):
            yield block.get("type")
            for item in block.values():
                yield from kinds(item)
        elif isinstance(block, list):
            for item in block:
                yield from kinds(item)

    assert "mrkdwn" not in set(kinds(message))
    assert not any("\u202e" in text for text in texts_of(message))


def test_no_text_of_a_call_is_markup_in_markdown(attacked):
    from markdown_it import MarkdownIt

    text = attacked.card(only(attacked.inbox)).markdown()
    tokens = MarkdownIt().parse(text)
    outside = [token.content for token in tokens if token.type == "inline"]
    assert outside == ["**pay (write, high consequence)**", "Arguments:"]
    assert "\u202e" not in text


def test_what_does_not_fit_on_a_card_is_not_approved_there(house):
    tools = house.tools(house.host(wait="pending"))
    tools.dispatch(ToolCall("pay", {"to": "x" * 5000}))
    cards = Cards(inbox_of(tools))
    card = cards.card(only(cards.inbox))
    assert [button.label for button in card.buttons] == ["Deny"]
    assert f"approvals show {only(cards.inbox).ticket}" in card.note
    assert all(len(text) <= 3000 for text in texts_of(card.slack()))
    assert len(card.fields["Arguments"]) == MOST + len("...")


def test_reasons_that_do_not_fit_on_a_card_are_not_approved_there(house):
    class Asks:
        @hookimpl
        def toolstile_check(self, tool, params):
            return PolicyDecision.ask("x" * 5000)

    host = house.host(wait="pending")
    host.register(Asks())
    tools = house.tools(host)
    tools.dispatch(ToolCall("pay", {"to": "ada"}))
    cards = Cards(inbox_of(tools))
    assert [button.label for button in cards.card(only(cards.inbox)).buttons] == ["Deny"]


def test_a_card_of_an_answered_question_says_who_answered_and_has_no_buttons(cards):
    answered = say(cards.inbox, Answer.DENIED, reason="Not now")
    card = cards.card(answered)
    assert card.buttons == ()
    assert card.note.startswith("denied by bob at ")
    assert card.slack()["blocks"][-1]["text"]["text"] == card.note
    assert "Not now" in card.markdown()


def test_a_diff_and_what_was_approved_before_are_shown(cards):
    question = replace(only(cards.inbox), diff="- a\n+ b", shown_before="- a\n+ c")
    card = cards.card(question)
    assert card.title.endswith("has run and waits to be kept")
    assert list(card.fields.values())[1:] == ["- a\n+ c", "- a\n+ b"]
