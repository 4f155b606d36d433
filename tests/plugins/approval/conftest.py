"""A person at a pseudo-terminal, before whom the real command line runs."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import sysconfig
import termios
import time
from pathlib import Path

import pytest

COMMAND = Path(sysconfig.get_path("scripts")) / "toolstile"
CTRL_C, CTRL_D = "\x03", "\x04"
PROMPT = "in this session"
WAIT = 60.0
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")

# Makes the terminal at standard error the controlling one, so that Ctrl-C there is a signal.
TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(2, termios.TIOCSCTTY, 0);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)

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


class Person:
    """Whoever sits at the terminal: reads what is on it, and types."""

    def __init__(self, process, master):
        self.process = process
        self.screen = ""
        self.written = ""
        """All that came, with the escape sequences that the screen does not show."""
        self._master = master
        self._seen = 0

    def expect(self, text=PROMPT):
        """Wait until a text appears after all that was expected before; return what is before."""
        deadline = time.monotonic() + WAIT
        while text not in self.screen[self._seen :]:
            assert self._read(deadline), f"{text!r} did not appear in:\n{self.screen}"
        at = self.screen.index(text, self._seen)
        before, self._seen = self.screen[self._seen : at], at + len(text)
        return before

    def type(self, text):
        os.write(self._master, text.encode())

    def answer(self, text, prompt=PROMPT):
        """Wait for the question and answer it; return what was shown before it."""
        shown = self.expect(prompt)
        self.expect(":")
        self.type(f"{text}\n")
        return shown

    def end(self):
        """Return the status of the process, and all that was on the screen."""
        while self._read(time.monotonic() + WAIT):
            pass
        return self.process.wait(timeout=WAIT), self.screen

    def _read(self, deadline):
        ready, _, _ = select.select([self._master], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"nothing more came; so far:\n{self.screen}"
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        text = data.decode(errors="replace")
        self.written += text
        self.screen += ESCAPES.sub("", text).replace("\r\n", "\n")
        return bool(data)


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
    return {**kept, "TERM": "xterm", "NO_COLOR": "1"}


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
    people = []

    def start(*arguments, env=None, **options):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        command = [COMMAND, "--plugin", "desk.py", *arguments]
        process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, *map(str, command)],
            stdin=options.pop("stdin", slave),
            stdout=options.pop("stdout", slave),
            stderr=slave,
            cwd=folder,
            env={**environment, **(env or {})},
            start_new_session=True,
            **options,
        )
        os.close(slave)
        people.append((process, master))
        return Person(process, master)

    yield start
    for process, master in people:
        process.kill()
        process.wait()
        os.close(master)
        if process.stdout is not None:
            process.stdout.close()


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
