"""A helper starts on demand, and may be killed, stopped or replaced at any time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.plugins.hook.hooked import Workspace

from toolstile_plugins.hook import client
from toolstile_plugins.hook.install import SCRIPT

pytestmark = pytest.mark.slow


def test_a_helper_starts_on_demand_and_stays(hooked: Workspace) -> None:
    assert hooked.helper is None
    assert hooked.bash("echo hello") == {}
    first = hooked.helper
    assert first is not None
    assert hooked.bash("echo hello") == {}
    assert hooked.helper == first
    socket = next(hooked.state.rglob("socket"))
    assert socket.stat().st_mode & 0o777 == 0o600
    assert socket.parent.stat().st_mode & 0o777 == 0o700


def test_a_dead_helper_is_replaced(hooked: Workspace) -> None:
    hooked.bash("echo hello")
    first = hooked.helper
    hooked.kill()
    assert hooked.bash("echo hello") == {}
    assert hooked.helper not in {None, first}


def test_many_hooks_at_once_start_one_helper(hooked: Workspace) -> None:
    with ThreadPoolExecutor(6) as pool:
        answers = [*pool.map(lambda number: hooked.bash(f"echo {number}"), range(6))]
    assert answers == [{}] * 6
    assert hooked.helper is not None


def test_many_hooks_at_once_start_one_helper_that_records(hooked: Workspace) -> None:
    # Only one process may write the file.
    hooked.configure(f'[plugins.record]\nfile = "{hooked.state}/calls.jsonl"\n')
    with ThreadPoolExecutor(4) as pool:
        answers = [*pool.map(lambda number: hooked.bash(f"echo {number}"), range(4))]
    assert answers == [{}] * 4


def test_a_helper_that_cannot_start_refuses_the_call(hooked: Workspace) -> None:
    hooked.configure("[[policies]]\nkind = 'no such kind'\n")
    done = hooked.send(hooked.event("PreToolUse", "Bash", arguments={"command": "true"}))
    assert (done.returncode, done.stdout) == (2, "")
    assert "no such kind" in next(hooked.state.rglob("log")).read_text()


def test_a_helper_that_stops_refuses_the_call_in_time(
    hooked: Workspace,
) -> None:
    hooked.bash("echo hello")
    process = hooked.helper
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    script = f"sh {SCRIPT} {sys.executable} claude-code 1 2 || exit 2"
    event = json.dumps(hooked.event("PreToolUse", "Bash", arguments={"command": "true"}))
    done = subprocess.run(
        ["sh", "-c", script],
        input=event,
        env=hooked.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")


def test_a_helper_that_is_killed_while_it_decides_is_replaced(hooked: Workspace) -> None:
    hooked.bash("echo hello")
    process = hooked.helper
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    killing = threading.Timer(0.5, os.kill, (process, signal.SIGKILL))
    killing.start()
    assert hooked.bash("echo hello") == {}
    assert hooked.helper != process


def test_a_folder_that_others_reach_refuses_the_call(hooked: Workspace) -> None:
    hooked.bash("echo hello")
    next(hooked.state.rglob("socket")).parent.chmod(0o755)
    done = hooked.send(hooked.event("PreToolUse", "Bash", arguments={"command": "true"}))
    assert done.returncode == 2


@pytest.mark.parametrize("how", ["variable", "option"])
def test_an_agent_starts_no_helper_with_other_rules(hooked: Workspace, how: str) -> None:
    (hooked.state / "other.toml").write_text("")
    words = ["hook", "serve"]
    if how == "variable":
        hooked.more["TOOLSTILE_BLOCK"] = "rules"
    else:
        words = ["--config", str(hooked.state / "other.toml"), *words]
    done = hooked.command(*words)
    assert done.returncode == 2
    assert "A hook starts its helper itself" in done.stderr
    assert hooked.helper is None
    # The client leaves the variables out.
    assert hooked.bash("ls") == {}


def test_an_idle_helper_ends(hooked: Workspace) -> None:
    hooked.configure("[plugins.hook]\nidle = 0.2\n")
    event = hooked.event("PreToolUse", "Bash", arguments={"command": "true"})
    hooked.decision(event)
    assert hooked.helper is not None
    hooked.decision({**event, "hook_event_name": "PostToolUse", "tool_response": {}})
    until = time.monotonic() + 15
    while hooked.helper is not None and time.monotonic() < until:
        time.sleep(0.1)
    assert hooked.helper is None
    assert hooked.bash("echo hello") == {}


def test_folders_of_workspaces_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    names = {client.folder_of(path) for path in ("/a/b", "/a%2Fb", "/a%b", "/" + "x" * 300)}
    assert len(names) == 4
    assert all(len(name) < 255 for name in names)
