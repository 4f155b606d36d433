"""Places in a PostgreSQL database, each with tables of its own."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from toolstile_plugins.database.postgres_database import PostgresDatabase
from toolstile_plugins.database.session_store import PostgresSessions

_schemas = itertools.count(1)

CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={port} user=toolstile
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
"""


@pytest.fixture
def url(postgres: Any) -> str:
    """The connection string of an empty schema."""
    return made_schema(postgres)


@pytest.fixture
def user(url: str) -> str:
    """The name of a user who may use the tables there are, and make none."""
    schema = url.rpartition("%3D")[2]
    name = f"ordinary_{schema}"
    do(
        url,
        f"CREATE ROLE {name} LOGIN",
        f"GRANT USAGE ON SCHEMA {schema} TO {name}",
        f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} "
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {name}",
    )
    return name


@pytest.fixture
def ordinary(url: str, user: str) -> str:
    """The address of that user."""
    return url.replace("//toolstile@", f"//{user}@")


@pytest.fixture
def opened(url: str) -> Iterator[Callable[..., PostgresDatabase]]:
    """Opens a database as a process of its own would."""
    with ExitStack() as stack:
        yield lambda address=url, **settings: stack.enter_context(
            closing(PostgresDatabase(address, **settings))
        )


@pytest.fixture
def stores(opened: Callable[..., PostgresDatabase]) -> Iterator[Callable[..., PostgresSessions]]:
    """Opens a store of sessions as a process of its own would."""
    with ExitStack() as stack:
        yield lambda *address, **settings: stack.enter_context(
            closing(PostgresSessions(opened(*address, **settings)))
        )


@pytest.fixture(scope="module")
def pooler(postgres):
    """The port of a pooler in front of the server; skips where none is installed."""
    found = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.skip("No pooler is installed (on Debian: apt-get install pgbouncer).")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        own = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="toolstile-pooler-") as name:
        Path(name).chmod(0o755)
        file = Path(name) / "pgbouncer.ini"
        file.write_text(CONFIGURATION.format(port=postgres.port, own=own))
        # It refuses to run as root.
        as_another = [] if os.geteuid() else ["-u", "postgres"]
        process = subprocess.Popen(
            [found, *as_another, file],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", own)):
                break
            time.sleep(0.02)
        yield own
        process.terminate()
        process.wait()


@pytest.fixture
def pooled(postgres, pooler, database):
    """The address of a database through the pooler."""
    do(database, "ALTER DATABASE " + database.rpartition("/")[2] + " SET datestyle = 'German'")
    return database.replace(f":{postgres.port}/", f":{pooler}/")


def do(url: str, *statements: str) -> list[Any]:
    """Run statements on a connection of their own; returns what the last one finds."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def wait_until(is_so: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for something that another thread, or another process, is about to do."""
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.002)


def made_schema(server: Any) -> str:
    """Make an empty schema in the database of a server; returns the connection string."""
    name = f"place_{next(_schemas)}"
    do(server.url, f"CREATE SCHEMA {name}")
    return f"{server.url}?options=-csearch_path%3D{name}"
