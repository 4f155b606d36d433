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
"""The exit code of a command that was killed for its time, as of the program `timeout`."""

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
            raise ValueError(
                f"{name[:100]!r} cannot be the name of a variable, which has 80 characters at most"
            )
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
    """Seconds after which it is killed, with all its processes."""
    capture_output: bool = True
    """False to drop the output."""


@dataclass(frozen=True, slots=True)
class WholeOutput:
    """A long output that the file tools can read.

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
        stdout: Its output; of a long output, the middle is missing.
        stderr: Its other output, likewise.
        duration_ms: How long it ran.
        timed_out: Whether it was killed when its time was over.
        changed: The first paths that it changed, each after `A`, `M` or `D`.
        changed_count: How many it changed.
        sandbox: The name of its backend; `none` without a sandbox.
        notes: Further facts, a sentence each.
        captured: Whether its output was captured.
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
        lines = [f"exit code {self.exit_code} after {self.duration_ms / 1000:.1f} seconds"]
        if self.sandbox == "none":
            lines[0] += ", without a sandbox: its effects outside of the workspace stay"
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
"""The path of the workspace in a sandbox."""

GIT_VARIABLES: Final = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}
"""Variables that let git read a repository of another user.

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
        stdin: Its standard input.
        seconds: The time after which it is killed.
        limits: The settings that hold its other limits.
        link: A path at which it finds the workspace, too, if the backend mounts.
    """

    words: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = field(repr=False)
    stdin: bytes = field(repr=False)
    seconds: float
    limits: SandboxSettings
    link: str = ""


@dataclass(frozen=True, slots=True)
class Output:
    """A captured output: its beginning and, if bytes are missing, their number and its end."""

    head: bytes = b""
    tail: bytes = b""
    missing: int = 0
    # If bytes are missing, the whole output, or the longest beginning that is captured.
    whole: bytes = field(default=b"", repr=False)

    def text(self, path: str = "") -> str:
        """Return it as text, cut visibly; `whole` can be read at the path."""
        head = self.head.decode(errors="replace")
        if not self.missing:
            return head
        rest, size = "", len(self.head) + self.missing + len(self.tail)
        if path:
            known = len(self.whole)
            part = "all of it" if size == known else f"the first {known:,} of {size:,}"
            rest = f"; read_file and grep_files read {part} in {path}"
        tail = self.tail.decode(errors="replace")
        return f"{head}\n[... {self.missing:,} bytes are missing here{rest} ...]\n{tail}"


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a command."""

    exit_code: int  # 128 and the number of the signal that killed it
    stdout: Output
    stderr: Output
    seconds: float  # how long it ran
    timed_out: bool = False
    notes: tuple[str, ...] = ()  # the limits that ended it, a sentence each
    too_large: bool = False  # whether it was killed for the size of its files


GROUP: Final = "toolstile.sandboxes"
"""The entry points of backends, ours among them."""


class SandboxUnavailable(Exception):
    """A backend cannot run commands here; the text has the reason and the remedy."""


class Running:
    """A running command with all its processes.

    Args:
        process: The process, which leads a process group; both of its outputs are pipes.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def ended(self) -> bool:
        """Return whether it has ended; no other process gets its number before `join`."""
        if self.process.returncode is not None or not hasattr(os, "waitid"):
            return self.process.poll() is not None
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process.pid, flags) is not None

    def kill(self) -> None:
        """Kill all its processes without waiting; a second time does nothing."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def join(self) -> None:
        """Wait until all its processes have ended, after `kill`."""
        self.process.wait()

    def exit_code(self, stderr: bytes) -> int:  # noqa: ARG002 - for backends that fail
        """Return the exit code, after `join`; raise `SandboxUnavailable` if it never started.

        A sandbox names its own failure at the beginning of the error output.
        """
        code = self.process.returncode
        return 128 - code if code < 0 else code

    def notes(self) -> tuple[str, ...]:
        """Return the limits that were reached, a sentence each, after `join`."""
        return ()


def start_process(
    words: Sequence[str],
    *,
    stdin: BinaryIO,
    cwd: str,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a process that leads a group, with both outputs as pipes, or `SandboxUnavailable`."""
    try:
        return subprocess.Popen(  # noqa: S603 - the purpose of a sandbox
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
    """A backend runs commands over a workspace that is laid out.

    The entry points `toolstile.sandboxes` name its class, whose argument is the settings.

    Attributes:
        name: Its name, for the record.
        contained: Whether no effect of a command outlives a rollback.
        mounts: Whether it mounts the layers of a workspace, with `Layout.upper` for writes; else
            it gets a copy of the whole workspace as a directory.
    """

    name: str
    contained: bool
    mounts: bool

    def findings(self) -> Iterator[Diagnostic]:
        """Yield the findings of `toolstile doctor`, without changing anything."""
        ...

    def start(self, command: Command, layout: Layout, stdin: BinaryIO) -> Running:
        """Start a command; raise `SandboxUnavailable` if that is impossible here."""
        ...


TRY_AGAIN: Final = "`toolstile doctor` tries it again. Another backend is plugins.sandbox.backend."


def remedy_of(failure: str, remedies: Sequence[tuple[str, str]]) -> str:
    """Return the remedy whose sign a failure contains, and the way to retry."""
    found = [told for sign, told in remedies if sign in failure]
    return " ".join([*found[:1], TRY_AGAIN])


def backend_of(settings: SandboxSettings) -> Backend:
    """Return the backend that the settings name; `ConfigurationError` if there is none."""
    made: Backend = loaded(GROUP, settings.backend, "plugins.sandbox.backend")(settings)
    return made
