"""Commands: their params and results, and the backends that run them."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, Protocol

from pydantic import AfterValidator, Field

from toolstile_hookspecs import Diagnostic, ResourceLink
from toolstile_hookspecs.services.workspace import WORKSPACE_URI
from toolstile_plugins.entry_points import loaded
from toolstile_plugins.sandbox.settings import SandboxSettings

if TYPE_CHECKING:
    from toolstile_plugins.sandbox.layout import Layout


# --- Params and results


MAX_COMMAND: Final = 4096
MAX_VARIABLES: Final = 64
MAX_STDIN: Final = 1024 * 1024
TIMED_OUT: Final = 124
"""The exit code of a command that was killed when its time was over, as `timeout` has it."""

_SHOWN: Final = 80
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")


def _without_control(text: str) -> str:
    bad = _CONTROL.search(text)
    if bad is not None:
        raise ValueError(f"holds the control character U+{ord(bad[0]):04X}")
    return text


def _short(words: tuple[str, ...]) -> tuple[str, ...]:
    size = sum(len(word) for word in words)
    if size > MAX_COMMAND:
        raise ValueError(
            f"has {size:,} characters in all, {MAX_COMMAND:,} at most; write a long script to a "
            "file, and run that"
        )
    return words


def _variables(env: dict[str, str]) -> dict[str, str]:
    for name in env:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name[:100]!r} is no name of a variable, of 80 characters at most")
    return env


def _beneath(cwd: str | None) -> str | None:
    if cwd is not None and (cwd.startswith("/") or ".." in cwd.split("/")):
        raise ValueError("is relative to the workspace, without '..'")
    return None if cwd is None else _without_control(cwd)


Text = Annotated[str, AfterValidator(_without_control)]
Word = Annotated[str, Field(min_length=1), AfterValidator(_without_control)]
Words = Annotated[tuple[Word, ...], Field(min_length=1), AfterValidator(_short)]
Value = Annotated[str, Field(max_length=512), AfterValidator(_without_control)]
Variables = Annotated[dict[str, Value], Field(max_length=MAX_VARIABLES), AfterValidator(_variables)]


@dataclass(frozen=True, slots=True)
class ShellParams:
    """Run a command."""

    command: Words
    """The program and its arguments, a word each; for a shell ["sh", "-c", "..."]."""
    cwd: Annotated[str | None, AfterValidator(_beneath)] = None
    """The directory to start in, relative to the workspace; its root by default."""
    env: Variables = field(default_factory=dict[str, str])
    """Variables for the command, besides the usual ones."""
    stdin: Annotated[str, Field(max_length=MAX_STDIN)] | None = None
    """The text that the command can read from its standard input."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 30
    """Seconds after which it is killed, with all it has started."""
    capture_output: bool = True
    """False for a command whose output is of no interest."""


@dataclass(frozen=True, slots=True)
class WholeOutput:
    """A long output that can be read on.

    Args:
        name: `stdout` or `stderr`.
        path: The path at which the file tools read it.
        size: In bytes.
    """

    name: str
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The end of a command, and its changes.

    Args:
        command: The program and its arguments.
        cwd: The directory it was started in.
        exit_code: Its exit code; 124 where its time was over.
        stdout: Its output, where it is long without its middle.
        stderr: Its other output, likewise.
        duration_ms: How long it ran.
        timed_out: Whether it was killed when its time was over.
        changed: The first paths that it changed, each after `A`, `M` or `D`.
        changed_count: How many it changed.
        sandbox: What it ran in; `none` where nothing contained it.
        notes: What else there is to know, a sentence each.
        captured: Whether its output was kept.
        whole_outputs: The outputs that are shown without their middle.
    """

    command: tuple[str, ...]
    cwd: str
    exit_code: int
    stdout: str
    stderr: str
    duration_ms: int
    timed_out: bool = False
    changed: tuple[str, ...] = ()
    changed_count: int = 0
    sandbox: str = "bubblewrap"
    notes: tuple[str, ...] = ()
    captured: bool = True
    whole_outputs: tuple[WholeOutput, ...] = ()

    @property
    def links(self) -> tuple[ResourceLink, ...]:
        """The links by which clients find long outputs."""
        return tuple(
            ResourceLink(
                f"{WORKSPACE_URI}{whole.path}",
                whole.name,
                description=f"{whole.name} of {shlex.join(self.command)[:_SHOWN]}",
                mime_type="text/plain",
                size=whole.size,
            )
            for whole in self.whole_outputs
        )

    def render(self) -> str:
        """Return it as text."""
        lines = [f"exit code {self.exit_code} after {self.duration_ms / 1000:.1f} seconds"]
        if self.sandbox == "none":
            lines[0] += ", in no sandbox: what it did outside of the workspace stays"
        lines += self.notes
        if not self.captured:
            lines.append("Its output was not kept, as capture_output was false.")
        for title, text in (("stdout", self.stdout), ("stderr", self.stderr)):
            if text:
                lines += [f"--- {title}", text.rstrip("\n")]
        if self.changed:
            lines += [f"--- changed ({self.changed_count})", *self.changed]
            more = self.changed_count - len(self.changed)
            if more:
                lines.append(f"... and {more} more")
        return "\n".join(lines)


# --- Commands and backends


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
