"""The backend `bubblewrap`: a command in namespaces of its own, over a mounted overlay."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from toolstile_hookspecs import Diagnostic
from toolstile_plugins.sandbox.backend import Running, SandboxUnavailable, start_process
from toolstile_plugins.sandbox.bubblewrap_program import diagnosed, needed_program, remedy
from toolstile_plugins.sandbox.command import GIT_VARIABLES, ROOT, Command
from toolstile_plugins.sandbox.limits import Cgroup, limit_process
from toolstile_plugins.sandbox.scratch import NOTE, Scratch, is_in_memory
from toolstile_plugins.sandbox.seccomp import program as filter_program
from toolstile_plugins.sandbox.settings import SandboxSettings

if TYPE_CHECKING:
    from toolstile_plugins.sandbox.layout import Layout

_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_CONFIGURATION: Final = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/pki/tls/certs",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_MASKED: Final = (
    "kcore",
    "keys",
    "kmsg",
    "kpagecount",
    "kpageflags",
    "sysrq-trigger",
    "timer_list",
)
_RUN: Final = "/run/sandbox"
# Where the host was killed before it has noted the process and set its limits, nothing starts.
_START: Final = ("/bin/sh", "-c", f'test -e {_RUN}/{NOTE} || exit 125; exec "$@"', "sh")
_USER: Final = "agent"


class Bubblewrap:
    """Runs commands with bubblewrap; nothing of them outlives a rollback.

    Args:
        settings: The settings of the sandbox.
    """

    name = "bubblewrap"
    contained = True
    mounts = True

    def __init__(self, settings: SandboxSettings) -> None:
        self._settings = settings

    def findings(self) -> Iterator[Diagnostic]:
        """Yield whether a sandbox can be made here, and what limits its commands."""
        return diagnosed(self._settings)

    def start(self, command: Command, layout: Layout, stdin: BinaryIO) -> Running:
        """Start a command."""
        program = needed_program()
        with ExitStack() as opened:
            status, status_end = _pipe(opened)
            block_end, block = _pipe(opened)
            theirs: tuple[int, ...] = (status_end.fileno(), block_end.fileno())
            arguments = self._arguments(command, layout)
            arguments += ["--json-status-fd", str(theirs[0]), "--block-fd", str(theirs[1])]
            filter_ = filter_program()
            if filter_ is not None:
                theirs += (_memory_file(filter_, opened),)
                arguments += ["--seccomp", str(theirs[-1])]
            given = _memory_file(b"".join(os.fsencode(each) + b"\0" for each in arguments), opened)
            # The arguments hold variables, which may be secrets: so they are on no command line.
            process = start_process(
                [program, "--args", str(given), "--", *_START, *command.words],
                stdin=stdin,
                env={"PATH": _PATH},
                cwd="/",
                pass_fds=(*theirs, given),
            )
            status_end.close()
            memory = command.limits.memory
            if is_in_memory(layout.scratch.path):
                memory += command.limits.disk
            running = _Sandboxed(process, layout.scratch, os.fdopen(os.dup(status.fileno()), "rb"))
            try:
                running.limit(
                    command, Cgroup(layout.scratch.name, memory, command.limits.processes)
                )
            except BaseException:
                running.kill()
                running.join()
                raise
            block.write(b"1")
            return running

    def _arguments(self, command: Command, layout: Layout) -> list[str]:
        namespaces = ["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"]
        namespaces += ["--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"]
        tmp = str(max(command.limits.disk // 10, 1 << 20))
        devices = ["--dev", "/dev"]
        for directory in ("/dev/shm", "/tmp"):  # noqa: S108 - of the sandbox
            devices += ["--size", tmp, "--tmpfs", directory]
        devices += ["--remount-ro", "/dev"]
        workspace: list[str] = []
        for lower in layout.lowers:
            workspace += ["--overlay-src", lower]
        workspace += ["--overlay", layout.upper, layout.work, ROOT]
        for path, directory in layout.mounts.items():
            workspace += ["--ro-bind", directory, f"{ROOT}/{path}"]
        variables = ["--clearenv"]
        for name, value in {**_variables(), **command.env}.items():
            variables += ["--setenv", name, value]
        where = f"{ROOT}/{command.cwd}" if command.cwd else ROOT
        return [
            *namespaces,
            *self._system(layout),
            *_processes(),
            *devices,
            *self._readable(),
            *workspace,
            "--ro-bind",
            layout.scratch.directory("run"),
            _RUN,
            "--remount-ro",
            "/",
            "--chdir",
            where,
            *variables,
        ]

    def _readable(self) -> list[str]:
        names = [os.fspath(path) for path in self._settings.readable]
        return [part for name in names for part in ("--ro-bind-try", name, name)]

    def _system(self, layout: Layout) -> list[str]:
        """Return the options that show the programs of this machine, and nothing else of it."""
        made: list[str] = []
        for name in _SYSTEM:
            path = Path(name)
            if path.is_symlink():
                made += ["--symlink", os.fspath(path.readlink()), name]
            elif path.is_dir():
                made += ["--ro-bind", name, name]
        for name in _CONFIGURATION:
            made += ["--ro-bind-try", name, name]
        for name, text in _users().items():
            file = layout.scratch.path / name
            file.write_text(text, encoding="utf-8")
            made += ["--ro-bind", os.fspath(file), f"/etc/{name}"]
        return made


class _Sandboxed(Running):
    """A command in a sandbox, with the process that is the first one in there."""

    def __init__(
        self, process: subprocess.Popen[bytes], scratch: Scratch, status: BinaryIO
    ) -> None:
        super().__init__(process)
        self._scratch = scratch
        self._status = status
        self._first: int | None = None
        self._group: Cgroup | None = None
        self._notes: tuple[str, ...] = ()
        self._is_killed = False

    def limit(self, command: Command, group: Cgroup) -> None:
        """Set its limits; until then it waits."""
        self._group = group
        line = self._status.readline()
        if not line:
            return
        number: int = json.loads(line)["child-pid"]
        # It may have failed already.
        with suppress(ProcessLookupError, FileNotFoundError):
            self._first = os.pidfd_open(number)
            _keep_mounts(number, self._scratch)
            group.add(number)
            limit_process(number, command.limits, grouped="memory" in group.holds)
            self._scratch.note(number)

    def kill(self) -> None:
        """Kill the first process, and with it the kernel kills all in there."""
        self._is_killed = self._is_killed or not self.ended()
        if self._first is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
        super().kill()

    def join(self) -> None:
        """Wait until the last process in there has ended."""
        super().join()
        if self._first is not None:
            end = select.poll()
            end.register(self._first, select.POLLIN)
            end.poll()
            os.close(self._first)
            self._first = None
        if self._group is not None:
            self._notes = tuple(self._group.notes())
            self._group.remove()

    def exit_code(self, stderr: bytes) -> int:
        """Return the exit code, as the sandbox has told it."""
        with self._status:
            told = [json.loads(line) for line in self._status]
        code = next((each["exit-code"] for each in told if "exit-code" in each), None)
        if code is None and not self._is_killed:
            failure = stderr.decode(errors="replace").strip()
            raise SandboxUnavailable(f"The sandbox could not be made: {failure}. {remedy(failure)}")
        return super().exit_code(stderr) if code is None else int(code)

    def notes(self) -> tuple[str, ...]:
        """Return the limits that were reached."""
        return self._notes


def _keep_mounts(process: int, scratch: Scratch) -> None:
    """Let what is mounted for a command stay until its directory goes, and go on a thread.

    The kernel writes all of a disk before it unmounts an overlay from there: nobody is to wait.
    """
    with suppress(PermissionError):
        handle = os.open(f"/proc/{process}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        # When this process ends, the kernel closes it.
        weakref.finalize(scratch, _close_on_thread, handle).atexit = False


def _close_on_thread(handle: int) -> None:
    threading.Thread(target=os.close, args=(handle,), daemon=True).start()


def _pipe(opened: ExitStack) -> tuple[BinaryIO, BinaryIO]:
    read, write = os.pipe()
    return opened.enter_context(os.fdopen(read, "rb")), opened.enter_context(
        os.fdopen(write, "wb", buffering=0)
    )


def _memory_file(content: bytes, opened: ExitStack) -> int:
    """Return a file in memory, to be read from its beginning."""
    file = opened.enter_context(os.fdopen(os.memfd_create("toolstile-sandbox"), "r+b"))
    file.write(content)
    file.seek(0)
    return file.fileno()


def _variables() -> dict[str, str]:
    usual = {"PATH": _PATH, "HOME": "/tmp", "USER": _USER, "LANG": "C.UTF-8", "TERM": "dumb"}  # noqa: S108 - of the sandbox
    return {**usual, **GIT_VARIABLES}


def _processes() -> list[str]:
    """Return the options for `/proc`, which root of this machine could write to, even in here."""
    made = ["--proc", "/proc"]
    for name in _MASKED:
        if Path("/proc", name).exists():
            made += ["--ro-bind", "/dev/null", f"/proc/{name}"]
    return [*made, "--remount-ro", "/proc"]


def _users() -> dict[str, str]:
    user, group = os.geteuid(), os.getegid()
    return {
        "passwd": f"{_USER}:x:{user}:{group}::/tmp:/bin/sh\n",
        "group": f"{_USER}:x:{group}:\n",
    }
