"""Calls of foreign tools: run by a callable that is fixed, or given with the call."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile import ApprovalAnswer, Host, ToolCall
from toolstile_hookspecs import (
    ForeignTool,
    IdempotencyConfig,
    Status,
    Tool,
    ToolContext,
    ToolInvoked,
    ToolResult,
    append_all,
    hookimpl,
    tool,
)
from toolstile_plugins.policies import CategoryPolicy

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
GIVEN = ForeignTool("given", "Run what is given.", SCHEMA)
NONE_GIVEN = (
    "given cannot run: it runs by a callable that is given with each call, and none was. Nothing "
    "has run. Dispatch or resume it with `using`, then retry."
)


@dataclass(frozen=True)
class Seen:
    """The note of a call."""

    n: int


def double(arguments: dict[str, Any], context: ToolContext) -> int:
    context.session[Seen].append(Seen(arguments["n"]))
    return arguments["n"] * 2


async def triple(arguments: dict[str, Any], context: ToolContext) -> int:
    await asyncio.sleep(0)
    return arguments["n"] * 3


@tool
def own() -> str:
    """Run by itself."""
    return "own"


@pytest.fixture(params=["sync", "async"])
def dispatch(request):
    def through(tools, call, **options):
        if request.param == "sync":
            return tools.dispatch(call, **options)
        return asyncio.run(tools.adispatch(call, **options))

    return through


@pytest.fixture
def tools():
    fixed = ForeignTool("fixed", "Run what is fixed.", SCHEMA, double)
    with Host(discover=False, tools=[GIVEN, fixed, own]) as host, host.executor() as executor:
        executor.session[Seen].register(Seen, append_all)
        yield executor


@pytest.mark.parametrize(("using", "value"), [(double, 10), (triple, 15)])
def test_what_is_given_runs_this_once(tools, dispatch, using, value):
    assert dispatch(tools, ToolCall("given", {"n": 5}), using=using).result.value == value
    closed = dispatch(tools, ToolCall("given", {"n": 5}))
    assert (closed.status, closed.text) == (Status.ERROR, NONE_GIVEN)


def test_what_is_fixed_runs_always(tools, dispatch):
    assert dispatch(tools, ToolCall("fixed", {"n": 5})).text == "10"


@pytest.mark.parametrize("name", ["fixed", "own"])
def test_what_runs_by_itself_takes_no_other(tools, dispatch, name):
    outcome = dispatch(tools, ToolCall(name, {}), using=triple)
    assert outcome.status is Status.ERROR
    assert outcome.text.startswith(f"{name} cannot be run by a callable that is given")
    assert tools.session[Seen].all() == ()


def test_another_tool_without_a_handler_is_not_run_by_it(dispatch):
    # It could be contained, and nothing undoes what a foreign callable does.
    bare = Tool[None, None](name="bare", description="Bare.", params_schema=SCHEMA, category="read")
    with Host(discover=False, tools=[bare]) as host, host.executor() as tools:
        assert "has one of its own" in dispatch(tools, ToolCall("bare"), using=triple).text


@pytest.mark.parametrize(
    ("using", "text"),
    [
        (lambda arguments, context: ToolResult.error("No. Do without."), "No. Do without."),
        (lambda arguments, context: {"a": [1]}, '{"a":[1]}'),
        (lambda arguments, context: ToolResult.ok(message="Done."), "Done."),
        (lambda arguments, context: 1 / 0, "Internal error in given: division by zero"),
    ],
)
def test_whatever_comes_of_it_is_an_outcome(tools, dispatch, using, text):
    assert dispatch(tools, ToolCall("given"), using=using).text == text


def test_a_failure_leaves_nothing_in_the_session(tools, dispatch):
    def fails(arguments, context):
        double(arguments, context)
        raise RuntimeError("too late")

    assert not dispatch(tools, ToolCall("given", {"n": 1}), using=fails).success
    assert tools.session[Seen].all() == ()


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_in_a_batch_each_call_has_its_own(tools, driver):
    calls = [ToolCall("given", {"n": n}) for n in range(3)] + [ToolCall("own")]
    using = [double, triple, None, None]
    if driver == "sync":
        found = tools.dispatch_all(calls, using=using)
    else:
        found = asyncio.run(tools.adispatch_all(calls, using=using))
    assert [each.text for each in found] == ["0", "3", NONE_GIVEN, "own"]


def test_a_batch_that_is_not_given_one_for_each_call_is_not_dispatched(tools):
    with pytest.raises(ValueError, match="`using` has 1 entries for 2 calls"):
        tools.dispatch_all([ToolCall("given")] * 2, using=[double])
    with pytest.raises(TypeError, match="needs a callable, not int"):
        tools.dispatch(ToolCall("given"), using=3)
    assert tools.session[ToolInvoked].all() == ()


def test_a_blocking_callable_does_not_block_the_loop(tools):
    other = threading.Event()

    async def both():
        def waits(arguments, context):
            return other.wait(10)

        waiting = asyncio.ensure_future(tools.adispatch(ToolCall("given"), using=waits))
        await asyncio.sleep(0)
        other.set()
        return await waiting

    assert asyncio.run(both()).text == "true"


def test_a_plugin_is_asked_first_and_a_nested_call_has_none():
    class Answering:
        @hookimpl
        def toolstile_execute(self, tool, params):
            return ToolResult.ok("known") if params == {"n": 1} else None

    @tool
    def around(*, context: ToolContext) -> str:
        """Call it."""
        return context.call("given", {"n": 2}).text

    options = {"tools": [GIVEN, around], "plugins": [Answering()]}
    with Host(discover=False, **options) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("given", {"n": 1}), using=double).text == "known"
        assert tools.dispatch(ToolCall("given", {"n": 1})).text == "known"
        assert tools.dispatch(ToolCall("given", {"n": 2}), using=triple).text == "6"
        assert tools.dispatch(ToolCall("around")).text == NONE_GIVEN


def test_an_effect_is_had_once_whatever_runs_the_repeated_call(tmp_path):
    ran = []

    def pays(arguments, context):
        ran.append(arguments["n"])
        return len(ran)

    pay = ForeignTool("pay", "Pay.", SCHEMA, idempotency=IdempotencyConfig())
    with Host(discover=["ledger"], tools=[pay]) as host, host.executor() as tools:
        found = [tools.dispatch(ToolCall("pay", {"n": 5}), using=pays).text for _ in range(3)]
        assert (found, ran) == (["1"] * 3, [5])


def test_edited_arguments_are_what_it_is_given(dispatch):
    asks = ForeignTool("asks", "Ask.", SCHEMA, requires_confirmation=True)
    options = {"approver": lambda request: ApprovalAnswer.edit({"n": 7})}
    with Host(discover=False, tools=[asks], **options) as host, host.executor() as tools:
        assert dispatch(tools, ToolCall("asks", {"n": 1}), using=triple).text == "21"


def test_resumed_without_it_a_call_fails_closed_and_keeps_its_token(dispatch):
    asks = ForeignTool("asks", "Ask.", SCHEMA, requires_confirmation=True)
    options = {"approver": lambda request: ApprovalAnswer.pending()}
    with Host(discover=False, tools=[asks], **options) as host, host.executor() as tools:
        waits = dispatch(tools, ToolCall("asks", {"n": 1}), using=triple)
        assert waits.status is Status.PENDING
        closed = tools.resume(waits.call, waits.approval_token, answer=True)
        assert closed.status is Status.ERROR
        done = tools.resume(waits.call, waits.approval_token, answer=True, using=triple)
        assert done.text == "3"


@pytest.mark.parametrize(
    ("corrected", "arguments", "policies", "told"),
    [
        ({}, {"n": "x"}, [], "Invalid arguments for SendMail"),
        ({}, {"n": 1}, [], "SendMail was called"),
        (
            {},
            {"n": 1},
            [CategoryPolicy(category={"side_effect": "deny"})],
            "SendMail cannot be called here",
        ),
        ({"requires_confirmation": True}, {"n": 1}, [], "SendMail waits for a person's approval"),
    ],
)
def test_messages_name_a_tool_as_models_know_it(dispatch, corrected, arguments, policies, told):
    def fail(arguments, context):
        raise TypeError("No.")

    mail = ForeignTool("SendMail", "Send.", SCHEMA, fail, category="side_effect", **corrected)
    later = ApprovalAnswer.pending()
    with (
        Host(discover=False, tools=[mail], policies=policies, approver=lambda _: later) as host,
        host.executor() as tools,
    ):
        assert told in dispatch(tools, ToolCall("SendMail", arguments)).text
