"""Containers of a host that was killed: told by `doctor`, removed by the next start."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.sandbox.podman.engine import containers

from toolstile_plugins.sandbox import SandboxSettings
from toolstile_plugins.sandbox.backend import backend_of

pytestmark = pytest.mark.long

Open = Callable[..., Any]

HOST = """
import json, sys
from toolstile import Host, Settings
from toolstile_hookspecs import ToolCall
with Host(settings=Settings(plugins=json.loads(sys.argv[1]))) as host, host.executor() as executor:
    executor.dispatch(ToolCall("shell_execute", {"command": ["sh", "-c", "echo x > a; sleep 60"]}))
"""


def test_a_killed_host_leaves_nothing_after_the_next_start(
    open_container: Open, image: str, options: dict[str, Any], tmp_path: Path
):
    root, scratch = tmp_path / "workspace", tmp_path / "scratch"
    sandbox = {"backend": "podman", "options": {"image": image, **options}, "scratch": str(scratch)}
    plugins = {"vfs": {"root": str(root)}, "sandbox": sandbox}
    before = set(containers())
    host = subprocess.Popen([sys.executable, "-c", HOST, json.dumps(plugins)])
    try:
        end = time.monotonic() + 30
        while not set(containers()) - before or not list(scratch.glob("*/*/upper/a")):
            assert time.monotonic() < end
            time.sleep(0.1)
    finally:
        host.send_signal(signal.SIGKILL)
        host.wait()
    (left,) = set(containers()) - before
    (told,) = (
        finding
        for finding in backend_of(SandboxSettings(**sandbox)).findings()
        if finding.subject == "containers"
    )
    assert left in told.text

    shell = open_container()

    assert set(containers()) == before
    assert [path for path in scratch.glob("*/*") if path.is_dir()] == []
    assert shell.files() == []
    assert shell("echo again").stdout == "again\n"


def test_a_container_whose_host_lives_is_no_stray(shell):
    options = {"image": "localhost/tools:1"}
    backend = backend_of(SandboxSettings(backend="podman", options=options))
    with ThreadPoolExecutor() as pool:
        running = pool.submit(shell, ["sleep", "3"])
        time.sleep(1.5)
        backend.remove_strays()
        assert running.result(timeout=30).exit_code == 0
