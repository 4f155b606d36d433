"""A run that waits in one process goes on in another, in each framework."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.adapters.test_mutants import ADAPTERS

from toolstile.testing import Hosts
from toolstile_hookspecs import ApprovalAnswer, ToolCall
from toolstile_hookspecs.testing.frameworks import Scene

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
TURN = [ToolCall("erase", {"name": "a.txt"}, id="c1")]


def scene(name: str, side: str, folder: Path, hosts: Any) -> Scene:
    agent = import_module(f"tests.plugins.adapters.test_{name}").AGENT()
    options = {"approval_key": "k" * 32, "approval_spent": folder / "spent.db"}
    return Scene(agent, hosts, side == "their tools", options=options)


def begin(name: str, side: str, folder: Path) -> None:
    """Run an agent until it waits, and leave all that another process needs in a folder."""
    hosts = Hosts()
    here = scene(name, side, folder, hosts)
    with here.tools() as tools:
        run = here.run(tools, TURN)
        assert run.state is not None
        (folder / "state.json").write_text(run.state)
        (folder / "session.json").write_text(tools.session.snapshot().to_json())
    hosts.close()


@pytest.mark.parametrize("side", ["our tools", "their tools"])
@pytest.mark.parametrize("name", ADAPTERS)
def test_a_run_goes_on_in_another_process(
    name: str,
    side: str,
    toolstile_host: Hosts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = scene(name, side, tmp_path, toolstile_host)
    if not import_module(f"tests.plugins.adapters.test_{name}").SUITE.pauses:
        pytest.skip("Runs of this framework do not wait for a person.")
    # The other process imports this module.
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    first = multiprocessing.get_context("spawn").Process(target=begin, args=(name, side, tmp_path))
    first.start()
    first.join()
    assert first.exitcode == 0
    state, session = ((tmp_path / f"{each}.json").read_text() for each in ("state", "session"))
    with here.tools(session) as tools:
        answers = {"c1": ApprovalAnswer.approve()}
        run = asyncio.run(here.agent.resume(tools, [TURN], state, answers, here.functions))
    assert (run.text, run.read["c1"].text) == ("done", "Erased a.txt.")
    assert here.desk.effects == ["erased a.txt"]
