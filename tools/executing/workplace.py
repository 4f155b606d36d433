"""The directory of a page, in which its commands are run one after the other."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

from executing.wheels import AT_TERMINAL, Environment

#: Only what never ends takes so long.
PATIENCE = 120

#: Where pages say that files are, and servers answer.
PLACE, PORT = "/path/to", "8000"

_SERVER = re.compile(r"\btoolstile\b.*\bmcp\b.*--http\b")

_STATE, _PLACE = ".variables-of-the-shell", ".place-of-the-shell"


class Workplace:
    """A directory, and a shell that goes from one command to the next.

    Args:
        folder: The directory.
        environment: What is installed.
        patience: The seconds that a command may take, except at a terminal.
    """

    def __init__(
        self, folder: Path, environment: Environment, *, patience: float = PATIENCE
    ) -> None:
        self.folder = folder
        self._environment = environment
        self._patience = patience
        self._variables = environment.variables(folder)
        self._servers: list[tuple[subprocess.Popen[str], Output]] = []
        self._port = _free_port()

    @property
    def python(self) -> Path:
        """The Python that commands are run by."""
        return self._environment.scripts / "python"

    def run(
        self, command: str, *, typed: str | None, seen: Callable[[str], bool]
    ) -> tuple[str, int]:
        """Run a command.

        Args:
            command: The command, as it stands on the page.
            typed: What is typed at its terminal, None to give it none.
            seen: Whether what it has printed is what is waited for before that.

        Returns:
            What it printed, as it would stand on the page, and its exit status.
        """
        line = self._localised(self._environment.with_wheel(command, self._here()))
        if _SERVER.search(line):
            printed, status = self._serve(line)
        elif typed is not None:
            printed, status = self._at_terminal(line, typed, seen)
        else:
            printed, status = self._simply(line)
        return printed.replace(str(self.folder), PLACE).replace(str(self._port), PORT), status

    def export(self, **variables: str) -> None:
        """Set variables for the commands that follow."""
        self._variables |= variables

    def close(self) -> None:
        """Stop the servers, and the helpers of hooks, which outlive their commands."""
        state = self._variables.get("XDG_STATE_HOME") or f"{self._variables['HOME']}/.local/state"
        for lock in Path(state).glob("toolstile/hook/*/lock"):
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(lock.read_text()), signal.SIGTERM)
        while self._servers:
            server, output = self._servers.pop()
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGTERM)
            server.wait(timeout=PATIENCE)
            output.join()

    def _here(self) -> Path:
        """Return the directory that the shell is in."""
        where = self.folder / _PLACE
        return Path(where.read_text("utf-8").strip()) if where.exists() else self.folder

    def _localised(self, command: str) -> str:
        command = command.replace(PLACE, str(self.folder))
        return re.sub(rf":{PORT}\b", f":{self._port}", command)

    def _script(self, line: str) -> list[str]:
        """Return what runs a line with the variables that the lines before it have exported."""
        state = shlex.quote(str(self.folder / _STATE))
        place = shlex.quote(str(self.folder / _PLACE))
        kept = f"export -p > {state}; pwd > {place}"
        return [
            "bash",
            "-c",
            f"[ -e {state} ] && . {state}\n{line}\nstatus=$?\n{kept}\nexit $status",
        ]

    def _simply(self, line: str) -> tuple[str, int]:
        done = subprocess.run(
            self._script(line),
            cwd=self._here(),
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=self._patience,
            check=False,
        )
        return done.stdout, done.returncode

    def _serve(self, line: str) -> tuple[str, int]:
        """Start a server, and come back once it says where it answers; it goes on."""
        # The port is that of one at a time, as on a reader's machine.
        self.close()
        server = subprocess.Popen(
            self._script(line),
            cwd=self._here(),
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )
        assert server.stdout is not None
        output = Output(server.stdout)
        self._servers.append((server, output))
        if output.until(lambda text: "http://" in text):
            return output.text, 0
        return output.text, server.wait(timeout=PATIENCE) or 1

    def _at_terminal(self, line: str, typed: str, seen: Callable[[str], bool]) -> tuple[str, int]:
        """Run a line at a terminal, where something is typed once its question is there."""
        ours, theirs = os.openpty()
        process = subprocess.Popen(
            [sys.executable, "-c", AT_TERMINAL, *self._script(line)],
            cwd=self._here(),
            env={**self._variables, "TERM": "dumb"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        output = Output(os.fdopen(ours, "r", encoding="utf-8", newline="", closefd=False))
        try:
            if output.until(seen):
                os.write(ours, f"{typed}\n".encode())
            return output.text, process.wait(timeout=PATIENCE)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            output.join()
            os.close(ours)


class Output:
    """The output of a process, read while it runs.

    Args:
        stream: Where it prints.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._characters: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        """The output so far."""
        with self._changed:
            return "".join(self._characters)

    def until(self, seen: Callable[[str], bool]) -> bool:
        """Wait until something is seen; False where the process ended before."""

        def is_over() -> bool:
            return self._ended or seen("".join(self._characters))

        with self._changed:
            if not self._changed.wait_for(is_over, PATIENCE):
                raise TimeoutError(f"after {PATIENCE} s: {''.join(self._characters)!r}")
            return seen("".join(self._characters))

    def join(self) -> None:
        """Wait for the end of it."""
        self._reader.join(PATIENCE)

    def _read(self) -> None:
        # A terminal is gone once nobody is at its other end.
        with self._stream, contextlib.suppress(OSError):
            while character := self._stream.read(1):
                with self._changed:
                    self._characters.append(character)
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
