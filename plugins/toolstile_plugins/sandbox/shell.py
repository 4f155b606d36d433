"""The handler of `shell_execute`: lays out, runs, harvests; and the life of a command."""

from __future__ import annotations

import errno
import os
import selectors
import shlex
import stat
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from toolstile_hookspecs import Filesystem, ToolContext, ToolError, ToolResult
from toolstile_hookspecs.services.workspace import (
    SupportsAttachments,
    SupportsLayers,
    SupportsWatch,
    WorkspaceLayers,
)
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.sandbox.backend import (
    TIMED_OUT,
    Backend,
    Command,
    CommandResult,
    Ended,
    Output,
    Running,
    SandboxUnavailable,
    ShellParams,
    WholeOutput,
)
from toolstile_plugins.sandbox.layout import (
    Harvest,
    HarvestError,
    entries_of,
    entries_since,
    known_of,
    lay_out_copy,
    lay_out_layers,
    size_on_disk,
)
from toolstile_plugins.sandbox.scratch import Scratch, base_of
from toolstile_plugins.sandbox.settings import SandboxSettings
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.base import shown
from toolstile_plugins.vfs.protected_paths import outside_repository
from toolstile_plugins.vfs.tools.checks import reason_of
from toolstile_plugins.vfs.tools.models import size_of

if TYPE_CHECKING:
    from toolstile_plugins.sandbox.layout import Layout


RUNS: Final[dict[int, CommandRun]] = {}
"""The running commands, and cancelled ones until their calls are rolled back."""
NOT_RUN: Final = (
    "The command was not run: no sandbox for it can be made on this machine. This requires human "
    "intervention."
)
"""The message for a model whose commands cannot run; the operator reads the reason."""


Steps = Callable[[str], None]
"""Called before each step of a command; tests end the process there."""


@dataclass(frozen=True)
class Shell:
    """Runs the commands of one tool."""

    _settings: SandboxSettings
    _backend: Backend
    _steps: Steps

    def execute(self, params: ShellParams, *, context: ToolContext) -> ToolResult[CommandResult]:
        """Run a command over the workspace of a call, and make its changes the call's."""
        files = context.filesystem
        if files is None:
            raise ToolError(
                "Commands need a workspace, and none is here. This requires human intervention.",
                for_operator="Add [plugins.vfs] to the configuration.",
            )
        try:
            cwd = paths.canonical(params.cwd or "")
            kind = files.stat(cwd).kind if cwd else "directory"
        except (OSError, ValueError) as error:
            raise ToolError(f"cwd: {reason_of(error)}") from error
        if kind != "directory":
            told = f"cwd: {cwd} is not a directory of the workspace. Choose one, then retry."
            return ToolResult.error(told)
        run = RUNS[id(context)] = CommandRun(self._command(params, cwd, context), self._backend)
        forget = context.on_abandoned(run.kill)
        context.set_attribute("sandbox.backend", self._backend.name)
        try:
            if isinstance(files, SupportsWatch):
                # Before the workspace is laid out, because the reads of the command are unknown.
                files.watch()
            return self.over(params, run, files)
        except SandboxUnavailable as error:
            raise ToolError(NOT_RUN, for_operator=str(error)) from error
        except HarvestError as error:
            return ToolResult.error(str(error))
        finally:
            forget()
            if not run.is_killed:
                RUNS.pop(id(context), None)

    def over(
        self, params: ShellParams, run: CommandRun, files: Filesystem
    ) -> ToolResult[CommandResult]:
        """Run a command over a workspace, or raise `SandboxUnavailable` or `HarvestError`."""
        self._steps("laying out")
        settings = self._settings
        layers = files.layers() if isinstance(files, SupportsLayers) else WorkspaceLayers()
        try:
            scratch = Scratch(base_of(settings.scratch, settings.disk, layers.directory))
            if self._backend.mounts:
                layout = lay_out_layers(files, scratch, settings.hidden)
                entries = partial(entries_of, layout.upper)
            else:
                layout = lay_out_copy(files, scratch, settings.hidden)
                entries = partial(entries_since, layout.upper, known_of(layout.upper))
        except OSError as error:
            raise SandboxUnavailable(f"The workspace cannot be laid out: {error}") from error
        self._steps("starting")
        ended = run.run(layout, self._steps)
        self._steps("harvesting")
        harvest = Harvest(files, layout)
        if ended.too_large or (ended.exit_code and settings.on_exit == "fail"):
            return ToolResult.error(self._result(params, ended, harvest, files).render())
        found = list(entries())
        if (written := sum(entry.size for entry in found)) > settings.disk:
            # A command may end before a check of its size, or write more after the last one.
            raise HarvestError(
                f"The command has written {size_of(written)} into the workspace, more than the "
                f"{size_of(settings.disk)} that are allowed, so none of its changes were kept. "
                "Write less in one command, then retry."
            )
        harvest.take(found)
        self._steps("harvested")
        result = self._result(params, ended, harvest, files)
        return ToolResult.ok(result, message=f"{shlex.join(params.command)} has run.")

    def _command(self, params: ShellParams, cwd: str, context: ToolContext) -> Command:
        seconds = min(max(params.timeout_seconds, 1), self._settings.max_seconds)
        if context.deadline is not None:
            seconds = min(seconds, context.deadline.remaining())
        return Command(
            params.command,
            cwd,
            {**self._settings.environment, **params.env},
            (params.stdin or "").encode(),
            seconds,
            self._settings,
        )

    def _result(
        self, params: ShellParams, ended: Ended, harvest: Harvest, files: Filesystem
    ) -> CommandResult:
        notes = list(ended.notes)
        if ended.timed_out:
            notes.append(
                f"It was killed after {counted(round(ended.seconds, 1), 'second')}, with all that "
                "it had started. Give it more time with timeout_seconds, or less to do."
            )
        if harvest.left_out:
            named = ", ".join(f"{path!a} ({what})" for path, what in harvest.left_out.items())
            notes.append(f"Left out, as only processes that run need it: {named}.")
        if harvest.closed:
            named = shown(harvest.closed)
            notes.append(
                f"Shown as empty, and left as they are: {named}: this user cannot read them."
            )
        if _lacks_repository(files, ended):
            notes.append(
                "git failed because this workspace is a linked worktree or a submodule: its "
                "repository is outside, where commands cannot write. Continue without git, and "
                "leave the commit to a person."
            )
        captured = params.capture_output
        texts = dict.fromkeys(("stdout", "stderr"), "")
        whole: list[WholeOutput] = []
        for name in texts if captured else ():
            output, path = getattr(ended, name), ""
            if output.whole and isinstance(files, SupportsAttachments):
                content = output.whole.decode(errors="replace").encode()
                path = files.attach(content, f".{name}.txt")
                whole.append(WholeOutput(name, path, len(content)))
            texts[name] = output.text(path)
        return CommandResult(
            params.command,
            (params.cwd or ""),
            ended.exit_code,
            texts["stdout"],
            texts["stderr"],
            round(ended.seconds * 1000),
            ended.timed_out,
            tuple(harvest.changed),
            harvest.count,
            self._backend.name,
            tuple(notes),
            captured,
            tuple(whole),
        )


def _lacks_repository(files: Filesystem, ended: Ended) -> bool:
    """Return whether a command failed because git's repository is outside of the workspace."""
    directory = files.layers().directory if isinstance(files, SupportsLayers) else None
    if not ended.exit_code or directory is None:
        return False
    repository = outside_repository(Path(directory))
    told = ended.stderr.text()
    return repository is not None and ("not a git repository" in told or str(repository) in told)


# --- A command: started, read from, kept within its disk, ended with all it started


_TICK_SECONDS: Final = 0.1
_GRACE_SECONDS: Final = 1.0
_BLOCK_BYTES: Final = 1 << 16


class Collected:
    """The output so far: its beginning and its end."""

    def __init__(self, limit: int, whole: int) -> None:
        self._half = limit // 2
        self._limit = limit  # the bytes that are shown
        self._whole = whole  # the bytes that are kept of the beginning of a longer output
        self._size = 0
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0

    def add(self, data: bytes) -> None:
        self._size += len(data)
        room = max(self._limit, self._whole) - len(self._head)
        self._head += data[:room]
        if rest := data[room:]:
            self._tail.append(rest)
            self._tail_size += len(rest)
            while self._tail_size - len(self._tail[0]) >= self._half:
                self._tail_size -= len(self._tail.popleft())

    def output(self) -> Output:
        if self._size <= self._limit:
            return Output(bytes(self._head))
        kept = bytes(self._head) + b"".join(self._tail)
        missing, whole = self._size - 2 * self._half, bytes(self._head[: self._whole])
        return Output(kept[: self._half], kept[-self._half :], missing, whole)


class CommandRun:
    """The run of a command, which another thread may end at any moment."""

    def __init__(self, command: Command, backend: Backend) -> None:
        self._command = command
        self._backend = backend
        self._lock = threading.Lock()
        self._running: Running | None = None
        self.is_killed = False  # or kept from starting
        limits = command.limits
        self.stdout = Collected(limits.output, limits.whole_output)
        self.stderr = Collected(limits.output, limits.whole_output)

    def kill(self) -> None:
        """Kill it with all its processes, or keep it from starting; does not wait."""
        with self._lock:
            self.is_killed = True
            if self._running is not None:
                self._running.kill()

    def run(self, layout: Layout, steps: Callable[[str], None]) -> Ended:
        """Run it to the end of all its processes; `SandboxUnavailable` if it cannot be started."""
        try:
            with tempfile.TemporaryFile(dir=layout.scratch.path) as stdin:
                stdin.write(self._command.stdin)
                stdin.seek(0)
                began = time.monotonic()
                running = self._backend.start(self._command, layout, stdin)
        except OSError as error:
            raise SandboxUnavailable(f"The command cannot be started: {error}.") from error
        try:
            with self._lock:
                self._running = running
                if self.is_killed:
                    running.kill()
            steps("running")
            disk = DiskWatch(layout, self._command.limits.disk)
            reason = self._read(running, began + self._command.seconds, disk)
        finally:
            with self._lock:
                self._running = None
            running.kill()
            running.join()
        self._drain(running)
        stdout, stderr = self.stdout.output(), self.stderr.output()
        code = running.exit_code(stderr.head)
        if reason is None and code == _FILE_TOO_LARGE:
            reason = _too_much(self._command.limits.disk)
        timed_out = reason is _TIME
        notes = (*((reason,) if reason and not timed_out else ()), *running.notes())
        return Ended(
            TIMED_OUT if timed_out else code,
            stdout,
            stderr,
            time.monotonic() - began,
            timed_out,
            notes,
            too_large=reason is not None and not timed_out,
        )

    def _read(self, running: Running, end: float, disk: DiskWatch) -> str | None:
        """Read until it ends; return the limit for which it must be killed, if any."""
        with selectors.DefaultSelector() as selector:
            for stream, collected in self._streams(running):
                selector.register(stream, selectors.EVENT_READ, collected)
            while not running.ended():
                left = end - time.monotonic()
                if left <= 0:
                    return _TIME
                if (told := disk.exceeded()) is not None:
                    return told
                pause = min(left, _TICK_SECONDS)
                if not selector.get_map():
                    time.sleep(pause / 5)
                    continue
                for key, _ in selector.select(pause):
                    if not self._read_once(key.fd, key.data):
                        selector.unregister(key.fileobj)
        return None

    def _drain(self, running: Running) -> None:
        """Read the rest for a short time, because uncontained processes may keep a pipe open."""
        until = time.monotonic() + _GRACE_SECONDS
        for stream, collected in self._streams(running):
            with stream:
                os.set_blocking(stream.fileno(), False)
                while time.monotonic() < until:
                    try:
                        if not self._read_once(stream.fileno(), collected):
                            break
                    except BlockingIOError:
                        time.sleep(0.01)

    @staticmethod
    def _read_once(descriptor: int, collected: Collected) -> bool:
        data = os.read(descriptor, _BLOCK_BYTES)
        collected.add(data)
        return bool(data)

    def _streams(self, running: Running) -> list[tuple[IO[bytes], Collected]]:
        streams = (running.process.stdout, self.stdout), (running.process.stderr, self.stderr)
        return [(stream, collected) for stream, collected in streams if stream is not None]


_TIME: Final = "It ran out of time."
_FILE_TOO_LARGE: Final = 128 + 25
"""The exit code of a command that SIGXFSZ ended; the number is that of Linux."""


class DiskWatch:
    """A regular check of the size of a command's files, while the command runs."""

    _RESERVE: Final = 64 * 1024 * 1024
    _BYTES_OF_FILE: Final = 4096

    def __init__(self, layout: Layout, limit: int) -> None:
        self._directory = layout.upper
        self._name = layout.scratch.name
        self._limit = limit
        self._next = 0.0
        self._free = self._found()
        # A copy of the workspace has files before the command writes any.
        self._before = self._used(0)

    def exceeded(self) -> str | None:
        """Return the message about too large files, else None."""
        now = time.monotonic()
        if now < self._next:
            return None
        free = self._found()
        if min(free) <= 0:
            return "The disk is full, so the command was killed and none of its changes were kept."
        # A walk only if this much disk is gone, which other programs may have written, too.
        gone = max(before - left for before, left in zip(self._free, free, strict=True))
        if gone < self._limit // 2:
            self._next = now + 0.1
            return None
        used = self._used(gone) - self._before + _size_of_unlinked(self._name)
        self._next = time.monotonic() + 5 * (time.monotonic() - now) + 0.1
        return None if used <= self._limit else _too_much(self._limit)

    def _found(self) -> tuple[int, int]:
        """Return the free space, and the free files counted as bytes."""
        found = os.statvfs(self._directory)
        free = found.f_bavail * found.f_frsize - self._RESERVE
        files = found.f_favail * self._BYTES_OF_FILE if found.f_files else free
        return free, files

    def _used(self, gone: int) -> int:
        """Return the size of all files; if a path is too long to read, at least `gone`."""
        used = 0
        pending = [self._directory]
        while pending:
            try:
                with os.scandir(pending.pop()) as entries:
                    for entry in entries:
                        with suppress(FileNotFoundError, PermissionError):
                            status = entry.stat(follow_symlinks=False)
                            used += max(size_on_disk(status), self._BYTES_OF_FILE)
                            if entry.is_dir(follow_symlinks=False):
                                pending.append(entry.path)
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    return max(used, gone)
        return used


def _too_much(limit: int) -> str:
    return (
        f"It had written more than {size_of(limit)} into the workspace, so it was killed and none "
        "of its changes were kept."
    )


def _size_of_unlinked(name: str) -> int:
    """Return the size of the files that a command has removed and still has open."""
    held: dict[tuple[int, int], int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        # A process may end, or belong to another user.
        with suppress(OSError):
            mounts = (process / "mountinfo").read_text(encoding="utf-8", errors="replace")
            # The mounts of the command contain the name of its scratch directory.
            devices = {line.split()[2] for line in mounts.splitlines() if name in line}
            for descriptor in (process / "fd").iterdir() if devices else ():
                status = descriptor.stat()
                device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
                if device in devices and not status.st_nlink and stat.S_ISREG(status.st_mode):
                    held[status.st_dev, status.st_ino] = size_on_disk(status)
    return sum(held.values())
