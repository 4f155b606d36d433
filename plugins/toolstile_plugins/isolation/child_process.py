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

from toolstile_plugins.isolation.messages import Done, MessageError, SocketChannel
from toolstile_plugins.isolation.values import fault_of

_ABOVE_STREAMS: Final = 3

# --- in the parent


def started(module: str) -> tuple[subprocess.Popen[bytes], socket]:
    """Start a module in a process that leads a new group; return the process and its socket.

    Raises:
        OSError: The system cannot start a process.
    """
    errors = subprocess.DEVNULL
    with contextlib.suppress(OSError):  # A daemon may have closed its streams.
        os.fstat(2)
        errors = subprocess.DEVNULL if sys.__stderr__ is None else 2
    with contextlib.ExitStack() as stack:
        ours, theirs = map(stack.enter_context, socketpair())
        # If the parent has closed its streams, a socket may have the number of a stream.
        number = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, _ABOVE_STREAMS)
        stack.callback(os.close, number)
        # -P, because files in the working directory must not shadow our modules.
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-P", "-m", module, str(number)],
            pass_fds=(number,),
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        return process, ours.dup()


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
