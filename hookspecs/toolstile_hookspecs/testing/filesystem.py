"""The conformance suite of a `Filesystem`, to subclass."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from toolstile_hookspecs.errors import StateError
from toolstile_hookspecs.services.filesystem import FileStat, Filesystem
from toolstile_hookspecs.testing.filesystem_files import FileCases, FindingCases, shown
from toolstile_hookspecs.testing.suite import Contract

ALIASES = [
    "./d/a.txt", "d//a.txt", "d/./a.txt", "d/../d/a.txt", "d/x/../a.txt", "d/a.txt/", "d/a.txt/.",
    "/workspace/d/a.txt", "/workspace//d/a.txt", "/workspace/./d/../d/a.txt",
]  # fmt: skip
ROOTS = ["", ".", "./", "./.", "d/..", "/workspace", "/workspace/", "/workspace/."]
OUTSIDE = [
    "..", "../a.txt", "d/../../a.txt", "d/../..", "/etc/passwd", "/", "//workspace/a.txt",
    "/workspace/../etc/passwd", "/workspaces/a.txt", "C:\\Windows\\win.ini", "C:/Windows/win.ini",
    "c:a.txt", "/workspace/..",
]  # fmt: skip
IMPOSSIBLE = [
    "a\0b", "\0", "a\nb", "a\tb", "a\x1b[31mb", "a\x7fb", "d\\a.txt", "\\\\server\\share",
    "a\ud800b", "x" * 256, "é" * 128, "d/" + "x" * 256 + "/a.txt", "/".join(["d"] * 1000),
    "x" * 100_000,
]  # fmt: skip
USABLE = [
    "x" * 255, "é" * 127, "with space.txt", " leading", "trailing ", "dots...", ".hidden", "..a",
    "a..b", "~", "~root", "$HOME", "a*b", "a?b", "[a]", "{a,b}", "a'b\"c", "-rf", "a;b&c|d",
    "%2e%2e", "con", "\u00e9", "e\u0301", "\u65e5\u672c.txt", "\U0001f600.txt",
    "/".join(["d"] * 60) + "/a.txt",
]  # fmt: skip


class PathCases:
    """Paths, whatever is done with them."""

    @pytest.mark.parametrize("path", ALIASES, ids=shown)
    def test_spellings_of_one_path_are_one_file(self, files: Filesystem, path: str) -> None:
        files.write("d/a.txt", "one")
        assert files.read(path) == "one"
        files.write(path, "two")
        assert files.read("d/a.txt") == "two"
        assert files.stat(path).path == "d/a.txt"

    @pytest.mark.parametrize("path", ROOTS, ids=shown)
    def test_the_root_has_many_names(self, files: Filesystem, path: str) -> None:
        files.write("a.txt", "")
        assert [each.path for each in files.list(path)] == ["a.txt"]
        assert files.stat(path).kind == "directory"

    @pytest.mark.parametrize("path", OUTSIDE, ids=shown)
    def test_nothing_leads_outside(self, files: Filesystem, path: str) -> None:
        files.write("a.txt", "one")
        self._refuses(files, path, PermissionError)

    @pytest.mark.parametrize("path", IMPOSSIBLE, ids=shown)
    def test_what_can_be_no_path_is_refused(self, files: Filesystem, path: str) -> None:
        files.write("a.txt", "one")
        self._refuses(files, path, ValueError)

    @pytest.mark.parametrize("path", USABLE, ids=shown)
    def test_unusual_names_are_kept_as_they_are(self, files: Filesystem, path: str) -> None:
        files.write(path, "one")
        assert files.read(path) == "one"
        assert files.stat(path).path == path
        assert path in {each.path for each in files.glob("**")}
        files.delete(path)
        assert not files.exists(path)

    def test_unicode_forms_are_names_of_their_own(self, files: Filesystem) -> None:
        files.write("\u00e9", "composed")
        files.write("e\u0301", "decomposed")
        assert files.read("\u00e9") == "composed"
        assert [each.path for each in files.list()] == ["e\u0301", "\u00e9"]

    def test_case_makes_a_difference(self, files: Filesystem) -> None:
        files.write("A", "upper")
        assert not files.exists("a")

    @staticmethod
    def _refuses(files: Filesystem, path: str, error: type[Exception]) -> None:
        operations: list[Callable[[], object]] = [
            *_uses(files, path),
            lambda: files.exists(path),
            lambda: files.stat(path),
            lambda: files.delete(path, recursive=True),
            lambda: files.copy(path, "b.txt"),
        ]
        for operation in operations:
            with pytest.raises(error) as caught:
                operation()
            text = str(caught.value)
            assert text
            assert len(text) < 400  # noqa: PLR2004 - a model reads it
            assert text.isprintable()
        assert [each.path for each in files.glob("**")] == ["a.txt"]


TARGETS = [
    "a.txt", "d", ".", "..", "../../outside", "/etc/passwd", "/", "link", "missing/far/away",
    "with space", "\u65e5\u672c", "back\\slash", "new\nline", "\udcff\udcfe", ".toolstile/lock",
    "x" * 4095,
]  # fmt: skip
NO_TARGETS = ["", "a\0b", "\ud800", "x" * 4096]


class EntryCases:
    """Entries that programs need beside the content of files."""

    @pytest.mark.parametrize("target", TARGETS, ids=shown)
    def test_a_link_keeps_its_text_whatever_that_says(self, files: Filesystem, target: str) -> None:
        files.link("d/link", target)
        stat = files.stat("d/link")
        assert (stat.path, stat.kind, stat.size, stat.target) == ("d/link", "link", 0, target)
        assert (stat.mode, stat.digest) == (None, None)
        assert files.exists("d/link")
        assert [(each.path, each.target) for each in files.list("d")] == [("d/link", target)]
        assert [each.kind for each in files.glob("**/link")] == ["link"]

    @pytest.mark.parametrize("target", NO_TARGETS, ids=shown)
    def test_what_no_link_can_say_is_refused(self, files: Filesystem, target: str) -> None:
        with pytest.raises(ValueError, match="text of a link"):
            files.link("link", target)
        assert not files.exists("link")

    @pytest.mark.parametrize("target", ["a.txt", "d", "missing", "/etc", "link"])
    def test_nothing_is_read_or_written_through_a_link(
        self, files: Filesystem, target: str
    ) -> None:
        files.write("a.txt", "one")
        files.write("d/b.txt", "two")
        files.link("link", target)
        for path in ("link", "link/b.txt", "link/passwd"):
            for operation in _uses(files, path):
                with pytest.raises(OSError, match="link") as told:
                    operation()
                # An absolute target may be a folder of this machine, which no model reads.
                assert target in str(told.value) or target == "/etc"
        assert {each.path for each in files.search("o")} == {"a.txt", "d/b.txt"}
        assert {each.path for each in files.glob("*/*")} == {"d/b.txt"}
        assert files.stat("link").target == target

    def test_a_link_is_made_where_nothing_is(self, files: Filesystem) -> None:
        files.write("a.txt", "one")
        files.mkdir("d")
        files.link("link", "a.txt")
        for path in ("a.txt", "d", "link", ""):
            with pytest.raises(FileExistsError):
                files.link(path, "elsewhere")
        with pytest.raises(NotADirectoryError):
            files.link("a.txt/link", "x")
        with pytest.raises(PermissionError):
            files.link("../link", "x")
        assert files.stat("link").target == "a.txt"

    def test_a_link_is_copied_moved_and_deleted_as_one(self, files: Filesystem) -> None:
        files.write("a.txt", "one")
        files.link("link", "a.txt")
        files.copy("link", "d/copied")
        files.move("link", "d/moved")
        files.copy("d", "e")
        assert not files.exists("link")
        for path in ("d/copied", "d/moved", "e/copied", "e/moved"):
            assert files.stat(path).target == "a.txt"
        with pytest.raises(FileExistsError):
            files.copy("d/copied", "a.txt", overwrite=True)
        files.delete("d/copied")
        files.delete("e", recursive=True)
        assert [each.path for each in files.glob("**")] == ["a.txt", "d", "d/moved"]
        assert files.read("a.txt") == "one"

    def test_kinds_take_the_place_of_one_another(self, files: Filesystem) -> None:
        makers: list[Callable[[], None]] = [
            lambda: files.write("x", "a file"),
            lambda: files.link("x", "elsewhere"),
            lambda: files.mkdir("x"),
        ]
        kinds = ("file", "link", "directory")
        for first, second in ((0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)):
            makers[first]()
            files.delete("x")
            makers[second]()
            assert files.stat("x").kind == kinds[second]
            files.delete("x")

    @pytest.mark.parametrize("mode", [0o755, 0o700, 0o600, 0o644])
    def test_a_mode_is_kept(self, files: Filesystem, mode: int) -> None:
        files.write("run.sh", "#!")
        files.chmod("run.sh", mode)
        assert _mode_and_size(files.stat("run.sh")) == (mode, 2)
        files.write("run.sh", "#!/bin/sh")
        files.copy("run.sh", "d/copied")
        files.move("run.sh", "d/moved")
        assert _mode_and_size(files.stat("d/copied")) == (mode, 9)
        assert _mode_and_size(files.stat("d/moved")) == (mode, 9)
        assert files.read("d/moved") == "#!/bin/sh"

    def test_a_mode_lets_no_program_run_as_somebody_else(self, files: Filesystem) -> None:
        files.write("run.sh", "#!")
        files.chmod("run.sh", 0o7755)
        assert files.stat("run.sh").mode == 0o755  # noqa: PLR2004 - a mode
        with pytest.raises(ValueError, match="mode"):
            files.chmod("run.sh", -1)

    def test_a_file_that_nobody_may_write_can_be_made_one_that_its_owner_may(
        self, files: Filesystem
    ) -> None:
        files.write("a.txt", "one")
        files.chmod("a.txt", 0o444)
        assert files.is_readonly("a.txt")
        with pytest.raises(PermissionError):
            files.write("a.txt", "two")
        files.chmod("a.txt", 0o644)
        files.write("a.txt", "two")
        assert files.read("a.txt") == "two"

    def test_a_directory_with_another_mode_holds_what_it_held(self, files: Filesystem) -> None:
        files.write("d/e/a.txt", "one")
        files.chmod("d", 0o700)
        files.write("d/b.txt", "two")
        files.delete("d/e/a.txt")
        assert files.stat("d").mode == 0o700  # noqa: PLR2004 - a mode
        assert [each.path for each in files.glob("**")] == ["d", "d/b.txt", "d/e"]
        files.chmod("d", 0o755)
        files.move("d", "moved")
        assert files.stat("moved").mode == 0o755  # noqa: PLR2004 - a mode
        assert files.read("moved/b.txt") == "two"

    def test_what_is_not_there_has_no_mode(self, files: Filesystem) -> None:
        files.link("link", "a.txt")
        with pytest.raises(FileNotFoundError):
            files.chmod("a.txt", 0o755)
        with pytest.raises(PermissionError, match="link"):
            files.chmod("link", 0o755)
        with pytest.raises(PermissionError, match="root"):
            files.chmod("", 0o755)

    def test_an_empty_directory_stays(self, files: Filesystem) -> None:
        files.mkdir("a/b")
        files.write("a/c.txt", "")
        files.delete("a/c.txt")
        assert [(each.path, each.kind) for each in files.glob("**")] == [
            ("a", "directory"),
            ("a/b", "directory"),
        ]


def _uses(files: Filesystem, path: str) -> list[Callable[[], object]]:
    return [
        lambda: files.read(path),
        lambda: files.read_bytes(path),
        lambda: files.open(path),
        lambda: files.open(path, "ab"),
        lambda: files.write(path, "x"),
        lambda: files.write_bytes(path, b"x"),
        lambda: files.mkdir(path),
        lambda: files.list(path),
        lambda: list(files.glob("*", path)),
        lambda: list(files.search("o", path)),
        lambda: files.chmod(path, 0o755),
        lambda: files.copy("a.txt", path, overwrite=True),
        lambda: files.move("a.txt", path, overwrite=True),
    ]


def _mode_and_size(stat: FileStat) -> tuple[int | None, int]:
    return stat.mode, stat.size


def tree(files: Filesystem, path: str = "") -> dict[str, bytes | None]:
    """Return the content of every file, and None for every directory."""
    found: dict[str, bytes | None] = {}
    pending = [path]
    while pending:
        for each in files.list(pending.pop()):
            if each.kind == "directory":
                found[each.path] = None
                pending.append(each.path)
            else:
                found[each.path] = files.read_bytes(each.path)
    return found


class TreeCases:
    """Many files at a time."""

    def test_it_begins_empty(self, files: Filesystem) -> None:
        assert list(files.list()) == []
        assert list(files.glob("**")) == []
        assert files.exists("")

    def test_a_listing_is_sorted_and_goes_one_level_deep(self, files: Filesystem) -> None:
        for path in ("b.txt", "a/x/y.txt", "c/z", "B.txt", ".dot"):
            files.write(path, "")
        names = [(each.path, each.kind) for each in files.list()]
        assert names == [
            (".dot", "file"),
            ("B.txt", "file"),
            ("a", "directory"),
            ("b.txt", "file"),
            ("c", "directory"),
        ]
        assert [each.path for each in files.list("a")] == ["a/x"]

    def test_a_directory_can_be_made_again(self, files: Filesystem) -> None:
        files.mkdir("a/b/c")
        files.mkdir("a/b/c")
        files.mkdir("")
        assert tree(files) == {"a": None, "a/b": None, "a/b/c": None}

    def test_a_directory_cannot_be_made_where_a_file_is(self, files: Filesystem) -> None:
        files.write("f", "one")
        with pytest.raises(FileExistsError, match="f"):
            files.mkdir("f")
        with pytest.raises(NotADirectoryError):
            files.mkdir("f/d")

    def test_an_empty_directory_is_deleted(self, files: Filesystem) -> None:
        files.mkdir("a/b")
        files.delete("a/b")
        assert tree(files) == {"a": None}

    def test_a_filled_directory_is_only_deleted_recursively(self, files: Filesystem) -> None:
        files.write("a/b/c.txt", "one")
        files.write("ab.txt", "stays")
        with pytest.raises(OSError, match="not empty"):
            files.delete("a")
        assert files.read("a/b/c.txt") == "one"
        files.delete("a", recursive=True)
        assert tree(files) == {"ab.txt": b"stays"}

    def test_the_root_stays(self, files: Filesystem) -> None:
        files.write("a.txt", "one")
        with pytest.raises(PermissionError, match="root"):
            files.delete("", recursive=True)
        with pytest.raises((PermissionError, ValueError)):
            files.move("", "b")
        assert tree(files) == {"a.txt": b"one"}

    def test_a_deleted_directory_made_again_is_empty(self, files: Filesystem) -> None:
        files.write("d/a.txt", "one")
        files.delete("d", recursive=True)
        files.mkdir("d")
        assert list(files.list("d")) == []
        assert not files.exists("d/a.txt")

    @pytest.mark.parametrize("target", ["b.txt", "new/dir/b.txt", "d/b.txt"])
    @pytest.mark.parametrize("verb", ["copy", "move"])
    def test_a_file_goes_to_a_free_path(self, files: Filesystem, verb: str, target: str) -> None:
        files.write("a.txt", "one\r\n")
        files.mkdir("d")
        getattr(files, verb)("a.txt", target)
        assert files.read(target) == "one\r\n"
        assert files.exists("a.txt") == (verb == "copy")

    @pytest.mark.parametrize("verb", ["copy", "move"])
    def test_a_file_replaces_another_only_when_told_to(self, files: Filesystem, verb: str) -> None:
        files.write("a.txt", "one")
        files.write("b.txt", "two")
        with pytest.raises(FileExistsError, match=r"b\.txt"):
            getattr(files, verb)("a.txt", "b.txt")
        assert files.read("b.txt") == "two"
        assert files.read("a.txt") == "one"
        getattr(files, verb)("a.txt", "b.txt", overwrite=True)
        assert files.read("b.txt") == "one"
        assert files.exists("a.txt") == (verb == "copy")

    @pytest.mark.parametrize("overwrite", [False, True])
    @pytest.mark.parametrize("verb", ["copy", "move"])
    def test_no_directory_is_replaced(
        self, files: Filesystem, verb: str, *, overwrite: bool
    ) -> None:
        files.write("a.txt", "one")
        files.write("d/b.txt", "two")
        files.mkdir("e")
        before = tree(files)
        for source, target in (("a.txt", "d"), ("e", "d"), ("d", "a.txt"), ("d", "e"), ("e", "")):
            with pytest.raises(FileExistsError):
                getattr(files, verb)(source, target, overwrite=overwrite)
        assert tree(files) == before

    @pytest.mark.parametrize("verb", ["copy", "move"])
    def test_a_directory_goes_with_all_it_holds(self, files: Filesystem, verb: str) -> None:
        files.write("d/a.txt", "one")
        files.write("d/e/b.bin", "two")
        files.mkdir("d/empty")
        files.write("da.txt", "other")
        getattr(files, verb)("d", "x/y")
        moved = {"x": None, "x/y": None, "x/y/a.txt": b"one", "x/y/e": None}
        moved |= {"x/y/e/b.bin": b"two", "x/y/empty": None, "da.txt": b"other"}
        if verb == "copy":
            moved |= {"d": None, "d/a.txt": b"one", "d/e": None, "d/e/b.bin": b"two"}
            moved |= {"d/empty": None}
        assert tree(files) == moved

    @pytest.mark.parametrize("target", ["d", "d/e", "d/e/f", "d/new/deep"])
    @pytest.mark.parametrize("verb", ["copy", "move"])
    def test_a_directory_cannot_go_into_itself(
        self, files: Filesystem, verb: str, target: str
    ) -> None:
        files.write("d/e/a.txt", "one")
        before = tree(files)
        with pytest.raises((ValueError, FileExistsError)):
            getattr(files, verb)("d", target)
        assert tree(files) == before

    @pytest.mark.parametrize("verb", ["copy", "move"])
    def test_what_is_not_there_goes_nowhere(self, files: Filesystem, verb: str) -> None:
        files.write("f", "one")
        with pytest.raises(FileNotFoundError):
            getattr(files, verb)("missing", "b")
        with pytest.raises(NotADirectoryError):
            getattr(files, verb)("f/x", "b")
        with pytest.raises((NotADirectoryError, ValueError)):
            getattr(files, verb)("f", "f/x")
        assert tree(files) == {"f": b"one"}

    def test_a_copy_is_a_file_of_its_own(self, files: Filesystem) -> None:
        files.write("a.txt", "one")
        files.copy("a.txt", "b.txt")
        files.write("a.txt", "two")
        assert files.read("b.txt") == "one"

    def test_a_chain_of_moves(self, files: Filesystem) -> None:
        files.write("a", "A")
        files.write("b", "B")
        files.move("a", "tmp")
        files.move("b", "a")
        files.move("tmp", "b")
        assert tree(files) == {"a": b"B", "b": b"A"}

    def test_a_moved_directory_leaves_its_name_free(self, files: Filesystem) -> None:
        files.write("d/a.txt", "one")
        files.move("d", "e")
        files.write("d", "a file now")
        assert tree(files) == {"d": b"a file now", "e": None, "e/a.txt": b"one"}

    def test_the_real_directory_or_the_reason_why_there_is_none(self, files: Filesystem) -> None:
        files.write("d/a.txt", "one")
        with ExitStack() as stack:
            try:
                path = Path(stack.enter_context(files.exclusive_path()))
            except (OSError, StateError):
                return
            assert (path / "d" / "a.txt").read_bytes() == b"one"
            (path / "d" / "b.txt").write_bytes(b"two")
        assert files.read("d/b.txt") == "two"


class FilesystemContract(
    Contract, PathCases, FileCases, EntryCases, TreeCases, FindingCases, files=Filesystem
):
    """The tests of a `Filesystem`.

    Subclass it, and give a fixture `files` that returns an empty one.

    Example:
        >>> import pytest
        >>> class TestCloudFilesystem(FilesystemContract):
        ...     @pytest.fixture
        ...     def files(self) -> Filesystem:
        ...         return CloudFilesystem()
    """

    @pytest.fixture
    def files(self) -> Filesystem:
        """Return an empty file system."""
        self._must_give("files", "gives an empty one")
