"""A client that cannot ask a person is told where the question waits, and repeats the call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client

from toolstile_plugins.mcp.server.server import HostServer
from toolstile_plugins.mcp.server.sessions import OneSession, ServedSession, executors_of

from .conftest import PAID, House, asked, inbox_of, only, say

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["legacy", "auto"])
def serve(request: pytest.FixtureRequest, house: House) -> Any:
    """Serves a host to an official client that cannot ask; gives the client and the inbox."""

    @asynccontextmanager
    async def serve(wait: str) -> AsyncIterator[Any]:
        host = house.host(wait=wait, top={"plugins": {"mcp": {}}})
        session = ServedSession(executors_of(host)(None, None))
        server = HostServer(host, host.settings("mcp").serve, OneSession(session))
        async with Client(server.protocol, mode=request.param) as client:
            yield client, inbox_of(house.tools(host, session_id="looking on"))
        await server.caller.finish()
        session.end()

    return serve


async def call(client: Client) -> str:
    result: Any = await client.session.call_tool("pay", {"to": "ada", "amount": 5})
    return str(result.content[0].text)


async def test_the_repeated_call_runs_once(serve):
    async with serve("pending") as (client, inbox):
        told = await call(client)
        where = f"A person will answer question {only(inbox).ticket}."
        assert where in told
        say(inbox)
        assert await call(client) == "Paid 5 to ada."
        again = await call(client)
        assert f"question {only(inbox).ticket}" in again
    assert PAID == ["ada"]


async def test_a_client_that_waits_gets_the_result(serve):
    async with serve("answer") as (client, inbox):
        running = asyncio.ensure_future(call(client))
        await asked(inbox)
        say(inbox)
        assert await running == "Paid 5 to ada."
