"""The peer of a workspace: a commit to a git repository after every call."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path

from measuring import Block, Probe, timed

ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "bench",
    "GIT_AUTHOR_EMAIL": "bench@example.org",
    "GIT_COMMITTER_NAME": "bench",
    "GIT_COMMITTER_EMAIL": "bench@example.org",
}


def git() -> str | None:
    """Return where git is; without it says so on stderr, once, and returns None."""
    found = shutil.which("git")
    if found is None:
        print("There is no git: the rows to compare with it are left out.", file=sys.stderr)
    return found


def committing(program: str, root: str, name: str, content: str) -> Probe:
    """Return what changes one file and commits it, as a host does that keeps its calls in git.

    Args:
        program: Where git is.
        root: A directory, which becomes a repository with all of its files committed.
        name: Of the case.
        content: What the file is to hold, in effect; each time it is a little different.
    """

    def run(*arguments: str) -> None:
        subprocess.run(
            [program, "-C", root, *arguments], check=True, env={**os.environ, **ENVIRONMENT}
        )

    run("init", "-q")
    # Nothing is packed or collected while times are taken.
    run("config", "gc.auto", "0")
    run("config", "maintenance.auto", "false")
    run("add", "-A")
    run("commit", "-q", "-m", "before")
    return Probe(name, _opened(run, Path(root, "d0", "f1.txt"), content))


def _opened(
    run: Callable[..., None], path: Path, content: str
) -> Callable[[], AbstractContextManager[Block]]:
    numbers = count()

    def once() -> None:
        path.write_text(f"{next(numbers):015}\n{content[16:]}")
        run("add", "-A")
        run("commit", "-q", "-m", "call")

    @contextmanager
    def opened() -> Iterator[Block]:
        yield timed(once)

    return opened
