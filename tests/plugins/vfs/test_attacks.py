"""Hostile trees, paths and neighbours do not succeed."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from toolstile import Host
from toolstile_hookspecs import CallRefused, ConflictError, Prompt, ToolCall
from toolstile_plugins.vfs import VfsConfig, VfsToolsSection
from toolstile_plugins.vfs.workspace import VirtualFilesystem, WorkspaceBranch

Branch = Callable[..., WorkspaceBranch]
Commit = Callable[[WorkspaceBranch], None]

SECRET = "the secret outside"


def held(directory: Path) -> list[str]:
    """Return the names in a directory."""
    return sorted(each.name for each in directory.iterdir())


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "secret.txt").write_text(SECRET)
    return directory


class TestLinks:
    @pytest.fixture(
        params=["file", "directory", "up", "dangling", "loop", "absolute root", "to itself within"]
    )
    def link(self, request: pytest.FixtureRequest, root: Path, outside: Path) -> str:
        targets = {
            "file": outside / "secret.txt",
            "directory": outside,
            "up": "..",
            "dangling": outside / "missing",
            "loop": "link",
            "absolute root": "/",
            "to itself within": ".",
        }
        (root / "link").symlink_to(targets[request.param])
        (root / "plain.txt").write_text("plain")
        return "link"

    def test_are_listed_as_links_with_where_they_lead(
        self, disk: VirtualFilesystem, root: Path, link: str
    ) -> None:
        assert [(each.path, each.kind) for each in disk.list()] == [
            ("link", "link"),
            ("plain.txt", "file"),
        ]
        assert disk.stat(link).kind == "link"
        assert disk.stat(link).target == str((root / "link").readlink())

    def test_are_not_followed_by_any_operation(
        self, disk: VirtualFilesystem, link: str, outside: Path
    ) -> None:
        before = {each: each.read_bytes() for each in outside.iterdir()}
        for path in (link, f"{link}/secret.txt", f"{link}/outside/secret.txt", f"{link}/new/x"):
            operations: list[Callable[[], object]] = [
                lambda p=path: disk.read(p),
                lambda p=path: disk.read_bytes(p),
                lambda p=path: disk.open(p),
                lambda p=path: disk.write(p, "overwritten"),
                lambda p=path: disk.open(p, "ab"),
                lambda p=path: disk.list(p),
                lambda p=path: list(disk.glob("*", p)),
                lambda p=path: list(disk.search("secret", p)),
                lambda p=path: disk.chmod(p, 0o777),
                lambda p=path: disk.link(p, "plain.txt"),
                lambda p=path: disk.mkdir(p),
                lambda p=path: disk.copy("plain.txt", p, overwrite=True),
                lambda p=path: disk.move("plain.txt", p, overwrite=True),
            ]
            for operation in operations:
                with pytest.raises((PermissionError, NotADirectoryError, FileExistsError)) as told:
                    operation()
                assert "link" in str(told.value)
        assert {each: each.read_bytes() for each in outside.iterdir()} == before

    def test_are_passed_by_when_searching(self, disk: VirtualFilesystem, link: str) -> None:
        assert list(disk.search("secret")) == []
        assert [each.path for each in disk.glob("**")] == [link, "plain.txt"]
        assert [each.path for each in disk.glob("*/*")] == []

    def test_can_be_deleted_without_what_they_lead_to(
        self, disk: VirtualFilesystem, root: Path, outside: Path, link: str
    ) -> None:
        disk.write("d/a.txt", "one")
        (root / "d" / "link").symlink_to(outside)
        disk.delete("d", recursive=True)
        disk.delete(link)
        assert not (root / "link").is_symlink()
        assert (outside / "secret.txt").read_text() == SECRET

    def test_are_copied_and_moved_as_links(
        self, disk: VirtualFilesystem, root: Path, outside: Path, link: str
    ) -> None:
        target = (root / link).readlink()
        disk.copy(link, "d/copied")
        disk.move(link, "d/moved")
        disk.copy("d", "e")
        for path in ("d/copied", "d/moved", "e/copied", "e/moved"):
            assert (root / path).readlink() == target
        assert not (root / link).is_symlink()
        assert held(outside) == ["secret.txt"]
        assert (outside / "secret.txt").read_text() == SECRET


@pytest.fixture(params=["by a call", "by a program"])
def led_out(request: pytest.FixtureRequest, disk: VirtualFilesystem, outside: Path) -> str:
    """The names of two links: to a file outside and to its directory."""
    for name, target in (("link", outside / "secret.txt"), ("up", Path("../outside"))):
        if request.param == "by a call":
            disk.link(name, str(target))
        else:
            Path(disk.directories[0], name).symlink_to(target)
    return "link"


CALLS: list[tuple[str, dict[str, object]]] = [
    ("read_file", {"path": "link"}),
    ("read_file", {"path": "up/secret.txt"}),
    ("write_file", {"path": "link", "content": "overwritten", "overwrite": True}),
    ("write_file", {"path": "up/new.txt", "content": "new"}),
    ("edit_file", {"path": "link", "old_text": "secret", "new_text": "overwritten"}),
    ("list_directory", {}),
    ("list_directory", {"path": "up"}),
    ("glob_files", {"pattern": "**"}),
    ("glob_files", {"pattern": "*", "path": "up"}),
    ("grep_files", {"pattern": "the .* outside"}),
    ("grep_files", {"pattern": "the .* outside", "path": "link"}),
    ("copy_file", {"source": "plain.txt", "target": "link", "overwrite": True}),
    ("copy_file", {"source": "plain.txt", "target": "up/plain.txt"}),
    ("copy_file", {"source": "up/secret.txt", "target": "copied.txt"}),
    ("copy_file", {"source": "link", "target": "copied"}),
    ("move_file", {"source": "up", "target": "moved"}),
    ("read_file", {"path": "copied"}),
    ("read_file", {"path": "moved/secret.txt"}),
    ("delete_file", {"path": "moved", "recursive": True}),
    ("delete_file", {"path": "copied"}),
]


def test_no_tool_reads_or_writes_through_a_link(
    disk: VirtualFilesystem, led_out: str, outside: Path, branch_of: Branch
) -> None:
    disk.write("plain.txt", "plain")
    branch = branch_of(disk)
    branch.resource.copy(led_out, "copied")
    branch.resource.delete("up")
    told = [branch.diff()]
    assert b64encode(SECRET.encode()).decode() not in branch.told()
    branch.rollback()
    snapshot = disk.snapshot()
    section = VfsToolsSection(filesystem=disk, policies=(), config=VfsConfig(confirm_deletes=False))
    prompt = Prompt.of("tests", "links", (section,))
    with Host(discover=False) as host, host.executor(prompt=prompt) as tools:
        for name, arguments in CALLS:
            told.append(tools.dispatch(ToolCall(name, arguments)).text)
    disk.restore(snapshot)
    assert [text for text in told if SECRET in text or "Internal error" in text] == []
    assert held(outside) == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == SECRET
    assert disk.stat(led_out).target == str(outside / "secret.txt")
    assert disk.stat("up").target == "../outside"
    assert not disk.exists("moved")


def test_a_link_in_the_place_of_a_file_that_was_read_is_not_written_through(
    disk: VirtualFilesystem, root: Path, outside: Path
) -> None:
    disk.write("notes.txt", SECRET)
    prompt = Prompt.of("tests", "links", (VfsToolsSection(filesystem=disk),))
    with Host(discover=False) as host, host.executor(prompt=prompt) as tools:
        assert tools.dispatch(ToolCall("read_file", {"path": "notes.txt"})).success
        (root / "notes.txt").unlink()
        (root / "notes.txt").symlink_to(outside / "secret.txt")
        change = {"path": "notes.txt", "old_text": SECRET, "new_text": "overwritten"}
        told = tools.dispatch(ToolCall("edit_file", change))
        assert "is a symbolic link to" in told.text
        over = {"path": "notes.txt", "content": "overwritten", "overwrite": True}
        assert "is a symbolic link to" in tools.dispatch(ToolCall("write_file", over)).text
    assert (outside / "secret.txt").read_text() == SECRET


class TestSwapped:
    """A link takes the place of what was looked at."""

    def test_between_looking_and_reading(
        self, disk: VirtualFilesystem, root: Path, outside: Path, branch_of: Branch
    ) -> None:
        (root / "a.txt").write_text("one")
        files = branch_of(disk).resource
        assert files.stat("a.txt").size == 3
        (root / "a.txt").unlink()
        (root / "a.txt").symlink_to(outside / "secret.txt")
        with pytest.raises(ConflictError, match=r"a\.txt"):
            files.read("a.txt")

    @pytest.mark.parametrize("moment", ["before prepare", "before commit"])
    def test_a_file_between_writing_and_commit(
        self, disk: VirtualFilesystem, root: Path, outside: Path, branch_of: Branch, moment: str
    ) -> None:
        (root / "a.txt").write_text("one")
        branch = branch_of(disk)
        branch.resource.write("a.txt", "two")
        if moment == "before commit":
            branch.prepare()
        (root / "a.txt").unlink()
        (root / "a.txt").symlink_to(outside / "secret.txt")
        with pytest.raises(ConflictError, match=r"a\.txt"):
            branch.prepare() if moment == "before prepare" else branch.commit()
        branch.rollback()
        assert (outside / "secret.txt").read_text() == SECRET
        assert (root / "a.txt").is_symlink()

    @pytest.mark.parametrize("moment", ["before prepare", "before commit"])
    def test_a_directory_between_writing_and_commit(
        self, disk: VirtualFilesystem, root: Path, outside: Path, branch_of: Branch, moment: str
    ) -> None:
        (root / "d").mkdir()
        branch = branch_of(disk)
        branch.resource.write("first.txt", "one")
        branch.resource.write("d/secret.txt", "two")
        if moment == "before commit":
            branch.prepare()
        (root / "d").rmdir()
        (root / "d").symlink_to(outside)
        with pytest.raises(ConflictError, match="d"):
            branch.prepare() if moment == "before prepare" else branch.commit()
        branch.rollback()
        assert (outside / "secret.txt").read_text() == SECRET
        assert not (root / "first.txt").exists()

    @pytest.mark.long
    def test_over_and_over(self, disk: VirtualFilesystem, root: Path, outside: Path) -> None:
        (root / "d").mkdir()
        (root / "d" / "secret.txt").write_text("harmless")
        (root / "link").symlink_to(outside)
        stop = threading.Event()

        def swap() -> None:
            while not stop.is_set():
                with suppress(OSError):
                    (root / "d").rename(root / "kept")
                    (root / "link").rename(root / "d")
                    (root / "d").rename(root / "link")
                    (root / "kept").rename(root / "d")

        thread = threading.Thread(target=swap)
        thread.start()
        seen: set[str] = set()
        try:
            for _ in range(1500):
                with suppress(OSError, ConflictError):
                    seen.add(disk.read("d/secret.txt"))
                with suppress(OSError, ConflictError):
                    seen.update(match.text for match in disk.search("secret|harm"))
                with suppress(OSError, ConflictError):
                    disk.write("d/new.txt", "x")
        finally:
            stop.set()
            thread.join()
        assert seen == {"harmless"}
        assert held(outside) == ["secret.txt"]


class TestSpecialFiles:
    @pytest.fixture(params=["fifo", "socket", "device"])
    def special(self, request: pytest.FixtureRequest, root: Path, tmp_path: Path) -> Iterator[str]:
        path = root / "special"
        if request.param == "fifo":
            os.mkfifo(path)
            yield "special"
        elif request.param == "socket":
            with socket.socket(socket.AF_UNIX) as server:
                here = os.open(root, os.O_RDONLY)
                try:
                    # The path of a socket is short; the one of a test is not.
                    server.bind(f"/proc/self/fd/{here}/special")
                finally:
                    os.close(here)
                yield "special"
        else:
            try:
                os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
            except PermissionError:
                pytest.skip("making a device needs root")
            yield "special"

    def test_are_never_opened(self, disk: VirtualFilesystem, root: Path, special: str) -> None:
        (root / "plain.txt").write_text("plain")
        before = os.lstat(root / special)
        for operation in (disk.read, disk.read_bytes, disk.open):
            with pytest.raises(PermissionError, match=r"FIFO|socket|device"):
                operation(special)
        for change in (
            lambda: disk.write(special, "x"),
            lambda: disk.copy(special, "copied"),
            lambda: disk.move(special, "moved"),
            lambda: list(disk.search("x", special)),
        ):
            with pytest.raises(PermissionError, match=r"FIFO|socket|device"):
                change()
        assert disk.stat(special).kind == "other"
        assert [match.path for match in disk.search("p")] == ["plain.txt"]
        assert [each.path for each in disk.glob("**")] == ["plain.txt", special]
        assert os.lstat(root / special) == before
        disk.delete(special)
        assert not (root / special).exists()

    def test_swapped_in_do_not_hang(
        self, disk: VirtualFilesystem, root: Path, branch_of: Branch
    ) -> None:
        (root / "a.txt").write_text("one")
        branch = branch_of(disk)
        branch.resource.read("a.txt")
        (root / "a.txt").unlink()
        os.mkfifo(root / "a.txt")
        with pytest.raises(ConflictError):
            branch.resource.read("a.txt")
        with pytest.raises(ConflictError):
            branch.prepare()


class TestLargeTrees:
    def test_a_sparse_file_of_a_gigabyte(self, disk: VirtualFilesystem, root: Path) -> None:
        with (root / "sparse").open("wb") as stream:
            stream.seek(500_000_000)
            stream.write(b"in the middle")
            stream.truncate(1 << 30)
        began = time.process_time()
        assert disk.stat("sparse").size == 1 << 30
        assert list(disk.search("middle")) == []
        disk.copy("sparse", "copy")
        disk.move("sparse", "d/moved")
        with disk.open("copy") as stream:
            stream.seek(500_000_000)
            assert stream.read(13) == b"in the middle"
        assert (root / "copy").stat().st_size == 1 << 30
        assert (root / "copy").stat().st_blocks * 512 < 1 << 20
        assert time.process_time() - began < 20

    @pytest.mark.long
    def test_a_thousand_directories_deep(self, disk: VirtualFilesystem, root: Path) -> None:
        handle = os.open(root, os.O_RDONLY)
        for _ in range(1000):
            os.mkdir("d", dir_fd=handle)
            deeper = os.open("d", os.O_RDONLY, dir_fd=handle)
            os.close(handle)
            handle = deeper
        os.close(handle)
        assert 100 < len(list(disk.glob("**"))) < 1000
        assert list(disk.search("x")) == []
        disk.delete("d", recursive=True)
        assert list(disk.list()) == []

    @pytest.mark.long
    def test_a_hundred_thousand_files_in_one_directory(
        self, disk: VirtualFilesystem, root: Path, branch_of: Branch, commit: Commit
    ) -> None:
        (root / "many").mkdir()
        for number in range(100_000):
            (root / "many" / f"{number:06}.txt").write_text("x")
        began = time.process_time()
        assert len(disk.list("many")) == 100_000
        assert [each.path for each in disk.glob("many/*99999*")] == ["many/099999.txt"]
        assert time.process_time() - began < 30
        began = time.process_time()
        for _ in range(20):
            branch = branch_of(disk)
            branch.resource.write("many/050000.txt", "changed")
            commit(branch)
        assert (time.process_time() - began) / 20 < 0.01


class TestReservedNames:
    def test_are_refused(self, workspace: VirtualFilesystem, subtests: pytest.Subtests) -> None:
        for path in [
            ".toolstile",
            ".toolstile/lock",
            "d/../.toolstile/lock",
            ".Toolstile",
            "d/.toolstile/x",
        ]:
            with subtests.test(path=path):
                workspace.write("a.txt", "one")
                for operation in (
                    workspace.read,
                    workspace.list,
                    workspace.exists,
                    workspace.mkdir,
                ):
                    with pytest.raises(PermissionError, match="toolstile"):
                        operation(path)
                with pytest.raises(PermissionError, match="toolstile"):
                    workspace.write(path, "x")
                assert [each.path for each in workspace.glob("**")] == ["a.txt"]
                assert list(workspace.search("")) != []

    def test_a_link_in_their_place_is_not_followed(
        self, disk: VirtualFilesystem, root: Path, outside: Path
    ) -> None:
        (root / ".toolstile").symlink_to(outside)
        with pytest.raises(PermissionError, match=r"\.toolstile"):
            disk.write("a.txt", "one")
        assert not (root / "a.txt").exists()
        assert held(outside) == ["secret.txt"]

    def test_a_forged_record_does_not_lead_outside(
        self, root: Path, outside: Path, on_disk: Callable[..., VirtualFilesystem]
    ) -> None:
        slots = root / ".toolstile" / "commit-0"
        slots.mkdir(parents=True)
        (slots / "new-0").write_text("forged")
        inode = (slots / "new-0").stat().st_ino
        (slots / "decided").write_text(
            '{"operations": [{"kind": "install", "path": "../outside/new.txt", "slot": 0, '
            f'"after": {{"inode": {inode}, "size": 6, "mtime_ns": 0}}}}]}}'
        )
        files = on_disk(root)
        assert "cannot be finished" in str(files.store.stopped)  # type: ignore[attr-defined]
        assert held(outside) == ["secret.txt"]


class TestNamesThatNoPathCanName:
    @pytest.fixture(params=[b"new\nline", b"\xff\xfe", b"back\\slash", b"bell\x07", b".toolstile"])
    def odd(self, request: pytest.FixtureRequest, root: Path) -> bytes:
        (root / "d").mkdir()
        (root / "d" / os.fsdecode(request.param)).touch()
        return request.param

    def test_are_left_out(self, disk: VirtualFilesystem, odd: bytes) -> None:
        disk.write("d/a.txt", "one")
        assert [each.path for each in disk.list("d")] == ["d/a.txt"]
        assert [each.path for each in disk.glob("**")] == ["d", "d/a.txt"]

    def test_keep_their_directory_from_being_removed(
        self, disk: VirtualFilesystem, root: Path, odd: bytes
    ) -> None:
        with pytest.raises(OSError, match="not empty"):
            disk.delete("d")
        with pytest.raises(PermissionError, match="no path"):
            disk.delete("d", recursive=True)
        assert [os.fsencode(name) for name in held(root / "d")] == [odd]


class TestEditedFromOutside:
    """Between what a call reads and its commit."""

    @pytest.fixture
    def branch(self, disk: VirtualFilesystem, root: Path, branch_of: Branch) -> WorkspaceBranch:
        (root / "a.txt").write_text("one")
        (root / "b.txt").write_text("two")
        branch = branch_of(disk)
        branch.resource.write("b.txt", branch.resource.read("a.txt"))
        branch.resource.write("new/c.txt", "three")
        return branch

    def refused(self, branch: WorkspaceBranch, *, match: str) -> None:
        with pytest.raises(ConflictError, match=match):
            branch.prepare()
        branch.rollback()

    def test_a_file_that_was_read(self, branch: WorkspaceBranch, root: Path) -> None:
        (root / "a.txt").write_text("edited")
        self.refused(branch, match=r"a\.txt")
        assert (root / "b.txt").read_text() == "two"
        assert not (root / "new").exists()

    def test_a_file_that_was_written(self, branch: WorkspaceBranch, root: Path) -> None:
        (root / "b.txt").write_text("edited")
        self.refused(branch, match=r"b\.txt")
        assert (root / "b.txt").read_text() == "edited"

    def test_a_file_in_place_with_size_and_mtime_as_before(
        self, branch: WorkspaceBranch, root: Path
    ) -> None:
        before = (root / "b.txt").stat()
        (root / "b.txt").write_text("TWO")
        os.utime(root / "b.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
        self.refused(branch, match=r"b\.txt")
        assert (root / "b.txt").read_text() == "TWO"

    def test_a_file_that_was_deleted(self, branch: WorkspaceBranch, root: Path) -> None:
        (root / "b.txt").unlink()
        self.refused(branch, match=r"b\.txt")
        assert not (root / "b.txt").exists()

    def test_a_file_where_there_was_none(self, branch: WorkspaceBranch, root: Path) -> None:
        (root / "new").mkdir()
        (root / "new" / "c.txt").write_text("of somebody else")
        self.refused(branch, match="new")
        assert (root / "new" / "c.txt").read_text() == "of somebody else"

    def test_a_file_added_to_a_directory_that_goes(
        self, disk: VirtualFilesystem, root: Path, branch_of: Branch
    ) -> None:
        (root / "d").mkdir()
        branch = branch_of(disk)
        branch.resource.delete("d", recursive=True)
        (root / "d" / "x").write_text("of somebody else")
        self.refused(branch, match="d/x")
        assert (root / "d" / "x").read_text() == "of somebody else"

    @pytest.mark.parametrize("what", ["a.txt", "b.txt", "new/c.txt"])
    def test_at_the_last_moment(self, branch: WorkspaceBranch, root: Path, what: str) -> None:
        assert branch.prepare() is None
        (root / what).parent.mkdir(exist_ok=True)
        (root / what).write_text("at the last moment")
        if what == "a.txt":
            # Only read: it was what it was when everything was checked.
            branch.commit()
            assert (root / "b.txt").read_text() == "one"
        else:
            with pytest.raises(ConflictError, match=what):
                branch.commit()
            assert ((root / "b.txt").read_text() == "two") == (what != "b.txt")
            assert (root / "new" / "c.txt").exists() == (what == "new/c.txt")
        assert (root / what).read_text() == "at the last moment"
        assert held(root / ".toolstile") == [".gitignore", "lock"]

    def test_within_one_tick_of_the_clock(
        self, disk: VirtualFilesystem, root: Path, branch_of: Branch
    ) -> None:
        missed = 0
        for number in range(200):
            path = root / f"{number}.txt"
            path.write_text("one")
            branch = branch_of(disk)
            branch.resource.write(path.name, branch.resource.read(path.name).upper())
            path.write_text("two")
            try:
                branch.prepare()
            except ConflictError:
                branch.rollback()
            else:
                branch.commit()
                missed += 1
        assert missed == 0


@contextmanager
def mounted(*arguments: str, at: Path) -> Iterator[None]:
    done = subprocess.run(["mount", *arguments, at], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mounting needs root: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", at], check=True)


@contextmanager
def read_only(at: Path) -> Iterator[None]:
    subprocess.run(["mount", "-o", "remount,bind,ro", at], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,bind,rw", at], check=True)


class TestBadDisks:
    def test_a_read_only_one(
        self, root: Path, tmp_path: Path, on_disk: Callable[..., VirtualFilesystem]
    ) -> None:
        (root / "a.txt").write_text("one")
        at = tmp_path / "mounted"
        at.mkdir()
        with mounted("--bind", str(root), at=at), read_only(at):
            files = on_disk(at)
            assert files.read("a.txt") == "one"
            assert files.is_readonly("a.txt")
            assert files.stat("a.txt").readonly
            for change in (
                lambda: files.write("a.txt", "two"),
                lambda: files.write("b.txt", "two"),
                lambda: files.delete("a.txt"),
                lambda: files.mkdir("d"),
                lambda: files.move("a.txt", "b.txt"),
            ):
                with pytest.raises(PermissionError, match="read-only"):
                    change()
            files.close()
        assert held(root) == ["a.txt"]

    def test_one_made_read_only_under_way(
        self,
        root: Path,
        tmp_path: Path,
        on_disk: Callable[..., VirtualFilesystem],
        branch_of: Branch,
    ) -> None:
        (root / "a.txt").write_text("one")
        at = tmp_path / "mounted"
        at.mkdir()
        with mounted("--bind", str(root), at=at):
            branch = branch_of(on_disk(at))
            branch.resource.write("a.txt", "two")
            with read_only(at):
                with pytest.raises(CallRefused, match="read-only"):
                    branch.prepare()
                branch.rollback()
        assert (root / "a.txt").read_text() == "one"

    def test_a_full_one(
        self, root: Path, on_disk: Callable[..., VirtualFilesystem], branch_of: Branch
    ) -> None:
        with mounted("-t", "tmpfs", "-o", "size=400k", "tmpfs", at=root):
            files = on_disk(root)
            files.write("a.txt", "one")
            branch = branch_of(files)
            branch.resource.write("a.txt", "two")
            branch.resource.write_bytes("big", b"x" * 1_000_000)
            with pytest.raises(CallRefused, match="full"):
                branch.prepare()
            branch.rollback()
            assert files.read("a.txt") == "one"
            assert held(root) == [".toolstile", "a.txt"]
            assert held(root / ".toolstile") == [".gitignore", "lock"]
            files.write("b.txt", "there is room for this")
            files.close()

    def test_one_removed_under_way(
        self, disk: VirtualFilesystem, root: Path, branch_of: Branch
    ) -> None:
        (root / "a.txt").write_text("one")
        branch = branch_of(disk)
        branch.resource.write("a.txt", "two")
        (root / "a.txt").unlink()
        root.rmdir()
        with pytest.raises(CallRefused, match="removed"):
            branch.prepare()
        branch.rollback()
        with pytest.raises(OSError, match="removed"):
            disk.read("a.txt")
        assert not root.exists()

    def test_one_renamed_under_way_is_still_the_same(
        self, disk: VirtualFilesystem, root: Path
    ) -> None:
        disk.write("a.txt", "one")
        root.rename(root.with_name("renamed"))
        disk.write("a.txt", "two")
        assert (root.with_name("renamed") / "a.txt").read_text() == "two"
        assert not root.exists()

    @pytest.mark.parametrize("replaced", [False, True])
    def test_no_program_is_started_where_another_one_lies_now(
        self, disk: VirtualFilesystem, root: Path, *, replaced: bool
    ) -> None:
        root.rename(root.with_name("renamed"))
        if replaced:
            root.mkdir()
        with pytest.raises(FileNotFoundError, match="moved"), disk.exclusive_path():
            pass

    def test_one_that_is_not_there(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        for name in ("missing", "file"):
            with pytest.raises(OSError, match="cannot be a workspace"):
                VirtualFilesystem.on_disk(tmp_path / name)

    def test_another_file_system_within(self, disk: VirtualFilesystem, root: Path) -> None:
        (root / "inner").mkdir()
        with mounted("-t", "tmpfs", "tmpfs", at=root / "inner"):
            (root / "inner" / "a.txt").write_text("one")
            assert disk.read("inner/a.txt") == "one"
            with pytest.raises(OSError, match="another file system"):
                disk.write("inner/a.txt", "two")
            assert (root / "inner" / "a.txt").read_text() == "one"
