"""Modes, symbolic links and empty directories."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from toolstile_hookspecs.services.filesystem import FileStat, Filesystem

TARGETS = [
    "a.txt",
    "d",
    ".",
    "..",
    "../../outside",
    "/etc/passwd",
    "/",
    "link",
    "missing/far/away",
    "with space",
    "\u65e5\u672c",
    "back\\slash",
    "new\nline",
    "\udcff\udcfe",
    ".toolstile/lock",
    "x" * 4095,
]
NO_TARGETS = ["", "a\0b", "\ud800", "x" * 4096]


def _shown(target: str) -> str:
    text = ascii(target)
    return text if len(text) < 40 else f"{text[:30]}...{len(target)}"  # noqa: PLR2004 - a line


class EntryCases:
    """Entries that programs need beside the content of files."""

    @pytest.mark.parametrize("target", TARGETS, ids=_shown)
    def test_a_link_keeps_its_text_whatever_that_says(self, files: Filesystem, target: str) -> None:
        files.link("d/link", target)
        stat = files.stat("d/link")
        assert (stat.path, stat.kind, stat.size, stat.target) == ("d/link", "link", 0, target)
        assert (stat.mode, stat.digest) == (None, None)
        assert files.exists("d/link")
        assert [(each.path, each.target) for each in files.list("d")] == [("d/link", target)]
        assert [each.kind for each in files.glob("**/link")] == ["link"]

    @pytest.mark.parametrize("target", NO_TARGETS, ids=_shown)
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
                assert target in str(told.value)
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
