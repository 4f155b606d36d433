"""Ways around read-before-write: none of them changes a file that was not read."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from toolstile_hookspecs import Status, ToolCall

from .suites import COMPOSED, Running, Schemed, Suite

pytestmark = pytest.mark.operator_text("a server of files that others wrote names its own folder")

Step = tuple[str, dict[str, Any]] | Callable[[Path], None]

ROOT = "<root>"
"""It stands for the directory in the arguments of a call."""


@dataclass(frozen=True)
class Way:
    """A way that somebody may think of.

    Args:
        id: What it does.
        steps: Calls, and what others do meanwhile; all but the last prepare it.
    """

    id: str
    steps: tuple[Step, ...]

    @property
    def tools(self) -> set[str]:
        return {step[0] for step in self.steps if isinstance(step, tuple)}


def write(path: str, **more: Any) -> Step:
    return ("write_file", {"path": path, "content": "x", **more})


def read(path: str, **more: Any) -> Step:
    return ("read_text_file", {"path": path, **more})


def move(source: str, destination: str, **more: Any) -> Step:
    return ("move_file", {"source": source, "destination": destination, **more})


def anew(root: Path) -> None:
    """Write a file, as somebody else does."""
    (root / "a.txt").write_text("one, and more")


def swapped(root: Path) -> None:
    """Put a link in the place of a file that was read."""
    (root / "b.txt").unlink()
    (root / "b.txt").symlink_to("a.txt")


SPELLINGS = [
    "a.txt",
    "./a.txt",
    ".//a.txt",
    "./././a.txt",
    "sub/../a.txt",
    "sub//..//a.txt",
    "sub/inner/../../a.txt",
    "a.txt/",
    f"{ROOT}/a.txt",
    f"/{ROOT}/a.txt",
    f"{ROOT}//a.txt",
    f"{ROOT}/sub/../a.txt",
    f"{ROOT}/../root/a.txt",
    "../root/a.txt",
    "~/a.txt",
    "~//a.txt",
    "~/sub/../a.txt",
    "$HOME/a.txt",
    "${HOME}/a.txt",
    "%HOME%/a.txt",
    f"file://{ROOT}/a.txt",
    "file:a.txt",
    f"FILE://{ROOT}/a.txt",
    "A.TXT",
    "A.txt",
    "a.Txt",
    "SUB/B.TXT",
    "sub/Inner/c.txt",
    "a.txt.",
    "a.txt...",
    "a.txt ",
    " a.txt",
    "\ta.txt",
    "a.txt\n",
    "a.txt. .",
    '"a.txt"',
    "'a.txt'",
    "`a.txt`",
    f'"{ROOT}/a.txt"',
    "a%2Etxt",
    "%61.txt",
    "sub%2Fb.txt",
    "sub%2f..%2fa.txt",
    "sub\\b.txt",
    ".\\a.txt",
    "sub\\..\\a.txt",
    "link/c.txt",
    "link/../a.txt",
    "twin.txt",
    unicodedata.normalize("NFD", COMPOSED),
    unicodedata.normalize("NFD", COMPOSED).upper(),
    "STRASSE.TXT",
    "strasse.txt",
    "\ufb01le.txt",
    "\uff41.txt",
    "a\u200b.txt",
    ".ENV",
    "?.txt",
    "[a].txt",
    "[ab].txt",
    "sub/*.txt",
]

UNDECLARED = [
    {name: "a.txt"}
    for name in (
        *("target", "file", "filename", "destination", "dest_path", "file_path", "filePath"),
        *("FilePath", "file-path", "PATH", "Path", "outputFile", "new_path", "source_path"),
    )
]

WAYS = [
    *(Way(f"spelt {path!r}", (write(path),)) for path in SPELLINGS),
    *(Way(f"undeclared {args}", (write("new.txt", **args),)) for args in UNDECLARED),
    Way("undeclared, beside it", (write("a.txt", target="nothere.txt"),)),
    Way("undeclared, in a list", (write("new.txt", paths=["c.txt", "a.txt"]),)),
    Way("undeclared, within", (write("new.txt", options={"path": "a.txt"}),)),
    Way("undeclared, as keys", (write("new.txt", files={"a.txt": "x"}),)),
    Way("undeclared, after reading", (read("b.txt"), write("b.txt", target="a.txt"))),
    Way("in place of the path", (("write_file", {"file_path": "a.txt", "content": "x"}),)),
    Way("read beside another", (read("b.txt", target="a.txt"), write("a.txt"))),
    Way("read within", (read("b.txt", meta={"path": "a.txt"}), write("a.txt"))),
    Way("read under another name", (read("link/c.txt"), write("a.txt"))),
    Way("read in another case", (read("A.TXT"), write("a.txt"))),
    Way("read after a link", (read("link/../a.txt"), write("a.txt"))),
    Way("read what is not there", (read("none.txt"), write("a.txt"))),
    Way("read a directory", (read("sub"), write("sub/b.txt"))),
    Way("read a namesake", (read("b.txt"), write("sub/b.txt"))),
    Way("read and changed", (read("a.txt"), anew, write("a.txt"))),
    Way("read and swapped", (read("b.txt"), swapped, write("b.txt"))),
    Way("read of many", (("read_multiple_files", {"paths": ["b.txt"]}), write("a.txt"))),
    Way(
        "read of many beside another",
        (("read_multiple_files", {"paths": ["b.txt"], "path": "a.txt"}), write("a.txt")),
    ),
    Way("edited", (("edit_file", {"path": "a.txt", "edits": []}),)),
    Way("edited elsewhere", (("edit_file", {"path": "sub/../a.txt", "edits": []}),)),
    Way("moved onto", (move("b.txt", "a.txt"),)),
    Way("moved onto after reading", (read("b.txt"), move("b.txt", "a.txt"))),
    Way("moved onto in another case", (move("b.txt", "A.TXT"),)),
    Way("moved onto through a link", (move("b.txt", "link/c.txt"),)),
    Way("moved into a directory", (move("b.txt", "sub"),)),
    Way("moved into a directory, with a slash", (move("b.txt", "sub/"),)),
    Way("moved, and more", (move("b.txt", "new.txt", target="a.txt"),)),
    Way("several", (("write_files", {"files": [{"path": "n"}, {"path": "a.txt"}]}),)),
    Way("as keys", (("save", {"files": {"a.txt": "x"}}),)),
    Way("by default", (("log", {}),)),
    Way("by its format", (("put", {"where": "a.txt"}),)),
    Way("by a name of the configuration", (("keep", {"page": "a.txt"}),)),
]
assert len(WAYS) >= 60


def policy(root: Path) -> dict[str, Any]:
    return {
        "kind": "read_before_write",
        "root": str(root),
        "read_tools": ["files_read_*"],
        "write_tools": ["files_[!r]*"],
    }


@pytest.fixture(scope="module")
def running(suite: Suite) -> Iterator[Running]:
    further = {"paths": ["page"]} if "keep" in suite.offered else {}
    with ExitStack() as stack:
        yield Running(suite, stack, [{**policy(suite.root), **further}])


def filled(value: Any, root: Path) -> Any:
    """Return arguments with the directory in them."""
    if isinstance(value, dict):
        return {name: filled(inner, root) for name, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, root) for inner in value]
    return value.replace(ROOT, str(root)) if isinstance(value, str) else value


def take(running: Running, way: Way) -> tuple[Status, list[str]]:
    """Go a way; return how it ends, and which files that were not read are changed by it."""
    root = running.suite.root
    with running.executor() as tools:
        before: list[str] = []
        status = Status.SUCCEEDED
        for step in way.steps:
            if callable(step):
                step(root)
                before = running.suite.changed()
            else:
                name, arguments = step
                call = ToolCall(f"files_{name}", filled(arguments, root))
                status = tools.dispatch(call).status
        if swapped in way.steps:
            # What the link leads to was not read.
            before = ["b.txt"]
        content = (root / "a.txt").read_text()
        again = [] if anew not in way.steps or content == "one, and more" else ["a.txt"]
    return status, [name for name in running.suite.changed() if name not in before] + again


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.id)
def test_no_way_leads_around_it(running: Running, way: Way) -> None:
    if not way.tools <= running.suite.offered:
        pytest.skip("the server has no such tool")
    status, changed = take(running, way)
    assert changed == []
    assert status is not Status.SUCCEEDED


@pytest.fixture(scope="module")
def unruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with ExitStack() as stack:
        yield Running(Schemed(tmp_path_factory.mktemp("unruled")), stack, [])


def test_without_the_policy_each_way_changes_a_file(
    unruled: Running, subtests: pytest.Subtests
) -> None:
    for way in WAYS:
        with subtests.test(way=way):
            assert take(unruled, way)[1] != []


RIGHT = [
    (write("new.txt"),),
    (write("sub/new.txt"),),
    (write(f"{ROOT}/new.txt"),),
    (write("[id].tsx"),),
    (write("$id.tsx"),),
    (write("A new file.txt"),),
    (read("a.txt"), write("a.txt")),
    (read("./sub/../a.txt"), write(f"{ROOT}/a.txt")),
    (read("twin.txt"), write("a.txt")),
    (read("a.txt"), write("twin.txt")),
    (read("link/c.txt"), write("sub/inner/c.txt")),
    (("read_multiple_files", {"paths": ["a.txt", "b.txt"]}), write("a.txt"), write("b.txt")),
    (move("b.txt", "new.txt"),),
    (read("a.txt"), move("b.txt", "elsewhere.txt")),
    (write("new.txt"), write("new.txt")),
]


def test_the_right_ways_are_open(running: Running, subtests: pytest.Subtests) -> None:
    for steps in RIGHT:
        with subtests.test(steps=steps):
            status, _ = take(running, Way("right", steps))
            assert status is Status.SUCCEEDED
