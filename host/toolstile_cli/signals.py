"""The clean end of the process on Ctrl-C, SIGTERM and SIGHUP, or a kill if that fails.

The first signal raises `Stopped` on the main thread: the running call is rolled back and
the calls are summed up. A watcher thread gives that a moment, and ends the process
when the moment is over or a second signal comes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final, NoReturn

# Windows has no terminals that hang up.
_HANG_UP: Final = (signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, *_HANG_UP)
GRACE: Final = 2.0
"""Seconds that handlers and clean-up have after the first signal."""
FLUSH: Final = 0.5
"""Seconds that output has to leave, when the process is ended the hard way."""
SHOW_CURSOR: Final = "\x1b[?25h"


class Stopped(KeyboardInterrupt):
    """A signal asks the process to end."""

    def __init__(self, signum: int) -> None:
        super().__init__()
        self.signum = signum

    @property
    def status(self) -> int:
        """The exit status that stands for the signal."""
        return 128 + self.signum


class Stopping:
    """The action on a signal; `last_words` sum up the calls before the process is killed."""

    def __init__(self) -> None:
        self.last_words: Callable[[], None] | None = None
        # A signal may interrupt `put` itself, which few other queues allow.
        self._signals: SimpleQueue[int | None] = SimpleQueue()
        self._stopped = False

    def handle(self, signum: int, _frame: FrameType | None) -> None:
        """Raise `Stopped` at the first signal; leave each further one to the watcher."""
        self._signals.put(signum)
        if not self._stopped:
            self._stopped = True
            raise Stopped(signum)

    def watch(self) -> None:
        """Wait for a signal, then for the end; end the process if it does not come."""
        first = self._signals.get()
        if first is None:
            return
        with contextlib.suppress(Empty):
            if self._signals.get(timeout=GRACE) is None:
                return
        self._end_process(128 + first)

    def close(self) -> None:
        """Stop watching."""
        self._signals.put(None)

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
        if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
            sys.stderr.write(SHOW_CURSOR)
        sys.stderr.write("toolstile: a handler did not end; the process was ended over it.\n")
        sys.stdout.flush()
        sys.stderr.flush()


@contextlib.contextmanager
def stop_on_signals(*, owns_process: bool) -> Generator[Stopping]:
    """Raise `Stopped` on Ctrl-C, SIGTERM and SIGHUP within the block.

    A SIGHUP that is ignored, as `nohup` has it, stays so. A process that has nothing to do after
    the block is still watched after a signal, until it has ended.
    """
    stopping = Stopping()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return
    threading.Thread(target=stopping.watch, name="toolstile-signals", daemon=True).start()
    previous = {
        signum: signal.signal(signum, stopping.handle)
        for signum in SIGNALS
        if signum not in _HANG_UP or signal.getsignal(signum) is not signal.SIG_IGN
    }
    stays_watched = False
    try:
        yield stopping
    except Stopped:
        stays_watched = owns_process
        raise
    finally:
        if not stays_watched:
            stopping.close()
            for signum, handler in previous.items():
                signal.signal(signum, handler)
