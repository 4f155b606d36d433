"""A worker that a host starts for itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from toolstile import ConfigurationError, Host, Settings, ToolCall
from toolstile_hookspecs import tool

from . import connected_tools, remote_tools
from .conftest import Site
from .connected_tools import Entry
from .test_calls import call, lives, until

pytestmark = pytest.mark.slow

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


def test_another_host_has_its_calls_run_there(site: Site):
    """They share the file."""
    with site.host(TOOLS, concurrency=1) as first, site.host(TOOLS) as second:
        assert call(first, "where").text == call(second, "where").text


def test_a_tool_that_no_other_process_can_import_is_named(tmp_path: Path):
    @tool
    def inner() -> None:
        """Stand in a function."""

    workers: dict[str, Any] = {"path": str(tmp_path / "calls.db"), "concurrency": 1, "runs": {}}
    with pytest.raises(ConfigurationError) as refused:
        Host(tools=[inner], settings=Settings(plugins={"workers": workers})).open()
    assert str(refused.value) == (
        "plugins.workers.concurrency: inner is not at the top level of a module that another "
        "process can import. Move it there, or leave it out of [plugins.workers.runs]."
    )
