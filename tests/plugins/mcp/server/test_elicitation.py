"""The person at the client is asked for approval, in the form of each era."""

from __future__ import annotations

import base64
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ElicitResult, ErrorData, InputRequiredResult, ListRootsResult

from toolstile import Host, Settings
from toolstile_hookspecs import (
    ApprovalRequest,
    MarkdownSection,
    Tool,
    ToolCall,
    ToolContext,
    hookimpl,
    tool,
)
from toolstile_plugins.mcp.server.calls import DEADLINE_META
from toolstile_plugins.mcp.server.elicitation import RequestState, question_of
from toolstile_plugins.mcp.server.server import HostServer
from toolstile_plugins.mcp.server.sessions import OneSession, ServedSession, executors_of

from . import confirming
from .conftest import LEGACY, LONGEST, MODERN

pytestmark = pytest.mark.anyio

NEEDS = "erase needs a person's approval (erase requires confirmation). "
INSTEAD = " It cannot run here. Tell the user, or continue without it."


class Clock:
    """Time that passes when it is told to."""

    def __init__(self):
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self):
        return self.time

    def monotonic(self):
        return self.time.timestamp()


class Person:
    """Answers at the client, and keeps what they were asked."""

    def __init__(self, answer="accept"):
        self.answer = answer
        self.asked = []

    async def __call__(self, context, params):
        self.asked.append(params)
        if isinstance(self.answer, str):
            return ElicitResult(action=self.answer, content={} if self.answer == "accept" else None)
        return self.answer


@tool(category="write", contained=True, requires_confirmation=True)
def write_two(*, context: ToolContext) -> None:
    """Write two files."""
    context.filesystem.write("a.txt", "padding\n" * 5_000)
    context.filesystem.write("z.txt", "everybody@desk.example\n")


class TwoFiles:
    """A plugin whose tool writes a long file, and one beside it."""

    @hookimpl
    def toolstile_sections(self):
        return [MarkdownSection(key="two", title="Two", tools=[write_two])]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def serve(clock):
    """Serves the confirming plugin to an official client, in this process."""

    @asynccontextmanager
    async def serve(mode, person=None, *, serve=None, **settings):
        given = Settings(**{"approver": "mcp", **settings}, plugins={"mcp": {"serve": serve or {}}})
        with Host(settings=given, plugins=[confirming], clock=clock) as host:
            session = ServedSession(executors_of(host)(None, None))
            server = HostServer(host, host.settings("mcp").serve, OneSession(session))
            async with Client(server.protocol, mode=mode, elicitation_callback=person) as client:
                yield client
            await server.caller.finish()
            session.end()

    return serve


async def first_round(client) -> InputRequiredResult:
    result = await client.session.call_tool("erase", {"name": "a"}, allow_input_required=True)
    assert isinstance(result, InputRequiredResult)
    return result


async def second_round(client, state, action="accept", *, tool="erase", what="a", key="approval"):
    return await client.session.call_tool(
        tool,
        {"name": what},
        input_responses={key: ElicitResult(action=action)},
        request_state=state,
        allow_input_required=True,
    )


async def erased(client):
    return (await client.call_tool("erased", {})).structured_content["result"]


@pytest.mark.slow
async def test_what_a_person_accepts_runs(serve, mode):
    person = Person()
    async with serve(mode, person) as client:
        result = await client.call_tool("erase", {"name": "a"})
        assert not result.is_error
        assert result.structured_content == {"result": 1}
        assert await erased(client) == ["a"]
    (asked,) = person.asked
    assert asked.message.splitlines() == [
        "Run erase? (delete, high consequence)",
        "  erase requires confirmation.",
        "Arguments:",
        "  {",
        '    "name": "a"',
        "  }",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reaction", "told"),
    [
        ("decline", "A person did not approve erase. Do not retry it unchanged."),
        ("cancel", f"{NEEDS}The person closed the question without an answer.{INSTEAD}"),
    ],
)
async def test_what_a_person_does_not_accept_is_denied(serve, mode, reaction, told):
    async with serve(mode, Person(reaction)) as client:
        result = await client.call_tool("erase", {"name": "a"})
        assert result.is_error
        assert result.content[0].text == told
        assert await erased(client) == []


async def test_a_client_that_cannot_ask_is_told_so(serve, mode):
    async with serve(mode) as client:
        result = await client.call_tool("erase", {"name": "a"})
        assert result.is_error
        assert result.content[0].text.startswith(f"{NEEDS}The MCP client cannot ask a person")
        assert await erased(client) == []


async def test_nobody_answering_in_time_is_a_denial(serve):
    release = anyio.Event()

    async def person(context, params):
        await release.wait()
        return ElicitResult(action="accept")

    async with serve(LEGACY, person, serve={"elicitation_timeout": 0.1}) as client:
        with anyio.fail_after(LONGEST):
            result = await client.call_tool("erase", {"name": "a"})
        release.set()
        assert result.is_error
        assert result.content[0].text == (
            f"{NEEDS}No one answered at the MCP client in 0.1 seconds.{INSTEAD}"
        )
        assert await erased(client) == []


async def test_the_hosts_own_limit_on_approvals_holds(serve):
    release = anyio.Event()

    async def person(context, params):
        await release.wait()
        return ElicitResult(action="accept")

    async with serve(LEGACY, person, approval_timeout=0.1) as client:
        with anyio.fail_after(LONGEST):
            result = await client.call_tool("erase", {"name": "a"})
        release.set()
        assert result.is_error
        assert "the approval timed out" in result.content[0].text
        assert await erased(client) == []


async def test_nobody_answering_before_the_deadline_is_a_denial(serve):
    release = anyio.Event()

    async def person(context, params):
        await release.wait()
        return ElicitResult(action="accept")

    # The deadline is the clock's, which stands still, so it does not pass meanwhile.
    async with serve(LEGACY, person) as client:
        with anyio.fail_after(LONGEST):
            result = await client.call_tool("erase", {"name": "a"}, meta={DEADLINE_META: 0.2})
        release.set()
        assert result.is_error
        assert result.content[0].text == (
            f"{NEEDS}No one answered at the MCP client in 0.18 seconds.{INSTEAD}"
        )
        assert await erased(client) == []


async def test_an_answer_that_never_comes_comes_too_late(serve, clock):
    async with serve(MODERN, Person(), approval_expiry=60.0) as client:
        asked = await first_round(client)
        clock.time += timedelta(seconds=61)
        with pytest.raises(MCPError, match="The approval came too late") as caught:
            await second_round(client, asked.request_state)
        assert caught.value.error.code == INVALID_PARAMS
        assert await erased(client) == []


async def test_a_client_that_answers_with_an_error_gets_a_denial(serve):
    person = Person(ErrorData(code=-32603, message="no screen"))
    async with serve(LEGACY, person) as client:
        result = await client.call_tool("erase", {"name": "a"})
        assert result.is_error
        assert "answer cannot be understood" in result.content[0].text
        assert "no screen" not in result.content[0].text


async def test_the_first_round_says_what_is_asked(serve):
    async with serve(MODERN, Person()) as client:
        asked = await first_round(client)
        assert asked.request_state
        (request,) = asked.input_requests.values()
        assert request.method == "elicitation/create"
        assert request.params.mode == "form"
        assert request.params.requested_schema == {"type": "object", "properties": {}}
        assert request.params.message.startswith("Run erase?")
        assert await erased(client) == []


async def test_a_state_that_was_used_is_refused(serve):
    async with serve(MODERN, Person()) as client:
        asked = await first_round(client)
        assert not (await second_round(client, asked.request_state)).is_error
        with pytest.raises(MCPError, match="was used before") as caught:
            await second_round(client, asked.request_state)
        assert caught.value.error.code == INVALID_PARAMS
        assert await erased(client) == ["a"]


@pytest.mark.parametrize("reaction", ["decline", "cancel"])
async def test_a_refusal_uses_a_state_up(serve, reaction):
    async with serve(MODERN, Person()) as client:
        asked = await first_round(client)
        assert (await second_round(client, asked.request_state, reaction)).is_error
        with pytest.raises(MCPError, match="was used before"):
            await second_round(client, asked.request_state)
        assert await erased(client) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "alter",
    [
        lambda state: f"{state}-TAMPERED",
        lambda state: state[:-1],
        lambda state: state.replace(",", ",,"),
        lambda state: json.dumps([*json.loads(state)[:1], "made.up", None]),
        lambda state: json.dumps(["other", *json.loads(state)[1:]])[:40],
        lambda state: json.dumps(["\n", *json.loads(state)[1:]]),
        lambda state: json.dumps(["x" * 1000, *json.loads(state)[1:]]),
        lambda state: "[" * 5000,
        lambda state: "null",
        lambda state: "[1, 2, 3]",
        lambda state: "",
    ],
)
async def test_a_state_that_was_altered_is_refused(serve, alter):
    async with serve(MODERN, Person()) as client:
        asked = await first_round(client)
        with pytest.raises(MCPError, match="altered") as caught:
            await second_round(client, alter(asked.request_state))
        assert caught.value.error.code == INVALID_PARAMS
        assert await erased(client) == []
        assert not (await second_round(client, asked.request_state)).is_error


async def test_a_state_with_another_expiry_is_refused(serve):
    async with serve(MODERN, Person()) as client:
        session, token, _ = json.loads((await first_round(client)).request_state)
        version, claims, signature = token.split(".")
        altered = json.loads(base64.urlsafe_b64decode(claims))
        altered["expires"] += 3600
        body = base64.urlsafe_b64encode(json.dumps(altered).encode()).decode()
        state = RequestState(session, f"{version}.{body}.{signature}").written()
        with pytest.raises(MCPError, match="altered"):
            await second_round(client, state)


async def test_other_arguments_are_asked_about_again(serve):
    async with serve(MODERN, Person()) as client:
        asked = await first_round(client)
        again = await second_round(client, asked.request_state, what="b")
        assert isinstance(again, InputRequiredResult)
        assert '"name": "b"' in again.input_requests["approval"].params.message
        assert await erased(client) == []


async def test_a_state_of_another_tool_is_refused(serve):
    async with serve(MODERN, Person()) as client:
        asked = await first_round(client)
        with pytest.raises(MCPError, match="belongs to another tool"):
            await second_round(client, asked.request_state, tool="mark")


async def test_a_repeated_request_without_an_answer_is_asked_again(serve):
    async with serve(MODERN, Person()) as client:
        first = await first_round(client)
        again = await second_round(client, first.request_state, key="other")
        assert isinstance(again, InputRequiredResult)
        assert again.request_state != first.request_state
        assert await erased(client) == []


async def test_an_answer_of_another_kind_is_refused(serve):
    async with serve(MODERN, Person()) as client:
        asked = await first_round(client)
        with pytest.raises(MCPError, match="must be the result of an elicitation"):
            await client.session.call_tool(
                "erased",
                {},
                input_responses={"approval": ListRootsResult(roots=[])},
                request_state=asked.request_state,
            )


@pytest.mark.slow
async def test_what_has_run_is_shown_before_it_is_kept(serve, mode):
    person = Person()
    async with serve(mode, person, approve_diff=True) as client:
        result = await client.call_tool("mark", {"name": "a"})
        assert result.structured_content == {"result": "marked"}
        assert await erased(client) == ["a"]
    lines = person.asked[0].message.splitlines()
    assert lines[0] == "mark has run (write, medium consequence). Keep its changes?"
    assert lines[-3:] == ["It would change:", "  session:", "    Erased: added Erased(name='a')"]


@pytest.mark.slow
async def test_secrets_are_not_shown(serve, mode):
    person = Person()
    async with serve(mode, person) as client:
        result = await client.call_tool("log_in", {"user": "ada", "password": "hunter2"})
        assert result.content[0].text == "ada has logged in"
    assert '"password": "***"' in person.asked[0].message
    assert "hunter2" not in person.asked[0].message


async def test_what_could_steer_a_terminal_is_escaped(serve, mode):
    person = Person()
    name = "a\x1b[2J\u202eb\nRun nothing?"
    async with serve(mode, person) as client:
        assert not (await client.call_tool("erase", {"name": name})).is_error
        assert await erased(client) == [name]
    message = person.asked[0].message
    assert all(line.isprintable() for line in message.splitlines())
    assert not any(line.startswith("Run nothing") for line in message.splitlines())


async def test_what_is_too_long_is_cut_visibly(serve, mode):
    person = Person()
    async with serve(mode, person) as client:
        await client.call_tool("erase", {"name": "x" * 100_000})
    message = person.asked[0].message
    assert len(message) < 9_000
    assert "more characters that are not shown here" in message


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        {"padding": "x " * 50_000},
        {"padding": ["x"] * 50_000},
        {"padding": [["x" * 50] * 50] * 50},
        {"padding": {f"x{number}": number for number in range(50_000)}},
        {f"padding{number}": "x" * 5_000 for number in range(40)},
        {"padding" * 1_000: "x"},
    ],
)
def test_each_argument_is_shown_however_long_others_are(arguments):
    """Before it, after it, and beside it in the same object."""
    last = {"to": "everybody@desk.example"}
    hidden = {**arguments, "nested": {**arguments, **last} if len(arguments) == 1 else last, **last}
    foreign = Tool[Any, Any](
        name="post",
        description="Post.",
        handler=None,
        params_schema={"type": "object"},
        category="delete",
        origin="desk",
    )
    question = question_of(
        ApprovalRequest(
            call=ToolCall("post", hidden),
            tool=foreign,
            params=hidden,
            arguments=json.dumps(hidden),
            reasons=(),
            digest="",
            context=None,  # type: ignore[arg-type] - who asks is of no matter
        )
    )
    # Its server calls it destructive, which need not mean that it deletes.
    assert question.startswith("Run post? (destructive, medium consequence)")
    assert question.count('"to": "everybody@desk.example"') == 2
    assert len(question) < 40_000
    if "padding" in arguments:
        assert "more" in question
        assert "that are not shown here" in question


@pytest.mark.slow
async def test_a_long_change_of_one_file_hides_no_other(tmp_path):
    """The diff of each file is shortened by itself."""
    person = Person()
    given = Settings(approver="mcp", approve_diff=True, plugins={"vfs": {"root": tmp_path}})
    with Host(settings=given, plugins=[TwoFiles()]) as host:
        session = ServedSession(executors_of(host)(None, None))
        server = HostServer(host, host.settings("mcp").serve, OneSession(session))
        async with Client(server.protocol, mode=LEGACY, elicitation_callback=person) as client:
            await client.call_tool("write_two", {})
        await server.caller.finish()
        session.end()
    message = person.asked[0].message
    assert "+++ b/a.txt" in message
    assert "more characters that are not shown here" in message
    assert "+everybody@desk.example" in message
    assert message.index("b/a.txt") < message.index("b/z.txt")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["erase_within", "erase_within_async"])
async def test_a_call_within_another_is_asked_about_where_the_client_can_be_waited_for(serve, name):
    person = Person()
    async with serve(LEGACY, person) as client:
        with anyio.fail_after(LONGEST):
            result = await client.call_tool(name, {"name": "a"})
        assert result.content[0].text == "succeeded: 1"
        assert await erased(client) == ["a"]
    assert len(person.asked) == 1


@pytest.mark.parametrize("name", ["erase_within", "erase_within_async"])
async def test_a_call_within_another_cannot_wait_for_another_round(serve, name):
    async with serve(MODERN, Person()) as client:
        result = await client.call_tool(name, {"name": "a"})
        assert result.content[0].text.startswith("denied: erase is not approved yet")
        assert await erased(client) == []


async def test_an_approver_that_is_configured_is_asked_instead(serve, mode):
    person = Person()
    async with serve(mode, person, approver="approval") as client:
        result = await client.call_tool("erase", {"name": "a"})
        assert result.is_error
    assert person.asked == []


async def test_a_request_that_is_given_up_is_asked_no_longer(serve):
    asked, withdrawn = anyio.Event(), anyio.Event()

    async def person(context, params):
        asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            withdrawn.set()

    async with serve(LEGACY, person) as client:
        with anyio.fail_after(LONGEST):
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "erase", {"name": "a"})
                await asked.wait()
                group.cancel_scope.cancel()
            await withdrawn.wait()
        assert await erased(client) == []


def test_without_a_client_nobody_is_asked():
    settings = Settings(approver="mcp")
    with Host(settings=settings, plugins=[confirming]) as host, host.executor() as tools:
        outcome = tools.dispatch(ToolCall("erase", {"name": "a"}))
    assert "No MCP client made this request" in outcome.text


@given(st.text().filter(str.isprintable), st.text(), st.none() | st.text())
def test_a_state_comes_back_as_it_was_written(session, token, handle):
    state = RequestState(session, token, handle)
    params = {"requestState": state.written(), "inputResponses": {"approval": {}}}
    assert RequestState.in_answer(params) == state
