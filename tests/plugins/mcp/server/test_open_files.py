"""A server whose process may open no more files serves again once clients have left."""

from __future__ import annotations

import socket
import sys

import httpx2
import pytest

from .conftest import LONGEST, serving


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there a process may open any number of files")
def test_a_server_without_files_goes_on_once_clients_leave(tmp_path):
    limited = ("sh", "-c", 'ulimit -n 64; exec "$0" "$@"')
    with serving(through=limited, cwd=tmp_path) as served:
        address = httpx2.URL(served.url)
        clients = [socket.create_connection((address.host, address.port)) for _ in range(100)]
        with pytest.raises(httpx2.TimeoutException):
            httpx2.get(f"{served.base}/health", timeout=1)
        for client in clients:
            client.close()
        assert httpx2.get(f"{served.base}/health", timeout=LONGEST).status_code == httpx2.codes.OK
