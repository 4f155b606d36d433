"""A person before an agent at a terminal, which tmux keeps."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

_PATIENCE = 60.0
_PAUSE = 0.2


class Terminal:
    """A terminal that shows a program, and on which a person types."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    @property
    def screen(self) -> str:
        return self.tmux("capture-pane", "-p").rstrip()

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *words], capture_output=True, text=True, check=False
        )
        return done.stdout

    def expect(self, pattern: str) -> str:
        """Wait until the screen matches; return it."""
        until = time.monotonic() + _PATIENCE
        while not re.search(pattern, screen := self.screen, re.MULTILINE):
            assert time.monotonic() < until, f"{pattern!r} did not appear on:\n{screen}"
            time.sleep(_PAUSE)
        return screen

    def say(self, text: str) -> None:
        """Type a line, and enter it once it is there."""
        self.tmux("send-keys", "-l", text)
        self.expect(re.escape(text))
        time.sleep(1)  # a program may take quick keys for a paste
        self.press("Enter")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.tmux("send-keys", key)
            time.sleep(_PAUSE)


@contextmanager
def terminal(
    folder: Path, command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[Terminal]:
    """Run a program at a terminal in a folder, with these variables alone."""
    if shutil.which("tmux") is None:
        pytest.skip("no tmux here")
    variables = {"TERM": "xterm-256color", "LANG": "C.UTF-8", **environment}
    clean = ["env", "-i", *(f"{name}={text}" for name, text in variables.items())]
    with TemporaryDirectory(prefix="tmux-") as place:  # because the path of a socket is short
        made = Terminal(Path(place, "socket"))
        size = ["-x", "150", "-y", "50"]
        made.tmux("new-session", "-d", *size, "-c", str(folder), *clean, *command)
        try:
            yield made
        finally:
            program = made.tmux("list-panes", "-F", "#{pane_pid}").strip()
            made.tmux("kill-server")
            if program:  # because it may outlive its terminal
                with suppress(ProcessLookupError):
                    os.killpg(int(program), signal.SIGKILL)
