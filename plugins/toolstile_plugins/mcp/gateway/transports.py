"""Transports to servers, within limits: the pipes of a program, or HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, cast

import anyio
import httpx2
import mcp_types as types
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import ReadStream, TransportStreams
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from toolstile_hookspecs import hide
from toolstile_plugins.mcp.gateway.errors import NESTED_DEEPER, ServerBroken, amount, one_line, told

Item = SessionMessage | Exception

BURST: Final = 1000
"""The most unrequested messages of a server at once."""
PER_SECOND: Final = 200.0
"""The unrequested messages that are added to these each second."""
FLOOD: Final = 10_000
"""Dropped messages after which the connection is ended."""


class GuardedStream(ObjectReceiveStream[Item]):
    """A stream of a server's messages that drops a flood of them.

    `inner` is the server's stream. Once the messages have ended, `ended` is set, and `fault` has
    the reason if the guard ended them.
    """

    inner: ReadStream[Item]

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.fault: str | None = None
        self._room = float(BURST)
        self._looked = time.monotonic()
        self._dropped = 0

    @property
    def last_context(self) -> Any:
        """The context of the newest message, if the stream knows it."""
        return getattr(self.inner, "last_context", None)

    async def receive(self) -> Item:
        """Return the next message; raise `anyio.EndOfStream` after the last."""
        try:
            while True:
                item = await self.inner.receive()
                if isinstance(item, ServerBroken):
                    raise item
                if self._takes(item):
                    return item
        except ServerBroken as error:
            self.fault = str(error)
            self.ended.set()
            raise anyio.EndOfStream from error
        except anyio.EndOfStream:
            self.ended.set()
            raise

    async def aclose(self) -> None:
        self.ended.set()
        await self.inner.aclose()

    def _takes(self, item: Item) -> bool:
        if isinstance(item, SessionMessage) and isinstance(
            item.message, (types.JSONRPCResponse, types.JSONRPCError)
        ):
            return True
        now = time.monotonic()
        self._room = min(float(BURST), self._room + (now - self._looked) * PER_SECOND)
        self._looked = now
        if self._room >= 1:
            self._room -= 1
            return True
        self._dropped += 1
        if self._dropped > FLOOD:
            raise ServerBroken("it floods its client with unrequested messages")
        return False


@asynccontextmanager
async def guarded(
    guard: GuardedStream, connect: Callable[[], AbstractAsyncContextManager[TransportStreams]]
) -> AsyncGenerator[TransportStreams]:
    """Connect, and yield streams with the guard before the server's messages."""
    async with connect() as (messages, out):
        guard.inner = messages
        yield guard, out


DEEPEST: Final = 150
"""Levels of a message that are read; the SDK's reader takes 200."""
TOO_DEEP: Final = f'{{"$ref": "{NESTED_DEEPER}"}}'.encode()
"""Stands for deeper parts; a tool with this in its schema is left out."""
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{\]}]')
"""The brackets of JSON, and its strings, where brackets do not count."""


def flattened(text: bytes) -> bytes:
    """Return JSON with a reference in place of parts that are nested too deeply to read.

    Example:
        >>> flattened(b"[" * 151 + b"]" * 151).count(b"["), flattened(b"[1]")
        (150, b'[1]')
    """
    if text.count(b"[") + text.count(b"{") <= DEEPEST:
        return text
    kept: list[bytes] = []
    depth = start = 0
    for found in _BRACKETS.finditer(text):
        if found[0] in b"[{":
            if depth == DEEPEST:
                kept.append(text[start : found.start()])
            depth += 1
        elif found[0] in b"]}":
            depth -= 1
            if depth == DEEPEST:
                kept.append(TOO_DEEP)
                start = found.end()
    return b"".join([*kept, text[start:]])


CONNECT: Final = 30.0
"""Seconds until a connection must stand, and a request be sent."""
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
_LOST: Final = re.compile(r"session|not initialized", re.IGNORECASE)
"""The words of servers, with status 400, for a session that is gone."""
_REDIRECTED: Final = re.compile(rf"{REDIRECT}(\S+) not followed;")
PLAIN: Final = "identity"
"""The coding of answers that are not compressed."""
PACKED: Final = "it compressed its answer, which it was asked not to do"


@dataclass(slots=True)
class Site:
    """A server that answers at a URL."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    max_message: int  # in bytes
    secrets: Sequence[str] = field(default=(), repr=False)  # parts of these that no library may log
    status: int | None = None  # the HTTP status of the newest answer that failed

    def explain(self, fault: str) -> str:
        """Return the HTTP status, and a remedy, if the SDK only says that it failed."""
        if redirected := _REDIRECTED.match(fault):
            # Without the parts that may be secret.
            url = httpx2.URL(redirected[1]).copy_with(userinfo=b"", query=None, fragment=None)
            where = hide(str(url), self.secrets)
            return f"it redirects to {where}; configure that address as its url, if you trust it"
        if fault != NO_ANSWER or self.status is None:
            return fault.removeprefix(NOT_SENT).removeprefix(NOT_TAKEN)
        phrase = HTTPStatus(self.status).phrase if self.status in set(HTTPStatus) else "unknown"
        remedy = "; check the headers that are configured" if self.status in {401, 403} else ""
        return f"it answered with HTTP status {self.status} ({phrase}){remedy}"

    def has_broken(self, fault: str) -> bool:
        """Tell whether a stream or the session has failed, and a call was not answered."""
        return fault.startswith(CUT) or (
            self.status is not None and _LOST.search(fault) is not None
        )


@asynccontextmanager
async def http_streams(site: Site) -> AsyncGenerator[TransportStreams]:
    """Yield the streams of a server's messages; they set no time limit for an answer."""
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
    """A transport that limits the size of answers; events are counted where they are read."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self._site = site

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:  # noqa: C901 - a case for each status
        try:
            response = await super().handle_async_request(request)
        except _UNSENT as error:
            if request.method != "POST":
                raise
            # An exception would end the connection, and with it the running calls.
            why = f"no connection can be made ({told(error)})"
            if isinstance(error, httpx2.PoolTimeout):
                why = "too many calls of it are under way"
            elif isinstance(error, httpx2.ConnectTimeout):
                why = f"it did not take a connection within {CONNECT:g} s"
            return _error(f"{NOT_SENT}{why}")
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
        elif not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
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
    """Return an answer that the SDK takes for an error of this request alone."""
    error = {"code": types.INTERNAL_ERROR, "message": message, "data": data}
    answer = {"jsonrpc": "2.0", "id": None, "error": error}
    return httpx2.Response(HTTPStatus.SERVICE_UNAVAILABLE, json=answer)


class _Bytes(httpx2.AsyncByteStream):
    """The bytes of an answer, as another stream gives them."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def aclose(self) -> None:
        await self._inner.aclose()


class _LimitedBytes(_Bytes):
    """The bytes of an answer; `httpx2.StreamError` with the fault beyond `most` of them."""

    def __init__(self, inner: httpx2.AsyncByteStream, most: int, fault: str) -> None:
        super().__init__(inner)
        self._most = most
        self._fault = fault

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > self._most:
                raise httpx2.StreamError(self._fault)
            yield chunk


class _Flattened(_Bytes):
    """The bytes of an answer, without parts that are nested too deeply to read.

    `longest` is the most bytes of a line of an event, None for a single message.
    """

    def __init__(self, inner: httpx2.AsyncByteStream, longest: int | None = None) -> None:
        super().__init__(inner)
        self._longest = longest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        waiting = bytearray()
        async for chunk in self._inner:
            waiting += chunk
            if self._longest is None:
                continue
            # The SDK raises an error for a line that is too long.
            line = max(waiting.rfind(b"\n"), waiting.rfind(b"\r")) + 1
            end = len(waiting) if len(waiting) > self._longest else line
            if end:
                yield b"".join(map(flattened, bytes(waiting[:end]).splitlines(keepends=True)))
                del waiting[:end]
        yield flattened(bytes(waiting))


log = logging.getLogger("toolstile.mcp")

GRACE: Final = 0.8
"""Seconds for a program to end once its input is closed, and again after a signal.

Both together are less than a command has for its own end, so that no program stays behind.
"""
REMEMBERED: Final = 20
"""Lines of a program, beside its messages, that are kept."""
LINE: Final = 64 * 1024
KILL: Final = getattr(signal, "SIGKILL", signal.SIGTERM)

SENDING: Final = 5.0
"""Seconds until a program must have taken a message, after the messages before it."""
_BEFORE: Final = re.compile(rb"^(?:\xef\xbb\xbf|\x1b\[[0-?]*[ -/]*[@-~]|\s)+")
_KEYS: Final = {"id", "method", "params", "result", "error"}
"""The keys of a message whose author has forgotten `jsonrpc`."""
_OPENS: Final = re.compile(rb"(\[\s*)?\{")
"""The first characters of messages and batches; `[DEBUG]` begins a log line."""
_HALVES: Final = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Program:
    """A program to start."""

    command: str
    args: Sequence[str]
    env: Mapping[str, str] = field(repr=False)
    cwd: str | None
    max_message: int  # in bytes
    is_heard: bool = False  # whether its standard error is that of this process
    said: deque[str] = field(default_factory=lambda: deque[str](maxlen=REMEMBERED))
    """The last lines it has written beside its messages."""


@asynccontextmanager
async def program_streams(program: Program) -> AsyncGenerator[TransportStreams]:
    """Start a program, and yield the streams of its messages; it is ended when they are left."""
    process = await asyncio.create_subprocess_exec(
        program.command,
        *program.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=None if program.is_heard else asyncio.subprocess.PIPE,
        env={**get_default_environment(), **program.env},
        cwd=program.cwd,
        limit=program.max_message,
        # Its own children are ended with it.
        start_new_session=True,
    )
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    assert stdin is not None and stdout is not None  # noqa: S101, PT018 - pipes
    to_session, from_server = anyio.create_memory_object_stream[Item](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    tasks = [
        asyncio.create_task(_read(stdout, program, to_session)),
        asyncio.create_task(_write(stdin, from_session, to_session)),
        *([] if stderr is None else [asyncio.create_task(_listen(stderr, program.said))]),
    ]
    try:
        yield from_server, _Patient(to_server)
    finally:
        to_server.close()
        from_server.close()
        # Because a cancellation must leave no program behind, finish first, then cancel.
        work = asyncio.ensure_future(_end(process, stdin, stdout, tasks))
        cancelled: asyncio.CancelledError | None = None
        while not work.done():
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError as error:
                cancelled = error
        work.result()
        if cancelled is not None:
            raise cancelled
        for stream in (to_session, from_session):
            stream.close()


class _Patient(ObjectSendStream[SessionMessage]):
    """The messages to a program; a message not taken in time is withdrawn (`TimeoutError`)."""

    def __init__(self, inner: MemoryObjectSendStream[SessionMessage]) -> None:
        self._inner = inner

    async def send(self, item: SessionMessage) -> None:
        with anyio.fail_after(SENDING):
            await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _read(
    stdout: asyncio.StreamReader, program: Program, out: MemoryObjectSendStream[Item]
) -> None:
    with out, contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            try:
                line = await stdout.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                most = amount(program.max_message)
                await out.send(ServerBroken(f"it sent a message of more than {most}"))
                return
            # A progress bar returns to the beginning of the line.
            for text in line.split(b"\r"):
                item = _item(text, program)
                if item is not None:
                    await out.send(item)


def _item(line: bytes, program: Program) -> Item | None:
    """Return a line's message, or the reason why it cannot be read; None for a line of a log."""
    # Some programs begin with a byte order mark, or set the terminal first.
    line = _BEFORE.sub(b"", line)
    if not line:
        return None
    try:
        return _read_message(line)
    except ValueError:
        for repaired in _repaired(line):
            with contextlib.suppress(ValueError, RecursionError):
                return _read_message(repaired)
    shown = one_line(line[:1000].decode(errors="replace"), 500)
    if _is_meant(line):
        return ServerBroken(f"it sent a line that is not a message of the protocol: {shown[:80]}")
    program.said.append(shown)
    return None


def _is_meant(line: bytes) -> bool:
    """Tell whether a line is meant as a message; programs log to their standard output, too."""
    if not _OPENS.match(line):
        return False
    try:
        read: object = json.loads(line)
    except (ValueError, RecursionError):
        return b'"jsonrpc"' in line
    parts = cast("list[object]", read) if isinstance(read, list) else [read]
    for part in (cast("Mapping[str, object]", each) for each in parts if isinstance(each, dict)):
        # An answer or a question is meant; a client can miss a notification.
        is_answer = isinstance(part.get("result", part.get("error")), dict)
        if "id" in part and ("jsonrpc" in part or (part.keys() <= _KEYS and is_answer)):
            return True
    return False


def _read_message(line: bytes) -> SessionMessage:
    return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))


def _repaired(line: bytes) -> Iterator[bytes]:
    if _HALVES.search(line):
        # Programs that cut texts by their UTF-16 length write half characters, as in
        # `"cut \\ud83d"`, which no reader takes: a mark stands for each half.
        with contextlib.suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(line), ensure_ascii=False).encode(
                "utf-16-le", "surrogatepass"
            )
            yield text.decode("utf-16-le", "replace").encode()
    if (flat := flattened(line)) is not line:
        yield flat


async def _write(
    stdin: asyncio.StreamWriter,
    messages: MemoryObjectReceiveStream[SessionMessage],
    out: MemoryObjectSendStream[Item],
) -> None:
    try:
        async with messages:
            async for item in messages:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()
    except (OSError, RuntimeError):
        # The program reads no more, so it will not answer.
        await out.aclose()


async def _listen(stderr: asyncio.StreamReader, said: deque[str]) -> None:
    rest = b""
    while chunk := await stderr.read(LINE):
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[-LINE:]
        said.extend(
            text for line in lines if (text := one_line(line.decode(errors="replace"), 500))
        )
    if text := one_line(rest.decode(errors="replace"), 500):
        said.append(text)


async def _end(
    process: asyncio.subprocess.Process,
    stdin: asyncio.StreamWriter,
    stdout: asyncio.StreamReader,
    tasks: Sequence[asyncio.Task[None]],
) -> None:
    """Close a program's input, and end it and its children if it does not end by itself."""
    reading, writing, *_ = tasks
    for task in (reading, writing):
        task.cancel()
    stdin.close()

    async def drain() -> None:
        while await stdout.read(LINE):
            pass

    drained = asyncio.create_task(drain())
    for number in (None, signal.SIGTERM, KILL):
        if number is not None:
            _signal_all(process, number)
        if await _has_ended(process):
            break
    _signal_all(process, KILL)
    for task in (*tasks, drained):
        task.cancel()
    await asyncio.gather(*tasks, drained, return_exceptions=True)
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


async def _has_ended(process: asyncio.subprocess.Process) -> bool:
    # Not `wait`, which also waits for heirs of the pipes.
    until = asyncio.get_running_loop().time() + GRACE
    while process.returncode is None:
        if asyncio.get_running_loop().time() > until:
            return False
        await asyncio.sleep(0.01)
    return True


def _signal_all(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            # Its group has its id, also when it is gone itself and its children are not.
            os.killpg(process.pid, number)
