"""Directories, and moving and copying what is in them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from toolstile_hookspecs.errors import StateError
from toolstile_hookspecs.services.filesystem import Filesystem


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
