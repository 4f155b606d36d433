"""One form for every path, and refusals that a model understands."""

from __future__ import annotations

import pytest

from toolstile_hookspecs.services.filesystem import Filesystem

ALIASES = [
    "./d/a.txt",
    "d//a.txt",
    "d/./a.txt",
    "d/../d/a.txt",
    "d/x/../a.txt",
    "d/a.txt/",
    "d/a.txt/.",
    "/workspace/d/a.txt",
    "/workspace//d/a.txt",
    "/workspace/./d/../d/a.txt",
]
ROOTS = ["", ".", "./", "./.", "d/..", "/workspace", "/workspace/", "/workspace/."]
OUTSIDE = [
    "..",
    "../a.txt",
    "d/../../a.txt",
    "d/../..",
    "/etc/passwd",
    "/",
    "//workspace/a.txt",
    "/workspace/../etc/passwd",
    "/workspaces/a.txt",
    "C:\\Windows\\win.ini",
    "C:/Windows/win.ini",
    "c:a.txt",
    "/workspace/..",
]
IMPOSSIBLE = [
    "a\0b",
    "\0",
    "a\nb",
    "a\tb",
    "a\x1b[31mb",
    "a\x7fb",
    "d\\a.txt",
    "\\\\server\\share",
    "a\ud800b",
    "x" * 256,
    "é" * 128,
    "d/" + "x" * 256 + "/a.txt",
    "/".join(["d"] * 1000),
    "x" * 100_000,
]
USABLE = [
    "x" * 255,
    "é" * 127,
    "with space.txt",
    " leading",
    "trailing ",
    "dots...",
    ".hidden",
    "..a",
    "a..b",
    "~",
    "~root",
    "$HOME",
    "a*b",
    "a?b",
    "[a]",
    "{a,b}",
    "a'b\"c",
    "-rf",
    "a;b&c|d",
    "%2e%2e",
    "con",
    "\u00e9",
    "e\u0301",
    "\u65e5\u672c.txt",
    "\U0001f600.txt",
    "/".join(["d"] * 60) + "/a.txt",
]


def _shown(path: object) -> str:
    text = ascii(path)
    return text if len(text) < 40 else f"{text[:30]}...{len(text)}"  # noqa: PLR2004 - a line


class PathCases:
    """Paths, whatever is done with them."""

    @pytest.mark.parametrize("path", ALIASES, ids=_shown)
    def test_spellings_of_one_path_are_one_file(self, files: Filesystem, path: str) -> None:
        files.write("d/a.txt", "one")
        assert files.read(path) == "one"
        files.write(path, "two")
        assert files.read("d/a.txt") == "two"
        assert files.stat(path).path == "d/a.txt"

    @pytest.mark.parametrize("path", ROOTS, ids=_shown)
    def test_the_root_has_many_names(self, files: Filesystem, path: str) -> None:
        files.write("a.txt", "")
        assert [each.path for each in files.list(path)] == ["a.txt"]
        assert files.stat(path).kind == "directory"

    @pytest.mark.parametrize("path", OUTSIDE, ids=_shown)
    def test_nothing_leads_outside(self, files: Filesystem, path: str) -> None:
        files.write("a.txt", "one")
        self._refuses(files, path, PermissionError)

    @pytest.mark.parametrize("path", IMPOSSIBLE, ids=_shown)
    def test_what_can_be_no_path_is_refused(self, files: Filesystem, path: str) -> None:
        files.write("a.txt", "one")
        self._refuses(files, path, ValueError)

    @pytest.mark.parametrize("path", USABLE, ids=_shown)
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
        operations = (
            lambda: files.read(path),
            lambda: files.read_bytes(path),
            lambda: files.write(path, "x"),
            lambda: files.write_bytes(path, b"x"),
            lambda: files.open(path, "wb"),
            lambda: files.exists(path),
            lambda: files.stat(path),
            lambda: files.list(path),
            lambda: files.mkdir(path),
            lambda: files.delete(path, recursive=True),
            lambda: files.copy("a.txt", path),
            lambda: files.copy(path, "b.txt"),
            lambda: files.move("a.txt", path),
            lambda: list(files.glob("*", path)),
            lambda: list(files.search("x", path)),
        )
        for operation in operations:
            with pytest.raises(error) as caught:
                operation()
            text = str(caught.value)
            assert text
            assert len(text) < 400  # noqa: PLR2004 - a model reads it
            assert text.isprintable()
        assert [each.path for each in files.glob("**")] == ["a.txt"]
