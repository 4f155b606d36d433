"""Clients that do not complete their request, or do not read, are hung up on; others have time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from uvicorn.server import ServerState

from toolstile_plugins.mcp.server import http as patience

pytestmark = pytest.mark.anyio

SHORT = 0.3
LONGER = 1.0
LIMIT = 60
HEAD = b"POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 2\r\n\r\n"
WHOLE = HEAD + b"{}"
BUFFER = 64 * 1024
LARGE = 64 * BUFFER


async def answer_slowly(request: Request) -> StreamingResponse:
    """Begin an answer once the request is there, and end it long after anybody's patience."""
    with contextlib.suppress(Exception):
        await request.body()

    async def parts() -> AsyncIterator[bytes]:
        yield b"begun, "
        await asyncio.sleep(3 * SHORT)
        yield b"ended"

    return StreamingResponse(parts())


async def answer_at_length(request: Request) -> Response:
    """Answer with more than anything on the way to the client holds."""
    return Response(b"x" * LARGE)


async def answer_at_growing_length(request: Request) -> StreamingResponse:
    """Answer in small parts and a large one, so that ever more is on the way to the client."""

    async def parts() -> AsyncIterator[bytes]:
        for _ in range(8):
            yield b"x" * BUFFER
        yield b"x" * LARGE

    return StreamingResponse(parts())


def with_small_buffers() -> socket.socket:
    """A socket that holds little of what was sent and not read."""
    small = socket.socket()
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        small.setsockopt(socket.SOL_SOCKET, option, BUFFER)
    return small


@pytest.fixture
def state() -> ServerState:
    return ServerState()


@pytest.fixture
async def connection(
    monkeypatch: pytest.MonkeyPatch, state: ServerState
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    monkeypatch.setattr(patience, "PATIENCE", SHORT)
    app = Starlette(
        routes=[
            Route("/", answer_slowly, methods=["POST"]),
            Route("/large", answer_at_length),
            Route("/growing", answer_at_growing_length),
        ]
    )
    config = uvicorn.Config(app, log_config=None, lifespan="off")
    loop = asyncio.get_running_loop()
    listening, connecting = with_small_buffers(), with_small_buffers()
    listening.bind(("127.0.0.1", 0))
    server = await loop.create_server(
        lambda: patience.PatientProtocol(config, state, {}), sock=listening
    )
    connecting.setblocking(False)
    await loop.sock_connect(connecting, listening.getsockname())
    reader, writer = await asyncio.open_connection(sock=connecting, limit=BUFFER)
    yield reader, writer
    writer.close()
    server.close()


async def ends(reader: asyncio.StreamReader) -> bool:
    """Tell whether the server hangs up, whatever it says before."""
    with contextlib.suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), LIMIT)
    return True


@pytest.mark.parametrize(
    "begun",
    [b"", b"POST / HTTP/1.1\r\nhost: local", HEAD, HEAD + b"{"],
    ids=["nothing", "head", "no body", "body"],
)
async def test_a_client_that_does_not_complete_its_request_is_hung_up_on(connection, begun):
    reader, writer = connection
    writer.write(begun)
    assert await ends(reader)


async def test_what_comes_byte_by_byte_gets_no_more_time(connection):
    reader, writer = connection
    ended = asyncio.create_task(ends(reader))
    while not ended.done():
        writer.write(b"P")
        await asyncio.sleep(SHORT / 10)


async def test_a_further_request_has_to_be_completed_too(connection):
    reader, writer = connection
    writer.write(WHOLE)
    await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), LIMIT)
    writer.write(HEAD)
    assert await ends(reader)


@pytest.mark.slow
async def test_an_answer_takes_as_long_as_it_takes_and_an_idle_connection_stays(connection):
    reader, writer = connection
    for _ in range(2):
        writer.write(WHOLE)
        answer = await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), LIMIT)
        assert b"begun, " in answer
        assert b"ended" in answer
        await asyncio.sleep(2 * SHORT)


def asking(*headers: bytes, path: bytes = b"/large") -> bytes:
    return b"\r\n".join([b"GET %s HTTP/1.1" % path, b"host: test", *headers, b"", b""])


@pytest.mark.parametrize("headers", [(), (b"connection: close",)], ids=["kept", "closed"])
async def test_a_client_that_does_not_read_is_hung_up_on(connection, state, headers):
    reader, writer = connection
    writer.write(asking(*headers))
    async with asyncio.timeout(LIMIT):
        await reader.readexactly(1)
        while state.connections:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(SHORT / 10)
    assert len(await reader.read()) < LARGE


@pytest.mark.slow
@pytest.mark.parametrize("path", [b"/large", b"/growing"])
@pytest.mark.parametrize("headers", [(), (b"connection: close",)], ids=["kept", "closed"])
async def test_a_client_that_reads_slowly_gets_all_of_its_answer(
    connection, headers, path, monkeypatch
):
    reader, writer = connection
    monkeypatch.setattr(patience, "PATIENCE", LONGER)
    writer.write(asking(*headers, path=path))
    received = 0
    while received < LARGE:
        part = await asyncio.wait_for(reader.read(BUFFER), LIMIT)
        assert part, f"hung up on after {received}"
        received += len(part)
        await asyncio.sleep(LONGER / 20)
