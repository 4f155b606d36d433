"""The changes of a call are told as text, and made again in another one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from toolstile_hookspecs import ConflictError, FileStat, SnapshotError
from toolstile_plugins.vfs.workspace import VirtualFilesystem, WorkspaceBranch

Branch = Callable[..., WorkspaceBranch]
Commit = Callable[[WorkspaceBranch], None]

OLD = 1_111_111_111_000_000_000


@pytest.fixture
def told(workspace: VirtualFilesystem, branch_of: Branch, tmp_path: Path) -> tuple[str, str]:
    """The text and the diff of a call that was rolled back then."""
    workspace.write("run.sh", "#!")
    workspace.write("folder/held.txt", "held")
    workspace.link("current", "releases/1")
    workspace.link("gone", "away")
    source = tmp_path / "made"
    source.write_bytes(b"by a program")
    branch = branch_of(workspace)
    files = branch.resource
    files.chmod("run.sh", 0o755)
    files.chmod("folder", 0o700)
    files.delete("current")
    files.link("current", "not \udcff UTF-8\n")
    files.delete("gone")
    files.mkdir("empty/inner")
    files.take("taken", source, mode=0o640, modified=OLD)
    text, diff = branch.told(), branch.diff()
    branch.rollback()
    os.unlink(source)  # noqa: PTH108 - as the program's directory is removed
    return text, diff


def test_links_modes_taken_files_and_empty_directories_are_made_again(
    workspace: VirtualFilesystem, branch_of: Branch, commit: Commit, told: tuple[str, str]
) -> None:
    text, diff = told
    branch = branch_of(workspace)
    branch.redo(text)
    assert branch.diff() == diff
    commit(branch)
    stats = {each.path: each for each in workspace.glob("**")}
    assert shape(stats["run.sh"]) == ("file", 0o755, None)
    assert shape(stats["folder"]) == ("directory", 0o700, None)
    assert shape(stats["current"]) == ("link", None, "not \udcff UTF-8\n")
    assert shape(stats["taken"]) == ("file", 0o640, None)
    assert stats["taken"].modified is not None
    assert stats["taken"].modified.timestamp() == OLD // 1_000_000_000
    assert stats["empty/inner"].kind == "directory"
    assert "gone" not in stats
    assert workspace.read("folder/held.txt") == "held"
    assert workspace.read("taken") == "by a program"


def test_a_link_that_leads_elsewhere_meanwhile_is_a_conflict(
    workspace: VirtualFilesystem, branch_of: Branch, told: tuple[str, str]
) -> None:
    workspace.delete("current")
    workspace.link("current", "releases/7")
    with pytest.raises(ConflictError, match="current"):
        branch_of(workspace).redo(told[0])


def test_a_link_in_the_place_of_a_file_with_its_text_is_a_conflict(
    workspace: VirtualFilesystem, branch_of: Branch, told: tuple[str, str]
) -> None:
    workspace.delete("run.sh")
    workspace.link("run.sh", "#!")
    with pytest.raises(ConflictError, match=r"run\.sh"):
        branch_of(workspace).redo(told[0])


def test_a_mode_alone_is_made_again_on_the_file_itself(
    disk: VirtualFilesystem, root: Path, branch_of: Branch, commit: Commit
) -> None:
    disk.write_bytes("app", b"\0binary")
    inode = (root / "app").stat().st_ino
    branch = branch_of(disk)
    branch.resource.chmod("app", 0o755)
    text, diff = branch.told(), branch.diff()
    branch.rollback()
    again = branch_of(disk)
    again.redo(text)
    assert again.diff() == diff
    commit(again)
    assert (root / "app").stat().st_ino == inode
    assert (root / "app").stat().st_mode & 0o777 == 0o755


def test_what_is_very_large_is_not_read_to_be_told(
    disk: VirtualFilesystem, branch_of: Branch, tmp_path: Path
) -> None:
    source = tmp_path / "made"
    with source.open("wb") as stream:
        stream.truncate(1 << 40)
    branch = branch_of(disk)
    branch.resource.take("taken", source, mode=0o644, modified=OLD)
    with pytest.raises(SnapshotError, match="too many to record"):
        branch.told()


def shape(stat: FileStat) -> tuple[str, int | None, str | None]:
    return stat.kind, stat.mode, stat.target
