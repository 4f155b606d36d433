"""A PostgreSQL server of the tests' own."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
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
    """A PostgreSQL server of the tests' own, in a directory of its own, on a free port.

    Args:
        address: The address at which it is reached.
        within: The beginning of a command that runs where it is to run, for root only.
    """

    def __init__(self, address: str = "127.0.0.1", within: Sequence[str] = ()) -> None:
        self._bin = binaries()
        self._address = address
        self._within = list(within)
        # Not pytest's own: the server's user has to get there.
        self._folder = Path(tempfile.mkdtemp(prefix="toolstile-postgres-"))
        if os.geteuid() == 0:
            # It refuses to run as root.
            account = pwd.getpwnam("postgres")
            os.chown(self._folder, account.pw_uid, account.pw_gid)
            self._within += ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._do("initdb", "-D", "data", "-A", "trust", "-U", "toolstile", "--no-sync")
        with (self._folder / "data/pg_hba.conf").open("a", encoding="utf-8") as rules:
            rules.write(f"host all all {address}/24 trust\n")
        self.start()

    @property
    def url(self) -> str:
        return self._url("postgres")

    def start(self) -> None:
        options = (
            f"-p {self.port} -c listen_addresses={self._address} -c fsync=off "
            f"-c max_connections=200 -c unix_socket_directories={self._folder}"
        )
        self._do("pg_ctl", "-D", "data", "-o", options, "-l", "log", "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        self._do("pg_ctl", "-D", "data", "-m", mode, "-w", "stop")

    def make(self, name: str = "") -> str:
        """Make a database; returns its connection string."""
        name = name or f"test_{next(_databases)}"
        self._do("createdb", "-h", self._address, "-p", str(self.port), "-U", "toolstile", name)
        return self._url(name)

    def remove(self) -> None:
        try:
            self.stop()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _url(self, name: str) -> str:
        return f"postgresql://toolstile@{self._address}:{self.port}/{name}"

    def _do(self, command: str, *arguments: str) -> None:
        subprocess.run(
            [*self._within, str(self._bin / command), *arguments],
            cwd=self._folder,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
