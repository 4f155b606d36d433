"""Transactions by hand put a workspace back, outside of calls and within one."""

from __future__ import annotations

import gc
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolstile import (
    Host,
    PendingToolTracker,
    ResourceRegistry,
    Session,
    create_snapshot,
    restore_snapshot,
    tool_transaction,
)
from toolstile.resources.container import Container
from toolstile_hookspecs import Filesystem, MarkdownSection, ToolCall, ToolContext, hookimpl, tool
from toolstile_plugins.vfs import VfsToolsSection
from toolstile_plugins.vfs.workspace import VirtualFilesystem, WorkspaceBranch

Tree = dict[str, bytes | None]


@pytest.fixture
def workspace(workspace: VirtualFilesystem) -> VirtualFilesystem:
    """A workspace with something in it."""
    workspace.write("a.txt", "one\r\n")
    workspace.write("src/b.py", "b")
    workspace.write("src/deep/c", "c")
    workspace.write_bytes("large", b"x" * (9 << 20))
    return workspace


@pytest.fixture
def resources(workspace: VirtualFilesystem) -> Iterator[Container]:
    """The resources of a session, with the workspace in use."""
    # A protocol serves as the key, which mypy does not foresee for type[T].
    with ResourceRegistry.build({Filesystem: workspace}).open() as opened:  # type: ignore[type-abstract]
        opened.get(Filesystem)  # type: ignore[type-abstract]
        yield opened


def tree(files: Filesystem) -> Tree:
    """Return all that a workspace holds."""
    return {
        each.path: files.read_bytes(each.path) if each.kind == "file" else None
        for each in files.glob("**")
    }


def change(files: Filesystem) -> None:
    """Write, replace, delete and move files and directories."""
    files.write("a.txt", "two")
    files.write("new/x/y", "n")
    files.delete("src", recursive=True)
    files.write("src", "a file now")
    files.move("large", "moved")
    files.delete("new", recursive=True)
    files.write("new", "a file now")
    files.mkdir("empty")


def fail_after_changes(files: Filesystem) -> None:
    """Change much, and fail."""
    change(files)
    raise RuntimeError


def test_a_transaction_that_fails_puts_a_workspace_back(
    workspace: VirtualFilesystem, resources: Container
) -> None:
    before = tree(workspace)
    with pytest.raises(RuntimeError), tool_transaction(Session(), resources):
        fail_after_changes(workspace)
    assert tree(workspace) == before


def test_a_transaction_that_succeeds_keeps_what_was_done(
    workspace: VirtualFilesystem, resources: Container
) -> None:
    with tool_transaction(Session(), resources):
        change(workspace)
    assert workspace.read("src") == "a file now"


def test_a_snapshot_is_put_back_as_often_as_wanted(
    workspace: VirtualFilesystem, resources: Container
) -> None:
    session, before = Session(), tree(workspace)
    first = create_snapshot(session, resources)
    workspace.write("a.txt", "between")
    second = create_snapshot(session, resources)
    between = tree(workspace)
    for _ in range(2):
        change(workspace)
        restore_snapshot(session, resources, second)
        assert tree(workspace) == between
        restore_snapshot(session, resources, first)
        assert tree(workspace) == before
    restore_snapshot(session, resources, second)
    assert tree(workspace) == between


def test_a_tool_that_is_seen_to_fail_is_put_back(
    workspace: VirtualFilesystem, resources: Container, branch_of: Callable[..., WorkspaceBranch]
) -> None:
    before = tree(workspace)
    tracker = PendingToolTracker(session=Session(), resources=resources)
    tracker.begin_tool_execution(tool_use_id="abc", tool_name="write_file")
    branch = branch_of(workspace)
    change(branch.resource)
    branch.prepare()
    branch.commit()
    assert tree(workspace) != before
    assert tracker.end_tool_execution(tool_use_id="abc", success=False)
    assert tree(workspace) == before


class TestPathSets:
    """Tools that name their files, and run beside others."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        (tmp_path / "a.txt").write_text("a")
        (tmp_path / "b.txt").write_text("b")
        return tmp_path

    @pytest.fixture
    def tracker(self, root: Path) -> Iterator[PendingToolTracker]:
        files = VirtualFilesystem.on_disk(root)
        with closing(files), ResourceRegistry.build({Filesystem: files}).open() as resources:  # type: ignore[type-abstract]
            resources.get(Filesystem)  # type: ignore[type-abstract]
            yield PendingToolTracker(session=Session(), resources=resources)

    def test_each_puts_back_its_own(self, tracker: PendingToolTracker, root: Path) -> None:
        names = {"1": ["a.txt"], "2": [str(root / "b.txt"), "new/deep/c.txt"]}
        for id_, paths in names.items():
            tracker.begin_tool_execution(tool_use_id=id_, tool_name="Write", paths=paths)
        (root / "a.txt").write_text("by 1")
        (root / "b.txt").write_text("by 2")
        (root / "new/deep").mkdir(parents=True)
        (root / "new/deep/c.txt").write_text("by 2")
        (root / "d.txt").write_text("by another")

        assert tracker.end_tool_execution(tool_use_id="2", success=False)

        assert {each.name for each in root.iterdir()} >= {"a.txt", "b.txt", "d.txt"}
        assert (root / "a.txt").read_text() == "by 1"
        assert (root / "b.txt").read_text() == "b"
        assert not (root / "new").exists()
        assert not tracker.end_tool_execution(tool_use_id="1", success=True)
        assert (root / "a.txt").read_text() == "by 1"

    def test_a_path_that_another_names_stays(self, tracker: PendingToolTracker, root: Path) -> None:
        for id_ in "12":
            tracker.begin_tool_execution(tool_use_id=id_, tool_name="Write", paths=["a.txt"])
        (root / "a.txt").write_text("by both")

        assert not tracker.end_tool_execution(tool_use_id="1", success=False)
        assert (root / "a.txt").read_text() == "by both"
        assert tracker.end_tool_execution(tool_use_id="2", success=False)
        assert (root / "a.txt").read_text() == "a"

    def test_without_a_workspace_nothing_is_put_back(self) -> None:
        resources = ResourceRegistry.build({}).open()
        tracker = PendingToolTracker(session=(session := Session()), resources=resources)
        tracker.begin_tool_execution(tool_use_id="1", tool_name="Write", paths=["a.txt"])
        session[str].append("of another tool")

        assert not tracker.end_tool_execution(tool_use_id="1", success=False)
        assert [*session[str].all()] == ["of another tool"]


def test_what_is_rolled_back_is_not_noted(
    workspace: VirtualFilesystem, branch_of: Callable[..., WorkspaceBranch]
) -> None:
    snapshot = workspace.snapshot()
    branch = branch_of(workspace)
    change(branch.resource)
    branch.prepare()
    branch.rollback()
    assert snapshot.before == {}


def test_nothing_is_noted_for_a_snapshot_that_nobody_holds(workspace: VirtualFilesystem) -> None:
    snapshot = workspace.snapshot()
    held = workspace._checkpoints._held
    assert len(held) == 1
    del snapshot
    gc.collect()
    assert len(held) == 0
    change(workspace)


def test_modes_times_and_links_come_back_and_a_fifo_is_told(
    disk: VirtualFilesystem, root: Path
) -> None:
    script, link, folder = root / "run.sh", root / "link", root / "folder"
    script.write_text("#!")
    script.chmod(0o750)
    link.symlink_to("run.sh")
    (folder / "held").mkdir(parents=True)
    folder.chmod(0o700)
    os.utime(script, ns=(1, 1_111_111_111_222_333_444))
    os.mkfifo(root / "fifo")
    snapshot = disk.snapshot()
    disk.chmod("run.sh", 0o600)
    disk.chmod("folder", 0o755)
    disk.delete("run.sh")
    disk.delete("link")
    disk.link("link", "elsewhere")
    disk.delete("fifo")
    with pytest.raises(OSError, match="fifo cannot be put back"):
        disk.restore(snapshot)
    assert script.stat().st_mode & 0o777 == 0o750
    assert script.stat().st_mtime_ns == 1_111_111_111_222_333_444
    assert script.read_text() == "#!"
    assert link.readlink() == Path("run.sh")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "held").is_dir()


def test_what_was_written_comes_back_though_another_program_has_removed_its_directory(
    disk: VirtualFilesystem, root: Path
) -> None:
    disk.write("src/deep/a.txt", "one")
    snapshot = disk.snapshot()
    disk.write("src/deep/a.txt", "two")
    shutil.rmtree(root / "src")
    disk.restore(snapshot)
    assert disk.read("src/deep/a.txt") == "one"


def test_a_file_in_the_place_of_its_directory_is_told(disk: VirtualFilesystem, root: Path) -> None:
    disk.write("src/a.txt", "one")
    snapshot = disk.snapshot()
    disk.write("src/a.txt", "two")
    shutil.rmtree(root / "src")
    (root / "src").write_text("another program's")
    with pytest.raises(NotADirectoryError, match="src is a file, not a directory"):
        disk.restore(snapshot)
    assert (root / "src").read_text() == "another program's"


def test_commits_that_meet_are_noted_in_the_order_in_which_they_were_made(
    workspace: VirtualFilesystem,
    branch_of: Callable[..., WorkspaceBranch],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshot = workspace.snapshot()
    first = branch_of(workspace)
    first.resource.write("a.txt", "first")
    first.prepare()
    assert first._transaction is not None
    second = threading.Thread(target=workspace.write, args=("a.txt", "second"))
    made = first._transaction.commit

    def slowly() -> None:
        made()
        second.start()
        second.join(0.3)

    monkeypatch.setattr(first, "_transaction", SimpleNamespace(commit=slowly))
    first.commit()
    second.join()
    assert workspace.read("a.txt") == "second"
    workspace.restore(snapshot)
    assert workspace.read("a.txt") == "one\r\n"


def test_a_commit_costs_the_same_however_much_a_snapshot_has_noted() -> None:
    workspace = VirtualFilesystem.in_memory()
    snapshot = workspace.snapshot()
    workspace.write("a.txt", "one")
    before = snapshot.before
    workspace.write("b.txt", "two")
    assert snapshot.before is before


def test_within_a_call_only_what_was_done_since_is_put_back(workspace: VirtualFilesystem) -> None:
    seen: list[Tree] = []

    @tool
    def work(*, context: ToolContext) -> str:
        """Do something, and something else that fails."""
        files = context.filesystem
        assert files is not None
        files.write("kept", "by the call")
        before = tree(files)
        with pytest.raises(RuntimeError), tool_transaction(context.session, context.resources):  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
            fail_after_changes(files)
        seen.append(before)
        assert tree(files) == before
        return "done"

    class Suite:
        @hookimpl
        def toolstile_sections(self) -> list[MarkdownSection]:
            return [
                VfsToolsSection(filesystem=workspace),
                MarkdownSection(key="suite", title="Suite", tools=[work]),
            ]

    with Host(plugins=[Suite()], discover=False) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("work")).text == "done"
    assert seen == [tree(workspace)]
    assert workspace.read("kept") == "by the call"
