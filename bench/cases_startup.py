"""The time that the command line takes to answer, beside an interpreter that does nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from measuring import Block, Case, Effort, Probe, Row, compare, timed

BARE = ("-c", "pass")
VERSION = ("-m", "toolstile", "--version")
TOOLS = ("-m", "toolstile", "tools")
CALL = ("-m", "toolstile", "call", "list_directory", "{}", "--workspace", ".")


def measure_startup(effort: Effort) -> list[Row]:
    """Measure whole processes, each beside a bare interpreter's."""
    bare = Probe("python -c pass", _running(BARE))
    return compare(
        [
            Case(Probe("toolstile --version", _running(VERSION)), bare, 2.5, 2),
            Case(Probe("toolstile tools", _running(TOOLS)), bare, 18, 12),
            Case(Probe("toolstile call", _running(CALL)), bare, 20, 14),
        ],
        effort,
    )


def _running(arguments: tuple[str, ...]) -> Callable[[], AbstractContextManager[Block]]:
    # Where it is forbidden here, there still are compiled modules where they were installed.
    environ = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}

    @contextmanager
    def opened() -> Iterator[Block]:
        # An empty directory, so that no configuration is found.
        with tempfile.TemporaryDirectory() as directory:
            yield timed(
                lambda: subprocess.run(
                    [sys.executable, *arguments],
                    cwd=directory,
                    env=environ,
                    check=True,
                    capture_output=True,
                )
            )

    return opened
