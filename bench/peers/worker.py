"""A peer's own process, which is asked by lines and may be ended at any time."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TextIO

HERE: Final = Path(__file__).parent
ENDING_SECONDS: Final = 2.0


class PeerFailedError(Exception):
    """A peer did not do what it was asked; the message says why."""


class Worker:
    """A process of a peer's Python that runs a program of ours.

    Args:
        python: The peer's Python.
        program: The file, here or with modules of its own beside its folder.
        runner: The peer's runner.
        log: What it writes to stderr is kept there.
    """

    def __init__(self, python: Path, program: str | Path, runner: str, log: Path) -> None:
        self._log = log
        path = HERE / program
        with log.open("w", encoding="utf-8") as stderr:
            self._process = subprocess.Popen(
                [python, path, runner],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                encoding="utf-8",
                env={**os.environ, "PYTHONPATH": str(path.parents[1])},
            )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        assert self._process.stdout is not None
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()

    def ask(self, do: str, limit: float, /, **arguments: object) -> Any:
        """Have something done.

        Args:
            do: What.
            limit: How many seconds it may take.
            arguments: With what.

        Returns:
            What came of it.

        Raises:
            PeerFailedError: If it failed, took too long, or the process has ended.
        """
        assert self._process.stdin is not None
        try:
            print(json.dumps({"do": do, "with": arguments}), file=self._process.stdin, flush=True)
        except OSError as error:
            raise PeerFailedError(self._how_it_ended()) from error
        answer = json.loads(self.line(limit))
        if "failed" in answer:
            raise PeerFailedError(answer["failed"])
        return answer["ok"]

    def line(self, limit: float) -> str:
        """Return the next line that the process writes.

        Raises:
            PeerFailedError: If it writes none in time.
        """
        try:
            line = self._lines.get(timeout=limit)
        except queue.Empty:
            self.end(patience=0)
            raise PeerFailedError(f"no answer within {limit:g} s") from None
        if not line:
            raise PeerFailedError(self._how_it_ended())
        return line

    def end(self, patience: float = ENDING_SECONDS) -> bool:
        """End the process; returns whether it did so by itself."""
        assert self._process.stdin is not None
        # It may be gone, with something unread.
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
        return True

    def _read(self, stdout: TextIO) -> None:
        with stdout:
            for line in stdout:
                self._lines.put(line)
        self._lines.put("")

    def _how_it_ended(self) -> str:
        status = self._process.wait()
        said = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        last = next((line for line in reversed(said) if line.strip()), "it said nothing")
        return f"ended with status {status}: {last.strip()}"


@contextmanager
def working(python: Path, program: str | Path, runner: str, log: Path) -> Iterator[Worker]:
    """Give a process that is ended afterwards."""
    worker = Worker(python, program, runner, log)
    try:
        yield worker
    finally:
        worker.end()
