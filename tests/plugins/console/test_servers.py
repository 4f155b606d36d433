"""The console shows the MCP servers of its host, and a person accepts their changed tools."""

from __future__ import annotations

import json
import random
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from .conftest import Desk, Visitor, until
from .test_access import Markup
from .test_stopping import token

pytest.importorskip("mcp")

from toolstile_plugins.console.servers import LINES, diff
from toolstile_plugins.mcp.gateway.tools import Definition
from toolstile_plugins.mcp.gateway.trust import Doubt

RAW = Path(__file__).parents[1] / "mcp" / "gateway" / "raw_server.py"


@pytest.fixture
def desk(tmp_path: Path, stack: ExitStack) -> Desk:
    raw = {"command": sys.executable, "args": [str(RAW), "marked_up", str(tmp_path)]}
    return Desk(tmp_path, stack, servers={"one": raw, "two": {**raw, "cwd": str(tmp_path / "no")}})


def test_a_server_is_shown_and_its_changed_tools_are_accepted_once_and_as_seen(desk, visitor):
    page = visitor.get("/servers").text
    assert "up, speaks 2025-11-25" in page
    assert "cannot be reached: the directory" in page
    assert "<li><code>one_say</code></li>" in page
    assert ">Accept<" not in page

    desk.call("one_say", text="change")
    one, _ = until(lambda: (found := visitor.json("/servers")["servers"])[0]["changed"] and found)
    assert one["changed"]["say"] == "description, input schema"
    page = visitor.get("/servers").text
    assert (page.count("alert(1)") > 4, Markup(page).found) == (True, [])
    assert "-  Say it." in page
    assert "+++ &lt;script&gt;" in page

    fields = {name: token(page, name, "/one") for name in ("once", "seen")}
    for wrong, status in (
        ({"csrf": ""}, 403),
        ({"once": token(visitor.get().text, form="/stop")}, 409),
        ({"seen": "0" * 16, "once": token(visitor.get("/servers").text, form="/one")}, 409),
    ):
        assert visitor.post("/servers/one", {**fields, **wrong}).status_code == status
    assert visitor.json("/servers")["servers"][0]["changed"]
    done = [visitor.post("/servers/one", fields).status_code for _ in range(2)]
    assert done == [303, 409]
    assert visitor.json("/servers")["servers"][0]["changed"] == {}
    pins = json.loads((desk.folder / "pins.json").read_text())["servers"]["one"]
    assert "alert(1)" in pins["say"]["description"]


def test_without_servers_there_is_no_such_section(tmp_path, stack):
    visitor = Visitor(desk := Desk(tmp_path, stack), stack.enter_context(desk.client()))
    assert visitor.get("/servers").status_code == 404
    assert "/servers" not in visitor.get().text


def test_changes_of_any_size_and_of_odd_characters_are_shown_in_time():
    def doubt(name: str, description: str) -> Doubt:
        parts = {"title": None, "output_schema": None, "annotations": {}}
        old, new = (
            Definition(name, description=text, input_schema={}, **parts)
            for text in (description[::-1], description)
        )
        return Doubt(new, old)

    chosen = random.Random(1)
    many = "\n".join(str(chosen.randrange(110)) for _ in range(100_000))
    doubts = [doubt(f"tool{n}", many) for n in range(100)]
    began = time.thread_time()
    shown = diff(doubts)
    assert time.thread_time() - began < 5
    assert (shown.count("\n"), shown.endswith("The rest is too long for this page.\n")) == (
        (LINES + 1, True)
    )
    odd = diff([doubt("odd", f"{chr(0xD800)}\r\x1b[2J{'x' * 10_000_000}")])
    assert (len(odd) < 10_000, "more characters" in odd) == (True, True)
