"""A process that runs handlers, from both of its ends: started here, and ended with its parent."""

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

from toolstile_plugins.isolation.messages import Channel, Done, MessageError
from toolstile_plugins.isolation.values import fault_of

_ABOVE_STREAMS: Final = 3

# --- in the parent


def started(module: str) -> tuple[subprocess.Popen[bytes], socket]:
    """Start a module in a process that leads a group of its own; return it, and a socket to it.

    Raises:
        OSError: The system gives no process.
    """
    errors = _errors()
    with contextlib.ExitStack() as stack:
        ours, theirs = map(stack.enter_context, socketpair())
        # Where the parent has closed its streams, a socket may have one of their numbers.
        number = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, _ABOVE_STREAMS)
        stack.callback(os.close, number)
        # -P: what lies in the working directory must not stand in for our own modules.
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


def _errors() -> int:
    """Return where handlers print to: nowhere, where a daemon has closed its streams."""
    with contextlib.suppress(OSError):
        os.fstat(2)
        return subprocess.DEVNULL if sys.__stderr__ is None else 2
    return subprocess.DEVNULL


# --- in the process


def parent_socket() -> socket:
    """Return the socket to the parent, with which this process and all it started ends."""
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
    """Return what a handler comes to, whatever it raises, with all that it has printed."""
    try:
        return run()
    except BaseException as error:  # noqa: BLE001 - raised where the call was dispatched
        return Done(fault=fault_of(error, traceback.format_exc()))
    finally:
        flush_streams()


def flush_streams() -> None:
    """Pass on what a handler has printed."""
    for stream in (sys.stdout, sys.stderr):
        # The handler may have closed it, or nobody may read it any more.
        with contextlib.suppress(Exception):
            stream.flush()


def tell(channel: Channel, done: Done) -> None:
    """Send what a handler came to, or why that cannot be sent; raises `OSError` at the end."""
    try:
        channel.send(done)
    except MessageError as error:
        told = RuntimeError(f"its result cannot be sent to its host: {error}")
        channel.send(Done(fault=fault_of(told)))
