"""The prompt on the command line, and sections that a recorded call opens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolyard.cli.main import main

PLUGIN = '''
from toolyard_hookspecs import MarkdownSection, Visibility, hookimpl, tool

@tool
def hidden() -> str:
    """Work once its section is open."""
    return "done"

@hookimpl
def toolyard_sections():
    return [MarkdownSection(key="manual", title="Manual", template="All of it.", tools=[hidden],
                            visibility=Visibility.SUMMARY, summary="How to.")]
'''


@pytest.fixture
def plugin(tmp_path: Path) -> str:
    path = tmp_path / "manuals.py"
    path.write_text(PLUGIN)
    return str(path)


def test_the_prompt_is_printed(capsys: pytest.CaptureFixture[str], plugin: str) -> None:
    assert main(["prompt", "--plugin", plugin]) == 0
    printed = capsys.readouterr().out

    assert "# Manual\n\nHow to." in printed
    assert "open_sections" in printed
    assert "All of it." not in printed


def test_the_prompt_is_printed_as_json(capsys: pytest.CaptureFixture[str], plugin: str) -> None:
    assert main(["prompt", "--plugin", plugin, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)

    assert "# Manual" in printed["text"]
    assert {"read_section", "open_sections"} <= set(printed["tools"])
    assert "hidden" not in printed["tools"]


def test_a_run_opens_sections_by_itself(
    capsys: pytest.CaptureFixture[str], plugin: str, tmp_path: Path
) -> None:
    calls = tmp_path / "calls.jsonl"
    opening = {"section_keys": ["manual"], "reason": "to work"}
    lines = [
        {"name": "hidden", "arguments": {}},
        {"name": "read_section", "arguments": {"section_key": "manual"}},
        {"name": "open_sections", "arguments": opening},
        {"name": "hidden", "arguments": {}},
    ]
    calls.write_text("\n".join(map(json.dumps, lines)))

    assert main(["run", str(calls), "--plugin", plugin, "--json"]) == 1
    first, read, opened, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert "no tool 'hidden'" in first["error"]
    assert read["data"] == "All of it."
    assert "All of it." in opened["data"]
    assert last["data"] == "done"
