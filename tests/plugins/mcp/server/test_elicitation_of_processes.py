"""Elicitation between processes: sessions that end between two rounds, several clients, servers."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, InputRequiredResult

from toolstile_plugins.mcp.server.sessions import NEW, SESSION_META

from .conftest import COMMAND, LEGACY, LONGEST, MODERN, serving

CONFIRMING = Path(__file__).with_name("confirming.py")
KEY = "0123456789abcdef0123456789abcdef"
ADA, EVE = "ada-" + "a" * 32, "eve-" + "e" * 32

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.long_if(mode="legacy")]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(plugin=CONFIRMING, cwd=tmp_path_factory.mktemp("served")) as found:
        yield found


async def accept(context, params):
    return ElicitResult(action="accept", content={})


async def decline(context, params):
    return ElicitResult(action="decline")


@asynccontextmanager
async def as_user(url, token):
    headers = {"authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=LONGEST) as web,
        Client(
            streamable_http_client(url, http_client=web), mode=MODERN, elicitation_callback=accept
        ) as client,
    ):
        yield client


async def first_round(client, **options) -> InputRequiredResult:
    result = await client.session.call_tool(
        "erase", {"name": "a"}, allow_input_required=True, **options
    )
    assert isinstance(result, InputRequiredResult)
    return result


async def second_round(client, state, **options):
    return await client.session.call_tool(
        "erase",
        {"name": "a"},
        input_responses={"approval": ElicitResult(action="accept")},
        request_state=state,
        **options,
    )


async def test_over_http_what_a_person_accepts_runs(served, mode):
    async with served.client(mode, elicitation_callback=accept) as client:
        result = await client.call_tool("erase", {"name": "a"})
    assert result.structured_content == {"result": 1}


async def test_over_http_what_a_person_declines_is_denied(served, mode):
    async with served.client(mode, elicitation_callback=decline) as client:
        result = await client.call_tool("erase", {"name": "a"})
    assert result.is_error
    assert result.content[0].text.startswith("A person did not approve erase.")


async def test_over_http_a_client_that_cannot_ask_is_told_so(served, mode):
    async with served.client(mode) as client:
        result = await client.call_tool("erase", {"name": "a"})
    assert result.is_error
    assert "The MCP client cannot ask a person" in result.content[0].text


@pytest.mark.slow
async def test_over_a_pipe_what_a_person_accepts_runs(mode, tmp_path):
    parameters = StdioServerParameters(
        command=str(COMMAND), args=["--plugin", str(CONFIRMING), "mcp"], cwd=tmp_path
    )
    async with Client(parameters, mode=mode, elicitation_callback=accept) as client:
        for count in (1, 2):
            result = await client.call_tool("erase", {"name": "a"})
            assert result.structured_content == {"result": count}


async def test_a_session_that_a_request_begins_is_the_same_in_both_rounds(served):
    async with served.client(MODERN, elicitation_callback=accept) as client:
        begun = await client.call_tool("erase", {"name": "a"}, meta={SESSION_META: NEW})
        meta = {SESSION_META: begun.meta[SESSION_META]}
        again = await client.call_tool("erase", {"name": "b"}, meta=meta)
        told = await client.call_tool("erased", {}, meta=meta)
    assert again.structured_content == {"result": 2}
    assert told.structured_content == {"result": ["a", "b"]}


async def test_a_state_does_not_hold_in_another_session(served):
    async with served.client(MODERN, elicitation_callback=accept) as client:
        one = await client.call_tool("erased", {}, meta={SESSION_META: NEW})
        other = await client.call_tool("erased", {}, meta={SESSION_META: NEW})
        ones = {SESSION_META: one.meta[SESSION_META]}
        others = {SESSION_META: other.meta[SESSION_META]}
        asked = await first_round(client, meta=ones)
        with pytest.raises(MCPError, match="belongs to another session"):
            await second_round(client, asked.request_state, meta=others)
        result = await second_round(client, asked.request_state, meta=ones)
    assert result.structured_content == {"result": 1}


async def test_of_many_who_repeat_a_request_at_once_one_is_answered(served):
    ends = []

    async def repeat(client, state):
        try:
            ends.append((await second_round(client, state)).structured_content)
        except MCPError as error:
            ends.append("was used before" in error.error.message)

    async with served.client(MODERN, elicitation_callback=accept) as client:
        asked = await first_round(client)
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(repeat, client, asked.request_state)
    assert ends.count(True) == 7
    assert [isinstance(end, dict) for end in ends].count(True) == 1


@pytest.mark.slow
async def test_a_state_does_not_hold_for_another_principal(tmp_path):
    (tmp_path / "toolstile.toml").write_text(
        f'[plugins.mcp.serve.tokens]\nada = "{ADA}"\neve = "{EVE}"\n', encoding="utf-8"
    )
    with serving(plugin=CONFIRMING, cwd=tmp_path) as served:
        async with as_user(served.url, ADA) as ada, as_user(served.url, EVE) as eve:
            asked = await first_round(ada)
            with pytest.raises(MCPError, match="belongs to another user"):
                await second_round(eve, asked.request_state)
            result = await second_round(ada, asked.request_state)
    assert result.structured_content == {"result": 1}


@pytest.mark.long
@pytest.mark.slow
async def test_servers_that_share_a_key_answer_for_each_other_once(tmp_path):
    (tmp_path / "toolstile.toml").write_text(
        f'approval_key = "{KEY}"\napproval_spent = "spent.db"\n', encoding="utf-8"
    )
    with (
        serving(plugin=CONFIRMING, cwd=tmp_path) as one,
        serving(plugin=CONFIRMING, cwd=tmp_path) as other,
    ):
        async with one.client(MODERN, elicitation_callback=accept) as client:
            asked = await first_round(client)
        async with other.client(MODERN, elicitation_callback=accept) as client:
            result = await second_round(client, asked.request_state)
            assert result.structured_content == {"result": 1}
        async with one.client(MODERN, elicitation_callback=accept) as client:
            with pytest.raises(MCPError, match="was used before"):
                await second_round(client, asked.request_state)


async def test_a_state_of_another_server_is_refused(served, tmp_path):
    async with served.client(MODERN, elicitation_callback=accept) as client:
        asked = await first_round(client)
    with serving(plugin=CONFIRMING, cwd=tmp_path) as other:
        async with other.client(MODERN, elicitation_callback=accept) as client:
            with pytest.raises(MCPError, match="was altered, or this host did not make it"):
                await second_round(client, asked.request_state)


async def test_clients_are_asked_each_about_their_own_calls(served):
    asked = {}

    async def mark(name):
        async def person(context, params):
            asked.setdefault(name, []).append(params.message)
            return ElicitResult(action="accept", content={})

        mode = LEGACY if int(name) % 2 else MODERN
        async with served.client(mode, elicitation_callback=person) as client:
            result = await client.call_tool("mark", {"name": name})
            assert result.structured_content == {"result": "marked"}

    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(mark, str(number))
    assert {name: len(messages) for name, messages in asked.items()} == {
        str(number): 1 for number in range(10)
    }
    assert all(f'"name": "{name}"' in messages[0] for name, messages in asked.items())
