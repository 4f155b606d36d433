"""The life of a command: started, read from, ended with all that it has started."""

from __future__ import annotations

import os
import selectors
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Final

from toolstile_plugins.sandbox.backend import Backend, Running
from toolstile_plugins.sandbox.command import Command, Ended, Output
from toolstile_plugins.sandbox.disk_watch import DiskWatch
from toolstile_plugins.sandbox.result import TIMED_OUT

if TYPE_CHECKING:
    from toolstile_plugins.sandbox.layout import Layout

_TICK_SECONDS: Final = 0.1
_GRACE_SECONDS: Final = 1.0
_BLOCK_BYTES: Final = 1 << 16


class Collected:
    """An output as far as it has come: its beginning, and its end.

    Args:
        limit: In bytes, what is shown.
        whole: In bytes, what is kept of the beginning of a longer one.
    """

    def __init__(self, limit: int, whole: int) -> None:
        self._half = limit // 2
        self._limit = limit
        self._whole = whole
        self._size = 0
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0

    def add(self, data: bytes) -> None:
        """Add what came."""
        self._size += len(data)
        room = max(self._limit, self._whole) - len(self._head)
        self._head += data[:room]
        if rest := data[room:]:
            self._tail.append(rest)
            self._tail_size += len(rest)
            while self._tail_size - len(self._tail[0]) >= self._half:
                self._tail_size -= len(self._tail.popleft())

    def output(self) -> Output:
        """Return what is kept so far."""
        if self._size <= self._limit:
            return Output(bytes(self._head))
        kept = bytes(self._head) + b"".join(self._tail)
        head, tail, whole = (
            kept[: self._half],
            kept[-self._half :],
            bytes(self._head[: self._whole]),
        )
        return Output(head, tail, self._size - 2 * self._half, whole)


class CommandRun:
    """A command on its way; another thread may end it at any moment.

    Args:
        command: The command.
        backend: What runs it.

    Attributes:
        is_killed: Whether it was ended, or kept from starting, by another thread.
        stdout: Its output so far.
        stderr: Its other output so far.
    """

    def __init__(self, command: Command, backend: Backend) -> None:
        self._command = command
        self._backend = backend
        self._lock = threading.Lock()
        self._running: Running | None = None
        self.is_killed = False
        limits = command.limits
        self.stdout = Collected(limits.output, limits.whole_output)
        self.stderr = Collected(limits.output, limits.whole_output)

    def kill(self) -> None:
        """Kill it with all that it has started, or keep it from starting; waits for nothing."""
        with self._lock:
            self.is_killed = True
            if self._running is not None:
                self._running.kill()

    def run(self, layout: Layout, steps: Callable[[str], None]) -> Ended:
        """Run it to its end; nothing of it runs afterwards.

        Raises:
            SandboxUnavailable: When it cannot be started.
        """
        with tempfile.TemporaryFile(dir=layout.scratch.path) as stdin:
            stdin.write(self._command.stdin)
            stdin.seek(0)
            began = time.monotonic()
            running = self._backend.start(self._command, layout, stdin)
        try:
            with self._lock:
                self._running = running
                if self.is_killed:
                    running.kill()
            steps("running")
            disk = DiskWatch(layout, self._command.limits.disk)
            reason = self._read(running, began + self._command.seconds, disk)
        finally:
            with self._lock:
                self._running = None
            running.kill()
            running.join()
        self._drain(running)
        stdout, stderr = self.stdout.output(), self.stderr.output()
        code = running.exit_code(stderr.head)
        timed_out = reason is _TIME
        notes = (*((reason,) if reason and not timed_out else ()), *running.notes())
        return Ended(
            TIMED_OUT if timed_out else code,
            stdout,
            stderr,
            time.monotonic() - began,
            timed_out,
            notes,
            too_large=reason is not None and not timed_out,
        )

    def _read(self, running: Running, end: float, disk: DiskWatch) -> str | None:
        """Read until it ends; returns the limit by which it has to be ended."""
        with selectors.DefaultSelector() as selector:
            for stream, collected in self._streams(running):
                selector.register(stream, selectors.EVENT_READ, collected)
            while not running.ended():
                left = end - time.monotonic()
                if left <= 0:
                    return _TIME
                if (told := disk.exceeded()) is not None:
                    return told
                pause = min(left, _TICK_SECONDS)
                if not selector.get_map():
                    time.sleep(pause / 5)
                    continue
                for key, _ in selector.select(pause):
                    if not self._read_once(key.fd, key.data):
                        selector.unregister(key.fileobj)
        return None

    def _drain(self, running: Running) -> None:
        """Read what is left; where it is not contained, others may keep a pipe open for ever."""
        until = time.monotonic() + _GRACE_SECONDS
        for stream, collected in self._streams(running):
            with stream:
                os.set_blocking(stream.fileno(), False)
                while time.monotonic() < until:
                    try:
                        if not self._read_once(stream.fileno(), collected):
                            break
                    except BlockingIOError:
                        time.sleep(0.01)

    @staticmethod
    def _read_once(descriptor: int, collected: Collected) -> bool:
        data = os.read(descriptor, _BLOCK_BYTES)
        collected.add(data)
        return bool(data)

    def _streams(self, running: Running) -> list[tuple[IO[bytes], Collected]]:
        streams = (running.process.stdout, self.stdout), (running.process.stderr, self.stderr)
        return [(stream, collected) for stream, collected in streams if stream is not None]


_TIME: Final = "Its time was over."
