"""Reading, writing and finding files."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, cast

import pytest

from toolstile_hookspecs.services.filesystem import Filesystem

TEXTS = [
    "", "one line", "one line\n", "unix\nlines\n", "windows\r\nlines\r\n", "old mac\rlines\r",
    "mixed\r\nlines\nand\r", "\n\n\n", "\ufeffwith a byte order mark\n",
    "Gr\u00fc\u00dfe, \u65e5\u672c, \U0001f600", "e\u0301", "tab\tand\x0bform\x0cfeed",
    "escape \x1b[0m", "no newline at the\nend", "x" * 100_000, "line\n" * 20_000,
]  # fmt: skip
BINARIES = [
    b"\0", b"text\0text", b"\x89PNG\r\n\x1a\n\0\0", b"\x1f\x8b\x08\x01\x02\x9d",
    bytes(range(256)), b"x" * 8000 + b"\0",
]  # fmt: skip
OTHER_ENCODINGS = [
    b"caf\xe9\r\n", b"\x80 5", b"na\xefve\n" * 20_000,
    "\ufeffUTF\r\n\U0001f600".encode("utf-16-le"), "\ufeffUTF\n".encode("utf-16-be"),
]  # fmt: skip


def shown(content: str | bytes) -> str:
    """Return a line that shows a content or a path."""
    text = ascii(content)
    return text if len(text) < 40 else f"{text[:30]}...{len(content)}"  # noqa: PLR2004 - a line


class FileCases:
    """One file at a time."""

    @pytest.mark.parametrize("text", TEXTS, ids=shown)
    def test_text_comes_back_as_it_was(self, files: Filesystem, text: str) -> None:
        files.write("a.txt", text)
        assert files.read("a.txt") == text
        assert files.read_bytes("a.txt") == text.encode()

    @pytest.mark.parametrize("data", BINARIES, ids=shown)
    def test_binary_files_are_said_to_be_binary(self, files: Filesystem, data: bytes) -> None:
        files.write_bytes("a.bin", data)
        assert files.read_bytes("a.bin") == data
        with pytest.raises(ValueError, match="binary"):
            files.read("a.bin")

    @pytest.mark.parametrize("data", OTHER_ENCODINGS, ids=shown)
    def test_text_in_another_encoding_stays_in_it_or_is_said_to_be_binary(
        self, files: Filesystem, data: bytes
    ) -> None:
        files.write_bytes("a.txt", data)
        try:
            text = files.read("a.txt")
        except ValueError as error:
            assert "binary" in str(error)  # noqa: PT017 - either is right
            return
        files.write("a.txt", text)
        assert files.read_bytes("a.txt") == data
        files.write("a.txt", f"{text}more\n")
        assert files.read("a.txt") == f"{text}more\n"

    @pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 1_000_000])
    def test_bytes_come_back_as_they_were(self, files: Filesystem, size: int) -> None:
        data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
        files.write_bytes("a.bin", data)
        assert files.read_bytes("a.bin") == data
        assert files.stat("a.bin").size == size

    def test_half_a_surrogate_pair_cannot_be_written(self, files: Filesystem) -> None:
        with pytest.raises(ValueError, match="surrogate"):
            files.write("a.txt", "x\ud800")
        assert not files.exists("a.txt")

    def test_writing_makes_the_directories(self, files: Filesystem) -> None:
        files.write("a/b/c.txt", "one")
        assert files.stat("a/b").kind == "directory"
        assert files.read("a/b/c.txt") == "one"

    def test_writing_again_replaces_all(self, files: Filesystem) -> None:
        files.write("a.txt", "a long text")
        files.write("a.txt", "short")
        assert files.read("a.txt") == "short"

    def test_what_the_caller_changes_later_is_not_in_the_file(self, files: Filesystem) -> None:
        data = bytearray(b"one")
        files.write_bytes("a.txt", cast("bytes", data))
        data[:] = b"two"
        assert files.read("a.txt") == "one"

    def test_a_file_that_is_not_there(self, files: Filesystem) -> None:
        for operation in (files.read, files.read_bytes, files.stat, files.delete, files.open):
            with pytest.raises(FileNotFoundError, match="missing"):
                operation("missing/a.txt")
        assert not files.exists("missing/a.txt")
        assert not files.exists("missing")

    def test_a_directory_is_no_file(self, files: Filesystem) -> None:
        files.mkdir("d")
        for operation in (files.read, files.read_bytes, files.open):
            with pytest.raises(IsADirectoryError, match="directory"):
                operation("d")
        with pytest.raises(IsADirectoryError):
            files.write("d", "x")
        with pytest.raises(IsADirectoryError):
            files.write("", "x")
        assert files.stat("d").kind == "directory"

    def test_a_file_is_no_directory(self, files: Filesystem) -> None:
        files.write("f", "one")
        operations = (
            lambda: files.write("f/a", "x"),
            lambda: files.write("f/a/b", "x"),
            lambda: files.read("f/a"),
            lambda: files.stat("f/a"),
            lambda: files.mkdir("f/a"),
            lambda: files.list("f"),
            lambda: list(files.glob("*", "f")),
            lambda: files.copy("f", "f2/../f/a"),
            lambda: files.delete("f/a"),
        )
        for operation in operations:
            with pytest.raises((NotADirectoryError, ValueError)):
                operation()
        assert not files.exists("f/a")
        assert files.read("f") == "one"

    def test_deleting_a_file(self, files: Filesystem) -> None:
        files.write("d/a.txt", "one")
        files.delete("d/a.txt")
        assert not files.exists("d/a.txt")
        assert files.exists("d")
        with pytest.raises(FileNotFoundError):
            files.read("d/a.txt")

    def test_a_deleted_file_can_be_written_again(self, files: Filesystem) -> None:
        files.write("a.txt", "one")
        files.delete("a.txt")
        files.write("a.txt", "two")
        assert files.read("a.txt") == "two"

    def test_a_file_can_take_the_place_of_a_directory_and_back(self, files: Filesystem) -> None:
        files.write("x/a.txt", "one")
        files.delete("x", recursive=True)
        files.write("x", "a file")
        assert files.read("x") == "a file"
        files.delete("x")
        files.write("x/b.txt", "two")
        assert [each.path for each in files.list("x")] == ["x/b.txt"]

    def test_what_is_known_of_a_file(self, files: Filesystem) -> None:
        files.write("d/a.txt", "one")
        stat = files.stat("d/a.txt")
        assert (stat.path, stat.kind, stat.size, stat.readonly) == ("d/a.txt", "file", 3, False)
        if stat.modified is not None:
            assert stat.modified.utcoffset() == timedelta(0)
        if stat.digest is not None:
            assert stat.digest == hashlib.sha256(b"one").hexdigest()

    def test_what_is_known_of_a_directory(self, files: Filesystem) -> None:
        files.mkdir("d")
        stat = files.stat("d")
        assert (stat.path, stat.kind, stat.size) == ("d", "directory", 0)

    def test_what_can_be_written_is_not_read_only(self, files: Filesystem) -> None:
        files.write("a.txt", "one")
        assert not files.is_readonly("a.txt")
        assert not files.is_readonly("not/there/yet")

    def test_reading_a_stream(self, files: Filesystem) -> None:
        files.write_bytes("a.bin", b"0123456789")
        with files.open("a.bin") as stream:
            assert stream.read(4) == b"0123"
            stream.seek(8)
            assert stream.read() == b"89"

    def test_writing_a_stream_counts_when_it_is_closed(self, files: Filesystem) -> None:
        files.write("a.txt", "before")
        stream = files.open("a.txt", "wb")
        assert stream.write(b"one ") == len(b"one ")
        stream.write(b"two")
        assert files.read("a.txt") == "before"
        stream.close()
        assert files.read("a.txt") == "one two"
        stream.close()
        with pytest.raises(ValueError, match="closed"):
            stream.write(b"more")

    def test_appending_to_a_stream(self, files: Filesystem) -> None:
        for text in (b"one ", b"two"):
            with files.open("d/a.txt", "ab") as stream:
                stream.write(text)
        assert files.read("d/a.txt") == "one two"

    def test_a_stream_left_by_an_exception_writes_nothing(self, files: Filesystem) -> None:
        files.write("a.txt", "before")
        stream = files.open("a.txt", "wb")
        with suppress(ZeroDivisionError), stream:
            stream.write(b"half of")
            raise ZeroDivisionError
        assert files.read("a.txt") == "before"

    def test_a_stream_of_many_megabytes(self, files: Filesystem) -> None:
        block = b"0123456789abcdef" * 65_536
        with files.open("big", "wb") as stream:
            for _ in range(10):
                stream.write(block)
        assert files.stat("big").size == 10 * len(block)
        with files.open("big") as stream:
            stream.seek(9 * len(block))
            assert stream.read() == block

    def test_a_stream_has_few_modes(self, files: Filesystem) -> None:
        files.write("a.txt", "one")
        with pytest.raises(ValueError, match="mode"):
            files.open("a.txt", cast("Any", "r+b"))


FILES = [
    ".env", "a.py", "b.txt", "docs/guide.md", "docs/img/logo.png", "src/.hidden/x.py", "src/a.py",
    "src/deep/er/b.py", "src/deep/c.pyi", "src/deep/er/d.txt", "x[1].txt",
]  # fmt: skip
GLOBS: list[tuple[str, str, list[str]]] = [
    ("*", "", [".env", "a.py", "b.txt", "docs", "src", "x[1].txt"]),
    ("*.py", "", ["a.py"]),
    ("**/*.py", "", ["a.py", "src/.hidden/x.py", "src/a.py", "src/deep/er/b.py"]),
    ("src/*.py", "", ["src/a.py"]),
    ("src/**/*.py", "", ["src/.hidden/x.py", "src/a.py", "src/deep/er/b.py"]),
    ("*.py", "src", ["src/a.py"]),
    ("**/*.py", "src/deep", ["src/deep/er/b.py"]),
    ("src/*/c.pyi", "", ["src/deep/c.pyi"]),
    ("*/c.pyi", "", []),
    ("?.py", "", ["a.py"]),
    ("[ab].*", "", ["a.py", "b.txt"]),
    ("[!a].*", "", ["b.txt"]),
    ("[a-c].[pt]*", "", ["a.py", "b.txt"]),
    ("x[[]1].txt", "", ["x[1].txt"]),
    ("{a.py,b.txt}", "", ["a.py", "b.txt"]),
    ("**/*.{py,pyi}", "src/deep", ["src/deep/c.pyi", "src/deep/er/b.py"]),
    ("src/{deep/{c.pyi,er/*.txt},a.py}", "", ["src/a.py", "src/deep/c.pyi", "src/deep/er/d.txt"]),
    ("docs/**", "", ["docs/guide.md", "docs/img", "docs/img/logo.png"]),
    ("**/er/**", "", ["src/deep/er/b.py", "src/deep/er/d.txt"]),
    ("**/**/logo.png", "", ["docs/img/logo.png"]),
    ("**/guide.md", "docs", ["docs/guide.md"]),
    ("./src//a.py", "", ["src/a.py"]),
    ("/workspace/*.txt", "", ["b.txt", "x[1].txt"]),
    ("src/*/", "", ["src/.hidden", "src/deep"]),
    (".*", "", [".env"]),
    ("nothing*", "", []),
    ("A.PY", "", []),
]
LINES = "alpha\nBeta 12\n\n  gamma\ndelta\u00e9\nlast"
SEARCHES: list[tuple[str, list[int]]] = [
    ("alpha", [1]), ("^b", []), ("(?i)^b", [2]), ("a$", [1, 4]), (r"\d+", [2]), ("^$", [3]),
    (r"^\s", [4]), ("\u00e9", [5]), ("delta.$", [5]), ("last$", [6]), (r"\Aalpha\z", [1]),
    (r"\blast\b", [6]), ("alpha|gamma", [1, 4]), ("alpha\\nBeta", []), (".", [1, 2, 4, 5, 6]),
    ("zeta", []), (r"\Qgamma", [4]),
]  # fmt: skip
EVIL = ["(a*)*b", "(a|aa)+$", "(.*a){20}", "(x+x+)+y", "a{1,1000}{1,1000}", "(?:a?){50}a{50}"]


@contextmanager
def _longest_pause() -> Generator[list[float]]:
    """Give a list with the longest time for which another thread could not run, in seconds.

    It is this process's own time: however busy the machine is, or stops, it is not counted.
    """
    longest, stop = [0.0], threading.Event()

    def tick() -> None:
        before = time.process_time()
        while not stop.wait(0.001):
            now = time.process_time()
            longest[0] = max(longest[0], now - before)
            before = now

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield longest
    finally:
        stop.set()
        thread.join()


class FindingCases:
    """Globs and searches."""

    @pytest.fixture
    def filled(self, files: Filesystem) -> Filesystem:
        """Return a file system with some files."""
        for path in FILES:
            files.write(path, f"content of {path}\n")
        return files

    @pytest.mark.parametrize(("pattern", "path", "expected"), GLOBS)
    def test_globs(self, filled: Filesystem, pattern: str, path: str, expected: list[str]) -> None:
        assert sorted(each.path for each in filled.glob(pattern, path)) == sorted(expected)

    def test_a_glob_knows_what_it_finds(self, filled: Filesystem) -> None:
        found = {each.path: each for each in filled.glob("**")}
        assert found["src"].kind == "directory"
        assert found["a.py"].size == len("content of a.py\n")

    def test_a_glob_comes_in_a_steady_order(self, filled: Filesystem) -> None:
        assert [each.path for each in filled.glob("**")] == [
            each.path for each in filled.glob("**")
        ]

    @pytest.mark.parametrize("pattern", ["../*", "src/../*", "/etc/*", "/*"])
    def test_globs_do_not_lead_outside(self, filled: Filesystem, pattern: str) -> None:
        with pytest.raises(PermissionError):
            list(filled.glob(pattern))

    @pytest.mark.parametrize("pattern", ["", "/workspace", "*" * 100_000, "{a,b}" * 20])
    def test_globs_that_say_nothing_or_too_much(self, filled: Filesystem, pattern: str) -> None:
        with pytest.raises(ValueError, match="glob"):
            list(filled.glob(pattern))

    def test_a_glob_in_a_directory_that_is_not_there(self, filled: Filesystem) -> None:
        with pytest.raises(FileNotFoundError):
            list(filled.glob("*", "missing"))

    @pytest.mark.parametrize(
        "pattern", ["*a" * 60 + "b", "**/" * 60 + "x", "*?" * 80 + "!", "**/*/" * 20 + "x"]
    )
    def test_no_glob_takes_forever(self, files: Filesystem, pattern: str) -> None:
        files.write("a" * 200, "")
        files.write("/".join(["a"] * 30), "")
        began = time.monotonic()
        assert list(files.glob(pattern)) == []
        assert time.monotonic() - began < 5  # noqa: PLR2004 - seconds, with room to spare

    @pytest.mark.parametrize(("pattern", "expected"), SEARCHES)
    @pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["unix", "windows"])
    def test_searches(
        self, files: Filesystem, pattern: str, expected: list[int], newline: str
    ) -> None:
        files.write("a.txt", LINES.replace("\n", newline))
        matches = list(files.search(pattern))
        assert [each.line for each in matches] == expected
        lines = LINES.split("\n")
        assert [each.text for each in matches] == [lines[number - 1] for number in expected]

    def test_a_search_goes_through_a_tree(self, filled: Filesystem) -> None:
        found = {each.path for each in filled.search("content of src")}
        assert found == {path for path in FILES if path.startswith("src")}
        assert [each.path for each in filled.search("content", "src/a.py")] == ["src/a.py"]
        deep = {each.path for each in filled.search("content", "src/deep")}
        assert deep == {"src/deep/c.pyi", "src/deep/er/b.py", "src/deep/er/d.txt"}

    def test_a_search_in_some_files(self, filled: Filesystem) -> None:
        found = [each.path for each in filled.search("content", "src", glob="*.py")]
        assert found == ["src/a.py"]

    @pytest.mark.parametrize("limit", [0, 1, 3, 100])
    def test_a_search_ends_at_its_limit(self, files: Filesystem, limit: int) -> None:
        files.write("a.txt", "x\n" * 10)
        assert len(list(files.search("x", limit=limit))) == min(limit, 10)

    def test_a_search_leaves_binary_files_out(self, files: Filesystem) -> None:
        files.write_bytes("a.bin", b"\0needle\n")
        files.write_bytes("b.bin", b"needle \xe9\x01\n")
        files.write("c.txt", "needle\n")
        assert [each.path for each in files.search("needle")] == ["c.txt"]

    def test_a_search_where_nothing_is(self, files: Filesystem) -> None:
        with pytest.raises(FileNotFoundError):
            list(files.search("x", "missing"))

    @pytest.mark.parametrize("pattern", ["(", "[", "a**", "(?P<x", "\ud800", "x" * 100_000])
    def test_what_is_no_expression(self, files: Filesystem, pattern: str) -> None:
        with pytest.raises(ValueError, match="regular expression"):
            list(files.search(pattern))

    @pytest.mark.parametrize("pattern", EVIL)
    def test_no_expression_takes_forever(self, files: Filesystem, pattern: str) -> None:
        files.write("a.txt", "a" * 100_000 + "!\n" + "x" * 50_000 + "\n")
        began = time.monotonic()
        with suppress(ValueError):
            list(files.search(pattern))
        assert time.monotonic() - began < 5  # noqa: PLR2004 - seconds, with room to spare

    def test_other_threads_run_while_lines_are_searched(self, files: Filesystem) -> None:
        files.write("a.txt", "a" * 20_000_000)
        with _longest_pause() as longest:
            list(files.search("(a*)*b"))
        assert longest[0] < 0.5  # noqa: PLR2004 - seconds

    def test_other_threads_run_while_names_are_matched(self, files: Filesystem) -> None:
        for number in range(300):
            files.write(f"{'a' * 240}{number:03}", "")
        with _longest_pause() as longest:
            assert list(files.glob("*a" * 100 + "*b")) == []
            assert list(files.glob("{*a,*?}" * 8 + "*a" * 60 + "b")) == []
        assert longest[0] < 0.5  # noqa: PLR2004 - seconds

    @pytest.mark.parametrize("at", [0, 1_048_570, 2_999_994])
    def test_a_long_line_is_one_line(self, files: Filesystem, at: int) -> None:
        line = "x" * at + "needle" + "x" * (2_999_994 - at)
        files.write("a.txt", f"first\n{line}\nlast needle\n")
        assert [each.line for each in files.search("needle")] == [2, 3]
        assert [each.line for each in files.search("x|needle")] == [2, 3]
        assert [each.line for each in files.search("^x*needlex*$")] == [2]

    def test_a_long_line_is_cut_visibly(self, files: Filesystem) -> None:
        files.write("a.txt", "x" * 3_000_000 + "needle")
        matches = list(files.search("^x"))
        assert matches
        assert matches[0].line == 1
        assert len(matches[0].text) < 100_000  # noqa: PLR2004 - of three millions
        assert "more characters" in matches[0].text
