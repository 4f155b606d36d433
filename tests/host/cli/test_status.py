"""`toolstile status` shows the stops, the rules, and the state that plugins report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolstile_cli.exit_codes import Exit

CONFIGURATION = """\
approver = "inbox"

[[policies]]
kind = "rule"
name = "large"
effect = "ask"
tools = ["write_file"]
when = 'path(args.path) == path("asked.txt")'

[plugins.vfs]
root = "work"

[plugins.inbox]
path = "inbox.db"
wait = "pending"

[plugins.record]
folder = "records"

[plugins.undo]
path = "undo"
"""
BROKEN = """\
from toolstile_hookspecs import hookimpl

@hookimpl
def toolstile_status():
    raise OSError("the queue is gone")
"""


@pytest.fixture
def status(toolstile, tmp_path, monkeypatch):
    """Run a command in an empty folder, without the state of this user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        return toolstile(*words, plugin=False)

    return run


def wire(status) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(status("status", "--json")[1])
    return found


def content(folder: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_without_a_configuration_nothing_is_there(status, tmp_path):
    before = content(tmp_path)
    assert status("status") == (Exit.OK, "Nothing is stopped.\n", "")
    assert wire(status) == {"stops": [], "tools": [], "rules": [], "agents": []}
    assert content(tmp_path) == before


def test_it_shows_rules_calls_questions_and_calls_that_can_be_undone(status, tmp_path):
    (tmp_path / "toolstile.toml").write_text(CONFIGURATION)
    (tmp_path / "work").mkdir()
    assert status("call", "write_file", "path=a.txt", "content=x")[0] == Exit.OK
    assert status("call", "write_file", "path=asked.txt", "content=x")[0] == Exit.FAILED
    status("call", "read_file", "path=none.txt")
    before = content(tmp_path)
    code, out, err = status("status")
    assert (code, err) == (Exit.OK, "")
    assert "Rule: large, for write_file." in out
    assert "write_file  succeeded\n" in out
    assert "write_file  pending: " in out
    assert "read_file  failed: " in out
    assert "Can be undone: 1 call of the last day" in out
    found = wire(status)
    (question,) = found["waiting"]
    assert f"approvals approve {question['ticket']}`" in out
    assert [each["tool"] for each in found["calls"]] == ["write_file", "write_file", "read_file"]
    assert [each["tool"] for each in found["undoable"]] == ["write_file"]
    assert {"rule": "large", "tools": ["write_file"]} in found["rules"]
    assert {"tool": "write_file", "rules": ["large"]} in found["tools"]
    assert {"tool": "read_file", "rules": []} in found["tools"]
    assert content(tmp_path) == before


def test_only_the_end_of_a_long_record_is_read(status, tmp_path):
    (tmp_path / "toolstile.toml").write_text(
        '[plugins.record]\nfile = "calls.jsonl"\n[plugins.vfs]\nroot = "."\n'
    )
    for number in range(7):
        status("call", "read_file", f"path={number}{'x' * 20_000}")
    file = tmp_path / "calls.jsonl"
    file.write_bytes(file.read_bytes() + b'{"n":99,"torn')
    calls = wire(status)["calls"]
    assert 0 < len(calls) <= 5
    assert "6xxx" in calls[-1]["text"]


def test_a_plugin_that_fails_hides_nothing_else(status, tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    code, out, err = status("status", "--plugin", "broken.py")
    assert (code, out) == (Exit.OK, "Nothing is stopped.\n")
    assert "toolstile_status of plugin broken failed: OSError: the queue is gone" in err


def test_the_stops_are_shown_although_the_host_does_not_open(status, tmp_path):
    (tmp_path / "toolstile.toml").write_text('approver = "nobody"\n')
    status("stop", "--reason", "Wrong prices.")
    code, out, err = status("status")
    assert code == Exit.OK
    assert out.startswith("Stopped: all calls")
    assert "the rest is unknown, because the host does not open" in err
    assert len(wire(status)["stops"]) == 1
