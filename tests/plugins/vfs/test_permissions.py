"""Operations that modes forbid are refused first, with the path, the cause and a remedy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

DRIVER = Path(__file__).with_name("permissions_driver.py")
POWERS = "--bounding-set=-dac_override,-dac_read_search,-fowner"

Ask = Callable[..., str]


def command() -> list[str]:
    """Return how Python is started without being let through all modes."""
    if os.geteuid() != 0:
        return [sys.executable]
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("root can only give up its powers with setpriv")
    return [setpriv, POWERS, sys.executable]


def lay_out(root: Path) -> Path:
    """Make files and directories that modes keep to themselves."""
    for path in ("plain.txt", "secret.txt", "locked/a.txt", "listed/a.txt", "frozen/a.txt"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("one\n")
    modes = {"secret.txt": 0, "locked": 0, "listed": 0o444, "frozen": 0o555}
    for path, mode in modes.items():
        (root / path).chmod(mode)
    return root


def let_go(root: Path) -> None:
    """Let the directories be removed."""
    for path in ("locked", "listed", "frozen"):
        (root / path).chmod(0o755)


def ask_all(root: Path, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[str]:
    done = subprocess.run(
        [*command(), DRIVER, root],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: list[str] = json.loads(done.stdout)
    return told


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    yield lay_out(tmp_path / "tree")
    let_go(tmp_path / "tree")


@pytest.fixture
def ask(tree: Path) -> Ask:
    def call(name: str, **arguments: Any) -> str:
        (text,) = ask_all(tree, [(name, arguments)])
        return text

    return call


REMEDY = "Choose another path, or let a person change the mode."
UNREADABLE = f"secret.txt cannot be read: its mode forbids it. {REMEDY}"
FROZEN = f"frozen is a directory whose mode forbids to change its entries. {REMEDY}"


def unreachable(path: str) -> str:
    return f"{path} cannot be reached: its mode, or that of a directory above, forbids it. {REMEDY}"


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("read_file", {"path": "secret.txt"}, f"Cannot read secret.txt: {UNREADABLE}"),
    (
        "read_file",
        {"path": "locked/a.txt"},
        f"Cannot read locked/a.txt: {unreachable('locked/a.txt')}",
    ),
    ("list_directory", {"path": "locked"}, f"Cannot list locked: {unreachable('locked')}"),
    ("list_directory", {"path": "listed"}, f"Cannot list listed: {unreachable('listed')}"),
    (
        "copy_file",
        {"source": "secret.txt", "target": "copy.txt"},
        UNREADABLE,
    ),
    (
        "copy_file",
        {"source": "plain.txt", "target": "frozen/copy.txt"},
        f"Cannot copy plain.txt to frozen/copy.txt: {FROZEN}",
    ),
    (
        "move_file",
        {"source": "frozen/a.txt", "target": "moved.txt"},
        f"Cannot move frozen/a.txt to moved.txt: {FROZEN}",
    ),
    ("delete_file", {"path": "frozen/a.txt"}, f"Cannot delete frozen/a.txt: {FROZEN}"),
    ("delete_file", {"path": "frozen", "recursive": True}, f"Cannot delete frozen: {FROZEN}"),
    (
        "write_file",
        {"path": "frozen/d/new.txt", "content": "x"},
        f"Cannot write frozen/d/new.txt: {FROZEN}",
    ),
    (
        "stranger",
        {"method": "read", "arguments": ["secret.txt"]},
        f"Internal error in stranger: {UNREADABLE}",
    ),
    (
        "stranger",
        {"method": "write", "arguments": ["frozen/new.txt", "x"]},
        f"Internal error in stranger: {FROZEN}",
    ),
    (
        "stranger",
        {"method": "copy", "arguments": ["secret.txt", "copy.txt"]},
        UNREADABLE,
    ),
]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The messages of `REFUSED`, which change nothing, from one process."""
    root = lay_out(tmp_path_factory.mktemp("modes") / "tree")
    yield ask_all(root, [(name, arguments) for name, arguments, _ in REFUSED])
    let_go(root)


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(REFUSED)), ids=[name for name, _, _ in REFUSED])
def test_is_refused_with_path_cause_and_remedy(told: list[str], index: int) -> None:
    expected = REFUSED[index][2]
    retry = " Then retry." if expected.startswith("Cannot ") else ""
    assert told[index] == f"{expected}{retry}"


@pytest.mark.slow
def test_what_cannot_be_read_keeps_nothing_else_from_being_found(ask: Ask) -> None:
    text = ask("grep_files", pattern="one")

    assert "Note: 2 directories were left out: listed (listed cannot be reached" in text
    assert "Note: 1 file was not searched: secret.txt (secret.txt cannot be read" in text
    assert text.endswith("\nplain.txt:1: one\nfrozen/a.txt:1: one")


@pytest.mark.slow
def test_a_file_that_may_be_written_but_not_read_is_replaced(ask: Ask, tree: Path) -> None:
    (tree / "plain.txt").chmod(0o200)
    text = ask("write_file", path="plain.txt", content="two\n", overwrite=True)

    assert text == "Replaced plain.txt (4 bytes)."
    assert (tree / "plain.txt").stat().st_mode & 0o777 == 0o200
    (tree / "plain.txt").chmod(0o600)
    assert (tree / "plain.txt").read_text() == "two\n"


@pytest.mark.slow
def test_a_file_that_may_not_be_read_can_be_moved(ask: Ask, tree: Path) -> None:
    assert ask("move_file", source="secret.txt", target="moved.txt") == (
        "Moved secret.txt to moved.txt."
    )
    assert (tree / "moved.txt").stat().st_mode & 0o777 == 0


@pytest.mark.slow
def test_a_directory_that_nobody_may_change_is_copied_with_what_it_holds(
    ask: Ask, tree: Path
) -> None:
    said = ask("copy_file", source="frozen", target="mine")
    assert said == "Copied frozen to mine."
    assert (tree / "mine" / "a.txt").read_text() == "one\n"
    assert (tree / "mine").stat().st_mode & 0o777 == 0o755


PROGRAM = """
import os, pathlib, sys
from toolstile_hookspecs import ToolContext
from toolstile_plugins.vfs import VirtualFilesystem

root = pathlib.Path(sys.argv[1])
branch = VirtualFilesystem.on_disk(root).branch(ToolContext(session=None), None)
files = branch.resource
exec(sys.stdin.read())
branch.prepare()
branch.commit()
"""


def change(tree: Path, text: str) -> None:
    done = subprocess.run(
        [*command(), "-c", PROGRAM, tree],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_mode_that_forbids_changes_is_set_when_they_are_made(tree: Path) -> None:
    """As in the caches of modules, whose directories nobody is to change."""
    change(
        tree,
        """
files.write("cache/pkg/a.go", "package a")
files.chmod("cache/pkg/a.go", 0o444)
files.chmod("cache/pkg", 0o555)
files.write("cache/pkg/b.go", "package b")
files.chmod("cache", 0o555)
""",
    )
    assert sorted(each.name for each in (tree / "cache/pkg").iterdir()) == ["a.go", "b.go"]
    modes = {path: (tree / path).stat().st_mode & 0o777 for path in ("cache", "cache/pkg")}
    assert modes == {"cache": 0o555, "cache/pkg": 0o555}
    change(tree, "for path in ('cache', 'cache/pkg'): files.chmod(path, 0o755)")
    change(tree, "files.delete('cache', recursive=True)")
    assert not (tree / "cache").exists()


@pytest.mark.slow
def test_a_directory_is_opened_changed_and_closed_again_in_one_call(tree: Path) -> None:
    change(
        tree,
        """
files.chmod("frozen", 0o755)
files.write("frozen/b.txt", "two")
files.delete("frozen/a.txt")
""",
    )
    assert [each.name for each in (tree / "frozen").iterdir()] == ["b.txt"]


@pytest.mark.slow
def test_what_nobody_may_read_is_given_a_mode_and_taken(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "left").write_text("by a program")
    (tmp_path / "left").chmod(0)
    change(
        tree,
        f"""
files.chmod("secret.txt", 0o600)
files.take("taken", {str(tmp_path / "left")!r}, mode=0, modified=1)
""",
    )
    assert (tree / "secret.txt").stat().st_mode & 0o777 == 0o600
    assert (tree / "taken").stat().st_mode & 0o777 == 0
    (tree / "taken").chmod(0o600)
    assert (tree / "taken").read_text() == "by a program"
