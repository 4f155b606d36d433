"""Through a pooler that gives each transaction another connection, all is exact as well."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from toolstile_hookspecs.testing.counter import take
from toolstile_hookspecs.testing.session_store import append, entry_of

from .conftest import do

pytestmark = pytest.mark.slow

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


def test_decisions_are_exact(stores, pooled):
    sources = [stores(pooled, pool_size=4) for _ in range(2)]

    def write(number):
        source = sources[number % 2]
        for place in range(10):
            with source.deciding("s") as decision:
                there = len(decision.after(0))
                take(source.counter(), f"{number} {place}", limit=100)
                decision.append(entry_of(there + 1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    for each in sources:
        assert [entry.number for entry in each.after("s", 0)] == [*range(1, 41)]
        assert each.sessions()[0].number == 40


def test_each_look_asks(stores, pooled):
    mine, other = stores(pooled), stores(pooled)
    for number in range(1, 8):
        mine.after("s", 0)
        append(other, entry_of(number))
        assert mine.has_moved("s", number - 1)
    assert mine._news.newest("s") is None


def test_nothing_stays_behind_on_a_connection_that_others_get(stores, pooled):
    append(stores(pooled, lock_timeout=1, statement_timeout=2), entry_of())
    for _ in range(4):
        assert do(pooled, "SHOW statement_timeout") == [("0",)]
