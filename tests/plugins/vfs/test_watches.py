"""A call that is watched conflicts with every commit meanwhile; no commit hinders its rerun."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from toolstile import Cancellation, Deadline, Executor, Host
from toolstile_hookspecs import (
    Binding,
    ConflictError,
    DeadlineExceededError,
    Filesystem,
    Outcome,
    PromptEvaluationError,
    Status,
    SupportsWatch,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    tool,
)
from toolstile_hookspecs.services.workspace import Watch
from toolstile_plugins.vfs.backends import base
from toolstile_plugins.vfs.backends.mounts import MountedStore
from toolstile_plugins.vfs.workspace import VirtualFilesystem, WorkspaceBranch

Branch = Callable[..., WorkspaceBranch]
Commit = Callable[[WorkspaceBranch], None]
Open = Callable[..., VirtualFilesystem]

DRIVER = Path(__file__).with_name("watch_driver.py")
MOMENT = 0.3
"""Seconds in which another call would have ended, were it not kept waiting."""


def watches_in(root: Path) -> list[str]:
    return [each.name for each in (root / ".toolstile").glob("watch-*")]


def is_free(workspace: VirtualFilesystem) -> bool:
    hold = workspace.store.try_hold()
    if hold is not None:
        hold.release()
    return hold is not None


def watch_of(context: ToolContext) -> Watch:
    assert isinstance(context.filesystem, SupportsWatch)
    return context.filesystem.watch()


class TestABranchThatIsWatched:
    def test_conflicts_with_a_commit_of_what_it_never_looked_at(
        self, workspace: VirtualFilesystem, branch_of: Branch
    ) -> None:
        branch = branch_of(workspace)
        watch = branch.resource.watch()
        branch.resource.write("own.txt", "one")
        assert not watch.marked
        workspace.write("other.txt", "two")
        assert watch.marked
        with pytest.raises(ConflictError, match=r"while a program of this call read it.*retry"):
            branch.prepare()
        branch.rollback()
        assert [each.path for each in workspace.list()] == ["other.txt"]

    def test_conflicts_though_it_has_neither_read_nor_written_anything(
        self, workspace: VirtualFilesystem, branch_of: Branch
    ) -> None:
        branch = branch_of(workspace)
        branch.resource.watch()
        workspace.write("other.txt", "two")
        with pytest.raises(ConflictError):
            branch.prepare()
        branch.rollback()

    def test_does_not_conflict_with_its_own_commit(
        self, workspace: VirtualFilesystem, branch_of: Branch, commit: Commit
    ) -> None:
        branch = branch_of(workspace)
        watch = branch.resource.watch()
        branch.resource.write("own.txt", "one")
        commit(branch)
        workspace.write("other.txt", "two")
        assert not watch.marked

    def test_does_not_conflict_with_calls_that_change_nothing_or_come_to_nothing(
        self, workspace: VirtualFilesystem, branch_of: Branch, commit: Commit
    ) -> None:
        workspace.write("a.txt", "one")
        workspace.write("b.txt", "one")
        watched = branch_of(workspace)
        watch = watched.resource.watch()
        reading, failing = branch_of(workspace), branch_of(workspace)
        assert reading.resource.read("a.txt") == reading.resource.read("b.txt")
        commit(reading)
        failing.resource.write("a.txt", "two")
        failing.prepare()
        failing.rollback()
        assert not watch.marked
        watched.rollback()

    def test_makes_the_call_around_it_a_watched_one(
        self, workspace: VirtualFilesystem, branch_of: Branch, commit: Commit
    ) -> None:
        outer = branch_of(workspace)
        inner = branch_of(workspace, outer)
        inner.resource.watch()
        commit(inner)
        workspace.write("other.txt", "two")
        with pytest.raises(ConflictError):
            outer.prepare()
        outer.rollback()

    def test_leaves_the_call_around_it_alone_when_it_fails(
        self, workspace: VirtualFilesystem, branch_of: Branch, commit: Commit
    ) -> None:
        outer = branch_of(workspace)
        inner = branch_of(workspace, outer)
        inner.resource.watch()
        inner.rollback()
        workspace.write("other.txt", "two")
        outer.resource.write("own.txt", "one")
        commit(outer)

    def test_works_over_mounts(
        self, workspace: VirtualFilesystem, branch_of: Branch, commit: Commit
    ) -> None:
        mounted = VirtualFilesystem(MountedStore(workspace.store))
        branch = branch_of(mounted)
        branch.resource.watch()
        workspace.write("other.txt", "two")
        with pytest.raises(ConflictError):
            branch.prepare()
        branch.rollback()

    def test_conflicts_with_a_program_that_was_given_the_real_directory(
        self, disk: VirtualFilesystem, branch_of: Branch
    ) -> None:
        branch = branch_of(disk)
        watch = branch.resource.watch()
        with disk.exclusive_path():
            pass
        assert watch.marked
        branch.rollback()

    def test_is_watched_from_the_end_of_a_commit_that_is_under_way(
        self, disk: VirtualFilesystem, branch_of: Branch
    ) -> None:
        first = branch_of(disk)
        first.resource.write("a.txt", "one")
        first.prepare()
        found: list[bool] = []
        branch = branch_of(disk)

        def watch() -> None:
            found.append(branch.resource.watch().marked)

        thread = threading.Thread(target=watch)
        thread.start()
        thread.join(MOMENT)
        assert found == []
        first.commit()
        thread.join()
        assert found == [False]
        branch.rollback()

    def test_leaves_no_file_behind_on_any_end(
        self, disk: VirtualFilesystem, root: Path, branch_of: Branch, commit: Commit
    ) -> None:
        kept, dropped, marked = branch_of(disk), branch_of(disk), branch_of(disk)
        for branch in (kept, dropped, marked):
            branch.resource.watch()
        assert len(watches_in(root)) == 3
        dropped.rollback()
        kept.resource.write("a.txt", "one")
        commit(kept)
        marked.rollback()
        assert watches_in(root) == []

    def test_leaves_no_descriptor_open(self, disk: VirtualFilesystem, branch_of: Branch) -> None:
        before = len(list(Path("/proc/self/fd").iterdir()))
        for marked in (False, True):
            branch = branch_of(disk)
            branch.resource.watch()
            if marked:
                disk.write("a.txt", "one")
            branch.rollback()
        assert len(list(Path("/proc/self/fd").iterdir())) == before


# --- Calls


@contextmanager
def session_on(workspace: VirtualFilesystem, *tools: Tool[..., ...]) -> Iterator[Executor]:  # type: ignore[misc]
    with (
        Host(discover=False, tools=tools) as host,
        host.executor(resources=(Binding.instance(Filesystem, workspace),)) as executor,
    ):
        yield executor


@tool(contained=True)
def count(*, context: ToolContext) -> int:
    """Add one to the number."""
    files = context.filesystem
    assert files is not None
    number = int(files.read("n")) + 1
    files.write("n", str(number))
    return number


@pytest.fixture(params=["sync", "async"])
def dispatch(request: pytest.FixtureRequest) -> Callable[..., Outcome]:
    def made(executor: Executor, call: ToolCall) -> Outcome:
        if request.param == "sync":
            return executor.dispatch(call)
        return asyncio.run(executor.adispatch(call))

    return made


class Rival:
    """Another session, which makes a call each time that the first one has read."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.outcomes: list[Outcome] = []
        self.threads: list[threading.Thread] = []

    def comes(self) -> None:
        def call() -> None:
            self.outcomes.append(self.executor.dispatch(ToolCall("count")))

        thread = threading.Thread(target=call)
        self.threads.append(thread)
        thread.start()
        thread.join(MOMENT)

    def ended(self) -> list[Status]:
        for thread in self.threads:
            thread.join()
        return [each.status for each in self.outcomes]


@pytest.mark.parametrize("unseen", [False, True])
def test_two_sessions_in_a_row_of_conflicts_both_succeed(
    workspace: VirtualFilesystem, dispatch: Callable[..., Outcome], *, unseen: bool
) -> None:
    @tool(contained=True)
    def slow(*, context: ToolContext) -> str:
        """Add one to the number, or only note it where it is read unseen."""
        files = context.filesystem
        assert files is not None
        if unseen:
            watch_of(context)
            number = workspace.read("n")
            rival.comes()
            files.write("seen", number)
            return number
        number = files.read("n")
        rival.comes()
        files.write("n", str(int(number) + 1))
        return number

    workspace.write("n", "0")
    with session_on(workspace, slow) as first, session_on(workspace, count) as second:
        rival = Rival(second)
        outcome = dispatch(first, ToolCall("slow"))
        assert outcome.text == "1"
        assert rival.ended() == [Status.SUCCEEDED, Status.SUCCEEDED]
    assert workspace.read("n") == ("2" if unseen else "3")
    assert is_free(workspace)


def test_a_nested_call_of_the_rerun_uses_what_is_held(
    workspace: VirtualFilesystem, dispatch: Callable[..., Outcome]
) -> None:
    @tool(contained=True)
    def inner(*, context: ToolContext) -> str:
        """Read what is there unseen."""
        watch_of(context)
        number = workspace.read("n")
        rival.comes()
        return number

    @tool(contained=True)
    def outer(*, context: ToolContext) -> str:
        """Have another call read."""
        assert context.filesystem is not None
        before = context.filesystem.read("n")
        context.filesystem.write("told", context.call("inner").text)
        return before

    workspace.write("n", "0")
    with session_on(workspace, inner, outer) as first, session_on(workspace, count) as second:
        rival = Rival(second)
        outcome = dispatch(first, ToolCall("outer"))
        assert outcome.success, outcome.text
        ended = rival.ended()
        assert set(ended) == {Status.SUCCEEDED}
    assert workspace.read("n") == str(len(ended))
    assert workspace.read("told") == outcome.text


@pytest.mark.parametrize("end", ["raise", "fail", "time out", "cancel", "go without", "start"])
def test_what_was_held_is_given_back_on_each_end(
    disk: VirtualFilesystem, dispatch: Callable[..., Outcome], end: str
) -> None:
    runs: list[bool] = []
    cancellation = Cancellation()
    given_up = threading.Event()

    @tool(contained=True, timeout=0.5 if end == "time out" else None)
    def conflicting(*, context: ToolContext) -> ToolResult[str]:
        """Conflict once, then end in some way."""
        runs.append(is_free(disk))
        files = context.filesystem
        if len(runs) == 1:
            assert files is not None
            files.write("log", files.read("n"))
            disk.write("n", "1")
            return ToolResult.ok("")
        if end == "go without":
            return ToolResult.ok("")
        assert files is not None
        files.read("n")
        if end == "raise":
            raise RuntimeError(end)
        if end == "start":
            with files.exclusive_path():
                return ToolResult.ok("")
        if end in {"time out", "cancel"}:
            if end == "cancel":
                cancellation.cancel()
            given_up.wait()
        return ToolResult.error(end)

    disk.write("n", "0")
    with (
        Host(discover=False, tools=[conflicting]) as host,
        host.executor(resources=(Binding.instance(Filesystem, disk),)) as executor,
    ):
        outcome = dispatch(executor, ToolCall("conflicting", cancellation=cancellation))
        assert outcome.success == (end in {"go without", "start"}), outcome.text
        assert runs == [True, False]
        assert is_free(disk)
        given_up.set()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("end", ["interrupt", "close"])
def test_what_was_held_is_given_back_where_the_host_or_a_person_ends_the_call(
    disk: VirtualFilesystem, end: str
) -> None:
    runs: list[bool] = []
    is_here, ended = threading.Event(), threading.Event()

    @tool(contained=True)
    def conflicting(*, context: ToolContext) -> str:
        """Conflict once, then be ended from outside."""
        runs.append(is_free(disk))
        files = context.filesystem
        assert files is not None
        files.write("log", files.read("n"))
        if len(runs) == 1:
            disk.write("n", "1")
            return ""
        if end == "interrupt":
            raise KeyboardInterrupt
        is_here.set()
        ended.wait()
        return ""

    def close() -> None:
        is_here.wait()
        executor.close()

    disk.write("n", "0")
    with session_on(disk, conflicting) as executor:
        closing = threading.Thread(target=close)
        if end == "close":
            closing.start()
            executor.dispatch(ToolCall("conflicting", deadline=Deadline.after(60)))
            closing.join()
        else:
            with pytest.raises(KeyboardInterrupt):
                executor.dispatch(ToolCall("conflicting"))
        assert runs == [True, False]
        assert is_free(disk)
        ended.set()
    assert not disk.exists("log")


# --- Waiting


def test_a_call_that_is_given_up_while_it_waits_to_run_again_holds_nothing(
    workspace: VirtualFilesystem, dispatch: Callable[..., Outcome]
) -> None:
    cancellation = Cancellation()
    holds: list[base.Lock | None] = []

    @tool(contained=True)
    def conflicting(*, context: ToolContext) -> str:
        """Find that what was read has changed, when another one holds the workspace."""
        files = context.filesystem
        assert files is not None
        before = files.read("n")
        workspace.write("n", before + "1")
        holds.append(workspace.store.try_hold())
        timer.start()
        return files.read("n")

    workspace.write("n", "0")
    timer = threading.Timer(MOMENT, cancellation.cancel)
    with session_on(workspace, conflicting) as executor:
        outcome = dispatch(executor, ToolCall("conflicting", cancellation=cancellation))
        assert outcome.status is Status.CANCELLED
        timer.join()
        [hold] = holds
        assert hold is not None
        hold.release()
        assert is_free(workspace)


def test_a_call_waits_up_to_its_deadline_and_no_longer(
    workspace: VirtualFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "PATIENCE_SECONDS", 0.01)
    workspace.write("n", "0")
    hold = workspace.store.try_hold()
    assert hold is not None
    with session_on(workspace, count) as executor:
        soon = ToolCall("count", deadline=Deadline.after(MOMENT))
        with pytest.raises(PromptEvaluationError, match="deadline"):
            executor.dispatch(soon)
        assert executor.dispatch(ToolCall("count")).status is not Status.SUCCEEDED
        timer = threading.Timer(MOMENT, hold.release)
        timer.start()
        patient = ToolCall("count", deadline=Deadline.after(60))
        assert executor.dispatch(patient).success
        timer.join()


def test_a_watch_waits_up_to_the_deadline_and_no_longer(disk: VirtualFilesystem) -> None:
    branch = disk.branch(ToolContext(session=None, deadline=Deadline.after(0.1)), None)
    hold = disk.store.try_hold()
    assert hold is not None
    with pytest.raises(DeadlineExceededError, match=r"held the workspace.*Retry later"):
        branch.resource.watch()
    hold.release()
    branch.rollback()


# --- Other processes


@contextmanager
def process(root: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, DRIVER, root, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def said(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


def go_on(started: subprocess.Popen[str]) -> None:
    assert started.stdin is not None
    started.stdin.write("\n")
    started.stdin.flush()


def test_a_watch_is_seen_by_commits_of_another_process(disk: VirtualFilesystem, root: Path) -> None:
    with process(root, "watch") as other:
        assert said(other) == "watching"
        disk.write("a.txt", "one")
        go_on(other)
        assert said(other) == "marked, then ConflictError"


@pytest.mark.slow
def test_a_call_of_another_process_runs_again_and_keeps_commits_here_waiting(
    disk: VirtualFilesystem, root: Path
) -> None:
    disk.write("n", "0")
    with process(root, "call") as other:
        assert said(other) == "read 0"
        disk.write("n", "10")
        go_on(other)
        assert said(other) == "read 10"
        late = threading.Thread(target=disk.write, args=("late.txt", "one"))
        late.start()
        late.join(MOMENT)
        assert not (root / "late.txt").exists()
        go_on(other)
        assert said(other) == "succeeded"
        late.join()
    assert disk.read("n") == "11"
    assert disk.read("late.txt") == "one"


@pytest.mark.slow
def test_two_processes_lose_nothing_and_neither_ends_in_conflict(
    disk: VirtualFilesystem, root: Path
) -> None:
    disk.write("n", "0")
    with process(root, "count", "8", "0.05") as slow, process(root, "count", "60", "0.01") as fast:
        assert said(slow) == "succeeded"
        assert said(fast) == "succeeded"
    assert disk.read("n") == "68"


def test_a_watcher_that_was_killed_hinders_nobody(
    root: Path, on_disk: Open, branch_of: Branch
) -> None:
    with process(root, "watch") as other:
        assert said(other) == "watching"
        other.kill()
    assert len(watches_in(root)) == 1
    files = on_disk(root)
    branch = branch_of(files)
    watch = branch.resource.watch()
    # Its own alone: what was left is gone.
    assert len(watches_in(root)) == 1
    on_disk(root)
    # One that lives is left alone.
    assert not watch.marked
    files.write("a.txt", "one")
    assert watches_in(root) == []
    branch.rollback()


def test_a_call_that_was_killed_while_it_held_the_workspace_hinders_nobody(
    disk: VirtualFilesystem, root: Path
) -> None:
    disk.write("n", "0")
    with process(root, "call") as other:
        said(other)
        disk.write("n", "10")
        go_on(other)
        assert said(other) == "read 10"
        assert not is_free(disk)
        other.kill()
        other.wait()
        deadline = time.monotonic() + 60
        while not is_free(disk) and time.monotonic() < deadline:
            time.sleep(0.01)
    disk.write("n", "11")
    assert disk.read("n") == "11"
