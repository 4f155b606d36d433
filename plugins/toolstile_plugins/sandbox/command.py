"""The description of a command to run, and of how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from toolstile_plugins.sandbox.settings import OUTPUT_BYTES, WHOLE_BYTES, SandboxSettings

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
class Limits:
    """The limits of a command, as the settings name them.

    Args:
        memory: In bytes, of all its processes.
        processes: How many at once.
        open_files: How many for each process.
        disk: In bytes, what it writes into the workspace.
        output: In bytes, what is shown of each of its outputs.
        whole_output: In bytes, what is kept of the beginning of each.
    """

    memory: int
    processes: int
    open_files: int
    disk: int
    output: int = OUTPUT_BYTES
    whole_output: int = WHOLE_BYTES

    @classmethod
    def of(cls, settings: SandboxSettings) -> Limits:
        """Return the limits that are configured."""
        return cls(
            settings.memory,
            settings.processes,
            settings.open_files,
            settings.disk,
            settings.output,
            settings.whole_output,
        )


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run.

    Args:
        words: The program and its arguments; no shell reads them.
        cwd: The directory it starts in, relative to the workspace.
        env: Its variables besides the usual ones.
        stdin: What it can read.
        seconds: The time after which it is killed.
        limits: Its other limits.
    """

    words: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] = field(repr=False)
    stdin: bytes = field(repr=False)
    seconds: float
    limits: Limits


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
