"""A server that is reached over streamable HTTP."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INTERNAL_ERROR

from toolstile_hookspecs import hide
from toolstile_plugins.mcp.gateway.errors import amount, told
from toolstile_plugins.mcp.gateway.transports.guard import flattened

CONNECT: Final = 30.0
"""Seconds until a connection must stand, and a request be sent."""
EVENTS: Final = "text/event-stream"
NO_ANSWER: Final = "Server returned an error response"
"""The SDK's message of a failed request; the server may have seen the call."""
UNREAD: Final = ("Unexpected content type", "server answered a request with 202")
"""The SDK's message of a call that was taken, with an unreadable answer."""
NOT_SENT: Final = "Nothing was sent: "
"""The beginning of our own message for a request that did not leave."""
_UNSENT: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)
"""Failures before the first byte of a request: no address, no connection, no TLS, no room."""
NOT_TAKEN: Final = "It was not taken: "
"""The beginning of our own message for a request that HTTP says was not carried out."""
_DECLINED: Final = frozenset(
    {401, 402, 403, 405, 406, 407, 411, 413, 414, 415, 421, 426, 428, 429, 431, 451}
)
"""The HTTP status of answers that say so."""
REDIRECT: Final = "Redirect to "
"""The SDK's message of a redirect, which is not followed."""
CUT: Final = "SSE stream "
"""The SDK's message of an answer whose stream ended early."""
FAILED: Final = 400
ERROR: Final = 64 * 1024
"""The most bytes of an error's text that are read."""
SESSION: Final = "mcp-session-id"
LOGGERS: Final = ("httpx2", "mcp.client.streamable_http")
"""The loggers of whole addresses."""
NOT_ALLOWED: Final = frozenset({401, 403})
_LOST: Final = re.compile(r"session|not initialized", re.IGNORECASE)
"""The words of servers, with status 400, for a session that is gone."""
_REDIRECTED: Final = re.compile(rf"{REDIRECT}(\S+) not followed;")
PLAIN: Final = "identity"
"""The coding of answers that are not compressed."""
PACKED: Final = "it compressed its answer, which it was asked not to do"


@dataclass(slots=True)
class Site:
    """A server that answers at a URL.

    Args:
        url: The URL.
        headers: The headers of every request.
        max_message: The most bytes of one message.
        secrets: The parts of these that no library may log.
        status: The HTTP status of the newest answer that failed.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)
    max_message: int
    secrets: Sequence[str] = field(default=(), repr=False)
    status: int | None = None

    def explain(self, fault: str) -> str:
        """Return what HTTP said, and a remedy, where the SDK only says that it failed."""
        if redirected := _REDIRECTED.match(fault):
            where = hide(_bare(redirected[1]), self.secrets)
            return f"it redirects to {where}; configure that address as its url, if you trust it"
        if fault != NO_ANSWER or self.status is None:
            return fault.removeprefix(NOT_SENT).removeprefix(NOT_TAKEN)
        phrase = HTTPStatus(self.status).phrase if self.status in set(HTTPStatus) else "unknown"
        remedy = "; check the headers that are configured" if self.status in NOT_ALLOWED else ""
        return f"it answered with HTTP status {self.status} ({phrase}){remedy}"

    def has_broken(self, fault: str) -> bool:
        """Tell whether a stream or the session has failed, and a call was not answered."""
        return fault.startswith(CUT) or (
            self.status is not None and _LOST.search(fault) is not None
        )


def _bare(address: str) -> str:
    """Return an address without its parts that may be secret."""
    url = httpx2.URL(address)
    return str(url.copy_with(userinfo=b"", query=None, fragment=None))


@asynccontextmanager
async def http_streams(site: Site) -> AsyncGenerator[TransportStreams]:
    """Give the streams of a server's messages; they set no limit to the time of an answer."""
    async with (
        _logging_no_secrets(site.secrets),
        httpx2.AsyncClient(
            headers={"accept-encoding": PLAIN, **site.headers},
            timeout=httpx2.Timeout(CONNECT, read=None),
            transport=_LimitedTransport(site),
        ) as client,
        streamable_http_client(
            site.url, http_client=client, max_sse_event_size=site.max_message
        ) as streams,
    ):
        yield streams


@asynccontextmanager
async def _logging_no_secrets(secrets: Sequence[str]) -> AsyncGenerator[None]:
    """Mask secrets in the addresses that libraries log within the block."""

    def mask(record: logging.LogRecord) -> bool:
        record.msg, record.args = hide(record.getMessage(), secrets), None
        return True

    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addFilter(mask)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(mask)


class _LimitedTransport(httpx2.AsyncHTTPTransport):
    """A transport whose answers have an end; events are counted where they are read."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self._site = site

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await super().handle_async_request(request)
        except _UNSENT as error:
            if request.method != "POST":
                raise
            # Raised, it would end the connection, and with it calls that are under way.
            return _error(f"{NOT_SENT}{_why_not_sent(error)}")
        if request.method == "POST" and response.status_code >= FAILED:
            self._site.status = response.status_code
            busy = HTTPStatus.SERVICE_UNAVAILABLE
            if response.status_code in _DECLINED or (
                response.status_code == busy and "retry-after" in response.headers
            ):
                return await self._declined(response)
            if response.status_code == HTTPStatus.NOT_FOUND and SESSION in request.headers:
                # The session is gone, whatever the body says; the SDK would take a body in JSON
                # for the server's answer to the message.
                response.headers["content-type"] = "text/plain"
        stream = response.stream
        if not isinstance(stream, httpx2.AsyncByteStream):
            return response
        if response.headers.get("content-encoding", PLAIN).strip().lower() != PLAIN:
            # Its content may be a thousand times as large.
            response.stream = _LimitedBytes(stream, 0, PACKED)
        elif not response.headers.get("content-type", "").lower().startswith(EVENTS):
            fault = f"it sent a message of more than {amount(self._site.max_message)}"
            response.stream = _Flattened(_LimitedBytes(stream, self._site.max_message, fault))
        else:
            response.stream = _Flattened(stream, self._site.max_message)
        return response

    async def _declined(self, response: httpx2.Response) -> httpx2.Response:
        """Return the server's own error, or say that it did not take the request."""
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > ERROR:
                break
        await response.aclose()
        if b'"jsonrpc"' in body:
            status, kind = response.status_code, response.headers.get("content-type", "")
            return httpx2.Response(status, headers={"content-type": kind}, content=bytes(body))
        wait = response.headers.get("retry-after")
        return _error(f"{NOT_TAKEN}{self._site.explain(NO_ANSWER)}", wait and {"retryAfter": wait})


def _error(message: str, data: object = None) -> httpx2.Response:
    """Return an answer that the SDK takes for an error of the one request."""
    error = {"code": INTERNAL_ERROR, "message": message, "data": data}
    answer = {"jsonrpc": "2.0", "id": None, "error": error}
    return httpx2.Response(HTTPStatus.SERVICE_UNAVAILABLE, json=answer)


def _why_not_sent(error: Exception) -> str:
    if isinstance(error, httpx2.PoolTimeout):
        return "too many calls of it are under way"
    if isinstance(error, httpx2.ConnectTimeout):
        return f"it did not take a connection within {CONNECT:g} s"
    return f"no connection can be made ({told(error)})"


class _LimitedBytes(httpx2.AsyncByteStream):
    """The bytes of an answer, up to a limit.

    Args:
        inner: All of its bytes.
        most: The limit.
        fault: The fault of an answer that is longer.

    Raises:
        httpx2.StreamError: When there are more.
    """

    def __init__(self, inner: httpx2.AsyncByteStream, most: int, fault: str) -> None:
        self._inner = inner
        self._most = most
        self._fault = fault

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > self._most:
                raise httpx2.StreamError(self._fault)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Flattened(httpx2.AsyncByteStream):
    """The bytes of an answer, without what is nested too deeply to be read.

    Args:
        inner: All of its bytes.
        longest: The most bytes of a line of an event; None where it is one message.
    """

    def __init__(self, inner: httpx2.AsyncByteStream, longest: int | None = None) -> None:
        self._inner = inner
        self._longest = longest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        waiting = bytearray()
        async for chunk in self._inner:
            waiting += chunk
            if self._longest is None:
                continue
            # The SDK says what is wrong with a line that is too long.
            line = max(waiting.rfind(b"\n"), waiting.rfind(b"\r")) + 1
            end = len(waiting) if len(waiting) > self._longest else line
            if end:
                yield b"".join(map(flattened, bytes(waiting[:end]).splitlines(keepends=True)))
                del waiting[:end]
        yield flattened(bytes(waiting))

    async def aclose(self) -> None:
        await self._inner.aclose()
