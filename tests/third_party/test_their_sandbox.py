"""A stranger's sandbox runs real programs on the call's branch; it knows the contract alone."""

from __future__ import annotations

import ast
import dataclasses
import sys
import threading
import time
from pathlib import Path

import pytest

from toolstile import Host, MarkdownSection, Prompt, Settings, Status, ToolCall

sys.path.insert(0, str(Path(__file__).parent))
import their_sandbox

PROMPT = Prompt.of("tests", "shell", [their_sandbox.section()])


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "workspace"
    root.mkdir()
    return root


@pytest.fixture
def sessions(root):
    """Two hosts on one workspace, as in two processes."""
    settings = Settings(plugins={"vfs": {"root": str(root)}})
    with (
        Host(discover=["vfs"], settings=settings) as one,
        Host(discover=["vfs"], settings=settings) as other,
        one.executor(prompt=PROMPT) as first,
        other.executor(prompt=PROMPT) as second,
    ):
        yield first, second


def run(executor, command):
    return executor.dispatch(ToolCall("shell", {"command": command}))


def wait_for(file):
    until = time.monotonic() + 60
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.005)


def test_it_imports_the_contract_alone():
    tree = ast.parse(Path(their_sandbox.__file__).read_text(encoding="utf-8"))
    named = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in named if name.startswith("toolstile")} == {"toolstile_hookspecs"}


def test_a_command_keeps_what_it_changes_and_a_failed_one_keeps_nothing(root, sessions):
    first, _ = sessions
    assert run(first, "echo one > a.txt; mkdir b; echo two > b/c.txt").success
    assert run(first, "rm a.txt; tr a-z A-Z < b/c.txt > d.txt; cat d.txt").text == "exit 0\nTWO\n"
    failed = run(first, "echo half > half.txt; exit 3")
    assert failed.status is Status.FAILED
    assert failed.text.startswith("exit 3")
    assert sorted(each.name for each in root.iterdir()) == [".toolstile", "b", "d.txt"]


def test_a_command_runs_once_more_when_another_commit_came_and_holds_the_workspace_then(
    root, sessions, tmp_path
):
    first, second = sessions
    begun, gate, runs = tmp_path / "begun", tmp_path / "gate", tmp_path / "runs"
    # It writes how many files it saw, of which none changes: a new one comes meanwhile.
    command = (
        f"n=$(ls | wc -l); echo $n > seen; echo run >> {runs}; : > {begun}; "
        f"until [ -e {gate} ]; do sleep 0.01; done; rm {gate}; cat seen"
    )
    outcomes = {}

    def dispatch():
        outcomes["first"] = run(first, command)

    def late():
        outcomes["late"] = run(second, "echo late > late.txt")

    assert run(second, "echo one > one.txt").success
    calling, coming = threading.Thread(target=dispatch), threading.Thread(target=late)
    calling.start()
    wait_for(begun)
    assert run(second, "echo two > two.txt").success
    begun.unlink()
    gate.touch()
    wait_for(begun)
    # The command runs again by now: nobody else commits until it has ended.
    coming.start()
    coming.join(0.3)
    assert not (root / "late.txt").exists()
    gate.touch()
    calling.join()
    coming.join()
    assert outcomes["first"].text == "exit 0\n2\n"
    assert outcomes["late"].success
    assert runs.read_text().splitlines() == ["run", "run"]
    assert (root / "seen").read_text() == "2\n"
    assert (root / "late.txt").read_text() == "late\n"
    assert list((root / ".toolstile").glob("watch-*")) == []


def test_nothing_is_held_while_a_person_looks_at_what_the_second_run_changed(root, sessions):
    _, second = sessions
    meanwhile = []

    def approver(request):
        meanwhile.append(run(second, f"echo {len(meanwhile)} > other.txt").status)
        return True

    section = MarkdownSection(
        key="asking",
        title="Shell",
        tools=[dataclasses.replace(their_sandbox.shell, requires_confirmation=True)],
    )
    settings = Settings(plugins={"vfs": {"root": str(root)}}, approve_diff=True)
    with (
        Host(discover=["vfs"], settings=settings) as host,
        host.executor(prompt=Prompt.of("tests", "asking", [section]), approver=approver) as first,
    ):
        outcome = run(first, "cat other.txt > seen; ls > list")
    # Each diff was another one, and the workspace has changed once more since the second.
    assert meanwhile == [Status.SUCCEEDED, Status.SUCCEEDED]
    assert outcome.status is Status.CONFLICT
    assert not (root / "seen").exists()
    assert list((root / ".toolstile").glob("watch-*")) == []
