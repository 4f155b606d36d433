"""`--dry-run` shows what calls would change, and keeps nothing."""

import json

import pytest

PLUGIN = '''
from dataclasses import dataclass

from toolstile_hookspecs import MarkdownSection, ToolContext, hookimpl, tool


@dataclass(frozen=True)
class Line:
    text: str


@tool(category="write", contained=True)
def write(text: str, *, context: ToolContext) -> int:
    """Write a line, and count the lines."""
    context.session[Line].append(Line(text))
    return len(context.session[Line].all())


@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="pad", title="Pad", tools=[write])]
'''


@pytest.fixture
def pad(folder):
    (folder / "pad.py").write_text(PLUGIN, encoding="utf-8")
    return ("--plugin", "pad.py")


@pytest.mark.slow
def test_run_shows_each_calls_diff_and_denies_what_cannot_be_taken_back(toolstile, calls, pad):
    path = calls(("write", {"text": "a"}), ("write", {"text": "b"}), ("say", {"text": "out"}))
    status, out, err = toolstile(*pad, "run", path, "--dry-run")
    assert (status, err) == (1, "")
    assert "Line: added Line(text='a')" in out
    assert "Line: added Line(text='b')" in out
    assert "say is not contained" in out
    assert "2 succeeded, 1 denied; a dry run, nothing of it is kept" in out


def test_run_shows_at_the_end_what_all_calls_together_would_change(toolstile, calls, pad):
    path = calls(("write", {"text": "a"}), ("write", {"text": "b"}))
    _, out, _ = toolstile(*pad, "run", path, "--dry-run")
    _, whole = out.split("Together they would change:")
    assert "Line: added 2: Line(text='a'), Line(text='b')" in whole


def test_one_calls_changes_are_not_shown_twice(toolstile, calls, pad):
    path = calls(("write", {"text": "a"}), ("add", {"a": 1, "b": 2}))
    _, out, _ = toolstile(*pad, "run", path, "--dry-run")
    assert out.count("Line(text='a')") == 1
    assert "no changes" not in out


def test_a_file_that_was_read_can_be_edited(toolstile, folder, calls):
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "a.txt").write_text("one\n", encoding="utf-8")
    path = calls(
        ("edit_file", {"path": "a.txt", "old_text": "one", "new_text": "two"}),
        ("read_file", {"path": "a.txt"}),
        ("edit_file", {"path": "a.txt", "old_text": "one", "new_text": "two"}),
        ("edit_file", {"path": "a.txt", "old_text": "two", "new_text": "three"}),
    )
    status, out, _ = toolstile("run", path, "--workspace", workspace, "--dry-run")
    assert status == 1
    assert "a.txt exists and was not read" in out
    assert "3 succeeded, 1 denied" in out
    _, whole = out.split("Together they would change:")
    assert [line.strip() for line in whole.splitlines() if line.strip().startswith(("+", "-"))] == [
        "--- a/a.txt",
        "+++ b/a.txt",
        "-one",
        "+three",
    ]
    assert (workspace / "a.txt").read_text(encoding="utf-8") == "one\n"


def test_json_has_the_diff_beside_the_id(toolstile, calls, pad):
    path = calls(("write", {"text": "a"}), ("write", {"text": "b"}))
    _, out, _ = toolstile(*pad, "run", path, "--dry-run", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["data"] for line in lines] == [1, 2]
    assert [line["diff"] for line in lines] == [
        "session:\n  Line: added Line(text='a')",
        "session:\n  Line: added Line(text='b')",
    ]
    assert list(lines[0]) == ["id", "status", "diff", "tool", "fetchedAt", "data"]


def test_without_the_option_there_is_no_diff(toolstile, calls, pad):
    path = calls(("write", {"text": "a"}), ("write", {"text": "b"}))
    _, out, _ = toolstile(*pad, "run", path, "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["data"] for line in lines] == [1, 2]
    assert "diff" not in lines[0]


def test_call_prints_the_text_and_then_the_diff(toolstile, pad):
    status, out, _ = toolstile(*pad, "call", "write", '{"text": "a"}', "--dry-run")
    assert (status, out) == (
        0,
        "1\n\nIt would change:\nsession:\n  Line: added Line(text='a')\n",
    )
    _, out, _ = toolstile(*pad, "call", "write", '{"text": "a"}', "--dry-run", "--json")
    assert json.loads(out)["diff"].startswith("session:")


def test_a_real_directory_stays_as_it_is(toolstile, folder, pad):
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "a.txt").write_text("one\n", encoding="utf-8")
    arguments = json.dumps({"path": "b.txt", "content": "new\n"})
    status, out, _ = toolstile(
        "call", "write_file", arguments, "--workspace", workspace, "--dry-run"
    )
    assert status == 0
    assert "+++ b/b.txt" in out
    assert "+new" in out
    assert [each.name for each in workspace.iterdir() if each.is_file()] == ["a.txt"]
