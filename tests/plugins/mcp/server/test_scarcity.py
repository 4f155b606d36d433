"""Where files run out, that is told once and not two thousand times a second."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import sys
import time

import httpx2
import pytest

from toolstile_plugins.mcp.server.http import Scarcity

from .conftest import LONGEST, serving

FULL = OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.fixture
def told(caplog):
    """Tells of something that has gone wrong on a loop, and gives what is logged of it all."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(Scarcity())

    def tell(**context):
        loop.call_exception_handler({"message": "Oh.", **context})
        return [(record.name, record.levelname) for record in caplog.records]

    caplog.set_level(logging.DEBUG)
    caplog.clear()
    yield tell
    loop.close()


def test_that_files_run_out_is_told_once(told, caplog):
    for _ in range(10):
        logged = told(exception=FULL, socket="the one that listens")
    assert logged == [("toolstile.mcp", "WARNING")]
    assert "No more clients can connect: Too many open files" in caplog.text


@pytest.mark.parametrize(
    "context", [{"exception": FULL}, {"exception": OSError(), "socket": "one"}, {}]
)
def test_what_else_goes_wrong_is_told_as_ever(told, context):
    told(**context)
    assert told(**context) == [("asyncio", "ERROR")] * 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there a process may open any number of files")
def test_a_server_without_files_goes_on_once_clients_leave(tmp_path):
    limited = ("sh", "-c", 'ulimit -n 64; exec "$0" "$@"')
    with serving(through=limited, cwd=tmp_path) as served:
        address = httpx2.URL(served.url)
        clients = [socket.create_connection((address.host, address.port)) for _ in range(100)]
        end = time.monotonic() + LONGEST
        while not any("Too many open files" in line for line in served.said):
            assert time.monotonic() < end
            time.sleep(0.01)
        for each in clients:
            each.close()
        assert httpx2.get(f"{served.base}/health", timeout=LONGEST).status_code == httpx2.codes.OK
    assert sum("Too many open files" in line for line in served.said) == 1
