"""Modes and links on disk: only what a call changes, and only onto what it looked at."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from toolstile_hookspecs import ConflictError
from toolstile_plugins.vfs.backends.disk import operations as renames
from toolstile_plugins.vfs.workspace import VirtualFilesystem, WorkspaceBranch

Branch = Callable[..., WorkspaceBranch]
Commit = Callable[[WorkspaceBranch], None]

OLD = 1_111_111_111_222_333_444


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


class TestAMode:
    def test_is_set_on_the_file_itself(self, disk: VirtualFilesystem, root: Path) -> None:
        script = root / "run.sh"
        script.write_text("#!")
        os.utime(script, ns=(OLD, OLD))
        before = script.stat()
        disk.chmod("run.sh", 0o755)
        after = script.stat()
        assert mode_of(script) == 0o755
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, OLD)

    def test_leaves_the_other_names_of_a_file_as_they_are(
        self, disk: VirtualFilesystem, root: Path, tmp_path: Path
    ) -> None:
        outside = tmp_path / "outside"
        outside.write_text("#!")
        outside.chmod(0o600)
        os.utime(outside, ns=(OLD, OLD))
        (root / "run.sh").hardlink_to(outside)
        disk.chmod("run.sh", 0o777)
        assert (mode_of(outside), mode_of(root / "run.sh")) == (0o600, 0o777)
        assert (root / "run.sh").read_text() == "#!"
        assert (root / "run.sh").stat().st_mtime_ns == OLD

    def test_goes_with_a_file_that_moves(self, disk: VirtualFilesystem, root: Path) -> None:
        (root / "a.sh").write_text("#!")
        (root / "a.sh").chmod(0o600)
        os.utime(root / "a.sh", ns=(OLD, OLD))
        branch = disk.own_branch()
        branch.resource.move("a.sh", "b.sh")
        branch.resource.chmod("b.sh", 0o755)
        branch.prepare()
        assert mode_of(root / "a.sh") == 0o600
        branch.commit()
        assert (mode_of(root / "b.sh"), (root / "b.sh").stat().st_mtime_ns) == (0o755, OLD)

    def test_keeps_a_directorys_own_group(self, disk: VirtualFilesystem, root: Path) -> None:
        (root / "shared").mkdir()
        (root / "shared").chmod(0o2755)
        disk.chmod("shared", 0o770)
        assert mode_of(root / "shared") == 0o2770

    @pytest.mark.parametrize("moment", ["before prepare", "before commit"])
    @pytest.mark.parametrize("change", ["content", "mode", "another file", "a link"])
    def test_is_not_set_on_what_has_changed(
        self, disk: VirtualFilesystem, root: Path, branch_of: Branch, change: str, moment: str
    ) -> None:
        script, other = root / "run.sh", root / "other"
        for path in (root / "a.txt", script, other):
            path.write_text("#!")
            path.chmod(0o600)
        branch = branch_of(disk)
        branch.resource.write("a.txt", "two")
        branch.resource.chmod("run.sh", 0o755)
        if moment == "before commit":
            branch.prepare()
        match change:
            case "content":
                script.write_text("#!/bin/sh")
            case "mode":
                script.chmod(0o640)
            case "another file":
                other.rename(script)
            case _:
                script.unlink()
                script.symlink_to("other")
        after = mode_of(script)
        with pytest.raises(ConflictError, match=r"run\.sh"):
            branch.prepare() if moment == "before prepare" else branch.commit()
        branch.rollback()
        assert mode_of(script) == after
        assert (root / "a.txt").read_text() == "#!"
        if change != "another file":
            assert mode_of(other) == 0o600

    def test_is_a_change_to_another_call(
        self, workspace: VirtualFilesystem, branch_of: Branch
    ) -> None:
        workspace.write("run.sh", "#!")
        branch = branch_of(workspace)
        branch.resource.read("run.sh")
        workspace.chmod("run.sh", 0o700)
        branch.resource.write("a.txt", "one")
        with pytest.raises(ConflictError, match=r"run\.sh"):
            branch.prepare()


class TestALink:
    @pytest.mark.parametrize("exchange", [True, False])
    def test_replaces_another_one(
        self,
        disk: VirtualFilesystem,
        root: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        exchange: bool,
    ) -> None:
        if not exchange:
            monkeypatch.setattr(renames, "_system_call", lambda: None)
        (root / "current").symlink_to("releases/1")
        branch = disk.own_branch()
        branch.resource.delete("current")
        branch.resource.link("current", "releases/2")
        branch.prepare()
        assert (root / "current").readlink() == Path("releases/1")
        branch.commit()
        assert (root / "current").readlink() == Path("releases/2")
        assert [each.name for each in root.iterdir() if each.name != ".toolstile"] == ["current"]

    def test_keeps_its_time_when_it_moves(self, disk: VirtualFilesystem, root: Path) -> None:
        (root / "link").symlink_to("a")
        os.utime(root / "link", ns=(OLD, OLD), follow_symlinks=False)
        disk.move("link", "d/link")
        assert (root / "d/link").lstat().st_mtime_ns == OLD

    @pytest.mark.parametrize("moment", ["before prepare", "before commit"])
    def test_that_leads_elsewhere_meanwhile_is_a_conflict(
        self, disk: VirtualFilesystem, root: Path, branch_of: Branch, moment: str
    ) -> None:
        link = root / "link"
        link.symlink_to("one")
        before = link.lstat()
        branch = branch_of(disk)
        assert branch.resource.stat("link").target == "one"
        branch.resource.delete("link")
        branch.resource.write("a.txt", "x")
        if moment == "before commit":
            branch.prepare()
        link.unlink()
        link.symlink_to("two")
        os.utime(link, ns=(before.st_atime_ns, before.st_mtime_ns), follow_symlinks=False)
        with pytest.raises(ConflictError, match="link"):
            branch.prepare() if moment == "before prepare" else branch.commit()
        branch.rollback()
        assert link.readlink() == Path("two")
        assert not (root / "a.txt").exists()

    def test_of_another_text_is_a_conflict_of_a_call_that_only_looked(
        self, workspace: VirtualFilesystem, branch_of: Branch
    ) -> None:
        workspace.link("link", "one")
        branch = branch_of(workspace)
        branch.resource.stat("link")
        workspace.delete("link")
        workspace.link("link", "two")
        branch.resource.write("a.txt", "x")
        with pytest.raises(ConflictError, match="link"):
            branch.prepare()


def test_an_empty_directory_is_made(disk: VirtualFilesystem, root: Path) -> None:
    disk.mkdir("empty/inner")
    assert (root / "empty/inner").is_dir()


class TestInNestedCalls:
    def test_a_mode_of_a_directory_leaves_what_the_call_around_made_of_it(
        self, workspace: VirtualFilesystem, branch_of: Branch, commit: Commit
    ) -> None:
        workspace.write("old/a.txt", "one")
        workspace.write("kept/a.txt", "one")
        outer = branch_of(workspace)
        outer.resource.delete("old", recursive=True)
        outer.resource.write("old/b.txt", "two")
        inner = branch_of(workspace, outer)
        inner.resource.chmod("old", 0o700)
        inner.resource.chmod("kept", 0o700)
        commit(inner)
        shown = {each.path for each in outer.resource.glob("**")}
        assert shown == {"kept", "kept/a.txt", "old", "old/b.txt"}
        commit(outer)
        assert [each.path for each in workspace.glob("*/*")] == ["kept/a.txt", "old/b.txt"]
        assert (workspace.stat("old").mode, workspace.stat("kept").mode) == (0o700, 0o700)
