"""A worker that a host starts for itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from toolstile import ConfigurationError, Host, Settings, ToolCall
from toolstile_hookspecs import tool
from toolstile_hookspecs.testing.dispatch_processes import PATIENCE

from . import connected_tools, remote_tools
from .conftest import Site
from .connected_tools import Entry
from .test_calls import call, lives, until

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def noting(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let handlers find their module, and where they note what they do."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parents[3])])
    monkeypatch.setenv(remote_tools.NOTES, str(site.notes))
    monkeypatch.setenv(remote_tools.SPANS, str(site.spans))


TOOLS = [remote_tools.where, connected_tools.book]


def test_handlers_run_in_processes_that_end_with_the_host(site: Site):
    with site.host(TOOLS, concurrency=2) as host:
        process = call(host, "where").result.value
        assert process not in {None, os.getpid()}
        with host.executor() as tools:
            assert tools.dispatch(ToolCall("book", {"order": 1})).text == "1"
            (entry,) = tools.session[Entry].all()
            assert entry.process != os.getpid()
    assert process is not None
    until(lambda: not lives(process))


def test_a_call_that_runs_when_its_host_closes_is_told_and_its_handler_ends(site: Site):
    host = site.host([connected_tools.look_long], concurrency=1).open()
    told: list[str] = []

    def look() -> None:
        told.append(call(host, "look_long", seconds=60).text)

    looking = Thread(target=look)
    looking.start()
    until(site.noted)
    host.close()
    looking.join(PATIENCE)
    (text,) = told
    assert text.startswith("look_long gave no result: Its host abandoned it while it ran.")
    assert not lives(int(site.noted()[0].split()[-1]))


def test_another_host_has_its_calls_run_there(site: Site):
    """They share the file."""
    with site.host(TOOLS, concurrency=1) as first, site.host(TOOLS) as second:
        assert call(first, "where").text == call(second, "where").text


@pytest.mark.parametrize("module", [__name__, "nowhere"])
def test_a_tool_that_no_other_process_can_import_is_named(tmp_path: Path, module: str):
    def in_a_function() -> None:
        """Stand in a function."""

    in_a_function.__module__ = module
    inner = tool(name="inner")(in_a_function)
    workers: dict[str, Any] = {"path": str(tmp_path / "calls.db"), "concurrency": 1, "runs": {}}
    with pytest.raises(ConfigurationError) as refused:
        Host(tools=[inner], settings=Settings(plugins={"workers": workers})).open()
    assert str(refused.value) == (
        "plugins.workers.concurrency: inner is not at the top level of a module that another "
        "process can import. Move it there, or leave it out of [plugins.workers.runs]."
    )


def test_a_module_that_opens_its_host_when_it_is_imported_is_refused(tmp_path: Path):
    """Else the processes of its host would have hosts, too, without an end."""
    (tmp_path / "opens_host.py").write_text(
        "from toolstile import Host, Settings, tool\n"
        "@tool\ndef some() -> int:\n    'Return one.'\n    return 1\n"
        "workers = {'path': 'calls.db', 'concurrency': 1, 'runs': {}}\n"
        "Host(tools=[some], settings=Settings(plugins={'workers': workers})).open()\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-c", "import opens_host"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "a module of tools opens a host when it is imported" in ended.stderr
