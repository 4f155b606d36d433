"""Serving over standard input and output, where no other text may be written."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import sys
import threading
from collections.abc import AsyncGenerator, Collection, Generator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import anyio
import mcp_types as types
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types.methods import SPEC_CLIENT_METHODS
from pydantic import ValidationError

from toolstile_hookspecs import HostHandle
from toolstile_plugins.mcp.server.request import TOLD, Changes
from toolstile_plugins.mcp.server.server import HostServer
from toolstile_plugins.mcp.server.sessions import OneSession, ServedSession, executors_of
from toolstile_plugins.mcp.settings import ServeSettings

# --- Flow control


UNREAD: Final = 100
"""The maximum number of messages that wait for a client that does not read."""
NO_MESSAGE: Final = "That is not a JSON-RPC 2.0 request, notification or response."
NO_ID: Final = "A request needs an `id`: a string or an integer."
NO_JSON: Final = "That is not JSON: one message, on one line."
UNREADABLE: Final = (
    "That cannot be read: it is nested too deeply, or a text in it holds half of a character (a "
    "lone surrogate such as \\ud83d). Fix this, then send it again."
)


class Outgoing(ObjectSendStream[SessionMessage]):
    """A stream of messages for the client, which counts the unread ones."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._waiting = 0
        self._changed = anyio.Event()

    async def send(self, item: SessionMessage) -> None:
        """Send a message; returns when it is on its way."""
        self._waiting += 1
        try:
            await self._stream.send(item)
        finally:
            self._waiting -= 1
            self._changed.set()

    async def has_room(self) -> None:
        """Wait until the client has read most of its messages."""
        while self._waiting >= UNREAD:
            self._changed = anyio.Event()
            await self._changed.wait()

    async def aclose(self) -> None:
        await self._stream.aclose()


class Incoming(ObjectReceiveStream[SessionMessage]):
    """The messages of a client that reads its answers; faulty ones are answered here.

    `stream` has an exception in place of each faulty message; `answers` leads to the client.
    """

    def __init__(self, stream: Any, answers: Outgoing) -> None:
        self._stream = stream
        self._answers = answers

    async def receive(self) -> SessionMessage:
        # Either end may be closed at any time: the client has left, or the server ends.
        try:
            while True:
                await self._answers.has_room()
                item = await self._stream.receive()
                if isinstance(item, Exception):
                    await self._answers.send(_answer_to(item))
                # The SDK ignores a request without an id.
                elif (
                    isinstance(item.message, types.JSONRPCNotification)
                    and item.message.method in SPEC_CLIENT_METHODS
                ):
                    await self._answers.send(_error(None, types.INVALID_REQUEST, NO_ID))
                else:
                    return cast("SessionMessage", item)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise anyio.EndOfStream from None

    async def aclose(self) -> None:
        await self._stream.aclose()


def _answer_to(fault: Exception) -> SessionMessage:
    """Return the error that answers a faulty message, with its id if that can be read."""
    faults = fault.errors(include_url=False) if isinstance(fault, ValidationError) else []
    if faults and faults[0]["type"] != "json_invalid":
        code, message = types.INVALID_REQUEST, NO_MESSAGE
        ids = (_id_of(error["input"]) for error in faults)
        number = next((id_ for id_ in ids if id_ is not None), None)
    else:
        code, message = types.PARSE_ERROR, NO_JSON
        number = _id_of(_read(faults[0]["input"])) if faults else None
        if number is not None:
            message = UNREADABLE
    return _error(number, code, message)


def _error(number: types.RequestId | None, code: int, message: str) -> SessionMessage:
    error = types.ErrorData(code=code, message=message)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=number, error=error))


def _read(line: object) -> object:
    """Read a line that the SDK could not: with half of a character, or too deeply nested."""
    try:
        return json.loads(str(line))
    except (ValueError, RecursionError):
        return None


def _id_of(message: object) -> types.RequestId | None:
    if not isinstance(message, Mapping) or "method" not in message:
        return None
    number = cast("Mapping[str, object]", message).get("id")
    if isinstance(number, str):
        return number if number.isprintable() else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


# --- Lost descriptors


LOOK: Final = 1.0
"""Seconds between two checks of the descriptors."""
LOST: Final = (
    "toolstile: error: A tool has closed the descriptors of this server, which can neither read "
    "requests nor answer; it ends. Let the tool close only its own files.\n"
)

Identity = tuple[int, int]


@contextlib.contextmanager
def ending_with_descriptors(wire: Collection[Identity | None]) -> Generator[None]:
    """End the process if a tool closes the server's descriptors.

    Without them the event loop sleeps forever, and the client waits for an answer, so that only a
    thread can notice, and end the process. `wire` is the client's ends of the pipes, see `pipe_at`.
    """
    selector: Any = getattr(asyncio.get_running_loop(), "_selector", None)
    if selector is None:
        # Another platform's loop does not show its descriptors.
        yield
        return
    needed = {selector.fileno(), *(key.fd for key in selector.get_map().values())}
    needed |= {number for number in _numbers() if pipe_at(number) in {*wire} - {None}}
    held = {number: _identity(number) for number in needed}
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK):
            is_lost = any(_identity(number) != known for number, known in held.items())
            if is_lost and not over.is_set():
                with contextlib.suppress(OSError):
                    os.write(2, LOST.encode())
                os._exit(1)

    threading.Thread(target=watch, name="toolstile-descriptors", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def pipe_at(number: int) -> Identity | None:
    """Return the identity of the pipe or socket of a descriptor; None for another file."""
    with contextlib.suppress(OSError):
        mode = os.fstat(number).st_mode
        return _identity(number) if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) else None
    return None


def _identity(number: int) -> Identity | None:
    with contextlib.suppress(OSError):
        found = os.fstat(number)
        return found.st_dev, found.st_ino
    return None


def _numbers() -> Iterator[int]:
    """Yield the numbers of the open descriptors, without the three that handlers may close."""
    with contextlib.suppress(OSError):
        yield from (number for name in os.listdir("/dev/fd") if (number := int(name)) > 2)  # noqa: PTH208, PLR2004 - names; three are standard


# --- The server


ALONE: Final = (
    "Waiting for an MCP client on standard input, which is a terminal; clients start this command "
    "themselves. Ctrl-C ends it.\n"
)


@asynccontextmanager
async def client_streams() -> AsyncGenerator[tuple[Incoming, Outgoing]]:
    """Yield the streams of the client at the other end of the pipe."""
    if sys.stdin.isatty():
        sys.stderr.write(ALONE)
        sys.stderr.flush()
    wire = (pipe_at(0), pipe_at(1))
    async with stdio_server() as (read, write):
        outgoing = Outgoing(write)
        incoming = Incoming(read, outgoing)
        # Flush here, so that earlier output goes to stderr like all later output.
        sys.stdout.flush()
        try:
            with ending_with_descriptors(wire):
                yield incoming, outgoing
        finally:
            await incoming.aclose()
            await outgoing.aclose()
            # A handler may have closed it.
            with contextlib.suppress(ValueError, OSError):
                sys.stdout.flush()


async def serve_stdio(host: HostHandle, settings: ServeSettings) -> None:
    """Serve the client at the other end of the pipe until it leaves."""
    session = ServedSession(executors_of(host)(None, None))
    changes = Changes(host)
    server = HostServer(host, settings, OneSession(session), changes)
    following = asyncio.create_task(changes.follow())
    try:
        async with client_streams() as (incoming, outgoing):
            options = server.protocol.create_initialization_options(TOLD)
            await server.protocol.run(incoming, outgoing, options)
    finally:
        following.cancel()
        await server.caller.finish()
        session.end()
