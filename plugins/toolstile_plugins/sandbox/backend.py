"""Commands, and the backends that run them: what they are, and how they are found."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from toolstile_hookspecs import Diagnostic
from toolstile_plugins.entry_points import loaded
from toolstile_plugins.sandbox.settings import SandboxSettings

if TYPE_CHECKING:
    from toolstile_plugins.sandbox.layout import Layout

ROOT = "/workspace"
"""The workspace, as commands in a sandbox see it."""

GIT_VARIABLES: Final = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}
"""Variables by which git reads a repository of another user.

git refuses one by default because its configuration may run programs. In a sandbox such a program
can do no more than the command itself.
"""


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run.

    Args:
        words: The program and its arguments; no shell reads them.
        cwd: The directory it starts in, relative to the workspace.
        env: Its variables besides the usual ones.
        stdin: What it can read.
        seconds: The time after which it is killed.
        limits: The settings that hold its other limits.
    """

    words: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = field(repr=False)
    stdin: bytes = field(repr=False)
    seconds: float
    limits: SandboxSettings


@dataclass(frozen=True, slots=True)
class Output:
    """The part of an output that is kept.

    Args:
        head: Its beginning.
        tail: Its end, where something between is missing.
        missing: How many bytes are missing.
        whole: All of it, or its longest beginning that is kept, where something is missing.
    """

    head: bytes = b""
    tail: bytes = b""
    missing: int = 0
    whole: bytes = field(default=b"", repr=False)

    def text(self, path: str = "") -> str:
        """Return it as text, cut visibly; bytes that are no text are replaced.

        Args:
            path: The path at which `whole` can be read.
        """
        head = self.head.decode(errors="replace")
        if not self.missing:
            return head
        tail = self.tail.decode(errors="replace")
        return (
            f"{head}\n[... {self.missing:,} bytes are missing here{self._rest(path)} ...]\n{tail}"
        )

    def _rest(self, path: str) -> str:
        size = len(self.head) + self.missing + len(self.tail)
        if not path:
            return ""
        what = (
            "all of it" if size == len(self.whole) else f"the first {len(self.whole):,} of {size:,}"
        )
        return f"; read_file and grep_files read {what} in {path}"


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a command.

    Args:
        exit_code: Its exit code; 128 and the number of the signal that killed it.
        stdout: Its output.
        stderr: Its other output.
        seconds: How long it ran.
        timed_out: Whether it was killed when its time was over.
        notes: The limits that ended it, a sentence each.
        too_large: Whether it was killed for the size of its files.
    """

    exit_code: int
    stdout: Output
    stderr: Output
    seconds: float
    timed_out: bool = False
    notes: tuple[str, ...] = ()
    too_large: bool = False


GROUP: Final = "toolstile.sandboxes"
"""The entry points of backends; ours are found exactly as anyone else's are."""


class SandboxUnavailable(Exception):
    """A backend cannot run commands here; the text says why, and what to do."""


class Running:
    """A command that runs, with all that it has started; this one leads a group of its own.

    Args:
        process: The process; both of its outputs are pipes.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def ended(self) -> bool:
        """Tell whether it has ended by itself; its number stays its own until `join`."""
        if self.process.returncode is not None or not hasattr(os, "waitid"):
            return self.process.poll() is not None
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process.pid, flags) is not None

    def kill(self) -> None:
        """Kill all of it; waits for nothing, and does nothing a second time."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def join(self) -> None:
        """Wait until nothing of it runs, after `kill`."""
        self.process.wait()

    def exit_code(self, stderr: bytes) -> int:  # noqa: ARG002 - where a sandbox says why it failed
        """Return the exit code, joined.

        Args:
            stderr: The beginning of what it wrote.

        Raises:
            SandboxUnavailable: When the command was never started.
        """
        code = self.process.returncode
        return 128 - code if code < 0 else code

    def notes(self) -> tuple[str, ...]:
        """Return the limits that were reached, a sentence each, joined."""
        return ()


def start_process(
    words: Sequence[str],
    *,
    stdin: BinaryIO,
    cwd: str,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process that leads a group of its own; both of its outputs are pipes.

    Raises:
        SandboxUnavailable: When it cannot be started.
    """
    try:
        return subprocess.Popen(  # noqa: S603 - what a sandbox is for
            words,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=env,
            pass_fds=pass_fds,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise SandboxUnavailable(f"{words[0]} cannot be started: {error}.") from error


class Backend(Protocol):
    """A backend: it runs commands over a workspace that is laid out.

    A class that is made with the settings, named in the entry points `toolstile.sandboxes`.

    Attributes:
        name: Its name, for the record.
        contained: Whether nothing of a command outlives a rollback.
        mounts: Whether it mounts the layers of a workspace, writing to `Layout.upper`; else it
            gets all of it as a directory.
    """

    name: str
    contained: bool
    mounts: bool

    def findings(self) -> Iterator[Diagnostic]:
        """Yield what `toolstile doctor` says; changes nothing."""
        ...

    def start(self, command: Command, layout: Layout, stdin: BinaryIO) -> Running:
        """Start a command.

        Raises:
            SandboxUnavailable: When it cannot be started here.
        """
        ...


TRY_AGAIN: Final = "`toolstile doctor` tries it again. Another backend is plugins.sandbox.backend."


def remedy_of(failure: str, remedies: Sequence[tuple[str, str]]) -> str:
    """Return the remedy whose sign a failure has, and how to try it again."""
    found = [told for sign, told in remedies if sign in failure]
    return " ".join([*found[:1], TRY_AGAIN])


def backend_of(settings: SandboxSettings) -> Backend:
    """Return the backend that the settings name.

    Raises:
        ConfigurationError: When there is none of that name.
    """
    made: Backend = loaded(GROUP, settings.backend, "plugins.sandbox.backend")(settings)
    return made
