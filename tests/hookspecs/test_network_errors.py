"""An exception shows whether a request may have reached its service."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import importlib
import pickle
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.hookspecs.failing_services import (
    CLIENTS,
    SENT,
    UNSENT,
    answers,
    by_requests,
    by_urllib3,
    failing,
    listening,
    raised_by,
    refusing,
    reset,
)

from toolstile_hookspecs import EffectUnknownError, ToolError
from toolstile_hookspecs.support.network_errors import mark_sent, was_sent

# Some clients leave their connection to the garbage collector after a failure.
leaves_connections = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.mark.slow
@leaves_connections
@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_shows_whether_it_sent_something(client: str, tmp_path: Path) -> None:
    """Each fault is one of a real socket, at each place of a request and its answer."""
    pytest.importorskip(CLIENTS[client][0])
    faults = [*UNSENT, *SENT]
    if client in {"http.client", "asyncio", "socket"}:
        # They follow no redirect.
        faults.remove("redirected to a refused address")
    folders = [tmp_path / str(number) for number in range(len(faults))]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(6) as pool:
        sent = pool.map(lambda *given: was_sent(raised_by(client, *given)), faults, folders)
        found = dict(zip(faults, sent, strict=True))
    gc.collect()
    assert found == {fault: fault in SENT for fault in faults}


class ReadTimeout(Exception):
    """Of a module that is no client."""


def raised(error: Exception, *, while_handling: Exception) -> Exception:
    """Return an exception that was raised in the `except` block of another."""

    def handle() -> None:
        raise error

    def fail() -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(handle)
            raise while_handling

    with pytest.raises(type(error)):
        fail()
    return error


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def of_httpx(name: str) -> Exception:
    return getattr(importlib.import_module("httpx2"), name)("why")


def test_the_whole_chain_counts(subtests: pytest.Subtests) -> None:
    for error, sent in [
        (KeyError("id"), None),
        (FileNotFoundError(2, "No such file"), None),
        (ReadTimeout(), None),
        (ToolError("The card was declined."), False),
        (ConnectionRefusedError(), False),
        (socket.gaierror(), False),
        (TimeoutError(), True),
        (ConnectionResetError(), True),
        (BrokenPipeError(), True),
        (asyncio.IncompleteReadError(b"", 10), True),
        (OSError(errno.EHOSTUNREACH, "No route to host"), True),
        (subprocess.TimeoutExpired("pay", 3), True),
        (EffectUnknownError("The line was cut."), True),
        # The author of a `ToolError` knows the outcome.
        (caused(ToolError("Not charged."), of_httpx("ReadTimeout")), False),
        (caused(RuntimeError(), of_httpx("ReadTimeout")), True),
        (caused(RuntimeError(), of_httpx("ConnectError")), False),
        (caused(RuntimeError(), ToolError("Not charged.")), None),
        (caused(RuntimeError(), EffectUnknownError("Cut.")), True),
        (ExceptionGroup("two", [KeyError(), of_httpx("ReadError")]), True),
        (ExceptionGroup("two", [KeyError(), of_httpx("ConnectError")]), None),
        (ExceptionGroup("two", [of_httpx("ConnectError"), ConnectionRefusedError()]), False),
        (ExceptionGroup("two", [of_httpx("ReadError"), of_httpx("ConnectError")]), True),
        # A second attempt, or another service, in the `except` block of the first.
        (raised(ConnectionRefusedError(), while_handling=ConnectionResetError()), True),
        (raised(ConnectionRefusedError(), while_handling=TimeoutError()), True),
        (raised(of_httpx("ConnectError"), while_handling=of_httpx("ReadTimeout")), True),
        (raised(of_httpx("ConnectError"), while_handling=ConnectionResetError()), True),
        (raised(of_httpx("ReadTimeout"), while_handling=of_httpx("ConnectError")), True),
        (raised(KeyError(), while_handling=of_httpx("ReadTimeout")), True),
        (raised(of_httpx("ConnectError"), while_handling=of_httpx("ConnectTimeout")), False),
        # What came after the refused connection may be the failure of another request.
        (raised(KeyError(), while_handling=of_httpx("ConnectError")), None),
        (caused(RuntimeError(), raised(KeyError(), while_handling=ConnectionRefusedError())), None),
        (raised(RuntimeError(), while_handling=caused(OSError(), socket.gaierror())), None),
        # The library says that the reset came while it connected.
        (caused(of_httpx("ConnectError"), ConnectionResetError()), False),
        (caused(of_httpx("ConnectError"), of_httpx("ReadError")), True),
        (caused(of_httpx("ConnectError"), caused(OSError(), ConnectionResetError())), False),
    ]:
        with subtests.test(error=error, sent=sent):
            assert was_sent(error) is sent


def test_a_chain_may_be_a_ring() -> None:
    first, second = KeyError(), ConnectionResetError()
    first.__cause__, second.__context__ = second, first
    assert was_sent(first) is True


@pytest.mark.parametrize("sent", [True, False, None])
def test_a_copy_of_an_exception_says_the_same(sent: bool | None) -> None:
    assert was_sent(mark_sent(RuntimeError("ReadTimeout: why"), sent)) is sent
    assert was_sent(caused(KeyError(), mark_sent(RuntimeError(), sent))) is sent
    # The mark of a copy counts, and not the type that it got.
    assert was_sent(mark_sent(TimeoutError(), sent)) is sent


def error_of(function: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - each client has its own
        function()
    error: Exception = caught.value
    return error


def urllib3_retries(method: str, url: str) -> object:
    urllib3 = pytest.importorskip("urllib3")
    retries = urllib3.Retry(2, backoff_factor=0, allowed_methods=None)
    return urllib3.PoolManager(retries=retries).request(method, url, timeout=1)


def openai_retries(url: str) -> object:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=url, api_key="k", timeout=1, max_retries=1)
    return client.post("/", body={}, cast_to=object)


def test_a_client_that_retries_says_it_of_each_attempt(tmp_path: Path) -> None:
    pytest.importorskip("urllib3")
    with failing("refused", tmp_path) as url:
        assert was_sent(error_of(lambda: by_urllib3(url, b"{}"))) is False
        assert was_sent(error_of(lambda: urllib3_retries("POST", url))) is False
    once: list[Any] = []

    def dies(connection: socket.socket) -> None:
        # The first request is read; then the service is away.
        connection.recv(1000)
        reset(connection)
        connection.close()
        once.pop().__exit__(None, None, None)

    serving = listening(dies)
    once.append(serving)
    port = serving.__enter__()
    lost = error_of(lambda: urllib3_retries("POST", f"http://127.0.0.1:{port}/"))
    assert not once
    assert "refused" in str(lost)
    assert was_sent(lost) is True


@pytest.mark.slow
@leaves_connections
def test_a_retry_whose_first_attempt_is_not_known_may_have_sent_something(tmp_path: Path) -> None:
    with failing("refused", tmp_path) as url:
        assert was_sent(error_of(lambda: openai_retries(url))) is True


def test_a_redirect_follows_a_request_that_was_sent(tmp_path: Path) -> None:
    pytest.importorskip("requests")
    with failing("redirected to a refused address", tmp_path) as url:
        lost = error_of(lambda: by_requests(url, b"{}"))
    assert "refused" in str(lost)
    assert was_sent(lost) is True


def test_an_answer_of_a_service_says_nothing(tmp_path: Path) -> None:
    """A status of HTTP is for the author of the tool to judge."""
    httpx = pytest.importorskip("httpx2")
    answer = answers("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
    with listening(answer) as port:
        given = httpx.post(f"http://127.0.0.1:{port}/", content=b"{}")
        url = f"http://127.0.0.1:{port}/"
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(url, b"{}")
        caught.value.close()
    assert was_sent(error_of(given.raise_for_status)) is None
    assert was_sent(caught.value) is None
    assert was_sent(caused(RuntimeError(), caught.value)) is None


def test_exceptions_that_were_never_raised_are_read_by_their_names(tmp_path: Path) -> None:
    with refusing() as port, pytest.raises(OSError) as caught:  # noqa: PT011 - of any kind
        socket.create_connection(("127.0.0.1", port))
    assert was_sent(pickle.loads(pickle.dumps(caught.value))) is False
