"""Recorded sessions, and calls without a host: what the tests of this package share."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from toolstile_bfcl.backends import Backends
from toolstile_bfcl.tools import tools_of

from toolstile_hookspecs import ToolContext


@dataclass(frozen=True)
class OneResource:
    """The resources of a call that uses nothing but the backends."""

    branch: Backends

    def get(self, kind):
        assert kind is Backends
        return self.branch


def find_data() -> Path | None:
    """The folder of the recorded sessions, if it is there."""
    named = os.environ.get("TOOLSTILE_BFCL_DATA")
    return Path(named) if named and Path(named, "sessions.jsonl").is_file() else None


@pytest.fixture(scope="session")
def sessions():
    """All recorded sessions."""
    folder = find_data()
    if folder is None:
        pytest.skip("TOOLSTILE_BFCL_DATA does not name the folder of sessions.jsonl")
    with (folder / "sessions.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="session")
def tools():
    """Tools by wire name, of the suites named."""

    def find(*suites):
        return {tool.wire_name: tool for suite in suites for tool in tools_of(suite)}

    return find


@pytest.fixture(scope="session")
def run():
    """Runs a tool on a branch, as the host would, without committing."""

    def call(tool, arguments, branch):
        context = ToolContext(session=None, resources=OneResource(branch))
        return tool.handler(tool.parse(arguments), context=context)

    return call
