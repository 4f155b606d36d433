"""A PostgreSQL server of the tests' own."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

_databases = itertools.count(1)


def binaries() -> Path:
    """Return where the newest installed server is, or skip the test."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"),
        key=lambda path: float(path.parent.parent.name),
    )
    on_path = shutil.which("postgres")
    if found:
        return found[-1].parent
    if on_path is None:
        pytest.skip("No PostgreSQL server is installed (on Debian: apt-get install postgresql).")
    return Path(on_path).parent


class Server:
    """A PostgreSQL server of the tests' own, in a directory of its own, on a free port."""

    def __init__(self) -> None:
        self._bin = binaries()
        # Not pytest's own: the server's user has to get there.
        self._folder = Path(tempfile.mkdtemp(prefix="toolstile-postgres-"))
        self._user: str | None = None
        if os.geteuid() == 0:
            # It refuses to run as root.
            self._user = "postgres"
            account = pwd.getpwnam(self._user)
            os.chown(self._folder, account.pw_uid, account.pw_gid)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._do("initdb", "-D", "data", "-A", "trust", "-U", "toolstile", "--no-sync")
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://toolstile@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = (
            f"-p {self.port} -c listen_addresses=127.0.0.1 -c fsync=off "
            f"-c max_connections=200 -c unix_socket_directories={self._folder}"
        )
        self._do("pg_ctl", "-D", "data", "-o", options, "-l", "log", "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        self._do("pg_ctl", "-D", "data", "-m", mode, "-w", "stop")

    def make(self, name: str = "") -> str:
        """Make a database; returns its connection string."""
        name = name or f"test_{next(_databases)}"
        self._do("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "toolstile", name)
        return f"postgresql://toolstile@127.0.0.1:{self.port}/{name}"

    def remove(self) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _do(self, command: str, *arguments: str) -> None:
        subprocess.run(
            [self._bin / command, *arguments],
            cwd=self._folder,
            user=self._user,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
