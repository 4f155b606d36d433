"""Clients that begin a request and do not complete it are hung up on; others have all the time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route
from uvicorn.server import ServerState

from toolyard_plugins.mcp.server import patience

pytestmark = pytest.mark.anyio

SHORT = 0.3
LIMIT = 60
HEAD = b"POST / HTTP/1.1\r\nhost: test\r\ncontent-length: 2\r\n\r\n"
WHOLE = HEAD + b"{}"


async def answer_slowly(request: Request) -> StreamingResponse:
    """Begin an answer once the request is there, and end it long after anybody's patience."""
    with contextlib.suppress(Exception):
        await request.body()

    async def parts() -> AsyncIterator[bytes]:
        yield b"begun, "
        await asyncio.sleep(3 * SHORT)
        yield b"ended"

    return StreamingResponse(parts())


@pytest.fixture
async def connection(
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    monkeypatch.setattr(patience, "PATIENCE", SHORT)
    app = Starlette(routes=[Route("/", answer_slowly, methods=["POST"])])
    config = uvicorn.Config(app, log_config=None, lifespan="off")
    server = await asyncio.get_running_loop().create_server(
        lambda: patience.PatientProtocol(config, ServerState(), {}), "127.0.0.1", 0
    )
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
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


async def test_an_answer_takes_as_long_as_it_takes_and_an_idle_connection_stays(connection):
    reader, writer = connection
    for _ in range(2):
        writer.write(WHOLE)
        answer = await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), LIMIT)
        assert b"begun, " in answer
        assert b"ended" in answer
        await asyncio.sleep(2 * SHORT)
