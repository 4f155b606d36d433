"""The tools that stand for those of a server, from one list of them to the next."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from toolstile_plugins.mcp.gateway.gateway import Upstream
from toolstile_plugins.mcp.gateway.tools import Definition, Listing
from toolstile_plugins.mcp.gateway.trust import Pins
from toolstile_plugins.mcp.settings import ServerSettings


@pytest.fixture
def upstream(tmp_path) -> Upstream:
    async def changed(upstream: Upstream) -> None:
        pass

    return Upstream("shop", ServerSettings(command="shop"), Pins(tmp_path / "pins"), changed)


def meet(upstream: Upstream, *properties: str) -> None:
    """Let the server have one tool, with an argument of each name."""
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in properties}}
    upstream.standing.meet((Definition("buy", None, "Buy.", schema, None, {}),))
    upstream.standing.accept()
    upstream.make_tools(lambda _: None)


def test_a_tool_that_has_not_changed_stays_the_same(upstream):
    meet(upstream, "what")
    (before,) = upstream.tools
    meet(upstream, "what")
    (after,) = upstream.tools
    assert after is before


def test_a_tool_that_has_changed_is_not_kept(upstream):
    meet(upstream, "what")
    before = weakref.ref(upstream.tools[0])
    meet(upstream, "what", "when")
    gc.collect()
    assert before() is None


def test_a_tool_with_a_name_without_end_is_not_offered(upstream):
    upstream.standing.meet((Definition("n" * 1000, None, "Buy.", {"type": "object"}, None, {}),))
    upstream.make_tools(lambda _: None)
    assert upstream.tools == ()
    assert upstream.faults == {"n" * 1000: "its name has more than 256 characters"}


def test_of_a_tool_that_has_changed_is_warned_once(upstream, caplog):
    before, after = (
        Definition("buy", None, said, {"type": "object"}, None, {}) for said in ("Buy.", "Sell.")
    )
    for met in (before, after, after, after):
        asyncio.run(upstream._meet(Listing((met,), {})))
    (told,) = [each.getMessage() for each in caplog.records]
    assert "buy of MCP server shop has changed (description); a person is asked" in told
