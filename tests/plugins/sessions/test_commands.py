"""`toolstile sessions` and `--session`, as a person and as a program uses them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolstile import Session

pytestmark = pytest.mark.slow

PLUGIN = '''
from dataclasses import dataclass
from toolstile_hookspecs import MarkdownSection, SlicePolicy, ToolContext, hookimpl, tool
from toolstile_hookspecs.sessions import append_all
from toolstile_hookspecs.stored_names import stored_as


@stored_as("notes.Note")
@dataclass(frozen=True)
class Note:
    text: str


@stored_as("notes.Seen")
@dataclass(frozen=True)
class Seen:
    text: str


@tool(category="write")
def note(text: str, *, context: ToolContext) -> list[str]:
    """Take a note, and return all there are."""
    context.session[Seen].append(Seen(text))
    context.session[Note].append(Note(text))
    return [each.text for each in context.session[Note].all()]


def set_up(session):
    session[Seen].register(Seen, append_all, SlicePolicy.LOG)


@hookimpl
def toolstile_sections():
    section = MarkdownSection(key="notes", title="Notes", tools=[note], on_session=set_up)
    return [section]
'''
STORED = '[plugins.sessions]\npath = "state.db"\n[plugins.ledger]\npath = "state.db"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes.py").write_text(PLUGIN)
    (tmp_path / "toolstile.toml").write_text(STORED)
    return tmp_path


def toolstile(folder: Path, *arguments: str, ok: bool = True) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "toolstile", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert (done.returncode == 0) is ok, done.stderr
    return done.stdout + done.stderr


def note(folder: Path, text: str, *, session: str = "s") -> list[str]:
    arguments = json.dumps({"text": text})
    told = toolstile(
        folder,
        *("call", "--plugin", "notes.py", "--session", session, "--json", "note", arguments),
    )
    found: list[str] = json.loads(told)["data"]
    return found


def listed(folder: Path) -> list[tuple[str, int]]:
    lines = toolstile(folder, "sessions", "list", "--json").splitlines()
    return [(line["id"], line["number"]) for line in map(json.loads, lines)]


def test_a_session_goes_on_in_the_next_process(folder):
    assert note(folder, "a") == ["a"]
    assert note(folder, "b") == ["a", "b"]
    assert note(folder, "c", session="t") == ["c"]
    assert [name for name, _ in listed(folder)] == ["s", "t"]
    calls = "".join(
        json.dumps({"name": "note", "arguments": {"text": text}}) + "\n" for text in "de"
    )
    (folder / "calls.jsonl").write_text(calls)
    toolstile(folder, "run", "calls.jsonl", "--plugin", "notes.py", "--session", "s")
    assert note(folder, "f") == ["a", "b", "d", "e", "f"]


def test_a_person_sees_what_a_session_holds(folder):
    note(folder, "a")
    note(folder, "b")
    assert "s  " in toolstile(folder, "sessions", "list")
    told = toolstile(folder, "sessions", "show", "s").splitlines()
    assert [line.split() for line in told if "notes." in line] == [
        ["notes.Note", "state", "2"],
        ["notes.Seen", "log", "2"],
    ]
    shown = json.loads(toolstile(folder, "sessions", "show", "s", "--json"))
    assert (shown["id"], shown["slices"][0]["items"]) == ("s", 2)


def test_an_export_is_read_by_another_program(folder):
    note(folder, "a")
    text = toolstile(folder, "sessions", "export", "s")
    namespace: dict[str, object] = {}
    exec(PLUGIN, namespace)
    kinds: list[Any] = [namespace["Note"], namespace["Seen"]]
    session = Session.from_json(text, kinds=kinds)
    assert session.id == "s"
    assert [[each.text for each in session[kind].all()] for kind in kinds] == [["a"], ["a"]]
    whole = json.loads(toolstile(folder, "sessions", "export", "s", "--json"))
    assert whole == json.loads(text)


def test_a_deleted_session_begins_anew(folder):
    note(folder, "a")
    assert toolstile(folder, "sessions", "delete", "s") == "s is removed.\n"
    assert listed(folder) == []
    assert note(folder, "b") == ["b"]


@pytest.mark.parametrize("what", ["show", "export", "delete"])
def test_an_unknown_session_suggests_the_nearest(folder, what):
    assert "toolstile sessions list" in toolstile(folder, "sessions", what, "s", ok=False)
    assert not (folder / "state.db").exists()
    note(folder, "a", session="support")
    told = toolstile(folder, "sessions", what, "su-port", ok=False)
    assert "There is no stored session 'su-port'; did you mean 'support'?" in told


def test_a_look_makes_no_file(folder):
    assert "No session is stored in" in toolstile(folder, "sessions", "list")
    assert not (folder / "state.db").exists()


def test_without_a_store_it_says_how_to_configure_one(folder):
    (folder / "toolstile.toml").write_text("")
    told = toolstile(folder, "sessions", "list", ok=False)
    assert "as path in [plugins.sessions]" in told
    told = toolstile(
        folder, "call", "--plugin", "notes.py", "--session", "s", "note", '{"text": "a"}'
    )
    assert "the session s is not stored, and ends with this command" in told
    assert "or a database as url in [plugins.database]" in told


def test_an_empty_name_is_refused(folder):
    told = toolstile(folder, "call", "--session", "", "note", ok=False)
    assert "a session has a name, of printable characters" in told


def test_a_file_that_is_no_database_is_told_of(folder):
    (folder / "state.db").write_text("letters" * 100)
    told = toolstile(folder, "sessions", "list", ok=False)
    assert "cannot be used" in told
    assert "Traceback" not in told
