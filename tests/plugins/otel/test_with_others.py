"""With the other plugins that come with Toolstile a span tells what they made of a call."""

from __future__ import annotations

from typing import Any

import pytest

from toolstile import Host, MarkdownSection, Prompt, Settings, ToolCall
from toolstile_hookspecs import IdempotencyConfig, tool


@tool(idempotency=IdempotencyConfig())
def ship(number: int) -> str:
    """Ship an order."""
    return f"shipped {number}"


@pytest.mark.slow
def test_a_hit_of_the_ledger_is_a_span_that_did_not_run(
    monkeypatch: Any, make_provider: Any
) -> None:
    spans = make_provider(monkeypatch)
    section = MarkdownSection(key="desk", title="Desk", tools=[ship])
    settings = Settings(plugins={"database": {"memory": True}})
    with (
        Host(settings=settings) as host,
        host.executor(prompt=Prompt.of("tests", "desk", (section,))) as tools,
    ):
        for _ in range(2):
            assert tools.dispatch(ToolCall("ship", {"number": 1})).text == "shipped 1"

    first, second = (dict(span.attributes) for span in spans.get_finished_spans())
    assert first["toolstile.ledger.state"] == "recorded"
    assert "toolstile.executed" not in first
    assert second["toolstile.ledger.state"] == "hit"
    assert second["toolstile.executed"] is False
    assert second["toolstile.replayed"] is True
