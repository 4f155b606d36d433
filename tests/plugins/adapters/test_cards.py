"""A turn of a foreign agent with three questions shows one card."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import ApprovalAnswer, ToolCall

from .order_tools import erase, place

pytestmark = pytest.mark.slow


class Person:
    """Refuses the second row of each card."""

    def __init__(self) -> None:
        self.cards: list[Any] = []
        self.requests: list[Any] = []

    def __call__(self, request: Any) -> bool:
        self.requests.append(request)
        return True

    def turn(self, card: Any) -> Any:
        self.cards.append(card)
        answers = {row.call.id: ApprovalAnswer.approve() for row in reversed(card.rows)}
        return {**answers, card.rows[1].call.id: ApprovalAnswer.deny("not that one")}


@pytest.mark.parametrize("name", ["pydantic_ai", "openai_agents", "langchain"])
def test_three_questions_of_a_turn_are_one_card(name: str) -> None:
    agent = import_module(f"tests.plugins.adapters.test_{name}").AGENT()
    person = Person()
    calls = [
        ToolCall("erase", {"name": "a"}, id="c1"),
        ToolCall("place", {"item": "tea"}, id="c2"),
        ToolCall("erase", {"name": "b"}, id="c3"),
        ToolCall("erase", {"name": "a"}, id="c4"),
    ]
    host = Host(
        discover=False,
        tools=[erase, place],
        settings=Settings(approve_by="turn"),
        approver=person,
    )
    with host, host.executor() as tools:
        read = asyncio.run(agent.run(tools, [calls])).read
    (card,) = person.cards
    assert [row.params.name for row in card.rows] == ["a", "b", "a"]
    assert person.requests == []
    texts = {id_: each.text for id_, each in read.items()}
    assert [texts[id_] for id_ in ("c1", "c2", "c4")] == ["Erased a.", "1 x tea", "Erased a."]
    assert "not that one" in texts["c3"]
