"""A PostgreSQL server of a benchmark's own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def is_installed() -> bool:
    """Tell whether there is a server to start."""
    return bool(_binaries())


@contextmanager
def postgres_server() -> Iterator[str]:
    """Start a server of the newest version; gives a connection string, and ends it."""
    binaries = _binaries()[-1]
    folder = Path(tempfile.mkdtemp(prefix="toolstile-bench-"))
    # It refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        account = pwd.getpwnam(user)
        os.chown(folder, account.pw_uid, account.pw_gid)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def do(name: str, *arguments: str) -> None:
        subprocess.run(
            [binaries / name, *arguments],
            cwd=folder,
            user=user,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    try:
        do("initdb", "-D", "data", "-A", "trust", "-U", "bench", "--no-sync")
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder}"
        do("pg_ctl", "-D", "data", "-o", options, "-l", "log", "-w", "start")
        yield f"postgresql://bench@127.0.0.1:{port}/postgres"
        do("pg_ctl", "-D", "data", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> list[Path]:
    return sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: each.parent.name)
