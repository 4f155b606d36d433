"""A turn of a foreign agent with three questions shows one card."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import Any

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import ApprovalAnswer, ToolCall, ToolContext, hookimpl, tool

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


@tool(contained=True, requires_confirmation=True)
def jot(text: str, *, context: ToolContext) -> str:
    """Note a text."""
    context.session[str].append(text)
    return f"jotted {text}"


class Watcher:
    def __init__(self) -> None:
        self.ended: list[Any] = []

    @hookimpl
    def toolstile_transaction(self, event: Any) -> None:
        self.ended.append(event)


@pytest.mark.parametrize("diff", [False, True])
@pytest.mark.parametrize("name", ["pydantic_ai", "openai_agents", "langchain"])
def test_a_turn_is_kept_by_one_decision(name: str, diff: bool) -> None:
    agent = import_module(f"tests.plugins.adapters.test_{name}").AGENT()
    person, watcher = Person(), Watcher()
    texts = {"c1": "a", "c2": "b", "c3": "a"}
    host = Host(
        discover=False,
        tools=[jot],
        settings=Settings(approve_by="turn", approve_diff=diff),
        approver=person,
        plugins=[watcher],
    )
    if diff:
        person.turn = lambda card: person.cards.append(card) or True  # type: ignore[method-assign]
    with host, host.executor() as tools:
        calls = [ToolCall("jot", {"text": text}, id=id_) for id_, text in texts.items()]
        read = asyncio.run(agent.run(tools, [calls])).read
        kept = list(tools.session[str].all())
    (card,) = person.cards
    (ended,) = watcher.ended
    assert ended.status == "committed"
    assert (card.diff is not None) is diff
    assert kept == (["a", "b", "a"] if diff else ["a", "a"])
    assert [read[id_].text for id_ in ("c1", "c3")] == ["jotted a", "jotted a"]
