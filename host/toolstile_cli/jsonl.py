"""JSON Lines out: one value a line on stdout, and nothing else there."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Generator
from typing import Any, TextIO


class JsonLines:
    """Writes values to a stream, one a line, each at once.

    Everything beyond ASCII is escaped, so that no encoding and no terminal is hurt by it.

    Args:
        stream: Where to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, value: Any) -> None:
        """Write one value."""
        self._stream.write(json.dumps(value) + "\n")
        self._stream.flush()


@contextlib.contextmanager
def json_lines() -> Generator[JsonLines]:
    """Take stdout for JSON Lines; what anything else prints meanwhile goes to stderr.

    That holds for `print` in a handler and, where stdout is the process's own, also for
    C libraries and for programs that a handler starts.
    """
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(_own_stdout())
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield JsonLines(ours)


@contextlib.contextmanager
def _own_stdout() -> Generator[TextIO]:
    try:
        number, diverted = sys.stdout.fileno(), sys.stderr.fileno()
    except (OSError, AttributeError, io.UnsupportedOperation):
        yield sys.stdout
        return
    sys.stdout.flush()
    kept = os.dup(number)
    os.dup2(diverted, number)
    try:
        with open(kept, "w", encoding="utf-8", newline="\n", closefd=False) as stream:
            yield stream
    finally:
        os.dup2(kept, number)
        os.close(kept)
