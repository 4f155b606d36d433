"""Sessions over HTTP: whose they are, and that they never mix."""

from __future__ import annotations

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from .conftest import LEGACY, MODERN, NEWEST, post, serving

pytestmark = pytest.mark.anyio

NEW = {"toolstile/session": "new"}
MANY = 200


async def _note(client, text: str, handle: str | None = None) -> int:
    meta = {} if handle is None else {"toolstile/session": handle}
    result = await client.call_tool("keep_note", {"text": text}, meta=meta)
    return int(result.content[0].text)


def _call(url, name, arguments, *, headers=None, **meta):
    """Call a tool as the smallest client of the newer era does: one request, and nothing before."""
    params = {
        "name": name,
        "arguments": arguments,
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": NEWEST,
            "io.modelcontextprotocol/clientCapabilities": {},
            **meta,
        },
    }
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    named = {"mcp-method": "tools/call", "mcp-name": name, **(headers or {})}
    return post(url, call, **named).json()


async def _begin(client) -> str:
    begun = await client.call_tool("keep_note", {"text": "begun"}, meta=NEW)
    assert begun.meta is not None
    return begun.meta["toolstile/session"]


async def test_requests_that_name_no_session_share_that_of_the_server(desk_over_http):
    async with desk_over_http.client(MODERN) as client, desk_over_http.client(MODERN) as other:
        first = await _note(client, "a")
        assert [await _note(each, "a") for each in (client, other)] == [first + 1, first + 2]


@pytest.mark.slow
async def test_with_tokens_they_share_that_of_their_principal(guarded):
    async with (
        guarded.client(MODERN, token="of-ada") as ada,
        guarded.client(MODERN, token="of-ada") as again,
        guarded.client(MODERN, token="of-bert") as bert,
    ):
        first, others = await _note(ada, "a"), await _note(bert, "b")
        assert await _note(again, "a") == first + 1
        assert await _note(bert, "b") == others + 1
        for client, own in ((ada, "a"), (bert, "b")):
            notes = (await client.call_tool("read_notes", {})).content[0].text.split("\n")
            assert set(notes) == {own}


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """The file tools and the plan, over a folder with one file."""
    folder = tmp_path_factory.mktemp("workshop")
    (folder / "files").mkdir()
    (folder / "toolstile.toml").write_text('[plugins.vfs]\nroot = "files"\n[plugins.planning]\n')
    with serving(cwd=folder) as served:
        yield served, folder / "files"


@pytest.mark.slow
async def test_a_file_that_one_request_has_read_another_one_edits(workshop, mode):
    served, files = workshop
    (files / "a.txt").write_text("one two")
    edit = {"path": "a.txt", "old_text": "two", "new_text": "three"}
    async with served.client(mode) as client:
        await client.call_tool("read_file", {"path": "a.txt"})
        result = await client.call_tool("edit_file", edit)
    assert not result.is_error, result.content[0].text
    assert (files / "a.txt").read_text() == "one three"


@pytest.mark.slow
def test_a_file_that_was_read_is_edited_over_bare_http(workshop):
    served, files = workshop
    (files / "b.txt").write_text("one two")
    edit = {"path": "b.txt", "old_text": "two", "new_text": "three"}
    refused = _call(served.url, "edit_file", edit)["result"]
    assert "b.txt exists and was not read" in refused["content"][0]["text"]
    assert not _call(served.url, "read_file", {"path": "b.txt"})["result"]["isError"]
    assert not _call(served.url, "edit_file", edit)["result"]["isError"]
    assert (files / "b.txt").read_text() == "one three"


@pytest.mark.slow
def test_what_another_session_has_read_counts_in_that_one_alone(workshop):
    served, files = workshop
    (files / "c.txt").write_text("one")
    begun = _call(served.url, "read_file", {"path": "c.txt"}, **NEW)["result"]["_meta"]
    write = {"path": "c.txt", "content": "two", "overwrite": True}
    assert _call(served.url, "write_file", write)["result"]["isError"]
    assert not _call(served.url, "write_file", write, **begun)["result"]["isError"]


@pytest.mark.slow
async def test_the_plan_is_there_at_the_next_request(workshop):
    served, _ = workshop
    async with served.client(MODERN) as client:
        await client.call_tool("planning_setup_plan", {"objective": "Bake a cake"})
    async with served.client(MODERN) as client:
        told = await client.call_tool("planning_read_plan", {})
    assert "Bake a cake" in told.content[0].text


@pytest.mark.slow
async def test_where_sessions_are_shared_clients_that_begin_one_for_each_call_have_one(tmp_path):
    (tmp_path / "toolstile.toml").write_text("[plugins.mcp.serve]\nshared_sessions = true\n")
    with serving(cwd=tmp_path) as served:
        for number, mode in enumerate([LEGACY, LEGACY, MODERN], 1):
            async with served.client(mode) as client:
                assert await _note(client, "a") == number


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
            with pytest.raises(MCPError, match="This session does not exist"):
                await _note(client, "a", handle)


def test_the_header_of_the_older_era_names_nothing_in_the_newer_one(desk_over_http):
    """Nobody has given it out, so anybody could guess it."""
    counts = [
        int(
            _call(desk_over_http.url, "keep_note", {"text": "a"}, headers=named)["result"][
                "content"
            ][0]["text"]
        )
        for named in ({}, {"mcp-session-id": "guessed"}, {})
    ]
    assert counts == [*range(counts[0], counts[0] + 3)]


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
        with pytest.raises(MCPError, match="This session does not exist"):
            await _note(bert, "intruding", handle)
        assert await _note(ada, "two", handle) == 2


@pytest.mark.long
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
