"""Messages over a pipe are taken no faster than the client reads what it is answered."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from toolstile_plugins.mcp.server.stdio import UNREAD, Incoming, Outgoing

MESSAGE = SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/odd"))
MANY = 5 * UNREAD


class Reader:
    """A client that reads nothing until it is told to."""

    def __init__(self) -> None:
        self.reads = anyio.Event()
        self.read = 0

    async def send(self, item: SessionMessage) -> None:
        await self.reads.wait()
        self.read += 1


@pytest.mark.anyio
async def test_nothing_is_taken_from_a_client_that_does_not_read() -> None:
    client = Reader()
    writing, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](MANY)
    for _ in range(MANY):
        writing.send_nowait(MESSAGE)
    writing.close()
    taken, answers = 0, Outgoing(client)

    async with (
        Incoming(incoming, answers) as messages,
        anyio.create_task_group() as answering,
    ):

        async def take() -> None:
            nonlocal taken
            async for message in messages:
                taken += 1
                answering.start_soon(answers.send, message)
                await anyio.lowlevel.checkpoint()

        answering.start_soon(take)
        await anyio.wait_all_tasks_blocked()
        # One more may have been on its way.
        assert UNREAD <= taken <= UNREAD + 1
        client.reads.set()

    assert (taken, client.read) == (MANY, MANY)
