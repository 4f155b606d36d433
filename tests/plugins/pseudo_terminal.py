"""A person at a pseudo-terminal, before whom the real command line runs."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import sysconfig
import termios
import time
from contextlib import contextmanager
from pathlib import Path

COMMAND = Path(sysconfig.get_path("scripts")) / "toolstile"
PROMPT = "in this session"
WAIT = 60.0
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")

# Makes the terminal at standard error the controlling one, so that Ctrl-C there is a signal.
TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(2, termios.TIOCSCTTY, 0);"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class Person:
    """Whoever sits at the terminal: reads what is on it, and types."""

    def __init__(self, process, master):
        self.process = process
        self.screen = ""
        self.written = ""
        """All that came, with the escape sequences that the screen does not show."""
        self._master = master
        self._seen = 0

    def expect(self, text=PROMPT):
        """Wait until a text appears after all that was expected before; return what is before."""
        deadline = time.monotonic() + WAIT
        while text not in self.screen[self._seen :]:
            assert self._read(deadline), f"{text!r} did not appear in:\n{self.screen}"
        at = self.screen.index(text, self._seen)
        before, self._seen = self.screen[self._seen : at], at + len(text)
        return before

    def type(self, text):
        os.write(self._master, text.encode())

    def answer(self, text, prompt=PROMPT):
        """Wait for the question and answer it; return what was shown before it."""
        shown = self.expect(prompt)
        self.expect(":")
        self.type(f"{text}\n")
        return shown

    def end(self):
        """Return the status of the process, and all that was on the screen."""
        while self._read(time.monotonic() + WAIT):
            pass
        return self.process.wait(timeout=WAIT), self.screen

    def _read(self, deadline):
        ready, _, _ = select.select([self._master], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"nothing more came; so far:\n{self.screen}"
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        text = data.decode(errors="replace")
        self.written += text
        self.screen += ESCAPES.sub("", text).replace("\r\n", "\n")
        return bool(data)


@contextmanager
def at_stderr(monkeypatch):
    """Make standard error a terminal with colours; give what returns all that came there."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    master, slave = pty.openpty()
    with os.fdopen(slave, "w", encoding="utf-8") as out, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", out)

        def written():
            came = b""
            while select.select([master], [], [], 0.05)[0]:
                came += os.read(master, 65536)
            return came.decode()

        yield written
    os.close(master)


@contextmanager
def terminals():
    """Give what starts the command at a pseudo-terminal, and returns the person before it."""
    people = []

    def start(*arguments, command=(COMMAND,), **options):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, *map(str, [*command, *arguments])],
            stdin=options.pop("stdin", slave),
            stdout=options.pop("stdout", slave),
            stderr=slave,
            start_new_session=True,
            **options,
        )
        os.close(slave)
        people.append((process, master))
        return Person(process, master)

    yield start
    for process, master in people:
        process.kill()
        process.wait()
        os.close(master)
        if process.stdout is not None:
            process.stdout.close()
