"""The prompt on the command line, and sections that a recorded call opens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolstile_cli.main import main

PLUGIN = '''
from toolstile_hookspecs import MarkdownSection, Visibility, hookimpl, tool

@tool
def hidden() -> str:
    """Work once its section is open."""
    return "done"

@hookimpl
def toolstile_sections():
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


@pytest.fixture
def overrides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configured file of overrides, still to be written, in the working directory."""
    (tmp_path / "toolstile.toml").write_text('prompt_overrides = "texts.toml"\n')
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "texts.toml"
    file.write_text("")
    return file


def test_overrides_are_made_from_the_codes_texts_also_where_some_are_overridden(
    capsys: pytest.CaptureFixture[str], plugin: str, overrides: Path
) -> None:
    assert main(["prompt", "--overrides", "--plugin", plugin]) == 0
    texts = capsys.readouterr().out
    overrides.write_text(texts.replace("Work once", "Go").replace("All of it.", "It."))

    assert main(["prompt", "--overrides", "--plugin", plugin]) == 0
    assert capsys.readouterr().out == texts


def test_overrides_are_not_asked_for_as_json(
    capsys: pytest.CaptureFixture[str], plugin: str, overrides: Path
) -> None:
    assert main(["prompt", "--overrides", "--json", "--plugin", plugin]) == 2
    assert capsys.readouterr().err == (
        "toolstile: error: --overrides prints a file of TOML, and --json nothing but JSON; leave "
        "one of them out.\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("way", [[], ["--json"], ["--schema", "openai"]])
def test_tools_are_listed_with_the_descriptions_that_a_model_reads(
    capsys: pytest.CaptureFixture[str], plugin: str, overrides: Path, way: list[str]
) -> None:
    main(["prompt", "--overrides", "--plugin", plugin])
    overrides.write_text(capsys.readouterr().out.replace("Work once", "Go when"))

    assert main(["tools", "--plugin", plugin, *way]) == 0
    printed = capsys.readouterr()
    assert "Go when its section is open." in printed.out
    assert "Work once" not in printed.out
    assert printed.err == ""


@pytest.mark.slow
@pytest.mark.parametrize("command", [["prompt"], ["tools"], ["call", "read_section"]])
def test_a_stale_override_is_told_on_stderr_without_being_asked_for(
    capsys: pytest.CaptureFixture[str], plugin: str, overrides: Path, command: list[str]
) -> None:
    overrides.write_text(
        '[prompts."toolstile/default".tools.hidden]\nhash = "0"\ndescription = "Go."\n'
    )

    main([*command, "--plugin", plugin])
    printed = capsys.readouterr()
    assert printed.err.count("The override of tool 'hidden' is stale") == 1
    assert "Go." not in printed.out


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
    assert "Call open_sections with 'manual', then retry." in first["error"]
    assert read["data"] == "All of it."
    assert "All of it." in opened["data"]
    assert last["data"] == "done"
