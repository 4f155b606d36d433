"""Types of Python blocks: a file for each page, all of them read by mypy and pyright at once."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from executing.fences import fences
from executing.markers import markers

_FUTURE = re.compile(r"^from __future__ import .*$", re.MULTILINE)
_ERROR = re.compile(r"^\s*(\S+?):(\d+)(?::\d+)?(?: -|:) error: (.*)$", re.MULTILINE)

# A name that an earlier block defined may get another meaning, as in a session at a prompt, and
# a name that only `except` defines would fail the page where nothing was raised.
_MYPY = (
    *("mypy", "--config-file=", "--check-untyped-defs", "--allow-redefinition"),
    "--disable-error-code=no-redef",
)
_PYRIGHT = ("pyright", "--pythonpath", sys.executable)
_SETTINGS = '{"reportRedeclaration": false, "reportPossiblyUnboundVariable": false}'


def write_page(text: str, folder: Path, name: str) -> list[Path]:
    """Write the Python blocks of a page to a file for each tab, each block at its own lines.

    A reader follows one tab, so the file of a tab has no block of another. A page without tabs is
    one file. A named block, which others import, is also written to that file.

    Args:
        text: The page.
        folder: Where the folder of the page is made.
        name: The name of the files, without suffix; `__` and a number follow from the second on.
    """
    blocks = [each for each in fences(text, invisible=True) if each.language == "python"]
    tabs = list(dict.fromkeys(each.tab for each in blocks if each.tab)) or [None]
    files: list[Path] = []
    for number, tab in enumerate(tabs):
        lines = [""] * (text.count("\n") + 2)
        for block in blocks:
            if block.tab not in {None, tab}:
                continue
            for other in markers(text, block.start)["file"]:
                (folder / name / other).parent.mkdir(parents=True, exist_ok=True)
                (folder / name / other).write_text(block.text, "utf-8")
            code = _FUTURE.sub("", _statements(block.text)).split("\n")
            lines[block.line : block.line + len(code)] = code
        lines[0] = "from __future__ import annotations"
        files.append(folder / name / (f"{name}__{number}.py" if number else f"{name}.py"))
        files[-1].parent.mkdir(parents=True, exist_ok=True)
        files[-1].write_text("\n".join(lines), "utf-8")
    return files


def _statements(block: str) -> str:
    """Return a block without the prompts, answers and skipped lines that it has as a doctest."""
    if not block.startswith(">>>"):
        return block
    return "\n".join(
        line[4:] if line.startswith((">>>", "...")) and "# doctest: +SKIP" not in line else ""
        for line in block.split("\n")
    )


def errors(folder: Path, files: Sequence[Path]) -> dict[str, list[tuple[str, int, str]]]:
    """Return the errors that each checker finds in the files: file, line and message.

    Neither checker is strict: pages need not annotate what readers would not.
    """
    (folder / "pyrightconfig.json").write_text(_SETTINGS, "utf-8")
    found: dict[str, list[tuple[str, int, str]]] = {}
    for checker in (_MYPY, _PYRIGHT):
        command = [sys.executable, "-m", *checker, *map(str, files)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        told = _ERROR.findall(done.stdout)
        if done.returncode != bool(told):
            raise RuntimeError(f"{checker[0]}: {done.stdout}{done.stderr}")
        found[checker[0]] = [
            (Path(file).stem.partition("__")[0], int(line), why) for file, line, why in told
        ]
    return found
