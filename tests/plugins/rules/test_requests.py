"""The request comes with commands, too: rules compare with what the user asks for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RULE = """
plugin_files = ["mail.py"]

[[policies]]
kind = "rule"
tools = ["send"]
when = "!request.exists(said, 'send' in words(said))"
effect = "deny"
reason = "Nobody asked to send anything."
"""
MAIL = '''
from toolstile_hookspecs import MarkdownSection, hookimpl, tool

@tool
def send(to: str) -> str:
    """Send a letter."""
    return "sent"

@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="mail", title="Mail", tools=[send])]
'''
ARGUMENTS = '{"to": "ann"}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "toolstile.toml").write_text(RULE)
    (tmp_path / "mail.py").write_text(MAIL)
    (tmp_path / "calls.jsonl").write_text('{"name": "send", "arguments": {"to": "ann"}}\n')
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("command", [("call", "send", ARGUMENTS), ("run", "calls.jsonl")])
@pytest.mark.parametrize(
    ("said", "told"),
    [
        (["Read it."], "Nobody asked to send anything."),
        (["Hello.", "SEND it."], "sent"),
        ([], "what the user asked for is not known"),
    ],
)
def test_the_request_of_a_command_is_that_of_its_calls(folder, command, said, told):
    options = [part for text in said for part in ("--request", text)]
    done = subprocess.run(
        [sys.executable, "-m", "toolstile", *command, *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told in done.stdout + done.stderr
    assert (done.returncode == 0) is (told == "sent")
