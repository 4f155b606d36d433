"""Walk the pages of the first hour as a reader does: `python tools/first_minutes.py`.

The README's first command runs in a fresh clone, the tutorial's commands in an empty folder. Each
page gets an empty HOME, a new environment and the package index. The steps are the page's own;
the program adds none. It prints the typed commands, the names imported from Toolstile, and the
seconds on this machine. Exit status 1 if a command ends otherwise than its page says, or if the
first success takes more than three commands.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Final, cast

from executing.wheels import Environment
from executing.workplace import Workplace

ROOT: Final = Path(__file__).resolve().parents[1]
MOST_COMMANDS: Final = 3

_BLOCK = re.compile(
    r"^(?P<notes>(?:<!--.*?-->\s*)*)^```(?P<language>\w+)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_NOTE = re.compile(r"<!-- (file|exit|typed): (.*?) -->")


class Reader:
    """The environment of a reader: an empty HOME, a new environment, and the package index."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def variables(self, _: Path) -> dict[str, str]:
        """Return the environment variables."""
        return {
            "HOME": str(self._folder / "home"),
            "LANG": "C.UTF-8",
            "PATH": os.pathsep.join([str(self._folder / "venv" / "bin"), "/usr/bin", "/bin"]),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    def with_wheel(self, command: str, _: Path) -> str:
        """Return the command as it stands on the page."""
        return command


@dataclass
class Walk:
    """A reader on one page.

    Args:
        page: The name of the page.
        folder: The folder in which the reader works.
        place: The shell there.
    """

    page: str
    folder: Path
    place: Workplace
    typed: list[str] = field(default_factory=list[str])
    imported: set[str] = field(default_factory=set[str])
    started: float = field(default_factory=monotonic)
    ended: float = 0.0
    first_success: tuple[int, float, int] | None = None

    def write(self, name: str, text: str) -> None:
        """Write a file that the page shows."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if name.endswith(".py"):
            self.read(text)

    def read(self, code: str) -> None:
        """Note the names that code imports from Toolstile."""
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("toolstile"):
                self.imported |= {each.name for each in node.names}

    def type(self, command: str, status: int, answer: str | None, question: str) -> None:
        """Run a command as typed; with an answer at a terminal, once the question is there.

        Raises:
            SystemExit: It ended neither with 0 nor with the status that the page says.
        """
        self.typed.append(command)
        printed, ended = self.place.run(
            command, typed=answer, seen=lambda printed: question in printed
        )
        seconds = monotonic() - self.started
        print(f"  {seconds:6.1f} s  [{ended}]  {command}")
        if ended not in {0, status}:
            sys.exit(
                f"{self.page}: that ended with {ended}, and the page says {status}:\n{printed}"
            )
        if (
            self.first_success is None
            and status == 0
            and re.search(r"\btoolstile (?!new)", command)
        ):
            self.first_success = len(self.typed), seconds, len(self.imported)


def blocks(page: Path) -> Iterator[tuple[dict[str, str], str, str]]:
    """Yield the notes, the language and the text of each block of a page."""
    text = re.sub(r"(?s)<!-- invisible-code.*?-->", "", page.read_text(encoding="utf-8"))
    for found in _BLOCK.finditer(text):
        yield dict(_NOTE.findall(found["notes"])), found["language"], found["body"]


def commands(body: str) -> Iterator[str]:
    """Yield the commands of a console block; a block without a `$` is one command."""
    lines = [line.removeprefix("$ ") for line in body.splitlines() if line.startswith("$ ")]
    yield from lines or [body.strip()]


def walk(page: Path, walker: Walk, clone: Path, *, only_first: bool = False) -> None:
    """Do what a page says, from top to bottom."""
    for notes, language, body in blocks(page):
        if name := notes.get("file"):
            walker.write(name, body)
        elif language == "python":
            walker.read(body)
        elif language == "console":
            for command in commands(body):
                walker.type(
                    command.replace("path/to/clone", str(clone)),
                    int(notes.get("exit", 0)),
                    notes.get("typed"),
                    body.splitlines()[-1],
                )
            if only_first:
                break
    walker.ended = monotonic()


def main() -> None:
    """Walk both pages and print what it took."""
    results: list[Walk] = []
    with TemporaryDirectory() as name:
        space = Path(name)
        clone = space / "clone"
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        for page, only_first in (("README.md", True), ("docs/tutorial.md", False)):
            here = space / Path(page).stem
            work = clone if only_first else here / "work"
            work.mkdir(parents=True, exist_ok=True)
            (here / "home").mkdir(parents=True)
            venv.create(here / "venv", with_pip=True)
            place = Workplace(work, cast("Environment", Reader(here)))
            print(page)
            walker = Walk(page, work, place)
            walk(clone / page, walker, clone, only_first=only_first)
            results.append(walker)
    failed = False
    for walker in results:
        assert walker.first_success is not None, walker.page
        count, seconds, names = walker.first_success
        failed |= count > MOST_COMMANDS
        print(
            f"{walker.page}: first success after {count} command(s), {names} imported name(s), "
            f"{seconds:.0f} s here; in all {len(walker.typed)} commands, "
            f"{len(walker.imported)} names, {walker.ended - walker.started:.0f} s"
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
