"""Tools that a server no longer has, and those that come back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from toolstile_plugins.mcp.gateway.tools import Definition
from toolstile_plugins.mcp.gateway.trust import GONE, Pins, Standing

BUY = Definition("buy", None, "Buy.", {"type": "object"}, None, {})
SELL = Definition("sell", None, "Sell.", {"type": "object"}, None, {})
OTHER_SELL = replace(SELL, description="Sell all.")


@pytest.fixture
def pins(tmp_path: Path) -> Pins:
    return Pins(tmp_path / "pins.json")


def test_a_tool_that_is_gone_is_not_shown_any_more(pins: Pins) -> None:
    standing = Standing("shop", "first_use", pins)
    standing.meet([BUY, SELL])
    standing.meet([BUY])
    assert standing.shown() == (BUY,)
    assert standing.found("sell") is None


def test_a_tool_that_was_gone_and_comes_back_as_it_was_is_not_doubted(pins: Pins) -> None:
    standing = Standing("shop", "first_use", pins)
    for tools in ([BUY, SELL], [BUY], [BUY, SELL]):
        standing.meet(tools)
    assert standing.doubts() == ()


@pytest.mark.parametrize("accepted", [False, True])
def test_a_tool_that_was_gone_and_comes_back_changed_is_doubted(pins: Pins, accepted: bool) -> None:
    first = Standing("shop", "first_use", pins)
    first.meet([BUY, SELL])
    first.meet([BUY])
    if accepted:
        first.accept()
    later = Standing("shop", "first_use", pins)
    later.meet([BUY, OTHER_SELL])
    (doubt,) = later.doubts()
    assert (doubt.found, doubt.approved) == (OTHER_SELL, SELL)
    assert later.shown() == (BUY, SELL)


def renamed(turn: int, tools: int = 300) -> list[Definition]:
    """Return the tools of a server that calls them something else each turn."""
    return [replace(BUY, name=f"buy_{turn}_{number}") for number in range(tools)]


def test_a_server_that_renames_its_tools_for_ever_is_remembered_within_bounds(pins: Pins) -> None:
    standing = Standing("shop", "first_use", pins)
    for turn in range(20):
        standing.meet(renamed(turn))
    assert len(pins.of("shop")) < GONE + 2 * 300
    assert len(standing.doubts()) == 300
    assert standing.doubts()[0].approved is None


def test_renaming_makes_nobody_forget_what_a_tool_was(pins: Pins) -> None:
    standing = Standing("shop", "first_use", pins)
    standing.meet([SELL])
    for turn in range(20):
        standing.meet(renamed(turn))
    standing.meet([OTHER_SELL])
    (doubt,) = standing.doubts()
    assert (doubt.found, doubt.approved) == (OTHER_SELL, SELL)


def test_where_a_server_is_always_trusted_what_is_gone_is_forgotten(pins: Pins) -> None:
    standing = Standing("shop", "always", pins)
    for turn in range(20):
        standing.meet(renamed(turn))
    assert len(pins.of("shop")) == 300
    assert standing.doubts() == ()
