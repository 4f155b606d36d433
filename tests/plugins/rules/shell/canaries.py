"""Runs shell lines in a sandbox in which every program is a canary, and returns the programs run.

As a program, it is the part within the sandbox.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

RECORD = "/log/record"
# Each logs its name and its words by one write, so that records of a pipeline do not mix.
CANARY = """#!/bin/dash
printf '%s\\0' "${0##*/}" "$@" END >>/log/record
"""
PRINTS = """echo "$@"\n"""
REAL = {
    name: f"""exec /usr/bin/{name} "$@"\n"""
    for name in (
        *("env", "nohup", "nice", "setsid", "stdbuf", "timeout", "xargs", "find", "sh", "bash"),
        *("dash", "cat"),
    )
}
PLAYED = {
    "sudo": """while :; do case "$1" in -u) shift 2;; -*) shift;; *) break;; esac; done
exec "$@"\n""",
    "ssh": """shift; exec /bin/bash -c "$*"\n""",
    "docker": """case "$1" in run) shift;; *) exit 0;; esac
while :; do case "$1" in -v) shift 2;; -*) shift;; *) break;; esac; done; shift; exec "$@"\n""",
}
PROGRAMS = ("canary", "safe", *(f"c{number}" for number in range(10)), "git", "ls", "rm")


def ran(lines: Sequence[str], *, processes: int = 2, shell: str = "bash") -> list[list[list[str]]]:
    """Return for each line the programs that bash runs, each as its name and its arguments."""
    parts = [[*lines[start::processes]] for start in range(processes)]
    with ThreadPoolExecutor(processes) as pool:
        found = list(pool.map(lambda part: _in_sandbox(part, shell), parts))
    return [found[at % processes][at // processes] for at in range(len(lines))]


def _in_sandbox(lines: list[str], shell: str) -> list[list[list[str]]]:
    # Late, because the part within the sandbox has no packages.
    from toolstile_plugins.sandbox.bubblewrap import needed_program

    program = needed_program()
    with tempfile.TemporaryDirectory(prefix="canaries-") as folder:
        for name in (*PROGRAMS, *REAL, *PLAYED):
            file = Path(folder, name)
            file.write_text(CANARY + REAL.get(name, PLAYED.get(name, PRINTS)))
            file.chmod(0o755)
        python = Path(sys.base_prefix)
        links = [
            each
            for name in ("bin", "lib", "lib64", "sbin")
            if Path("/", name).is_symlink()
            for each in ("--symlink", f"usr/{name}", f"/{name}")
        ]
        given = subprocess.run(
            [
                *(program, "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr"),
                *(*links, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
                *("--tmpfs", "/room", "--tmpfs", "/log", "--ro-bind", folder, "/canaries"),
                *("--ro-bind", str(python), str(python), "--ro-bind", __file__, "/inner.py"),
                *(
                    "--chdir",
                    "/room",
                    "--",
                    str(python / "bin" / "python3"),
                    "-ISs",
                    "/inner.py",
                    shell,
                ),
            ],
            input=json.dumps(lines).encode(),
            stdout=subprocess.PIPE,
            check=True,
        )
    return json.loads(given.stdout)


def _one(line: str, place: str) -> list[list[str]]:
    """Run a line, and all that it leaves behind, to its end."""
    os.makedirs(place)  # noqa: PTH103 - within the sandbox
    for name in ("a.txt", "b.txt", "c.py"):
        Path(place, name).write_text("c1 c2\n")
    Path(RECORD).unlink(missing_ok=True)
    shell = subprocess.Popen(
        [f"/bin/{sys.argv[1]}", "-c", line],
        cwd=place,
        env={"PATH": "/canaries", "HOME": "/room/home", "X": "x y", "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    end = time.monotonic() + 2
    with contextlib.suppress(ChildProcessError):
        while True:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
            if time.monotonic() > end:
                _kill_all()
            time.sleep(0.0005)
    shell.returncode = 0
    shutil.rmtree(place)
    if not Path(RECORD).exists():
        return []
    records: list[list[str]] = [[]]
    for part in Path(RECORD).read_bytes().decode("utf-8", "replace").split("\0"):
        if part == "END":
            records.append([])
        else:
            records[-1].append(part)
    return records[:-1]


def _kill_all() -> None:
    """Kill all processes of the sandbox but its first and this one."""
    for entry in os.listdir("/proc"):  # noqa: PTH208 - within the sandbox
        if entry.isdigit() and int(entry) > os.getpid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(entry), signal.SIGKILL)


def _inner() -> None:
    # What a line leaves in the background becomes a child of this process.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    os.makedirs("/room/home")  # noqa: PTH103 - within the sandbox
    lines = json.load(sys.stdin)
    json.dump([_one(line, f"/room/{at}") for at, line in enumerate(lines)], sys.stdout)


if __name__ == "__main__":
    _inner()
