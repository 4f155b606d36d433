"""The clean end of the process on Ctrl-C, SIGTERM and SIGHUP, and at once when that does not work.

The first signal raises `Stopped` on the main thread: the running call is rolled back and
what was done is summed up. A watcher thread gives that a moment. It hears of signals
through the wake-up descriptor, so also when the main thread never gets to handle one,
and it ends the process when the moment is over or a second signal comes.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any, Final, NoReturn

Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None

# Windows has no terminals that hang up.
_HANG_UP: Final = (signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, *_HANG_UP)
GRACE: Final = 2.0
"""Seconds that handlers and clean-up have after the first signal."""
FLUSH: Final = 0.5
"""Seconds that output has to leave, when the process is ended the hard way."""
SHOW_CURSOR: Final = "\x1b[?25h"


class Stopped(KeyboardInterrupt):
    """A signal asks the process to end.

    Args:
        signum: The signal.
    """

    def __init__(self, signum: int) -> None:
        super().__init__()
        self.signum = signum

    @property
    def status(self) -> int:
        """The exit status that tells of the signal."""
        return 128 + self.signum


class Stopping:
    """The action on a signal.

    Attributes:
        last_words: Called before the process is ended the hard way; says what was done.
    """

    def __init__(self) -> None:
        self.last_words: Callable[[], None] | None = None
        self._ours, self._wakeup = socket.socketpair()
        self._wakeup.settimeout(0)

    def watch(self) -> None:
        """Wait for a signal, then for the end; end the process if it does not come."""
        with contextlib.suppress(OSError):
            while (first := self._next_signal(None)) is not None:
                self._next_signal(GRACE)
                self._end_process(128 + first)

    def open(self) -> None:
        """Start to watch; only the main thread can."""
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self.watch, name="toolstile-signals", daemon=True).start()

    def close(self) -> None:
        """Stop watching."""
        signal.set_wakeup_fd(-1)
        self._wakeup.close()

    def _next_signal(self, seconds: float | None) -> int | None:
        """Return the next signal that ends processes; None when time or the watch is over."""
        while True:
            if not select.select([self._ours], [], [], seconds)[0]:
                return None
            numbers = self._ours.recv(1)
            if not numbers:
                self._ours.close()
                raise OSError
            if numbers[0] in SIGNALS:
                return numbers[0]

    def _end_process(self, status: int) -> NoReturn:
        speaker = threading.Thread(target=self._say_last_words, daemon=True)
        # Some Pythons start no thread once they are exiting; then all has been said.
        with contextlib.suppress(RuntimeError):
            speaker.start()
            speaker.join(FLUSH)
        os._exit(status)

    def _say_last_words(self) -> None:
        if self.last_words is not None:
            self.last_words()
        if sys.stderr.isatty():
            sys.stderr.write(SHOW_CURSOR)
        sys.stderr.write("toolstile: a handler did not end; the process was ended over it.\n")
        sys.stdout.flush()
        sys.stderr.flush()


@contextlib.contextmanager
def stop_on_signals(*, owns_process: bool) -> Generator[Stopping]:
    """Raise `Stopped` on Ctrl-C, SIGTERM and SIGHUP within the block.

    A SIGHUP that is ignored, as `nohup` has it, stays so.

    Args:
        owns_process: Whether the process has nothing to do after the block. If so it is
            still watched after a signal, until it has ended.
    """
    stopping = Stopping()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    stopping.open()
    previous: dict[signal.Signals, Handler] = {
        each: signal.signal(each, _raise_stopped) for each in SIGNALS if not _is_outlived(each)
    }
    try:
        yield stopping
    except Stopped:
        if owns_process:
            previous = dict.fromkeys(previous, _leave_to_the_watcher)
        else:
            stopping.close()
        raise
    except BaseException:
        stopping.close()
        raise
    else:
        stopping.close()
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)


def _is_outlived(signum: signal.Signals) -> bool:
    return signum in _HANG_UP and signal.getsignal(signum) is signal.SIG_IGN


def _raise_stopped(signum: int, _frame: FrameType | None) -> NoReturn:
    raise Stopped(signum)


def _leave_to_the_watcher(_signum: int, _frame: FrameType | None) -> None:
    """Do nothing; the watcher hears of the signal by itself."""
