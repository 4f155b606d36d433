"""What the tutorial says to do is done, in an empty directory, and comes out as it says.

That goes for all but its last part, which installs a package: `tests/packaging` does that.
"""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"

#: A block, with what a comment above it says: the file that it is, or how its command ends.
BLOCK = re.compile(r"(?:<!-- (file|exit): (\S+) -->\n)?```(\w+)\n(.*?)```", re.DOTALL)
TIME = re.compile(r"\b\d+(?:\.\d+)? m?s\b")
#: Only what never ends takes so long.
PATIENCE = 120


def even(output: str) -> str:
    """The words of an output: times differ, and with them the widths of columns."""
    return " ".join(TIME.sub("TIME", output).split())


def ran(command: str, folder: Path) -> tuple[str, int]:
    scripts = sysconfig.get_path("scripts")
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": os.pathsep.join([scripts, os.environ["PATH"]])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.stdout, done.returncode


def test_the_tutorial_can_be_followed(tmp_path: Path) -> None:
    commands = 0
    alone, _, _ = TUTORIAL.read_text("utf-8").partition("\n## A package\n")
    for mark, value, language, text in BLOCK.findall(alone):
        if mark == "file":
            (tmp_path / value).write_text(text, "utf-8")
        elif language == "console":
            command, _, expected = text.removeprefix("$ ").partition("\n")
            output, status = ran(command, tmp_path)
            commands += 1
            assert status == int(value or 0), f"{command}\n{output}"
            pattern = re.escape(even(expected)).replace(r"\.\.\.", ".*")
            assert not expected or re.fullmatch(pattern, even(output)), f"{command}\n{output}"
    assert commands > 5
