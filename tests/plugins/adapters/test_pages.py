"""The pages of the adapters have one agent, and the same comes of it in every framework."""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from toolstile import Host
from toolstile_hookspecs import ToolInvoked

ROOT = Path(__file__).parents[3]
PAGES = {
    page.stem: page
    for page in sorted((ROOT / "docs" / "adapters").glob("*.md"))
    if page.stem != "overview"
}
BLOCK = re.compile(
    r"^(?:```|<!-- invisible-code: )python\n(.*?)^(?:```|-->)$", re.MULTILINE | re.DOTALL
)
KEPT = {"ada.txt": "We close on Friday.", "cem.txt": "We close on Friday."}
SENT = [("c1", "send_mail", "succeeded"), ("c2", "send_mail", "succeeded")]
DENIED = [*SENT, ("c3", "erase_mail", "denied")]
ERASED = [*SENT, ("c3", "erase_mail", "pending"), ("c3", "erase_mail", "succeeded")]


def agent_of(page: str) -> str:
    """Return what all pages say of their agent."""
    text = PAGES[page].read_text("utf-8")
    return text[text.index("## The agent") : text.index("-->", text.index("TURNS = ["))]


def run(page: Path, folder: Path) -> list[tuple[list[tuple[str, str, str]], dict[str, str]]]:
    """Run the blocks of a page; return the calls of each session, and the mails after it."""
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
    for block in BLOCK.finditer(page.read_text("utf-8")):
        exec(compile(block[1], page.name, "exec"), names)
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


def test_all_pages_have_the_same_agent() -> None:
    assert len(PAGES) == 5
    assert len({agent_of(page) for page in PAGES}) == 1


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        # The other processes import this module, and what the pages are executed with.
        patch.setattr(sys, "path", [str(ROOT), str(ROOT / "tools"), *sys.path])
        spawning = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(len(PAGES), spawning, max_tasks_per_child=1) as pool:
            running = {
                name: pool.submit(run, page, tmp_path_factory.mktemp(name))
                for name, page in PAGES.items()
            }
            return {name: ended.result() for name, ended in running.items()}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_the_same_comes_of_the_agent_in_every_framework(
    page: str, outcomes: Mapping[str, Any]
) -> None:
    before = {**KEPT, "bob.txt": "We close on Thursday."}
    found = [end for end in outcomes[page] if any(name != "bash" for _, name, _ in end[0])]
    assert found == [(DENIED, before), (DENIED, before), (ERASED, KEPT)]
