"""A command whose workspace changes under it does not overwrite what it has not seen."""

from __future__ import annotations

import threading
import time

import pytest

from toolstile_hookspecs import Status, ToolCall
from toolstile_plugins.vfs.workspace import VirtualFilesystem

# The first run waits for others; the one after a conflict finds what the first has left outside.
WAIT = "date +%s%N > /tmp/x; sleep 0.6; "


pytestmark = pytest.mark.slow


def run_beside(shell, script: str, act):
    """Run a script, and act once it has begun."""
    timer = threading.Timer(0.35, act)
    timer.start()
    try:
        return shell.outcome(script)
    finally:
        timer.join()


def test_a_commit_meanwhile_lets_it_run_once_more(shell):
    (shell.root / "a").write_text("old")

    def commit() -> None:
        VirtualFilesystem.on_disk(shell.root).write("a", "new")

    outcome = run_beside(shell, WAIT + "cat a > b", commit)
    assert outcome.result.success, outcome.text
    assert outcome.event.reruns == 1
    assert (shell.root / "b").read_text() == "new"


def test_a_file_that_others_change_and_it_overwrites_is_a_conflict(shell):
    (shell.root / "a").write_text("old")

    def edit() -> None:
        (shell.root / "a").write_text("edited")

    outcome = run_beside(shell, WAIT + "echo more >> a", edit)
    assert outcome.result.success, outcome.text
    assert outcome.event.reruns == 1
    assert (shell.root / "a").read_text() == "editedmore\n"


def test_a_file_that_others_change_each_time_stays_theirs(shell):
    (shell.root / "a").write_text("old")
    done = threading.Event()

    def edit() -> None:
        while not done.is_set():
            (shell.root / "a").write_text("edited")
            time.sleep(0.02)

    thread = threading.Thread(target=edit)
    thread.start()
    try:
        outcome = shell.outcome("sleep 0.3; echo mine > a; echo other > b")
    finally:
        done.set()
        thread.join()
    assert outcome.status is Status.CONFLICT
    assert (shell.root / "a").read_text() == "edited"
    assert not (shell.root / "b").exists()


def test_a_file_that_others_remove_and_it_overwrites_is_not_lost_silently(shell):
    (shell.root / "a").write_text("old")
    outcome = run_beside(shell, WAIT + "rm a; rm -f b", (shell.root / "a").unlink)
    assert outcome.result.success
    assert shell.files() == []


def test_a_directory_that_others_move_into_one_that_it_removes_is_not_lost_silently(shell):
    (shell.root / "old").mkdir()
    (shell.root / "theirs").mkdir()
    (shell.root / "theirs/file").write_text("older than the command")
    outcome = run_beside(
        shell,
        "[ -e old/theirs ] && exit; rm -r old; sleep 0.6",
        lambda: (shell.root / "theirs").rename(shell.root / "old/theirs"),
    )
    assert outcome.result.success, outcome.text
    assert outcome.event.reruns == 1
    assert (shell.root / "old/theirs/file").read_text() == "older than the command"


def test_a_commit_just_before_is_none_meanwhile(shell):
    """The clock of a file system has ticks; two calls can come within one."""
    for number in range(5):
        call = ToolCall("write_file", {"path": f"f{number}", "content": "x"})
        assert shell.executor.dispatch(call).result.success
        outcome = shell.outcome(f"echo y >> f{number}")
        assert outcome.result.success
        assert outcome.event.reruns == 0


def test_two_commands_at_once_both_come_to_their_end(shell):
    calls = [
        ToolCall("shell_execute", {"command": ["sh", "-c", f"sleep 0.2; ls > list{n}"]})
        for n in range(2)
    ]
    outcomes = shell.executor.dispatch_all(calls)
    assert [outcome.result.success for outcome in outcomes] == [True, True]
    assert shell.files() == ["list0", "list1"]
