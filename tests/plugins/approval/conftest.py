"""A plugin with tools that need approval, and a person before whom the command runs."""

import json
import os
import subprocess
import sys

import pytest
from tests.plugins.pseudo_terminal import COMMAND, terminals

PLUGIN = '''\
"""Tools that need approval."""

import time
from dataclasses import dataclass

from pydantic import SecretStr

from toolstile_hookspecs import MarkdownSection, PolicyDecision, ToolContext, hookimpl, tool


@dataclass(frozen=True)
class Sent:
    text: str


@tool(category="delete", consequence="high", requires_confirmation=True)
def remove(path: str, times: int = 1) -> str:
    """Remove a file."""
    return f"removed {path} x{times}"


@tool(requires_confirmation=True)
def send(text: str, token: SecretStr = SecretStr("")) -> str:
    """Send a text."""
    return f"sent {text} with {len(token.get_secret_value())} secret characters"


@tool(category="write", contained=True, requires_confirmation=True)
def write(text: str, *, context: ToolContext) -> str:
    """Write a text."""
    context.session[Sent].append(Sent(text))
    return f"wrote {text}, {len(context.session[Sent].all())} in all"


@tool(category="read", requires_confirmation=True)
def look() -> str:
    """Look."""
    return "looked"


@tool
def pause(seconds: float) -> None:
    """Take a while."""
    time.sleep(seconds)


@hookimpl
def toolstile_sections():
    tools = [remove, send, write, look, pause]
    return [MarkdownSection(key="desk", title="Desk", tools=tools)]


@hookimpl
def toolstile_check(tool, params):
    if tool.name == "remove" and params.path == "/":
        return PolicyDecision.deny("Never that one.")
    if tool.name == "remove" and params.times > 1:
        return PolicyDecision.ask("More than one.")
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "desk.py").write_text(PLUGIN, encoding="utf-8")
    (tmp_path / "toolstile.toml").write_text("", encoding="utf-8")
    return tmp_path


@pytest.fixture
def environment():
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TOOLSTILE_") and name not in {"EDITOR", "VISUAL", "COLUMNS"}
    }
    return {**kept, "TERM": "xterm", "NO_COLOR": "1", "PAGER": "cat"}


@pytest.fixture
def calls(folder):
    """Writes calls to a file; each is a name with arguments."""

    def written(*wishes):
        lines = [
            json.dumps({"id": f"c{number}", "name": name, "arguments": arguments})
            for number, (name, arguments) in enumerate(wishes, 1)
        ]
        (folder / "calls.jsonl").write_text("\n".join(lines), encoding="utf-8")
        return "calls.jsonl"

    return written


@pytest.fixture
def person(folder, environment):
    """Starts the command at a pseudo-terminal, and gives the person before it."""
    with terminals() as started:

        def start(*arguments, env=None, **options):
            given = {**environment, **(env or {})}
            return started("--plugin", "desk.py", *arguments, cwd=folder, env=given, **options)

        yield start


@pytest.fixture
def script(folder, environment):
    """Starts a Python script at a pseudo-terminal, and gives the person before it."""
    with terminals() as started:
        python = [sys.executable]
        yield lambda *given: started(*given, command=python, cwd=folder, env=environment)


@pytest.fixture
def alone(folder, environment):
    """Runs the command where no terminal is; gives its status, stdout and stderr."""

    def run(*arguments, **options):
        done = subprocess.run(
            [COMMAND, "--plugin", "desk.py", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
            check=False,
            start_new_session=True,
            **options,
        )
        return done.returncode, done.stdout, done.stderr

    return run
