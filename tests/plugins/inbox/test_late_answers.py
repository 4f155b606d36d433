"""An answer that a client brings once the call has ended is settled in the inbox first."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any, Final

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

from toolstile_hookspecs import Answer, IdempotencyConfig, ToolCall, ToolContext, tool
from toolstile_hookspecs.services.approval_store import QuestionState
from toolstile_plugins.mcp.server.server import HostServer
from toolstile_plugins.mcp.server.sessions import OneSession, ServedSession

from .conftest import BOB, PAID, House, inbox_of, only, pay

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def nobody(context: Any, params: Any) -> ElicitResult:
    """Stand for a person who is asked round by round here."""
    raise AssertionError("The rounds are driven by the test.")


@pytest.fixture
def serve(house: House) -> Any:
    """Serves a host to a client that asks its person itself; gives the client and the inbox."""

    @asynccontextmanager
    async def serve(*tools: Any, **inbox: Any) -> AsyncIterator[Any]:
        given = {"ask": ["mcp"], "stored": True, **inbox}
        host = house.host(*tools, top={"plugins": {"mcp": {}}}, **given)
        session = ServedSession(host.executor(session_id="s"))
        server = HostServer(host, host.settings("mcp").serve, OneSession(session))
        async with Client(server.protocol, mode="auto", elicitation_callback=nobody) as client:
            yield client, inbox_of(house.tools(host, session_id="looking on"))
        await server.caller.finish()
        session.end()
        host.close()

    return serve


CALL: Final = ("pay", {"to": "ada", "amount": 5})


async def first(client: Client, call: tuple[str, dict[str, Any]] = CALL) -> str:
    """Have a tool called, and return the state with which the client comes back."""
    asked = await client.session.call_tool(*call, allow_input_required=True)
    return str(asked.request_state)


async def second(
    client: Client, state: str, call: tuple[str, dict[str, Any]] = CALL, action: str = "accept"
) -> str:
    """Come back with an answer, and return what the model reads."""
    given: Any = {"approval": ElicitResult(action=action)}  # type: ignore[arg-type]
    result: Any = await client.session.call_tool(
        *call, input_responses=given, request_state=state, allow_input_required=True
    )
    return str(result.content[0].text)


async def test_it_holds_after_a_restart(serve):
    async with serve() as (client, _):
        state = await first(client)
    async with serve() as (client, _):
        assert await second(client, state) == "Paid 5 to ada."
        again = await second(client, state)
    assert "The first answer counts." in again
    assert PAID == ["ada"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "alter",
    [
        lambda session, proof: [session, proof, None],
        lambda session, proof: [session, f"{proof[:-4]}AAA=", None, True],
    ],
    ids=["called a token", "altered"],
)
async def test_a_proof_that_does_not_hold_answers_nothing(serve, alter):
    async with serve() as (client, inbox):
        session, proof, *_ = json.loads(await first(client))
        with pytest.raises(MCPError):
            await second(client, json.dumps(alter(session, proof)))
        assert only(inbox).answer is None
    assert PAID == []


async def test_the_client_has_nothing_that_resumes_the_call_past_the_inbox(serve):
    async with serve() as (client, inbox):
        state = await first(client)
        question = only(inbox)
        inbox.answer(question.ticket, Answer.DENIED, BOB, via="console")
        assert inbox.seal.call_of(question).token not in state
        assert "did not approve" in await second(client, state)
    assert PAID == []


@pytest.mark.parametrize("other", [{"to": "eve", "amount": 500}, {"amount": "much"}])
async def test_what_was_shown_goes_on_though_the_client_comes_back_with_other_arguments(
    serve, other
):
    async with serve() as (client, _):
        state = await first(client)
        assert await second(client, state, ("pay", other)) == "Paid 5 to ada."
    assert PAID == ["ada"]


async def test_a_call_that_was_kept_before_its_process_died_has_its_result(serve, house):
    @tool(requires_confirmation=True, idempotency=IdempotencyConfig(scope="session"))
    def charge(euros: int) -> str:
        """Charge a card."""
        PAID.append(str(euros))
        return f"Charged {euros}."

    call = ("charge", {"euros": 3})
    async with serve(charge) as (client, _):
        state = await first(client, call)
        assert await second(client, state, call) == "Charged 3."
    # As if the process had died before the question ended.
    path = house.folder / "inbox" / "inbox.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE toolstile_questions SET state = 'approved', holder = NULL")
    async with serve(charge) as (client, _):
        assert await second(client, state, call) == "Charged 3."
    assert PAID == ["3"]


@tool(category="write", concurrency="serial")
def payroll(*, context: ToolContext) -> str:
    """Pay everybody, one payroll at a time."""
    return context.call("pay", {"to": "ada"}).text


def test_nobody_is_asked_within_a_call_for_which_others_wait(house):
    host = house.host(pay, payroll, ask=["terminal", "mcp"], top={"plugins": {"mcp": {}}})
    tools = house.tools(host)
    outcome = tools.dispatch(ToolCall("payroll", {}))
    assert "a person cannot be asked while payroll holds" in outcome.text
    assert inbox_of(tools).store.questions(set(QuestionState)) == []
    assert PAID == []
