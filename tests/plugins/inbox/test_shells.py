"""An agent's own shell does not answer for its person, where it does not reach the key."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from toolstile_cli.main import main
from toolstile_hookspecs import Answer, ToolCall, ToolContext, tool
from toolstile_plugins.console import Console
from toolstile_plugins.inbox import resume_pending

from .conftest import BOB, PAID, House, inbox_of, pay, say

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).with_name("shell_attacks.py")
ATTACKS = ("command_line", "terminal", "state", "answer", "swapped", "key", "token", "console")
DOOR = "The door has"
WITH_THE_KEY = {"command_line", "terminal", "key"}
"""The attacks of an unsandboxed shell that succeed: it is as good as the person's own."""


def has_sandbox() -> bool:
    """Tell whether programs can be shut in here."""
    command = ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"]
    return (
        shutil.which("bwrap") is not None and subprocess.run(command, check=False).returncode == 0
    )


def hidden(state: Path) -> list[str]:
    """Return a sandbox that shows neither the files of the inbox nor any network."""
    shown = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    return ["bwrap", "--unshare-all", "--die-with-parent", *shown, "--tmpfs", str(state)]


def keyless(state: Path) -> list[str]:
    """Return a sandbox that shows all but the key."""
    shown = ["--bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    return ["bwrap", "--die-with-parent", *shown, "--bind", "/dev/null", str(state / "inbox.key")]


def open_shell(_: Path) -> list[str]:
    """Return no sandbox at all."""
    return []


@contextmanager
def served(console: Console, listening: socket.socket) -> Iterator[None]:
    config = uvicorn.Config(console, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
    serving.start()
    yield
    server.should_exit = True
    serving.join()


@pytest.fixture
def desk(house: House) -> Iterator[Any]:
    """A host whose agent has a shell, and a console: Bob's pay was approved, and Eve's waits."""
    house.clock.advance((datetime.now(UTC) - house.clock.now()).total_seconds())
    state = house.folder / "inbox"

    @tool(timeout=None)
    def shell(attack: str, sandbox: str, *, context: ToolContext) -> str:
        """Run a command."""
        command = [*globals()[sandbox](state), sys.executable, str(PROGRAM), attack]
        root = Path(__file__).parents[3]
        made = subprocess.run(
            [*command, str(house.folder), address],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
        return made.stdout + made.stderr

    (house.folder / "toolstile.toml").write_text(
        f'approver = "inbox"\n\n[plugins.inbox]\npath = "{state / "inbox.db"}"\n', encoding="utf-8"
    )
    host = house.host(pay, shell, wait="pending", top={"plugins": {"console": {}}})
    tools = house.tools(host)
    tools.dispatch(ToolCall("pay", {"to": "bob"}))
    say(inbox_of(tools))
    tools.dispatch(ToolCall("pay", {"to": "eve"}))
    listening = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with served(Console(host, address, person=BOB), listening):

        def attack(name: str, sandbox: Any) -> str:
            outcome = tools.dispatch(
                ToolCall("shell", {"attack": name, "sandbox": sandbox.__name__})
            )
            assert "tried as" in outcome.text, outcome.text
            assert "The console is open." not in outcome.text
            return outcome.text

        attack.tools = tools  # type: ignore[attr-defined]
        yield attack


needs_sandbox = pytest.mark.skipif(
    not has_sandbox(), reason="There is no bubblewrap that can make user namespaces"
)


@needs_sandbox
@pytest.mark.parametrize("name", ATTACKS)
def test_in_a_sandbox_nothing_is_answered(desk, name):
    told = desk(name, hidden)
    assert DOOR not in told
    (question,) = inbox_of(desk.tools).waiting()
    assert question.arguments == '{"to": "eve", "amount": 1}'
    assert [outcome.success for outcome in resume_pending(desk.tools)] == [True]
    assert PAID == ["bob"]


@needs_sandbox
@pytest.mark.parametrize("name", ATTACKS)
def test_without_the_key_nothing_that_is_answered_counts(desk, name):
    desk(name, keyless)
    resume_pending(desk.tools)
    assert PAID == ["bob"]


@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in WITH_THE_KEY])
def test_outside_of_a_sandbox_store_and_console_do_not_help(desk, name):
    told = desk(name, open_shell)
    assert (DOOR in told) is (name in {"token", "console"})
    resume_pending(desk.tools)
    assert PAID == ["bob"]


@pytest.mark.parametrize("name", sorted(WITH_THE_KEY))
def test_outside_of_a_sandbox_the_key_answers_and_the_doctor_says_so(desk, house, name, capsys):
    desk(name, open_shell)
    resume_pending(desk.tools)
    assert PAID == ["bob", "eve"]
    main(["--config", str(house.folder / "toolstile.toml"), "doctor"])
    assert "an agent's shell under this user can, outside of a sandbox" in capsys.readouterr().out


def test_a_denial_cannot_be_turned_into_an_approval(desk):
    inbox = inbox_of(desk.tools)
    (question,) = inbox.waiting()
    inbox.answer(question.ticket, Answer.DENIED, BOB, via="test")
    for name in ("state", "answer", "swapped"):
        desk(name, open_shell)
    resume_pending(desk.tools)
    assert PAID == ["bob"]
