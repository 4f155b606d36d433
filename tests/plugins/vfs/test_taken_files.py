"""A file that a program has left outside of the workspace becomes one of its own."""

from __future__ import annotations

import gc
import os
import stat
import weakref
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from toolstile_hookspecs import ConflictError
from toolstile_plugins.vfs.workspace import VirtualFilesystem, WorkspaceBranch

Branch = Callable[..., WorkspaceBranch]
Commit = Callable[[WorkspaceBranch], None]

OLD = 1_111_111_111_222_333_444


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """A directory with what a program has left, on the workspace's file system."""
    directory = tmp_path / "left"
    directory.mkdir()
    return directory


def made(left: Path, name: str = "made", content: bytes = b"by a program") -> Path:
    path = left / name
    path.write_bytes(content)
    os.utime(path, ns=(OLD, OLD))
    return path


def test_it_is_seen_in_the_call_and_kept_by_the_commit(
    workspace: VirtualFilesystem, left: Path, branch_of: Branch, commit: Commit
) -> None:
    source = made(left)
    branch = branch_of(workspace)
    files = branch.resource
    files.take("bin/run", source, mode=0o4755, modified=OLD)
    assert files.read("bin/run") == "by a program"
    assert files.stat("bin/run").mode == 0o755
    files.write("bin/other", files.read("bin/run"))
    files.copy("bin/run", "bin/copied")
    assert source.exists()
    commit(branch)
    source.unlink(missing_ok=True)
    for path in ("bin/run", "bin/copied"):
        assert workspace.read(path) == "by a program"
        assert workspace.stat(path).mode == 0o755
    modified = workspace.stat("bin/run").modified
    assert modified is not None
    assert int(modified.timestamp()) == OLD // 1_000_000_000


def test_it_is_renamed_and_not_copied(
    disk: VirtualFilesystem, root: Path, left: Path, branch_of: Branch, commit: Commit
) -> None:
    source = made(left)
    with source.open("r+b") as stream:
        stream.truncate(1 << 40)
    os.utime(source, ns=(OLD, OLD))
    before = source.stat()
    branch = branch_of(disk)
    branch.resource.take("big", source, mode=0o640, modified=OLD)
    commit(branch)
    after = (root / "big").stat()
    assert (after.st_ino, after.st_size) == (before.st_ino, 1 << 40)
    assert (stat.S_IMODE(after.st_mode), after.st_mtime_ns) == (0o640, OLD)
    assert not source.exists()


def test_a_call_that_is_rolled_back_leaves_it(
    workspace: VirtualFilesystem, left: Path, branch_of: Branch
) -> None:
    source = made(left)
    branch = branch_of(workspace)
    branch.resource.take("taken", source, mode=0o644, modified=OLD)
    branch.rollback()
    assert source.read_bytes() == b"by a program"
    assert not workspace.exists("taken")


@pytest.mark.parametrize("names", [("again",), ("taken", "twice")], ids=["outside", "within"])
def test_one_with_another_name_is_copied(  # noqa: PLR0917 - fixtures
    disk: VirtualFilesystem,
    root: Path,
    left: Path,
    branch_of: Branch,
    commit: Commit,
    names: tuple[str, ...],
) -> None:
    """Else what is written under its other name would change it after the commit."""
    source = made(left)
    other = left / "other"
    other.hardlink_to(source)
    branch = branch_of(disk)
    for name in names:
        branch.resource.take(name, source if name != "twice" else other, mode=0o755, modified=OLD)
    commit(branch)
    other.write_bytes(b"changed later")
    assert len({(root / name).stat().st_ino for name in names}) == len(names)
    for name in names:
        assert (root / name).read_bytes() == b"by a program"
        assert (root / name).stat().st_mtime_ns == OLD
        assert (root / name).stat().st_mode & 0o777 == 0o755


def test_one_on_another_file_system_is_copied_with_its_holes(
    disk: VirtualFilesystem, root: Path, branch_of: Branch, commit: Commit
) -> None:
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == root.stat().st_dev:
        pytest.skip("there is no other file system here")
    with TemporaryDirectory(dir=memory) as directory:
        source = made(Path(directory))
        with source.open("r+b") as stream:
            stream.seek(1 << 30)
            stream.write(b"the end")
        branch = branch_of(disk)
        branch.resource.take("taken", source, mode=0o600, modified=OLD)
        commit(branch)
    status = (root / "taken").stat()
    assert (status.st_size, status.st_mtime_ns) == ((1 << 30) + 7, OLD)
    assert status.st_blocks * 512 < 1 << 20
    with (root / "taken").open("rb") as stream:
        assert stream.read(12) == b"by a program"
        stream.seek(1 << 30)
        assert stream.read() == b"the end"


def test_one_that_changes_after_it_was_taken_is_a_conflict(
    workspace: VirtualFilesystem, left: Path, branch_of: Branch
) -> None:
    source = made(left)
    branch = branch_of(workspace)
    branch.resource.take("taken", source, mode=0o644, modified=OLD)
    source.write_bytes(b"by another one")
    os.utime(source, ns=(OLD, OLD))
    with pytest.raises(ConflictError, match="'made' changed after the program"):
        branch.prepare()
    branch.rollback()
    assert not workspace.exists("taken")


def test_what_is_no_file_is_not_taken(
    disk: VirtualFilesystem, left: Path, branch_of: Branch
) -> None:
    (left / "link").symlink_to(made(left))
    os.mkfifo(left / "fifo")
    files = branch_of(disk).resource
    for name in ("link", "fifo", "."):
        with pytest.raises(OSError, match="not a file"):
            files.take("taken", left / name, mode=0o644, modified=OLD)
    with pytest.raises(FileNotFoundError):
        files.take("taken", left / "missing", mode=0o644, modified=OLD)
    files.mkdir("d")
    with pytest.raises(IsADirectoryError):
        files.take("d", left / "made", mode=0o644, modified=OLD)
    assert not files.exists("taken")


def test_it_replaces_a_link_itself_and_a_file_that_nobody_may_write(
    disk: VirtualFilesystem, root: Path, left: Path, branch_of: Branch, commit: Commit
) -> None:
    outside = made(left, "outside")
    (root / "link").symlink_to(outside)
    (root / "object").write_bytes(b"x")
    (root / "object").chmod(0o444)
    branch = branch_of(disk)
    for name in ("link", "object"):
        branch.resource.take(name, made(left, name, b"new"), mode=0o444, modified=OLD)
    commit(branch)
    for name in ("link", "object"):
        assert (root / name).is_symlink() is False
        assert (root / name).read_bytes() == b"new"
        assert (root / name).stat().st_mode & 0o777 == 0o444
    assert outside.read_bytes() == b"by a program"


def test_what_a_program_gave_it_besides_its_content_is_dropped(
    disk: VirtualFilesystem, root: Path, left: Path, branch_of: Branch, commit: Commit
) -> None:
    source = made(left)
    source.chmod(0o6755)
    try:
        os.setxattr(source, "user.overlay.origin", b"x")
    except OSError:
        pytest.skip("no extended attributes here")
    branch = branch_of(disk)
    branch.resource.take("taken", source, mode=0o6755, modified=OLD)
    commit(branch)
    assert os.listxattr(root / "taken") == []
    assert stat.S_IMODE((root / "taken").stat().st_mode) == 0o755


def test_its_keeper_lives_until_the_call_has_ended(
    workspace: VirtualFilesystem, left: Path, branch_of: Branch, commit: Commit
) -> None:
    class Keeper:
        pass

    keeper = Keeper()
    seen = weakref.ref(keeper)
    outer = branch_of(workspace)
    inner = branch_of(workspace, outer)
    inner.resource.take("taken", made(left), mode=0o644, modified=OLD, keeper=keeper)
    del keeper
    commit(inner)
    del inner
    gc.collect()
    assert seen() is not None
    commit(outer)
    del outer
    gc.collect()
    assert seen() is None
    assert workspace.read("taken") == "by a program"
