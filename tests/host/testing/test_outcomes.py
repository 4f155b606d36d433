"""The message of a failed assertion."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pydantic import SecretStr

from toolstile.testing import assert_failed, assert_ok, described
from toolstile_hookspecs import PolicyDecision, ToolResult, hookimpl, tool


@tool(category="read")
def halve(number: int) -> ToolResult[float]:
    """Halve a number."""
    if number % 2:
        return ToolResult.error("number must be even.\nGive an even one, then retry.")
    return ToolResult.ok(number / 2, message="Halved.")


@tool
def burst(number: int) -> None:
    """Raise."""
    raise RuntimeError("no more")


@dataclass(frozen=True)
class Login:
    user: str
    password: SecretStr


@tool
def sign_in(params: Login) -> str:
    """Sign in."""
    raise RuntimeError(f"{params.password.get_secret_value()} is wrong")


class Forbid:
    @hookimpl
    def toolstile_check(self, tool):
        if tool.name == "burst":
            return PolicyDecision.deny("Not now. Wait, then retry.")
        return None


@pytest.fixture
def tools(toolstile_tools):
    return toolstile_tools(halve, burst, sign_in)


def test_a_success_gives_its_value(tools):
    assert assert_ok(tools.call("halve", number=4), value=2.0, contains="Halved") == 2.0


def test_a_failure_gives_its_text(tools):
    text = assert_failed(tools.call("halve", number=3), status="failed", stage="execute")
    assert text.startswith("number must be even.")


def test_a_failure_that_should_not_be_shows_the_call(tools):
    with pytest.raises(AssertionError) as caught:
        assert_ok(tools.call("halve", number=3))
    assert str(caught.value).splitlines() == [
        "A call of halve should succeed, but it was a failure.",
        "  tool       halve",
        '  arguments  {"number": 3}',
        "  status     failed, at the stage execute",
        "  text       number must be even.",
        "             Give an even one, then retry.",
    ]


def test_arguments_that_do_not_fit_are_shown(tools):
    with pytest.raises(AssertionError, match=r"arguments +\{'number': '3'\}"):
        assert_ok(tools.call("halve", number="3"))


def test_a_success_that_should_not_be_shows_the_call(tools):
    with pytest.raises(AssertionError, match="should be denied, but it succeeded"):
        assert_failed(tools.call("halve", number=4), status="denied")


def test_another_status_is_told(tools):
    with pytest.raises(AssertionError, match="should be denied, but it was invalid"):
        assert_failed(tools.call("halve"), status="denied")


def test_another_stage_is_told(tools):
    with pytest.raises(AssertionError, match="ended at the stage parse, not at check"):
        assert_failed(tools.call("halve"), stage="check")


@pytest.mark.parametrize(
    ("expected", "told"),
    [
        ({"value": 3}, "its value is 2.0 and not 3"),
        ({"contains": ["Halved", "Doubled"]}, "its text does not hold 'Doubled'"),
        ({"value": 3, "contains": "x"}, "not 3; its text does not hold 'x'"),
    ],
)
def test_what_is_not_as_expected_is_told(tools, expected, told):
    with pytest.raises(AssertionError, match=told):
        assert_ok(tools.call("halve", number=4), **expected)


def test_a_missing_text_of_a_failure_is_told(tools):
    with pytest.raises(AssertionError, match="does not hold 'odd'"):
        assert_failed(tools.call("halve", number=3), contains="odd")


def test_what_policies_said_is_shown(toolstile_tools):
    outcome = toolstile_tools(burst, Forbid()).call("burst", number=1)
    assert "deny       Not now. Wait, then retry. (plugin Forbid)" in described(outcome)


def test_the_exception_behind_it_is_shown_and_is_the_cause(tools):
    with pytest.raises(AssertionError, match=r"error +RuntimeError: no more") as caught:
        assert_ok(tools.call("burst", number=1))
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_secrets_are_not_shown(tools):
    shown = described(tools.call("sign_in", user="ada", password="hunter22"))
    assert "hunter22" not in shown
    assert "ada" in shown
    assert "hunter22" not in described(tools.call("sign_in", password="hunter22"))


def test_an_exception_in_the_place_of_an_outcome_is_told():
    with pytest.raises(AssertionError, match="A call should succeed, but it raised"):
        assert_ok(RuntimeError("left"))
    with pytest.raises(AssertionError, match=r"raised +RuntimeError: left"):
        assert_failed(RuntimeError("left"))


def test_there_is_no_such_status(tools):
    with pytest.raises(ValueError, match=r"no status 'broken'\. There are succeeded, failed,"):
        assert_failed(tools.call("halve"), status="broken")
    with pytest.raises(ValueError, match=r"no stage 'after'\. There are .*lookup, parse"):
        assert_failed(tools.call("halve"), stage="after")
