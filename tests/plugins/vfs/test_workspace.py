"""Calls on a workspace: isolated, all or nothing, nested, and over when they are over."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable
from hashlib import sha256

import pytest

from toolstile_hookspecs import CallClosed, ConflictError, ResourceBusyError, StateError
from toolstile_plugins.vfs.backends import base as turns
from toolstile_plugins.vfs.workspace import VirtualFilesystem, WorkspaceBranch

Branch = Callable[..., WorkspaceBranch]
Commit = Callable[[WorkspaceBranch], None]


class TestABranch:
    def test_is_seen_by_nobody_before_it_is_committed(
        self, workspace: VirtualFilesystem, branch_of: Branch, commit: Commit
    ) -> None:
        workspace.write("a.txt", "one")
        branch, other = branch_of(workspace), branch_of(workspace)
        branch.resource.write("a.txt", "two")
        branch.resource.write("d/b.txt", "new")
        assert workspace.read("a.txt") == "one"
        assert other.resource.read("a.txt") == "one"
        assert not other.resource.exists("d")
        commit(branch)
        assert workspace.read("a.txt") == "two"
        assert workspace.read("d/b.txt") == "new"

    @pytest.mark.parametrize("prepared", [True, False])
    def test_rolled_back_leaves_no_trace(
        self, workspace: VirtualFilesystem, branch_of: Branch, *, prepared: bool
    ) -> None:
        workspace.write("a.txt", "one")
        branch = branch_of(workspace)
        branch.resource.write("a.txt", "two")
        branch.resource.delete("a.txt")
        branch.resource.write("d/b.txt", "new")
        if prepared:
            branch.prepare()
        branch.rollback()
        assert [each.path for each in workspace.glob("**")] == ["a.txt"]
        assert workspace.read("a.txt") == "one"
        workspace.write("a.txt", "the next one is not kept waiting")

    @pytest.mark.parametrize("end", ["commit", "rollback"])
    def test_cannot_be_used_when_it_is_over(
        self, workspace: VirtualFilesystem, branch_of: Branch, end: str
    ) -> None:
        branch = branch_of(workspace)
        files = branch.resource
        files.write("a.txt", "one")
        stream = files.open("b.txt", "wb")
        branch.prepare()
        getattr(branch, end)()
        for use in (
            lambda: files.read("a.txt"),
            lambda: files.write("a.txt", "late"),
            lambda: files.exists("a.txt"),
            files.list,
            lambda: list(files.glob("*")),
            lambda: files.mkdir("d"),
            stream.close,
        ):
            with pytest.raises(CallClosed):
                use()
        assert workspace.exists("a.txt") == (end == "commit")
        assert not workspace.exists("b.txt")

    def test_that_only_reads_changes_nothing(
        self, workspace: VirtualFilesystem, branch_of: Branch, commit: Commit
    ) -> None:
        workspace.write("a.txt", "one")
        before = workspace.stat("a.txt")
        branch = branch_of(workspace)
        branch.resource.read("a.txt")
        list(branch.resource.search("one"))
        assert not branch.changed
        assert branch.diff() == ""
        commit(branch)
        assert workspace.stat("a.txt") == before


class TestConflicts:
    @pytest.fixture
    def pair(
        self, workspace: VirtualFilesystem, branch_of: Branch
    ) -> tuple[WorkspaceBranch, WorkspaceBranch]:
        workspace.write("a.txt", "one")
        workspace.write("b.txt", "one")
        workspace.write("d/c.txt", "one")
        return branch_of(workspace), branch_of(workspace)

    @pytest.mark.parametrize(
        ("look", "change"),
        [
            (lambda fs: fs.read("a.txt"), lambda fs: fs.write("a.txt", "two")),
            (lambda fs: fs.read("a.txt"), lambda fs: fs.delete("a.txt")),
            (lambda fs: fs.stat("a.txt"), lambda fs: fs.write("a.txt", "two")),
            (lambda fs: fs.exists("new"), lambda fs: fs.write("new", "two")),
            (lambda fs: fs.exists("new/x"), lambda fs: fs.write("new/x", "two")),
            (lambda fs: fs.write("a.txt", "mine"), lambda fs: fs.write("a.txt", "two")),
            (lambda fs: fs.write("new", "mine"), lambda fs: fs.write("new", "two")),
            (lambda fs: fs.write("d/new", "mine"), lambda fs: fs.delete("d", recursive=True)),
            (lambda fs: fs.delete("d", recursive=True), lambda fs: fs.write("d/new", "two")),
            (lambda fs: fs.delete("d", recursive=True), lambda fs: fs.write("d/c.txt", "two")),
            (lambda fs: fs.move("a.txt", "m"), lambda fs: fs.write("a.txt", "two")),
            (lambda fs: fs.copy("a.txt", "m"), lambda fs: fs.write("a.txt", "two")),
            (lambda fs: fs.open("a.txt").close(), lambda fs: fs.move("a.txt", "m")),
            (lambda fs: fs.mkdir("new"), lambda fs: fs.write("new", "a file")),
        ],
    )
    def test_with_what_another_has_changed(
        self,
        workspace: VirtualFilesystem,
        pair: tuple[WorkspaceBranch, WorkspaceBranch],
        commit: Commit,
        look: Callable[..., object],
        change: Callable[..., object],
    ) -> None:
        first, second = pair
        look(first.resource)
        first.resource.write("result.txt", "of the first")
        change(second.resource)
        commit(second)
        after = {each.path: each.size for each in workspace.glob("**")}
        with pytest.raises(ConflictError, match="retry"):
            first.prepare()
        first.rollback()
        assert {each.path: each.size for each in workspace.glob("**")} == after

    @pytest.mark.parametrize(
        "scan",
        [
            lambda fs: fs.list("d"),
            lambda fs: list(fs.glob("**")),
            lambda fs: list(fs.search("one")),
            lambda fs: fs.read("b.txt"),
            lambda fs: fs.write("d/mine", "x"),
        ],
    )
    def test_not_with_what_was_only_passed_by(
        self,
        workspace: VirtualFilesystem,
        pair: tuple[WorkspaceBranch, WorkspaceBranch],
        commit: Commit,
        scan: Callable[..., object],
    ) -> None:
        first, second = pair
        scan(first.resource)
        second.resource.write("a.txt", "two")
        second.resource.write("d/new", "two")
        commit(second)
        commit(first)
        assert [workspace.read(each) for each in ("a.txt", "d/new")] == ["two", "two"]

    def test_that_are_seen_at_once(
        self, pair: tuple[WorkspaceBranch, WorkspaceBranch], commit: Commit
    ) -> None:
        first, second = pair
        first.resource.read("a.txt")
        second.resource.write("a.txt", "two")
        commit(second)
        with pytest.raises(ConflictError, match=r"a\.txt"):
            first.resource.read("a.txt")


class TestNestedCalls:
    def test_commit_into_the_call_around(
        self, workspace: VirtualFilesystem, branch_of: Branch, commit: Commit
    ) -> None:
        outer = branch_of(workspace)
        outer.resource.write("a.txt", "of the outer")
        inner = branch_of(workspace, outer)
        assert inner.resource.read("a.txt") == "of the outer"
        inner.resource.write("a.txt", "of the inner")
        inner.resource.write("d/b.txt", "new")
        assert outer.resource.read("a.txt") == "of the outer"
        commit(inner)
        assert outer.resource.read("a.txt") == "of the inner"
        assert not workspace.exists("a.txt")
        commit(outer)
        assert workspace.read("d/b.txt") == "new"

    def test_rolled_back_leave_the_call_around_as_it_was(
        self, workspace: VirtualFilesystem, branch_of: Branch, commit: Commit
    ) -> None:
        workspace.write("a.txt", "one")
        outer = branch_of(workspace)
        outer.resource.write("b.txt", "of the outer")
        inner = branch_of(workspace, outer)
        inner.resource.delete("a.txt")
        inner.resource.write("b.txt", "of the inner")
        inner.rollback()
        assert outer.resource.read("b.txt") == "of the outer"
        commit(outer)
        assert workspace.read("a.txt") == "one"

    def test_side_by_side_conflict_with_each_other(
        self, workspace: VirtualFilesystem, branch_of: Branch, commit: Commit
    ) -> None:
        outer = branch_of(workspace)
        outer.resource.write("count", "0")
        first, second = branch_of(workspace, outer), branch_of(workspace, outer)
        for inner in (first, second):
            inner.resource.write("count", str(int(inner.resource.read("count")) + 1))
        commit(first)
        with pytest.raises(ConflictError, match="count"):
            second.prepare()
        second.rollback()
        commit(outer)
        assert workspace.read("count") == "1"

    def test_deep_down(
        self, workspace: VirtualFilesystem, branch_of: Branch, commit: Commit
    ) -> None:
        workspace.write("n", "0")
        chain = [branch_of(workspace)]
        for _ in range(20):
            chain[-1].resource.write("n", str(int(chain[-1].resource.read("n")) + 1))
            chain.append(branch_of(workspace, chain[-1]))
        while chain:
            commit(chain.pop())
        assert workspace.read("n") == "20"

    def test_what_they_read_is_checked_with_the_call_around(
        self, workspace: VirtualFilesystem, branch_of: Branch, commit: Commit
    ) -> None:
        workspace.write("a.txt", "one")
        outer = branch_of(workspace)
        inner = branch_of(workspace, outer)
        inner.resource.write("b.txt", inner.resource.read("a.txt"))
        commit(inner)
        workspace.write("a.txt", "two")
        with pytest.raises(ConflictError, match=r"a\.txt"):
            outer.prepare()


class TestTurns:
    def test_a_second_commit_waits_for_the_first(
        self, workspace: VirtualFilesystem, branch_of: Branch
    ) -> None:
        first, second = branch_of(workspace), branch_of(workspace)
        first.resource.write("a.txt", "one")
        second.resource.write("b.txt", "two")
        assert first.prepare() is None
        waiting = second.prepare()
        assert waiting is not None
        threading.Timer(0.05, first.commit).start()
        asyncio.run(asyncio.wait_for(waiting, 5))  # type: ignore[arg-type]
        second.commit()
        assert [each.path for each in workspace.list()] == ["a.txt", "b.txt"]

    def test_nobody_waits_for_ever(
        self,
        workspace: VirtualFilesystem,
        branch_of: Branch,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(turns, "PATIENCE_SECONDS", 0.05)
        first = branch_of(workspace)
        first.resource.write("a.txt", "one")
        first.prepare()
        with pytest.raises(ResourceBusyError, match="Retry later"):
            workspace.write("b.txt", "two")
        first.commit()
        assert not workspace.exists("b.txt")

    def test_threads_lose_nothing(self, workspace: VirtualFilesystem, branch_of: Branch) -> None:
        workspace.write("count", "0")
        conflicts: list[int] = []

        def work() -> None:
            done = 0
            while done < 25:
                branch = branch_of(workspace)
                try:
                    files = branch.resource
                    files.write("count", str(int(files.read("count")) + 1))
                    branch.prepare_waiting()
                except ConflictError:
                    conflicts.append(1)
                    branch.rollback()
                else:
                    branch.commit()
                    done += 1

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert workspace.read("count") == "100"


class TestExclusivePath:
    def test_keeps_commits_out(
        self, disk: VirtualFilesystem, branch_of: Branch, commit: Commit
    ) -> None:
        branch = branch_of(disk)
        with branch_of(disk).resource.exclusive_path():
            branch.resource.write("a.txt", "one")
            waiting = branch.prepare()
            assert waiting is not None
        asyncio.run(waiting)  # type: ignore[arg-type]
        branch.commit()
        assert disk.read("a.txt") == "one"

    def test_what_the_program_changes_is_no_conflict_of_its_call(
        self, disk: VirtualFilesystem, branch_of: Branch, commit: Commit
    ) -> None:
        from pathlib import Path

        disk.write("a.txt", "one")
        branch = branch_of(disk)
        assert branch.resource.read("a.txt") == "one"
        with branch.resource.exclusive_path() as path:
            (Path(path) / "a.txt").write_text("by the program")
        branch.resource.write("a.txt", branch.resource.read("a.txt").upper())
        commit(branch)
        assert disk.read("a.txt") == "BY THE PROGRAM"

    def test_is_refused_after_changes_of_this_call_or_one_around(
        self, disk: VirtualFilesystem, branch_of: Branch
    ) -> None:
        outer = branch_of(disk)
        outer.resource.write("a.txt", "one")
        inner = branch_of(disk, outer)
        for files in (outer.resource, inner.resource):
            with pytest.raises(StateError, match="one call"), files.exclusive_path():
                pass

    def test_there_is_none_in_memory(self) -> None:
        with pytest.raises(io.UnsupportedOperation, match="memory"):
            VirtualFilesystem.in_memory().exclusive_path()


class TestDiff:
    def test_shows_what_a_call_has_changed(
        self, workspace: VirtualFilesystem, branch_of: Branch
    ) -> None:
        workspace.write("edit.txt", "one\ntwo\nthree\n")
        workspace.write("end.txt", "no newline")
        workspace.write("gone.txt", "12345")
        workspace.write("old/name.txt", "moved")
        workspace.write_bytes("binary", b"\0\1")
        branch = branch_of(workspace)
        files = branch.resource
        files.write("edit.txt", "one\nTWO\nthree\n")
        files.write("end.txt", "no newline\nbut now")
        files.delete("gone.txt")
        files.move("old/name.txt", "new/name.txt")
        files.write_bytes("binary", b"\0\1\2")
        files.write("created.txt", "first\n")
        files.write("empty.txt", "")
        files.write_bytes("created.bin", b"\0")
        hashed = [sha256(content).hexdigest() for content in (b"\0\1\2", b"\0")]
        assert branch.diff().split("\n") == [
            f"changed binary (binary, 2 to 3 bytes, SHA-256 {hashed[0]})",
            f"created created.bin (binary, 1 bytes, SHA-256 {hashed[1]})",
            "--- /dev/null",
            "+++ b/created.txt",
            "@@ -0,0 +1 @@",
            "+first",
            "--- a/edit.txt",
            "+++ b/edit.txt",
            "@@ -1,3 +1,3 @@",
            " one",
            "-two",
            "+TWO",
            " three",
            "created empty.txt (empty)",
            "--- a/end.txt",
            "+++ b/end.txt",
            "@@ -1 +1,2 @@",
            "-no newline",
            "\\ No newline at end of file",
            "+no newline",
            "+but now",
            "\\ No newline at end of file",
            "deleted gone.txt (5 bytes)",
            "created new/",
            "moved old/name.txt to new/name.txt",
            "",
        ]

    def test_of_a_nested_call_is_against_the_call_around(
        self, workspace: VirtualFilesystem, branch_of: Branch
    ) -> None:
        outer = branch_of(workspace)
        outer.resource.write("a.txt", "one\n")
        inner = branch_of(workspace, outer)
        inner.resource.write("a.txt", "two\n")
        assert "-one\n+two\n" in inner.diff()

    def test_of_a_large_file_is_one_line(
        self, workspace: VirtualFilesystem, branch_of: Branch
    ) -> None:
        workspace.write("big.txt", "line\n" * 200_000)
        branch = branch_of(workspace)
        branch.resource.write("big.txt", "other\n" * 200_000)
        hashed = sha256(b"other\n" * 200_000).hexdigest()
        assert branch.diff() == (
            f"changed big.txt (large, 1000000 to 1200000 bytes, SHA-256 {hashed})\n"
        )

    def test_tells_binary_files_of_one_size_apart_as_their_approval_is_bound_to_it(
        self, workspace: VirtualFilesystem, branch_of: Branch
    ) -> None:
        diffs = set[str]()
        for content in (b"\0\1", b"\0\2"):
            branch = branch_of(workspace)
            branch.resource.write_bytes("tool.bin", content)
            diffs.add(branch.diff())
        assert len(diffs) == 2


@pytest.mark.parametrize("files", [{"a": "", "a/b": ""}, {"a/b": "", "a": ""}, {"a/b": "", "": ""}])
def test_a_file_that_has_to_be_a_directory_too_is_refused_by_name(files: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"(a|the root) is to be a file and a directory"):
        VirtualFilesystem.in_memory(files)
