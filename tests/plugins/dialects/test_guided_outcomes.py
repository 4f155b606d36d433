"""Feedback reaches a model after the result of a call, in the shape of its provider."""

from __future__ import annotations

from typing import Any

import pytest

from toolstile import Host, ToolCall
from toolstile_hookspecs import Contents, ImageContent, Outcome, ToolResult
from toolstile_hookspecs.agents.guidance import Feedback, GuidedOutcome
from toolstile_plugins.dialects import Anthropic, Gemini, Mcp, OpenAI, OpenAIResponses

SAID = (Feedback("Half is over.", provider_name="time"), Feedback("Stop.", provider_name="plan"))
BLOCKS = (
    '<feedback provider="time" severity="info">\nHalf is over.\n</feedback>\n\n'
    '<feedback provider="plan" severity="info">\nStop.\n</feedback>'
)


def add(a: int) -> dict[str, int]:
    """Add one."""
    return {"sum": a + 1}


def nothing() -> ToolResult[None]:
    """Return no text."""
    return ToolResult.ok(None)


def draw() -> Contents:
    """Draw."""
    return Contents([ImageContent(data="aGk=", mime_type="image/png")])


def outcome_of(name: str, **arguments: Any) -> Outcome:
    with Host(discover=False) as host, host.executor(tools=[add, nothing, draw]) as tools:
        return tools.dispatch(ToolCall(name, arguments, id="call_1"))


def guided(outcome: Outcome) -> GuidedOutcome:
    return GuidedOutcome(outcome.event, outcome.held_result, SAID)


@pytest.mark.parametrize(
    ("dialect", "field"), [(OpenAI(), "content"), (OpenAIResponses(), "output")]
)
def test_openai_has_it_below_the_text(dialect: Any, field: str) -> None:
    outcome = outcome_of("add", a=1)
    [without], [message] = dialect.results([outcome]), dialect.results([guided(outcome)])
    assert message == {**without, field: f"{without[field]}\n\n{BLOCKS}"}


def test_anthropic_has_it_in_a_further_block_of_the_same_result() -> None:
    outcome = outcome_of("add", a=1)
    [message] = Anthropic().results([outcome, guided(outcome)])
    plain, block = message["content"]
    texts = [{"type": "text", "text": text} for text in (outcome.text, BLOCKS)]
    assert block == {**plain, "content": texts}


def test_a_result_without_a_text_has_the_feedback_alone() -> None:
    outcome = guided(outcome_of("nothing"))
    assert outcome.text == ""
    [message] = Anthropic().results([outcome])
    assert message["content"][0]["content"] == [{"type": "text", "text": BLOCKS}]
    assert OpenAI().results([outcome])[0]["content"] == BLOCKS


def test_gemini_has_it_below_the_output() -> None:
    outcome = outcome_of("add", a=1)
    [message] = Gemini().results([guided(outcome)])
    response = message["parts"][0]["functionResponse"]["response"]
    assert response == {"output": f"{outcome.text}\n\n{BLOCKS}"}


@pytest.mark.parametrize("name", ["add", "draw", "unknown"])
def test_mcp_has_it_in_a_further_block_beside_the_same_structure(name: str) -> None:
    outcome = outcome_of(name, **({"a": 1} if name == "add" else {}))
    [plain], [result] = Mcp().results([outcome]), Mcp().results([guided(outcome)])
    assert result == {**plain, "content": [*plain["content"], {"type": "text", "text": BLOCKS}]}
