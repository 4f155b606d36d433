"""Fixtures of the command line's tests: a plugin in a file, and ways to run the command."""

import json
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from toolstile_cli.main import main

COMMAND = Path(sysconfig.get_path("scripts")) / "toolstile"

PLUGIN = '''\
"""Tools that do what tests need."""

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from toolstile_cli import signals
from toolstile_hookspecs import (
    Command,
    Interrupt,
    MarkdownSection,
    PolicyDecision,
    PromptEvaluationError,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)


signals.GRACE = float(os.environ.get("GRACE", signals.GRACE))


@dataclass(frozen=True)
class Note:
    text: str

    def render(self):
        return f"note: {self.text}"


@tool(category="read")
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@tool
def say(text: str) -> str:
    """Answer with the text."""
    return text


@tool
def listing(notes: int = 0) -> ToolResult[list[str]]:
    """Answer with a message, notes, and a value of three lines."""
    message = "\\n".join(["There are three:", *(f"Note: {each}" for each in range(notes))])
    return ToolResult.ok(["one", "two", "three"], message=message)


@tool
def note(text: str, *, context: ToolContext) -> int:
    """Keep a note, and count the notes."""
    context.session[Note].append(Note(text))
    return len(context.session[Note].all())


@tool
def fail(text: str = "It did not work. Try another way, then retry.") -> ToolResult[None]:
    """Answer with a failure."""
    return ToolResult.error(text)


@tool
def fail_after_note(text: str, *, context: ToolContext) -> None:
    """Keep a note, then raise."""
    context.session[Note].append(Note(text))
    raise RuntimeError("broken")


@tool
def stop_evaluation() -> None:
    """End the evaluation."""
    raise PromptEvaluationError("enough of it")


@tool
def pause() -> None:
    """Wait for a person."""
    raise Interrupt("a person is needed")


@tool
def leave() -> None:
    """End the process."""
    sys.exit(0)


class Pair(BaseModel):
    left: int
    right: int = 0


@tool
def pair(params: Pair) -> int:
    """Take a pair."""
    return params.left


@tool
def refused() -> None:
    """Never allowed."""


@tool
def print_much() -> str:
    """Print, also from another program."""
    print("printed by the handler")
    subprocess.run([sys.executable, "-c", "print('printed by a program')"], check=True)
    return "quiet"


@tool(timeout=None)
def sleep(seconds: float, flag: str) -> None:
    """Sleep, on the thread of the caller."""
    Path(flag).touch()
    time.sleep(seconds)


@tool(timeout=600)
def sleep_on_worker(seconds: float, flag: str) -> None:
    """Sleep, on a thread of its own."""
    Path(flag).touch()
    time.sleep(seconds)


@tool(timeout=600)
async def wait(seconds: float, flag: str) -> None:
    """Wait, on the loop."""
    import asyncio

    Path(flag).touch()
    await asyncio.sleep(seconds)


@tool(timeout=None)
def never_end(flag: str) -> None:
    """Go on whatever happens."""
    Path(flag).touch()
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass


@tool(timeout=None)
def leave_a_thread(flag: str) -> None:
    """Start a thread that the interpreter waits for, then sleep."""
    threading.Thread(target=time.sleep, args=(120,)).start()
    Path(flag).touch()
    time.sleep(60)


@hookimpl
def toolstile_sections():
    tools = [
        add, pair, say, listing, note, fail, fail_after_note, stop_evaluation, pause, leave,
        refused, print_much, sleep, sleep_on_worker, wait, never_end, leave_a_thread,
    ]
    return [MarkdownSection(key="test", title="Test", tools=tools)]


@hookimpl
def toolstile_check(tool):
    if tool.name == "refused":
        return PolicyDecision.deny("Nobody may. Do something else.")


seen = []


def greet(host, args):
    with host.executor() as tools:
        print(f"hello {args.whom}, {len(tools.prompt.tools())} tools")
    return 3 if args.whom == "three" else 0


@hookimpl
def toolstile_commands():
    return [
        Command("greet", "Say hello.", run=greet, configure=lambda p: p.add_argument("whom")),
        Command(
            "tools",
            extends=True,
            configure=lambda p: p.add_argument("--extended", action="store_true", help="more"),
        ),
    ]
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory without any configuration, with the plugin in a file."""
    for name in list(os.environ):
        if name.startswith("TOOLSTILE_") or name in {"FORCE_COLOR", "NO_COLOR", "COLUMNS"}:
            monkeypatch.delenv(name)
    (tmp_path / "desk.py").write_text(PLUGIN, encoding="utf-8")
    (tmp_path / "toolstile.toml").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def calls(folder):
    """Writes calls to a file; each is a name with arguments."""

    def written(*wishes, name="calls.jsonl"):
        lines = [
            {"id": f"c{number}", "name": wish[0], "arguments": wish[1] if wish[1:] else {}}
            for number, wish in enumerate(wishes, 1)
        ]
        (folder / name).write_text("".join(json.dumps(each) + "\n" for each in lines))
        return name

    return written


@pytest.fixture
def toolstile(folder, capsys):
    """Runs the command line in this process; gives its status, stdout and stderr."""

    def run(*arguments, plugin=True):
        status = main([*(["--plugin", "desk.py"] if plugin else []), *map(str, arguments)])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


@pytest.fixture
def process(folder):
    """Starts the installed command as a process; it is ended with the test."""
    started = []

    def start(*arguments, **options):
        made = subprocess.Popen(
            [COMMAND, "--plugin", "desk.py", *map(str, arguments)],
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=options.pop("stderr", subprocess.PIPE),
            text=True,
            encoding="utf-8",
            cwd=folder,
            **options,
        )
        started.append(made)
        return made

    yield start
    for each in started:
        each.kill()
        each.communicate()
