"""The params of `shell_execute`, and its result as a model reads it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from toolstile_hookspecs import ResourceLink
from toolstile_hookspecs.services.workspace import WORKSPACE_URI

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
