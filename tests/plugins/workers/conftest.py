"""Workers of their own for tests, started with the command, and the tools that they run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import Tool
from toolstile_hookspecs.testing.dispatch_processes import PATIENCE

from . import remote_tools

HERE = Path(__file__).parent


class Site:
    """A folder with a configuration, the notes of handlers, and workers."""

    def __init__(self, folder: Path, database: str | None = None, *, lease: float = 0.6) -> None:
        self.folder = folder
        self.notes = folder / "notes.txt"
        self.spans = folder / "spans.jsonl"
        self.workers: dict[str, Any] = {"path": str(folder / "calls.db"), "lease": lease}
        self.plugins: dict[str, Any] = {}
        if database is not None:
            self.workers = {"dispatcher": "dbos", "lease": 1.5, "options": {"poll": 0.02}}
            self.plugins = {"database": {"url": database}}
        self._started: list[subprocess.Popen[Any]] = []
        text = toml({**self.plugins, "workers": self.workers})
        (folder / "toolstile.toml").write_text(text, encoding="utf-8")

    def start(
        self, concurrency: int = 1, *, tools: str = "remote_tools", within: Sequence[str] = ()
    ) -> subprocess.Popen[str]:
        """Start a worker of a module's tools; returns once it is up.

        Args:
            concurrency: How many calls run at once.
            tools: The module.
            within: The beginning of the command, as of a `Network`.
        """
        command = [*within, sys.executable, "-m", "toolstile", "worker", "--tools", tools]
        worker = subprocess.Popen(
            [*command, "--concurrency", str(concurrency)],
            cwd=self.folder,
            env=self._environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(worker)
        assert worker.stderr is not None
        assert "A worker runs" in worker.stderr.readline()
        return worker

    def start_host(self, *orders: int, seconds: float = 0, **more: Any) -> subprocess.Popen[str]:
        """Start a host in a process of its own that pays orders."""
        return self._start_host(
            [("pay", {"order": order, "seconds": seconds}) for order in orders], **more
        )

    def call(self, *calls: tuple[str, dict[str, Any]], **more: Any) -> list[str]:
        """Make calls from a host in a process of its own; returns the texts of their outcomes.

        Args:
            calls: The names of tools, and the arguments.
            more: `module` and `within`, and settings of `workers`.
        """
        host = self._start_host(calls, **more)
        told, _ = host.communicate(timeout=PATIENCE)
        assert host.returncode == 0
        texts: list[str] = json.loads(told)
        return texts

    def _start_host(
        self,
        calls: Sequence[Any],
        *,
        module: str = "remote_tools",
        within: Sequence[str] = (),
        **more: Any,
    ) -> subprocess.Popen[str]:
        given = (json.dumps(self._settings(**more)), module, json.dumps(calls))
        host = subprocess.Popen(
            [*within, sys.executable, str(HERE / "calling_host.py"), *given],
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._started.append(host)
        return host

    @property
    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join(map(str, (HERE, HERE.parents[2])))
        files = {remote_tools.NOTES: str(self.notes), remote_tools.SPANS: str(self.spans)}
        return {**os.environ, "PYTHONPATH": path, **files}

    def noted(self) -> list[str]:
        """Return the lines that handlers have noted."""
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    def host(self, tools: Sequence[Tool[Any, Any]] = remote_tools.TOOLS, **more: Any) -> Host:
        """Return a host that sends the calls of all of its tools to workers."""
        return Host(tools=tools, settings=Settings(plugins=self._settings(**more)))

    def _settings(self, **more: Any) -> dict[str, Any]:
        """Return the settings of the plugins of a host; `more` are those of `workers`."""
        ledger = {"path": str(self.folder / "ledger.db"), "backoff": 0.05}
        workers = {**self.workers, "runs": {"tools": ["*"]}, **more}
        return {"ledger": ledger, **self.plugins, "workers": workers}

    def close(self) -> None:
        """Kill the workers."""
        for worker in self._started:
            worker.kill()
            worker.communicate(timeout=PATIENCE)


def toml(plugins: dict[str, Any]) -> str:
    """Return the tables of plugins."""
    lines: list[str] = []
    for name, settings in plugins.items():
        lines.append(f"[plugins.{name}]")
        for key, value in settings.items():
            given = value.items() if isinstance(value, dict) else [(None, value)]
            # What is JSON of these is TOML, too.
            lines += [
                f"{key if part is None else f'{key}.{part}'} = {json.dumps(one)}"
                for part, one in given
            ]
    return "\n".join(lines)


@pytest.fixture
def site(tmp_path: Path) -> Generator[Site]:
    """Return a folder without a worker."""
    with closing(Site(tmp_path)) as site:
        yield site


@pytest.fixture
def dbos_site(tmp_path: Path, database: str) -> Generator[Site]:
    """Return a folder without a worker, whose calls pass through DBOS."""
    pytest.importorskip("dbos")
    with closing(Site(tmp_path, database)) as site:
        yield site


@pytest.fixture(params=["site", pytest.param("dbos_site", marks=pytest.mark.long)])
def any_site(request: pytest.FixtureRequest) -> Site:
    """Return a folder without a worker, of either dispatcher."""
    site: Site = request.getfixturevalue(request.param)
    return site


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    """Return a folder with a worker that the tests of a module share."""
    # No test ends this worker, and a busy machine may stop it for longer than a short lease.
    with closing(Site(tmp_path_factory.mktemp("worker"), lease=30)) as site:
        site.start()
        yield site


@pytest.fixture
def shared(worker: Site) -> Site:
    """Return the folder with the worker, without notes."""
    worker.notes.unlink(missing_ok=True)
    return worker
