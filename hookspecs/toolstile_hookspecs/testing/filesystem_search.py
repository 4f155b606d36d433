"""Finding files by their names and by what is in them."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

import pytest

from toolstile_hookspecs.services.filesystem import Filesystem

FILES = [
    ".env",
    "a.py",
    "b.txt",
    "docs/guide.md",
    "docs/img/logo.png",
    "src/.hidden/x.py",
    "src/a.py",
    "src/deep/er/b.py",
    "src/deep/c.pyi",
    "src/deep/er/d.txt",
    "x[1].txt",
]
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
    ("alpha", [1]),
    ("^b", []),
    ("(?i)^b", [2]),
    ("a$", [1, 4]),
    (r"\d+", [2]),
    ("^$", [3]),
    (r"^\s", [4]),
    ("\u00e9", [5]),
    ("delta.$", [5]),
    ("last$", [6]),
    (r"\Aalpha\z", [1]),
    (r"\blast\b", [6]),
    ("alpha|gamma", [1, 4]),
    ("alpha\\nBeta", []),
    (".", [1, 2, 4, 5, 6]),
    ("zeta", []),
    (r"\Qgamma", [4]),
]
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
