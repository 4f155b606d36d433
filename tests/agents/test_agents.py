"""Agents that nobody here wrote call tools through Toolstile, and make do with what it denies."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path

import pytest
from tests.node import Npm

from toolstile_plugins.record import verify

from .clients import Agent, ClaudeCode, GeminiCli
from .model import Turn, scripted

pytestmark = [pytest.mark.slow, pytest.mark.agents]

PRICES = "rye = 4.20\nrolls = 0.45\n"
RAISED = "rye = 4.50\nrolls = 0.45\n"

CONFIGURATION = """\
[plugins.vfs]
root = "shop"

[plugins.record]
file = "calls.jsonl"
"""


@pytest.fixture(params=[ClaudeCode, GeminiCli])
def agent(request: pytest.FixtureRequest, npm: Npm, tmp_path: Path) -> Agent:
    """An agent whose tools are those of a shop's files, each call of which is recorded."""
    home, project, shop = (tmp_path / name for name in ("home", "project", "shop"))
    for folder in (home, project, shop):
        folder.mkdir()
    (shop / "prices.ini").write_text(PRICES)
    configuration = tmp_path / "toolstile.toml"
    configuration.write_text(CONFIGURATION)
    toolstile = Path(sysconfig.get_path("scripts")) / "toolstile"
    return request.param(npm, home, project, toolstile, configuration)


def recorded(record: Path) -> list[tuple[str, str]]:
    """The outcome of each call, in order."""
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    calls = [line for line in lines if line["kind"] == "call"]
    return [(call["envelope"]["tool"], call["status"]) for call in calls]


def test_a_call_succeeds(agent: Agent, npm: Npm, tmp_path: Path) -> None:
    turns = [
        Turn("What does rye cost?", "read_file", {"path": "prices.ini"}, first=True),
        Turn("rye = 4.20", say="Rye costs 4.20."),
    ]

    with scripted(npm, tmp_path, agent.prefix, turns) as model:
        answer = agent.ask("What does rye cost?", model.url)
        results = model.results()

    assert "Rye costs 4.20." in answer
    assert len(results) == 1
    assert "prices.ini" in results[0]
    assert recorded(tmp_path / "calls.jsonl") == [("read_file", "succeeded")]
    assert verify(tmp_path / "calls.jsonl").faults == ()


def test_a_denied_call_is_seen_and_recovered_from(agent: Agent, npm: Npm, tmp_path: Path) -> None:
    change = {"path": "prices.ini", "content": RAISED, "overwrite": True}
    turns = [
        Turn("Raise the price of rye.", "write_file", change, first=True),
        Turn("Call read_file on it first", "read_file", {"path": "prices.ini"}),
        Turn("rye = 4.20", "write_file", change),
        Turn("prices.ini", say="Rye costs 4.50 now."),
    ]

    with scripted(npm, tmp_path, agent.prefix, turns) as model:
        answer = agent.ask("Raise the price of rye.", model.url)
        denied, read, written = model.results()

    assert "Rye costs 4.50 now." in answer
    assert "the file prices.ini exists and was not read" in denied
    assert "rye = 4.20" in read
    assert "prices.ini" in written
    assert (tmp_path / "shop" / "prices.ini").read_text() == RAISED
    assert recorded(tmp_path / "calls.jsonl") == [
        ("write_file", "denied"),
        ("read_file", "succeeded"),
        ("write_file", "succeeded"),
    ]
    assert verify(tmp_path / "calls.jsonl").faults == ()


def test_what_needs_a_person_is_not_done_without_one(
    agent: Agent, npm: Npm, tmp_path: Path
) -> None:
    turns = [
        Turn("Delete the prices.", "read_file", {"path": "prices.ini"}, first=True),
        Turn("rye = 4.20", "delete_file", {"path": "prices.ini"}),
        Turn("delete_file", say="Somebody has to allow that."),
    ]

    with scripted(npm, tmp_path, agent.prefix, turns) as model:
        answer = agent.ask("Delete the prices.", model.url)
        results = model.results()

    assert "Somebody has to allow that." in answer
    assert "delete_file needs a person's approval" in results[-1]
    assert (tmp_path / "shop" / "prices.ini").read_text() == PRICES
    read, *deleted = recorded(tmp_path / "calls.jsonl")
    assert read == ("read_file", "succeeded")
    # An agent that can ask a person is asked first, though nobody sits there.
    assert deleted in (
        [("delete_file", "denied")],
        [("delete_file", "pending"), ("delete_file", "denied")],
    )
