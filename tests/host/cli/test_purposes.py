"""A command opens no more of the host than it needs, and works beside a running host."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, Settings
from toolstile_cli.options import beneath
from toolstile_cli.plugin_commands import purpose_of, with_extensions
from toolstile_cli.program import BUILT_IN
from toolstile_hookspecs import Command, effect_free, hookimpl

from .conftest import COMMAND

RAW = Path(__file__).parents[2] / "plugins" / "mcp" / "gateway" / "raw_server.py"
CALL = '{"a": 1, "b": 2}'
UNRECORDED = {"TOOLSTILE_PLUGINS__RECORD__OFF": "true", "TOOLSTILE_PLUGINS__OTEL__TRACE": "console"}
"""For commands that make calls: one process writes a record, or a file of spans."""

LOOKING: dict[str, tuple[list[str], int]] = {
    "approvals list": ([], 0),
    "approvals show": (["none"], 2),
    "approvals approve": (["none"], 2),
    "approvals deny": (["none"], 2),
    "approvals edit": (["none", "{}"], 2),
    "approvals grants": ([], 0),
    "approvals revoke": (["none"], 2),
    "approvals withdraw": (["none"], 2),
    "check-done": ([], 0),
    "database check": ([], 2),
    "database upgrade": ([], 2),
    "hook doctor": ([], 0),
    "hook install": (["codex"], 2),
    "hook sandbox": (["nowhere", "note", "true"], 1),
    "hook uninstall": (["claude-code"], 0),
    "init": (["--dry-run"], 0),
    "ledger list": ([], 0),
    "ledger show": (["none"], 2),
    "ledger resolve": (["none", "--done"], 2),
    "ledger invalidate": (["none"], 2),
    "ledger prune": ([], 0),
    "ledger move": ([], 0),
    "mcp import": (["client.json"], 0),
    "record list": (["calls.jsonl"], 0),
    "record show": (["calls.jsonl"], 0),
    "record verify": (["calls.jsonl"], 0),
    "sessions list": ([], 0),
    "sessions show": (["none"], 2),
    "sessions export": (["none"], 2),
    "sessions delete": (["none"], 2),
    "unwrap": ([], 2),
    "worker": (["--tools", "desk"], 0),
    "wrap": ([], 2),
}
"""The commands of plugins that only look, with arguments and exit status."""

CALLING: dict[str, tuple[list[str], int]] = {
    "approvals resume": ([], 0),
    "ask": (["hello"], 2),
    "call": (["add", CALL], 0),
    "console": (["--port", "0"], 130),
    "hook serve": ([], 2),
    "hook test": (["claude-code"], 2),
    "ledger reconcile": ([], 0),
    "mcp": ([], 0),
    "mcp check": ([], 0),
    "plugins": ([], 0),
    "policy backtest": (["calls.jsonl"], 0),
    "policy explain": (["add", CALL], 0),
    "policy test": (["policies.toml"], 0),
    "prompt": ([], 0),
    "replay": (["calls.jsonl"], 0),
    "run": (["session.jsonl"], 0),
    "tools": ([], 0),
    "undo": (["--yes"], 2),
}
CASE = """
[[cases]]
name = "Sums need no person"
calls = [{ tool = "add", arguments = { a = 1, b = 2 }, expect = "allow" }]
"""
UNOPENED = {"check", "completion", "demo", "doctor", "new", "stop", "go", "status"}
"""Commands that open no host."""

DESK = '''
from toolstile_hookspecs import MarkdownSection, hookimpl, tool


@tool(category="read")
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@tool(category="read", tags=("slow",))
def add_slowly(a: int, b: int) -> int:
    """Add two integers, elsewhere."""
    return a + b


@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="desk", title="Desk", template=".", tools=[add, add_slowly])]
'''

SERVING = """
import sys
from toolstile import Host
from toolstile_hookspecs import ToolCall

with Host(config="toolstile.toml") as host, host.executor() as tools:
    assert tools.dispatch(ToolCall("add", '{"a": 1, "b": 2}')).result.success
    print("open", flush=True)
    sys.stdin.read()
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a host that runs, with everything on."""
    folder = tmp_path_factory.mktemp("beside")
    (folder / "work").mkdir()
    (folder / "desk.py").write_text(DESK)
    (folder / "client.json").write_text('{"mcpServers": {"one": {"command": "one"}}}')
    (folder / "policies.toml").write_text(CASE)
    (folder / "session.jsonl").write_text(f'{{"name": "add", "arguments": {CALL}}}')
    (folder / "toolstile.toml").write_text(f"""
approver = "inbox"
plugin_files = ["desk.py"]
[plugins.metrics]
port = {free_port()}
[plugins.record]
file = "calls.jsonl"
[plugins.otel]
trace = "{folder}/spans.jsonl"
[plugins.sessions]
path = "state.db"
[plugins.ledger]
path = "state.db"
[plugins.inbox]
path = "inbox.db"
wait = "pending"
[plugins.webhook]
url = "http://127.0.0.1:{free_port()}/questions"
secret = "whsec_{"A" * 44}"
[plugins.workers]
runs = {{ tags = ["slow"] }}
path = "workers.db"
address = "127.0.0.1:{free_port()}"
[plugins.mcp.servers.shop]
command = {json.dumps(sys.executable)}
args = {json.dumps([str(RAW), "plain", str(folder)])}
[plugins.vfs]
root = "work"
[plugins.planning]
[plugins.code]
[plugins.asteval]
[plugins.undo]
path = "undo"
[plugins.sandbox]
""")
    with subprocess.Popen(
        [sys.executable, "-c", SERVING],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as serving:
        assert serving.stdin is not None
        assert serving.stdout is not None
        assert serving.stdout.readline() == "open\n"
        yield folder
        assert serving.poll() is None
        serving.stdin.close()


def wait_for(port: str | None) -> None:
    while port is not None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", int(port))):
            return


def run(folder: Path, typed: str, arguments: list[str], before: list[str]) -> tuple[int, str]:
    """Run a command; one that runs until it is stopped is stopped once it has begun."""
    started = subprocess.Popen(
        [*before, str(COMMAND), *typed.split(), *arguments],
        cwd=folder,
        env={**os.environ, **({} if typed in LOOKING else UNRECORDED)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert started.stderr is not None
    told = ""
    if typed in {"console", "worker"}:
        while line := started.stderr.readline():
            told += line
            if found := re.search(r"A worker runs|127\.0\.0\.1:(\d+)", line):
                wait_for(found[1])
                os.killpg(started.pid, signal.SIGINT)
                break
    _, more = started.communicate(timeout=120)
    return started.returncode, told + more


def content(folder: Path) -> dict[str, int]:
    """Return the files of a folder, with the sizes of those that grow with what is recorded."""
    return {
        str(each.relative_to(folder)): each.stat().st_size if each.suffix == ".jsonl" else 0
        for each in folder.rglob("*")
        if "__pycache__" not in each.parts and not each.name.endswith(("-wal", "-shm", ".new"))
    }


@pytest.mark.slow
@pytest.mark.much_alike(6)
# The sandbox of a hook runs a command in the workspace, though it opens no more of the host.
@pytest.mark.parametrize("typed", [each for each in LOOKING if each != "hook sandbox"])
def test_a_command_that_looks_opens_no_port_and_writes_no_file(beside, tmp_path, typed):
    trace = tmp_path / "trace"
    strace = shutil.which("strace")
    before = [strace, "-f", "-qq", "-o", str(trace), "-e", "bind,listen"] if strace else []
    there = content(beside)
    arguments, wanted = LOOKING[typed]
    status, err = run(beside, typed, arguments, before)
    assert (status, "in use" in err, "being written" in err) == (wanted, False, False), err
    if typed != "worker":  # its calls pass through a file
        assert content(beside) == there
    if strace is None:
        pytest.skip("strace is not installed")
    calls = [line for line in trace.read_text().splitlines() if re.search(r"(bind|listen)\(", line)]
    assert calls == []


@pytest.mark.slow
@pytest.mark.much_alike(5)
@pytest.mark.parametrize("typed", sorted(CALLING.keys() - {"mcp"}))
def test_a_command_that_calls_works_beside_a_host(beside, typed):
    arguments, wanted = CALLING[typed]
    status, err = run(beside, typed, arguments, [])
    assert (status, "in use" in err, "being written" in err) == (wanted, False, False), err


@pytest.mark.slow
def test_a_second_host_that_serves_is_told_that_the_port_is_taken(beside):
    status, err = run(beside, "mcp", [], [])
    assert status == 2
    assert "in use" in err


def test_every_command_is_tried():
    def leaves(parser: Any, above: str = "") -> Iterator[str]:
        within = [commands for _, commands in beneath(parser)]
        if above and not within:
            yield above.strip()
        for commands in within:
            for name, each in commands.items():
                yield from leaves(each, f"{above}{name} ")

    with Host(settings=Settings()) as host:
        parser, _, commands = with_extensions(host.plugins.commands(), BUILT_IN)
    tried = {*LOOKING, *CALLING, *UNOPENED}
    assert {*leaves(parser), "mcp"} == tried
    for typed in tried - UNOPENED:
        arguments = {**LOOKING, **CALLING}[typed][0]
        purpose = purpose_of(commands, parser.parse_args([*typed.split(), *arguments]))
        assert purpose == ("look" if typed in LOOKING else "serve" if typed == "mcp" else "call")


def test_a_strangers_command_calls():
    assert Command("x").purpose == "call"


class Watching:
    """Has a lifespan with effects."""

    def __init__(self) -> None:
        self.entered: list[str] = []

    @hookimpl
    @contextmanager
    def toolstile_lifespan(self, host):
        self.entered.append(host.purpose)
        yield


class Harmless(Watching):
    """Has a lifespan without effects."""

    @hookimpl
    @effect_free
    @contextmanager
    def toolstile_lifespan(self, host):
        self.entered.append(host.purpose)
        yield


@pytest.mark.parametrize("purpose", ["look", "call", "serve"])
def test_a_host_that_looks_enters_only_lifespans_without_effects(purpose):
    watching, harmless, late = Watching(), Harmless(), Watching()
    threads = threading.active_count()
    with Host(discover=False, plugins=[watching], purpose=purpose, settings=Settings()) as host:
        host.register(harmless)
        host.register(late, "late")
        assert host.purpose == purpose
        assert threading.active_count() == threads
    assert harmless.entered == [purpose]
    assert watching.entered == late.entered == ([] if purpose == "look" else [purpose])


def test_the_configuration_of_a_parent_folder_is_named_once(toolstile, folder, monkeypatch):
    below = folder / "below"
    below.mkdir()
    (folder / "toolstile.toml").write_text("timeout = 5")
    assert "parent folder" not in toolstile("tools")[2]
    monkeypatch.chdir(below)
    status, _, err = toolstile("tools", "--json", plugin=False)
    assert status == 0
    told = f"the configuration is {folder / 'toolstile.toml'}, of a parent folder."
    assert err.count(told) == 1
    named = toolstile("tools", "--config", "../toolstile.toml", plugin=False)
    assert "parent folder" not in named[2]


ISOLATED = DESK.replace('@tool(category="read")', '@tool(category="read", isolation="process")')


@pytest.mark.parametrize("command", ["ledger", "approvals", "tools"])
def test_a_tool_in_a_process_of_its_own_keeps_no_command_from_working(toolstile, folder, command):
    (folder / "isolated.py").write_text(ISOLATED)
    arguments = ["tools"] if command == "tools" else [command, "list"]
    _, _, err = toolstile(*arguments, "--plugin", "isolated.py", plugin=False)
    assert "cannot run" not in err
