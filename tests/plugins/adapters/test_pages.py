"""The tabs of the page about frameworks have one agent, which does the same in each framework."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from executing.fences import fences

from toolstile import Host
from toolstile_hookspecs import ToolInvoked

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "frameworks.md"
TABS = sorted({block.tab for block in fences(PAGE.read_text("utf-8")) if block.tab})
KEPT = {"ada.txt": "We close on Friday.", "cem.txt": "We close on Friday."}
SENT = [("c1", "send_mail", "succeeded"), ("c2", "send_mail", "succeeded")]
DENIED = [*SENT, ("c3", "erase_mail", "denied")]
ERASED = [*SENT, ("c3", "erase_mail", "pending"), ("c3", "erase_mail", "succeeded")]


def run(tab: str, folder: Path) -> list[tuple[list[tuple[str, str, str]], dict[str, str]]]:
    """Run the blocks of a tab; return the calls of each session, and the mails after it."""
    os.chdir(folder)
    opened: dict[str, list[Any]] = {}
    executor = Host.executor

    def kept(host: Host, **options: Any) -> Any:
        tools = executor(host, **options)
        opened.setdefault(tools.session.id, []).append(tools)
        return tools

    Host.executor = kept  # pyright: ignore[reportAttributeAccessIssue]
    ends: dict[str, tuple[list[tuple[str, str, str]], dict[str, str]]] = {}
    names: dict[str, Any] = {"__name__": "page"}
    for block in fences(PAGE.read_text("utf-8"), invisible=True):
        if block.language == "python" and block.tab in {None, tab}:
            exec(compile(block.text, tab, "exec"), names)
        files = {file.name: file.read_text() for file in Path("outbox").glob("*")}
        for session, hosts in opened.items():
            made = [
                (event.call.wire_id, event.tool_name.rpartition("__")[2], event.status.value)
                for tools in hosts
                for event in tools.session[ToolInvoked].all()
            ]
            if session not in ends or ends[session][0] != made:
                ends[session] = made, files
    return list(ends.values())


def test_the_page_has_a_tab_for_each_framework() -> None:
    assert TABS == ["Claude Agent SDK", "LangChain", "OpenAI Agents", "llm", "pydantic-ai"]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        # The other processes import this module, and what the pages are executed with.
        patch.setattr(sys, "path", [str(ROOT), str(ROOT / "tools"), *sys.path])
        spawning = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(len(TABS), spawning, max_tasks_per_child=1) as pool:
            running = {tab: pool.submit(run, tab, tmp_path_factory.mktemp("tab")) for tab in TABS}
            return {name: ended.result() for name, ended in running.items()}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("tab", TABS)
def test_the_same_comes_of_the_agent_in_every_framework(
    tab: str, outcomes: Mapping[str, Any]
) -> None:
    before = {**KEPT, "bob.txt": "We close on Thursday."}
    found = [end for end in outcomes[tab] if any(name != "bash" for _, name, _ in end[0])]
    assert found == [(DENIED, before), (DENIED, before), (ERASED, KEPT)]
