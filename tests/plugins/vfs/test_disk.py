"""On a directory: what a call changes is changed as a person would, and nothing else is touched."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
from hypothesis import example, given, settings, strategies as st

from toolstile_hookspecs import CallRefused, ConflictError, Durability, Filesystem, ToolContext
from toolstile_plugins import vfs
from toolstile_plugins.vfs import DiskStore
from toolstile_plugins.vfs.backends.disk import operations as renames, staging
from toolstile_plugins.vfs.nodes import Content
from toolstile_plugins.vfs.workspace import VirtualFilesystem, WorkspaceBranch

Branch = Callable[..., WorkspaceBranch]
Commit = Callable[[WorkspaceBranch], None]
Open = Callable[..., VirtualFilesystem]

OLD = 1_111_111_111_222_333_444


def shown(root: Path, *, times: bool = False) -> dict[str, tuple[object, ...]]:
    """Return all that can be seen of a tree: kinds, modes, links, bytes, and times of files."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name == ".toolstile" or name.startswith(".toolstile/"):
            continue
        status = path.lstat()
        content: object = None
        if path.is_symlink():
            content = str(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        seen: tuple[object, ...] = (status.st_mode, content)
        found[name] = (*seen, status.st_mtime_ns, status.st_ino) if times else seen
    return found


def lay_out(root: Path) -> None:
    """Make a tree as they are found: ignored files, links, repositories, modes, old times."""
    texts = {
        ".env": b"SECRET=1\n",
        ".gitignore": b"build/\r\n",
        "build/out.o": b"\x7fELF\0\1",
        "README.md": b"\xef\xbb\xbf# Windows\r\n\r\nlines\r\n",
        "bin/run": b"#!/bin/sh\necho\n",
        "src/main.py": b"print()\n",
        "src/pkg/mod.py": b"x = 1",
        "vendor/.git/HEAD": b"ref: refs/heads/main\n",
        "vendor/.git/hooks/pre-commit": b"#!/bin/sh\nexit 1\n",
    }
    for name, data in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "empty" / "inner").mkdir(parents=True)
    (root / "link").symlink_to("src")
    (root / "src" / "dangling").symlink_to("/nowhere")
    for name, mode in {"bin/run": 0o755, ".env": 0o600, "src/pkg": 0o750, "build": 0o700}.items():
        (root / name).chmod(mode)
    for path in sorted(root.rglob("*"), reverse=True):
        os.utime(path, ns=(OLD, OLD), follow_symlinks=False)


def by_hand(root: Path) -> None:
    """Make the changes of `by_call` with the means of the language."""
    (root / "README.md").write_bytes(b"\xef\xbb\xbf# Windows\r\n\r\nmore lines\r\n")
    (root / "bin" / "run").write_bytes(b"#!/bin/sh\nexit\n")
    (root / "docs" / "new").mkdir(parents=True)
    (root / "docs" / "new" / "a.md").write_bytes(b"new\n")
    (root / "src" / "pkg").rename(root / "package")
    shutil.copy(root / "bin" / "run", root / "bin" / "again")
    (root / "src" / "main.py").unlink()
    shutil.rmtree(root / "build")
    (root / "build").write_bytes(b"a file now")
    (root / "link").unlink()


def by_call(files: VirtualFilesystem, branch: WorkspaceBranch) -> None:
    tree = branch.resource
    tree.write("README.md", tree.read("README.md").replace("lines", "more lines"))
    tree.write("bin/run", "#!/bin/sh\nexit\n")
    tree.write("docs/new/a.md", "new\n")
    tree.move("src/pkg", "package")
    tree.copy("bin/run", "bin/again")
    tree.delete("src/main.py")
    tree.delete("build", recursive=True)
    tree.write("build", "a file now")
    tree.delete("link")
    list(files.search("x"))


@pytest.mark.parametrize("durability", ["power", "process"])
@pytest.mark.parametrize("exchange", [True, False])
def test_a_call_does_what_is_done_by_hand(  # noqa: PLR0917 - fixtures
    tmp_path: Path,
    root: Path,
    on_disk: Open,
    branch_of: Branch,
    commit: Commit,
    monkeypatch: pytest.MonkeyPatch,
    durability: Durability,
    *,
    exchange: bool,
) -> None:
    if not exchange:
        monkeypatch.setattr(renames, "_system_call", lambda: None)
    lay_out(root)
    twin = tmp_path / "twin"
    shutil.copytree(root, twin, symlinks=True)
    before = shown(root, times=True)
    files = on_disk(root, durability=durability)
    branch = branch_of(files)
    by_call(files, branch)
    assert shown(root, times=True) == before
    assert not (root / ".toolstile").exists()
    commit(branch)
    by_hand(twin)
    assert shown(root) == shown(twin)
    after = shown(root, times=True)
    untouched = {".env", ".gitignore", "src/dangling", "vendor/.git/HEAD", "empty/inner", "empty"}
    untouched |= {"vendor", "vendor/.git", "vendor/.git/hooks/pre-commit"}
    assert {name: after[name] for name in untouched} == {name: before[name] for name in untouched}
    assert after["package/mod.py"] == before["src/pkg/mod.py"]
    assert sorted(each.name for each in (root / ".toolstile").iterdir()) == [".gitignore", "lock"]


PATHS = [
    ".env",
    "README.md",
    "bin",
    "bin/run",
    "build",
    "build/out.o",
    "empty",
    "empty/inner",
    "link",
    "new",
    "new/deep/x",
    "src",
    "src/dangling",
    "src/main.py",
    "src/pkg",
    "src/pkg/mod.py",
    "vendor",
]
SPOTS = st.sampled_from(PATHS)
OPERATIONS = st.one_of(
    st.tuples(st.just("write_bytes"), SPOTS, st.sampled_from([b"", b"one\r\n", b"\0\xff"])),
    st.tuples(st.just("mkdir"), SPOTS),
    st.tuples(st.just("delete"), SPOTS),
    st.tuples(st.just("link"), SPOTS, st.sampled_from(["src/main.py", "/nowhere", "a\nb"])),
    st.tuples(st.just("chmod"), SPOTS, st.sampled_from([0o755, 0o600, 0o711])),
    st.tuples(st.just("copy"), SPOTS, SPOTS),
    st.tuples(st.just("move"), SPOTS, SPOTS),
)


def through(files: Filesystem, name: str, *arguments: Any) -> bool:
    """Do one operation through the workspace; tell whether it was not refused."""
    options = {"delete": {"recursive": True}, "copy": {"overwrite": True}}
    options["move"] = options["copy"]
    try:
        getattr(files, name)(*arguments, **options.get(name, {}))
    except (OSError, ValueError):
        return False
    return True


def on_twin(twin: Path, name: str, place: str, more: Any = None) -> None:
    """Do the same with the means of the language."""
    path = twin / place
    target = twin / more if name in {"copy", "move"} else path
    target.parent.mkdir(parents=True, exist_ok=True)
    match name:
        case "write_bytes":
            path.write_bytes(more)
        case "mkdir":
            path.mkdir(exist_ok=True)
        case "link" | "chmod":
            (path.symlink_to if name == "link" else path.chmod)(more)
        case "delete" if path.is_symlink() or path.is_file():
            path.unlink()
        case "delete":
            shutil.rmtree(path)
        case "copy" if path.is_symlink():
            target.symlink_to(path.readlink())
        case "copy" if path.is_dir():
            shutil.copytree(path, target, symlinks=True)
        case "copy" if target.exists():
            target.write_bytes(path.read_bytes())
        case "copy":
            shutil.copy(path, target)
        case _:
            path.replace(target)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(OPERATIONS, max_size=8))
@example([("delete", "bin"), ("copy", "src/pkg", "bin")])
@example([("delete", "src/pkg"), ("mkdir", "src/pkg")])
@example([("mkdir", "new"), ("delete", "src/pkg"), ("move", "new", "src/pkg")])
def test_any_call_does_what_is_done_by_hand(operations: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as directory:
        root, twin = Path(directory, "root"), Path(directory, "twin")
        lay_out(root)
        shutil.copytree(root, twin, symlinks=True)
        before = shown(root, times=True)
        with closing(VirtualFilesystem.on_disk(root)) as files:
            branch = files.branch(ToolContext(session=None), None)
            usual: set[str] = set()
            for name, place, *more in operations:
                there = directories_in(twin)
                if through(branch.resource, name, place, *more):
                    on_twin(twin, name, place, *more)
                    usual -= {place} if name == "chmod" else set()
                    target = more[0] if name in {"copy", "move"} else None
                    usual |= with_usual_mode(directories_in(twin) - there, place, target, usual)
                    usual &= directories_in(twin)
            made = branch._layer.changes().made
            changed = {change.path for change in made if not change.only_empties}
            assert shown(root, times=True) == before
            branch.prepare()
            branch.commit()
        directories = {name: each for name, each in before.items() if is_directory(each)}
        expected = {
            # One that is removed and made again stays the same, and keeps its mode, unless
            # what takes its place has one: a copy has that of its source.
            name: directories[name][:2] if name in directories.keys() & usual else each
            for name, each in shown(twin).items()
        }
        assert shown(root) == expected
        after = shown(root, times=True)
        for name in before.keys() - changed - directories.keys():
            assert after[name] == before[name]


def is_directory(seen: tuple[object, ...]) -> bool:
    return stat.S_ISDIR(cast("int", seen[0]))


def directories_in(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if is_directory(path.lstat())}


def with_usual_mode(new: set[str], place: str, target: str | None, usual: set[str]) -> set[str]:
    """Return those of the new directories that were given no mode, by a copy or a move neither."""
    if target is None:
        return new
    brought = {name for name in new if f"{name}/".startswith(f"{target}/")}
    return (new - brought) | {name for name in brought if place + name[len(target) :] in usual}


def test_calls_that_change_nothing_leave_nothing_behind(
    root: Path, disk: VirtualFilesystem, branch_of: Branch, commit: Commit
) -> None:
    lay_out(root)
    before = shown(root, times=True)
    reading = branch_of(disk)
    reading.resource.read("README.md")
    reading.resource.stat("src")
    list(reading.resource.glob("**"))
    list(reading.resource.search("x"))
    commit(reading)
    failing = branch_of(disk)
    by_call(disk, failing)
    failing.rollback()
    assert shown(root, times=True) == before
    assert not (root / ".toolstile").exists()


def test_a_rolled_back_commit_leaves_no_litter(
    root: Path, disk: VirtualFilesystem, branch_of: Branch
) -> None:
    lay_out(root)
    before = shown(root, times=True)
    branch = branch_of(disk)
    by_call(disk, branch)
    branch.prepare()
    branch.rollback()
    assert shown(root, times=True) == before
    assert sorted(each.name for each in (root / ".toolstile").iterdir()) == [".gitignore", "lock"]


def test_what_the_system_refuses_in_the_middle_is_put_back_and_says_what_it_means(
    root: Path, branch_of: Branch, commit: Commit
) -> None:
    def refuse(step: str) -> None:
        if step == "apply:1":
            raise OSError(errno.ENOSPC, "No space left on device", "/secret/place")

    lay_out(root)
    before = shown(root)
    with closing(VirtualFilesystem(DiskStore(root, steps=refuse))) as files:
        branch = branch_of(files)
        by_call(files, branch)
        with pytest.raises(OSError, match="is full, so nothing of this call was kept"):
            commit(branch)
    assert shown(root) == before


class Crashed(BaseException):
    pass


def leave_commit(root: Path, wanted: str) -> None:
    """Let a host end at a step of a commit of `a.txt`."""

    def crash(step: str) -> None:
        if step == wanted:
            raise Crashed

    (root / "a.txt").write_text("old")
    files = VirtualFilesystem(DiskStore(root, steps=crash))
    with closing(files), pytest.raises(Crashed):
        files.write("a.txt", "new")


def test_a_file_that_has_both_names_of_its_rename_after_a_loss_of_power_is_in_place(
    root: Path,
) -> None:
    leave_commit(root, "applied")
    # Its new name has reached the disk, and the removal of the old one has not.
    (slot,) = root.glob(".toolstile/commit-*/new-*")
    slot.unlink()
    os.link(root / "a.txt", slot)
    with closing(DiskStore(root)) as store:
        assert store.stopped is None
    assert (root / "a.txt").read_text() == "new"
    assert not list(root.glob(".toolstile/commit-*"))


def test_a_store_waits_while_another_one_finishes_what_a_crash_has_left(root: Path) -> None:
    def pause(step: str) -> None:
        if step == "apply:0":
            pausing.set()
            assert go_on.wait(30)

    def look() -> None:
        with closing(DiskStore(root)) as store:
            opened.set()
            store.recover(lambda _: True)
            found.append((root / "a.txt").read_text())

    pausing, go_on, opened, found = (
        threading.Event(),
        threading.Event(),
        threading.Event(),
        list[str](),
    )
    leave_commit(root, "decided")
    with ThreadPoolExecutor(2) as pool:
        finishing = pool.submit(lambda: DiskStore(root, steps=pause).close())
        assert pausing.wait(30)
        looking = pool.submit(look)
        assert opened.wait(30)
        # Long enough for a look that does not wait.
        time.sleep(0.1)
        go_on.set()
        finishing.result()
        looking.result()
    assert found == ["new"]


def test_a_full_disk_is_told_of_as_it_is_and_not_as_an_internal_error(
    root: Path, branch_of: Branch
) -> None:
    def refuse(step: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/secret/place")

    lay_out(root)
    before = shown(root)
    with closing(VirtualFilesystem(DiskStore(root, steps=refuse))) as files:
        branch = branch_of(files)
        by_call(files, branch)
        with pytest.raises(CallRefused, match=r"^The disk .* is full.*, then retry;"):
            branch.prepare()
        branch.rollback()
        with pytest.raises(OSError, match="is full"):
            files.write("new.txt", "outside of any call")
    assert shown(root) == before


class TestWhatAFileHas:
    def test_mode_and_attributes_stay_when_it_is_written(
        self, root: Path, disk: VirtualFilesystem
    ) -> None:
        (root / "run").write_text("one")
        (root / "run").chmod(0o4751)
        try:
            os.setxattr(root / "run", "user.kept", b"yes")
        except OSError:
            pytest.skip("the file system has no attributes")
        disk.write("run", "two")
        assert (root / "run").stat().st_mode & 0o7777 == 0o4751
        assert os.getxattr(root / "run", "user.kept") == b"yes"

    def test_an_access_control_list_stays_when_it_is_written(
        self, root: Path, disk: VirtualFilesystem
    ) -> None:
        (root / "a.txt").write_text("one")
        # Version 2; owner rw, user 1234 r, group r, mask r, others nothing.
        entries = [(1, 6, -1), (2, 4, 1234), (4, 4, -1), (16, 4, -1), (32, 0, -1)]
        acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *each) for each in entries)
        try:
            os.setxattr(root / "a.txt", "system.posix_acl_access", acl)
        except OSError:
            pytest.skip("the file system has no access control lists")
        disk.write("a.txt", "two")
        assert (root / "a.txt").read_text() == "two"
        assert os.getxattr(root / "a.txt", "system.posix_acl_access") == acl

    def test_a_copy_has_its_mode_and_nothing_else_of_it(
        self, root: Path, disk: VirtualFilesystem
    ) -> None:
        (root / "run").write_text("one")
        (root / "run").chmod(0o4751)
        with suppress(OSError):
            os.setxattr(root / "run", "user.kept", b"yes")
        disk.copy("run", "again")
        assert (root / "again").stat().st_mode & 0o7777 == 0o751
        assert os.listxattr(root / "again") == []

    @pytest.mark.skipif(os.geteuid() != 0, reason="giving a file away needs root")
    def test_owner_stays_when_it_is_written(self, root: Path, disk: VirtualFilesystem) -> None:
        (root / "a.txt").write_text("one")
        os.chown(root / "a.txt", 1234, 4321)
        (root / "d").mkdir()
        os.chown(root / "d", -1, 777)
        (root / "d").chmod(0o2775)
        disk.write("a.txt", "two")
        disk.write("d/b.txt", "new")
        status = (root / "a.txt").stat()
        assert (status.st_uid, status.st_gid) == (1234, 4321)
        assert (root / "d" / "b.txt").stat().st_gid == 777

    def test_a_new_one_has_the_usual_mode(self, root: Path, disk: VirtualFilesystem) -> None:
        (root / "usual").write_text("")
        disk.write("d/new", "")
        disk.mkdir("e")
        (root / "usual directory").mkdir()
        assert (root / "d" / "new").stat().st_mode == (root / "usual").stat().st_mode
        assert (root / "e").stat().st_mode == (root / "usual directory").stat().st_mode

    def test_a_moved_one_is_the_same_file(self, root: Path, disk: VirtualFilesystem) -> None:
        (root / "a.txt").write_text("one")
        os.utime(root / "a.txt", ns=(OLD, OLD))
        before = (root / "a.txt").stat()
        disk.move("a.txt", "d/b.txt")
        after = (root / "d" / "b.txt").stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, OLD)
        assert after.st_nlink == 1

    @pytest.mark.parametrize("copy", ["b.txt", "d/there.txt", "z.txt"])
    def test_one_that_is_copied_and_moved_becomes_two(
        self, root: Path, disk: VirtualFilesystem, branch_of: Branch, commit: Commit, copy: str
    ) -> None:
        (root / "a.txt").write_text("one")
        (root / "d").mkdir()
        (root / "d" / "there.txt").write_text("there")
        branch = branch_of(disk)
        branch.resource.copy("a.txt", copy, overwrite=True)
        branch.resource.move("a.txt", "c.txt")
        commit(branch)
        assert not (root / "a.txt").exists()
        for name in (copy, "c.txt"):
            assert (root / name).read_text() == "one"
            assert (root / name).stat().st_nlink == 1

    def test_nobody_may_write_it(self, root: Path, disk: VirtualFilesystem) -> None:
        (root / "a.txt").write_text("one")
        (root / "a.txt").chmod(0o444)
        assert disk.is_readonly("a.txt")
        assert disk.stat("a.txt").readonly
        with pytest.raises(PermissionError, match="mode"):
            disk.write("a.txt", "two")
        disk.write("b.txt", "other")
        with pytest.raises(PermissionError, match="mode"):
            disk.move("b.txt", "a.txt", overwrite=True)
        assert (root / "a.txt").read_text() == "one"

    def test_another_name_of_it_keeps_the_former_content(
        self, root: Path, disk: VirtualFilesystem
    ) -> None:
        (root / "a.txt").write_text("one")
        (root / "b.txt").hardlink_to(root / "a.txt")
        disk.write("a.txt", "two")
        assert (root / "b.txt").read_text() == "one"
        assert (root / "a.txt").stat().st_nlink == (root / "b.txt").stat().st_nlink == 1

    def test_another_name_of_it_stays_one_when_it_is_moved(
        self, root: Path, disk: VirtualFilesystem
    ) -> None:
        (root / "a.txt").write_text("one")
        (root / "b.txt").hardlink_to(root / "a.txt")
        disk.move("a.txt", "d/c.txt")
        assert (root / "d" / "c.txt").samefile(root / "b.txt")
        disk.delete("b.txt")
        assert (root / "d" / "c.txt").read_text() == "one"
        assert (root / "d" / "c.txt").stat().st_nlink == 1

    def test_another_name_of_it_can_be_copied_in_the_call_that_moves_it(
        self, root: Path, disk: VirtualFilesystem, branch_of: Branch, commit: Commit
    ) -> None:
        (root / "a.txt").write_text("one")
        (root / "b.txt").hardlink_to(root / "a.txt")
        branch = branch_of(disk)
        branch.resource.move("a.txt", "c.txt")
        branch.resource.copy("b.txt", "d.txt")
        commit(branch)
        assert (root / "c.txt").samefile(root / "b.txt")
        assert (root / "d.txt").read_text() == "one"
        assert (root / "d.txt").stat().st_nlink == 1


class TestSharedWithOthers:
    def test_two_workspaces_on_one_directory(
        self, root: Path, on_disk: Open, branch_of: Branch, commit: Commit
    ) -> None:
        first, second = on_disk(root), on_disk(root)
        first.write("a.txt", "one")
        branch = branch_of(second)
        branch.resource.write("b.txt", branch.resource.read("a.txt"))
        commit(branch)
        assert first.read("b.txt") == "one"

    @pytest.mark.slow
    def test_processes_lose_nothing(self, root: Path, disk: VirtualFilesystem) -> None:
        disk.write("count", "0")
        program = """
import sys
from toolstile_hookspecs import CallRefused, ConflictError, ToolContext
from toolstile_plugins.vfs.workspace import VirtualFilesystem
files = VirtualFilesystem.on_disk(sys.argv[1])
done = 0
while done < 50:
    branch = files.branch(ToolContext(session=None), None)
    try:
        branch.resource.write("count", str(int(branch.resource.read("count")) + 1))
        branch.resource.write(f"by-{sys.argv[2]}-{done}", "")
        branch.prepare_waiting()
    except ConflictError:
        branch.rollback()
    else:
        branch.commit()
        done += 1
"""
        workers = [
            subprocess.Popen([sys.executable, "-c", program, root, str(number)])
            for number in range(4)
        ]
        assert [worker.wait(120) for worker in workers] == [0, 0, 0, 0]
        assert disk.read("count") == "200"
        assert len(list(disk.glob("by-*"))) == 200

    def test_version_control_does_not_see_it(self, root: Path, disk: VirtualFilesystem) -> None:
        git = shutil.which("git")
        if git is None:
            pytest.skip("there is no git")
        subprocess.run([git, "init", "-q", root], check=True)
        disk.write("a.txt", "one")
        status = subprocess.run(
            [git, "-C", root, "status", "--porcelain"], check=True, capture_output=True, text=True
        )
        assert status.stdout == "?? a.txt\n"

    def test_its_folder_may_be_removed_under_way(self, root: Path, disk: VirtualFilesystem) -> None:
        disk.write("a.txt", "one")
        shutil.rmtree(root / ".toolstile")
        disk.write("a.txt", "two")
        assert (root / "a.txt").read_text() == "two"


def test_once_closed_it_says_so(root: Path) -> None:
    files = VirtualFilesystem.on_disk(root)
    files.close()
    files.close()
    with pytest.raises(ValueError, match="closed"):
        files.exists("a.txt")


def test_no_descriptor_is_left_open(
    root: Path, on_disk: Open, branch_of: Branch, commit: Commit
) -> None:
    lay_out(root)
    files = on_disk(root)
    before = len(list(Path("/proc/self/fd").iterdir()))
    branch = branch_of(files)
    by_call(files, branch)
    commit(branch)
    rolled_back = branch_of(files)
    rolled_back.resource.write("x", "y")
    rolled_back.prepare()
    rolled_back.rollback()
    for name in ("missing/a", "README.md/x", "src/dangling/x"):
        with pytest.raises(OSError, match=r"."):
            files.read(name)
    with files.exclusive_path():
        pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before


class TestAFileEditedFromOutside:
    """Between a call's first look at a file and what it does with what is in there."""

    def test_is_not_streamed_as_if_it_were_the_one_looked_at(
        self, disk: VirtualFilesystem, root: Path, branch_of: Branch
    ) -> None:
        (root / "a.txt").write_text("one")
        files = branch_of(disk).resource
        files.stat("a.txt")
        (root / "a.txt").write_text("another")

        with pytest.raises(ConflictError, match=r"a\.txt"):
            files.open("a.txt")

    def test_is_a_conflict_when_it_was_streamed_meanwhile(
        self, disk: VirtualFilesystem, root: Path, branch_of: Branch
    ) -> None:
        (root / "a.txt").write_text("one")
        branch = branch_of(disk)
        with branch.resource.open("a.txt") as stream:
            branch.resource.write("b.txt", stream.read(1).decode())
            (root / "a.txt").write_text("another")

        with pytest.raises(ConflictError, match=r"a\.txt"):
            branch.prepare()
        branch.rollback()
        assert held(root) == {"a.txt": "another"}

    def test_is_not_copied_as_if_it_were_the_one_looked_at(
        self,
        disk: VirtualFilesystem,
        root: Path,
        branch_of: Branch,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        (root / "a.txt").write_text("one")
        branch = branch_of(disk)
        branch.resource.copy("a.txt", "b.txt")
        fill = staging._fill

        def edited_first(handle: int, content: Content) -> None:
            # Everything has been checked by now; only the copying itself can notice.
            (root / "a.txt").write_text("another")
            fill(handle, content)

        monkeypatch.setattr(staging, "_fill", edited_first)
        with pytest.raises(ConflictError, match=r"a\.txt"):
            branch.prepare()
        branch.rollback()
        assert held(root) == {"a.txt": "another"}


def held(root: Path) -> dict[str, str]:
    """Return the texts of the files in a directory."""
    return {each.name: each.read_text() for each in root.iterdir() if each.is_file()}


# --- where it is imported from ---


def test_the_store_is_imported_from_the_package_and_only_when_it_is_used(tmp_path: Path) -> None:
    program = (
        "import sys, toolstile_plugins.vfs as vfs; "
        "print('toolstile_plugins.vfs.backends.disk.store' in sys.modules); "
        "print(vfs.DiskStore.__name__, 'DiskStore' in vfs.__all__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["False", "DiskStore True"]

    store: DiskStore = DiskStore(tmp_path)
    with closing(VirtualFilesystem(store)) as files:
        files.write("a.txt", "one")
    assert (tmp_path / "a.txt").read_text() == "one"


def test_the_package_has_no_attribute_of_another_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'TapeStore'"):
        vfs.TapeStore  # noqa: B018 - it raises
