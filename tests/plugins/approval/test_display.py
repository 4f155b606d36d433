"""A request as it is shown: each argument, however long the others are."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from toolstile_hookspecs import ApprovalRequest, Tool, ToolCall
from toolstile_plugins.approval.display import Shown

POST = Tool[Any, Any](
    name="post",
    description="Post.",
    handler=None,
    params_schema={"type": "object"},
    category="delete",
    origin="desk",
)

TOP_LEVEL: Any = SimpleNamespace(parent=None, agent="main")


def _shown(**arguments: Any) -> Shown:
    return Shown(
        ApprovalRequest(
            call=ToolCall("post", arguments),
            tool=POST,
            params=arguments,
            arguments=json.dumps(arguments),
            reasons=(),
            digest="",
            context=TOP_LEVEL,
        )
    )


@pytest.mark.parametrize("padding", ["padding\n" * 1_000, ["padding"] * 1_000, "padding " * 1_000])
def test_an_argument_behind_a_long_one_is_shown(padding):
    shown = _shown(text=padding, to="everybody@desk.example")
    told = [line for _, line in shown.lines()]
    assert told[-1] == '  to: "everybody@desk.example"'
    assert any(" more lines)" in line or " more characters)" in line for line in told)
    assert shown.is_cut
    assert len([*shown.lines(everything=True)]) >= len(told)


def test_a_short_request_is_shown_whole():
    shown = _shown(text="line\n" * 30, to="ada")
    assert not shown.is_cut
    assert [*shown.lines()] == [*shown.lines(everything=True)]


def test_a_tool_of_a_server_that_calls_it_destructive_is_not_said_to_delete():
    """Overwriting is destructive, too."""
    assert next(iter(_shown().lines())) == ("bold yellow", "post (destructive, medium consequence)")
