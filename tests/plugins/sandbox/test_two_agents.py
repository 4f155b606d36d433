"""A second agent commits while a command runs: a file that was read, and one that it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.sandbox.second_agent import second_agent

from toolstile import Host, Settings
from toolstile_hookspecs import Outcome, Status, ToolCall

pytestmark = pytest.mark.slow

Tools = Any
WAIT = "; grep -q two seen.txt || sleep 3"
"""The first run of a command lasts until the other agent has committed."""


@pytest.fixture
def open_host(tmp_path: Path) -> Iterator[Callable[..., Host]]:
    (tmp_path / "project").mkdir()
    with ExitStack() as stack:

        def open_(**sandbox: Any) -> Host:
            sandbox["scratch"] = str(tmp_path / "scratch")
            plugins = {"vfs": {"root": str(tmp_path / "project")}, "sandbox": sandbox}
            return stack.enter_context(Host(settings=Settings(plugins=plugins)))

        yield open_


def run(tools: Tools, script: str) -> Outcome:
    return tools.dispatch(ToolCall("shell_execute", {"command": ["sh", "-c", script]}))


@pytest.mark.parametrize(
    ("script", "kept"),
    [
        (f"cat notes.txt > seen.txt{WAIT}", {"notes.txt": "two\n", "seen.txt": "two\n"}),
        (
            f"cp notes.txt seen.txt; echo three >> notes.txt{WAIT}",
            {"notes.txt": "two\nthree\n", "seen.txt": "two\n"},
        ),
        (f"mv notes.txt seen.txt{WAIT}", {"seen.txt": "two\n"}),
    ],
    ids=["read", "written", "removed"],
)
@pytest.mark.much_alike(3)
def test_the_command_runs_once_more_over_what_the_other_has_kept(open_host, tmp_path, script, kept):
    (tmp_path / "project/notes.txt").write_text("one\n")
    host = open_host()
    with (
        host.executor() as tools,
        second_agent(host, tmp_path / "scratch", "seen.txt", {"notes.txt": "two\n"}),
    ):
        outcome = run(tools, script)
    assert outcome.success, outcome.text
    project = tmp_path / "project"
    assert outcome.event.reruns == 1
    assert {path.name: path.read_text() for path in project.glob("[!.]*")} == kept


def test_a_command_that_nothing_contains_ends_in_conflict(open_host, tmp_path):
    (tmp_path / "project/notes.txt").write_text("one\n")
    host = open_host(backend="none")
    with (
        host.executor() as tools,
        second_agent(host, tmp_path / "scratch", "seen.txt", {"notes.txt": "two\n"}),
    ):
        outcome = run(tools, f"cat notes.txt > seen.txt{WAIT}")
    assert outcome.status is Status.CONFLICT
    assert [path.name for path in (tmp_path / "project").glob("[!.]*")] == ["notes.txt"]
    assert (tmp_path / "project/notes.txt").read_text() == "two\n"


@pytest.mark.long
def test_commands_of_one_batch_leave_what_they_leave_one_after_the_other(open_host, tmp_path):
    number = tmp_path / "project/number"
    number.write_text("0\n")
    script = "n=$(cat number); sleep 0.2; echo $((n + 1)) > number"
    calls = [ToolCall("shell_execute", {"command": ["sh", "-c", script]}) for _ in range(5)]
    with open_host().executor() as tools:
        outcomes = tools.dispatch_all(calls)
    assert [outcome.text for outcome in outcomes if not outcome.success] == []
    assert number.read_text() == "5\n"
