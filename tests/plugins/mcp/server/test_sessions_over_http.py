"""Sessions over HTTP: whose they are, and that they never mix."""

from __future__ import annotations

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from .conftest import LEGACY, MODERN, NEWEST, post

pytestmark = pytest.mark.anyio

NEW = {"toolstile/session": "new"}
MANY = 200


async def _note(client, text: str, handle: str | None = None) -> int:
    meta = {} if handle is None else {"toolstile/session": handle}
    result = await client.call_tool("keep_note", {"text": text}, meta=meta)
    return int(result.content[0].text)


async def _begin(client) -> str:
    begun = await client.call_tool("keep_note", {"text": "begun"}, meta=NEW)
    assert begun.meta is not None
    return begun.meta["toolstile/session"]


async def test_each_request_has_a_session_of_its_own(desk_over_http):
    async with desk_over_http.client(MODERN) as client:
        assert [await _note(client, "a") for _ in range(3)] == [1, 1, 1]


async def test_a_handle_names_a_session(desk_over_http):
    async with desk_over_http.client(MODERN) as client, desk_over_http.client(MODERN) as other:
        handle = await _begin(client)
        another = await _begin(other)
        assert handle != another
        assert await _note(client, "two", handle) == 2
        # Whoever knows the handle is who was given it.
        assert await _note(other, "three", handle) == 3
        assert await _note(other, "two", another) == 2


async def test_a_handle_that_nobody_was_given_names_nothing(desk_over_http):
    async with desk_over_http.client(MODERN) as client:
        for handle in ("", "guessed", "news"):
            with pytest.raises(MCPError, match="There is no such session"):
                await _note(client, "a", handle)


def test_the_header_of_the_older_era_names_nothing_in_the_newer_one(desk_over_http):
    """Nobody has given it out, so anybody could guess it."""
    params = {
        "name": "keep_note",
        "arguments": {"text": "a"},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": NEWEST,
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"mcp-method": "tools/call", "mcp-name": "keep_note", "mcp-session-id": "guessed"}
    for _ in range(2):
        answer = post(desk_over_http.url, call, **headers).json()
        assert answer["result"]["content"][0]["text"] == "1"


async def test_the_handle_does_not_reach_handlers(desk_over_http):
    async with desk_over_http.client(MODERN) as client:
        handle = await _begin(client)
        result = await client.call_tool("came_along", {}, meta={"toolstile/session": handle})
    assert handle not in result.content[0].text


async def test_a_client_of_the_older_era_keeps_its_session(desk_over_http):
    async with desk_over_http.client(LEGACY) as client, desk_over_http.client(LEGACY) as other:
        assert [await _note(client, "a") for _ in range(3)] == [1, 2, 3]
        assert await _note(other, "a") == 1


@pytest.mark.slow
async def test_nobody_has_a_part_in_anothers_session(guarded):
    async with (
        guarded.client(MODERN, token="of-ada") as ada,
        guarded.client(MODERN, token="of-bert") as bert,
    ):
        handle = await _begin(ada)
        with pytest.raises(MCPError, match="There is no such session"):
            await _note(bert, "intruding", handle)
        assert await _note(ada, "two", handle) == 2


@pytest.mark.slow
@pytest.mark.parametrize("mode", [LEGACY, MODERN], ids=["legacy", "modern"])
async def test_many_sessions_at_once_never_mix(desk_over_http, mode):
    """Each keeps notes of its own, at the same time as all others, and sees no other's."""
    seen: dict[int, str] = {}
    all_have_begun = anyio.Event()
    begun = 0

    async def talk(number: int) -> None:
        nonlocal begun
        async with desk_over_http.client(mode) as client:
            handle = await _begin(client) if mode == MODERN else None
            if handle is None:
                await _note(client, "begun")
            begun += 1
            if begun == MANY:
                all_have_begun.set()
            await all_have_begun.wait()
            for step in range(3):
                await _note(client, f"{number}.{step}", handle)
            meta = {} if handle is None else {"toolstile/session": handle}
            seen[number] = (await client.call_tool("read_notes", {}, meta=meta)).content[0].text

    with anyio.fail_after(240):
        async with anyio.create_task_group() as group:
            for number in range(MANY):
                group.start_soon(talk, number)
    assert seen == {
        number: "\n".join(["begun", *(f"{number}.{step}" for step in range(3))])
        for number in range(MANY)
    }
