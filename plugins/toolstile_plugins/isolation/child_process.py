"""A process that runs handlers: its start in the parent, and its end with the parent."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from socket import socket, socketpair
from typing import Final

from toolstile_plugins.isolation.messages import Done, MessageError, SocketChannel, fault_of

_ABOVE_STREAMS: Final = 3
_NO_RESULT: Final = "its process was ended before it gave a result"

# --- in the parent


class ChildProcess:
    """A process that runs a module of ours; it is killed with its group, and always reaped."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._ended = threading.Event()

    def start(self) -> socket:
        """Start the process, leader of a new group; `RuntimeError` if it was killed before."""
        errors = subprocess.DEVNULL
        with contextlib.suppress(OSError):  # A daemon may have closed its streams.
            os.fstat(2)
            errors = subprocess.DEVNULL if sys.__stderr__ is None else 2
        with self._lock, contextlib.ExitStack() as stack:
            if self._killed:
                raise RuntimeError(_NO_RESULT)
            ours, theirs = map(stack.enter_context, socketpair())
            # If the parent has closed its streams, a socket may have the number of a stream.
            number = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, _ABOVE_STREAMS)
            stack.callback(os.close, number)
            # -P, because files in the working directory must not shadow our modules.
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-P", "-m", self._module, str(number)],
                pass_fds=(number,),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
            threading.Thread(
                target=self._reap, args=(self._process,), name="toolstile-reaper", daemon=True
            ).start()
            return ours.dup()

    @property
    def is_alive(self) -> bool:
        """True if the process was neither killed nor has ended."""
        return not (self._killed or self._ended.is_set())

    def kill(self) -> None:
        """Kill the process and its group, without waiting."""
        with self._lock:
            self._killed = True
            if self._process is not None and not self._ended.is_set():
                _kill_group(self._process.pid)

    def wait(self) -> None:
        """Wait until the process has ended."""
        self._ended.wait()

    def death(self) -> str:
        """Return how the process ended."""
        process = self._process
        if process is None or self._killed or not self._ended.wait(timeout=5):
            return _NO_RESULT
        status = process.returncode
        how = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
        return f"its process ended without a result ({how})"

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        # The group is killed before the process is reaped, because the system may then reuse its
        # number. It is killed at all, because its other processes would keep the pipe open.
        with contextlib.suppress(ChildProcessError):
            if hasattr(os, "waitid"):
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            else:
                # On macOS before Python 3.13. The rest of its group keeps the number in use.
                process.wait()
        with self._lock:
            _kill_group(process.pid)
            process.wait()
            self._ended.set()


def _kill_group(number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(number, signal.SIGKILL)


# --- in the process


def parent_socket() -> socket:
    """Return the socket to the parent; when it closes, the group of this process is killed."""
    end = socket(fileno=int(sys.argv[1]))
    # Programs that a handler starts must not keep the socket open.
    end.set_inheritable(False)
    threading.Thread(target=_end_with_parent, args=(end.fileno(),), daemon=True).start()
    return end


def _end_with_parent(number: int) -> None:
    poll = select.poll()
    poll.register(number, 0)
    poll.poll()
    os.killpg(0, signal.SIGKILL)


def outcome_of(run: Callable[[], Done]) -> Done:
    """Return the result or exception of a handler, and flush its output."""
    try:
        return run()
    except BaseException as error:  # noqa: BLE001 - raised again in the host
        return Done(fault=fault_of(error, traceback.format_exc()))
    finally:
        flush_streams()


def flush_streams() -> None:
    """Flush the output of a handler."""
    for stream in (sys.stdout, sys.stderr):
        # The handler may have closed the stream, or its reader may be gone.
        with contextlib.suppress(Exception):
            stream.flush()


def tell(channel: SocketChannel, done: Done) -> None:
    """Send the result of a handler, or the reason that it cannot be sent."""
    try:
        channel.send(done)
    except MessageError as error:
        told = RuntimeError(f"its result cannot be sent to its host: {error}")
        channel.send(Done(fault=fault_of(told)))
