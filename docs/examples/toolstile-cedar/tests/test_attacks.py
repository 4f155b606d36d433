"""Requests that a model may send and nobody can decide are denied."""

import pytest
import toolstile_cedar
from pydantic import SecretStr

from toolstile.testing import assert_failed, assert_ok
from toolstile_hookspecs import Tool, ToolCall, ToolResult, tool

PERMIT_ALL = "permit (principal, action, resource);\n"


@pytest.fixture
def anything(toolstile_tools, policy_of):
    """Calls a tool that takes any object."""
    taking = Tool(
        name="take",
        description="Take anything.",
        params_schema={"type": "object"},
        handler=lambda params, *, context: ToolResult.ok(None),
        category="write",
    )

    def call(arguments, rules=PERMIT_ALL):
        tools = toolstile_tools(toolstile_cedar, taking, policies=[policy_of(rules)], user_id="bob")
        return tools.dispatch(ToolCall("take", arguments))

    return call


@pytest.mark.parametrize(
    "arguments",
    [
        '{"who": {"__entity": {"type": "Group", "id": "support"}}}',
        '{"deep": [{"a": {"__extn": {"fn": "decimal", "arg": "0.0"}}}]}',
        '{"__expr": "true"}',
        '{"number": 9223372036854775808}',
        '{"number": -9223372036854775809}',
        '{"number": 1e300}',
    ],
)
def test_what_cedar_would_take_for_something_else_is_denied(anything, arguments):
    assert_failed(anything(arguments), status="denied", contains=["params", "then retry"])


@pytest.mark.parametrize(
    "arguments",
    [
        '{"number": 9223372036854775807, "other": -9223372036854775808}',
        '{"number": 922337203685477.5, "other": -0.0}',
        '{"text": "\\" }; permit (principal, action, resource); //", "\\u0000": "\\u0000"}',
        '{"a": {"b": [[], {}, [true, 1, "x"]]}}',
        "{}",
    ],
)
def test_everything_else_reaches_the_policies(anything, arguments):
    assert_ok(anything(arguments))


def test_a_params_text_is_never_policy(anything):
    arguments = '{"path": "x\\"}; permit (principal, action, resource); //"}'
    rules = 'permit (principal, action, resource) when { context.params.path == "y" };'
    assert_failed(anything(arguments, rules), status="denied", contains="no Cedar policy")


def test_a_policy_that_cannot_be_evaluated_denies(anything):
    rules = PERMIT_ALL + (
        '@id("limit") forbid (principal, action, resource) when { context.params.cents > 5 };'
    )
    text = assert_failed(anything("{}", rules), status="denied", contains="'limit'")
    assert "does not have the attribute `cents`" in text
    assert "requires human intervention" in text
    assert_failed(anything('{"cents": "5"}', rules), status="denied", contains="type error")
    assert_ok(anything('{"cents": 5}', rules))


def test_a_user_is_nobody_elses_namesake(open_tools):
    rules = 'permit (principal == Anonymous::"anonymous", action, resource);'
    assert_ok(open_tools(rules).call("read_note", path="a"))
    assert_failed(open_tools(rules, user_id="anonymous").call("read_note", path="a"))
    quoting = 'permit (principal == User::"x\\" || true", action, resource);'
    assert_ok(open_tools(quoting, user_id='x" || true').call("read_note", path="a"))
    assert_failed(open_tools(quoting, user_id="x").call("read_note", path="a"))


def test_a_tool_does_not_pass_for_a_category(toolstile_tools, policy_of):
    @tool(name="read", category="delete")
    def purge() -> str:
        """Delete everything."""
        return "gone"

    @tool(name="write", category="write")
    def put() -> str:
        """Write something."""
        return "written"

    rules = 'permit (principal, action in [Action::"read", Action::"write"], resource);'
    tools = toolstile_tools(toolstile_cedar, purge, put, policies=[policy_of(rules)])
    assert_failed(tools.call("read"), status="denied", contains="named like a category")
    assert_ok(tools.call("write"))


def test_secrets_are_not_told(toolstile_tools, policy_of):
    @tool(category="read")
    def sign_in(pin: SecretStr) -> str:
        """Sign in."""
        return "ok"

    rules = PERMIT_ALL + (
        "forbid (principal, action, resource) "
        'when { decimal(context.params.pin) == decimal("0.0") };'
    )
    tools = toolstile_tools(toolstile_cedar, sign_in, policies=[policy_of(rules)])
    text = assert_failed(tools.call("sign_in", pin="hunter2-hunter2"), status="denied")
    assert "hunter2" not in text
    assert "cannot be evaluated" in text
