"""Arguments and results are exported only on request, and their secrets never."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import pytest
from pydantic import Field, SecretStr

from toolstile_hookspecs import PolicyDecision, Secret, ToolResult, tool
from toolstile_plugins.otel.settings import CAPTURE_VARIABLE, OtelSettings

SECRETS = ("hunter2!", "4711-4712", "token-0815")
PIN = Annotated[str, Field(json_schema_extra={"writeOnly": True})]


@tool
def sign_in(name: str, password: SecretStr, pin: PIN, how: str = "well") -> dict[str, Any]:
    """Sign in."""
    given = f"{name}:{password.get_secret_value()}:{pin}"
    if how == "badly":
        raise ValueError(f"refused {given}")
    return {"as": given, "password": password, "roles": ["reader", {"pin": pin}]}


@tool
def silent() -> ToolResult[str]:
    """Return what is not to be shown."""
    return ToolResult.ok("a big value", message="It is there.", exclude_value_from_context=True)


class Telling:
    name = "telling"

    def check(self, tool: Any, params: Any, *, context: Any) -> PolicyDecision:
        if params.how == "never":
            secrets = f"{params.password.get_secret_value()} {params.pin} {context.auth.reveal()}"
            return PolicyDecision.deny(f"{secrets} is known to the police.")
        return PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: Any) -> None: ...


def arguments(**more: Any) -> dict[str, Any]:
    return {"name": "Ada", "password": SECRETS[0], "pin": SECRETS[1], **more}


def test_nothing_of_either_is_exported_unless_asked_for(traced: Any) -> None:
    traced.open(sign_in)
    traced.call("sign_in", **arguments())
    assert not any("call.arguments" in name or "result" in name for name in traced.attributes())
    assert "Ada" not in traced.span.to_json()


def test_both_are_structured_and_masked_where_asked_for(traced: Any) -> None:
    traced.open(sign_in, settings={"capture": True})
    traced.call("sign_in", **arguments())

    attributes = traced.attributes()
    assert attributes["gen_ai.tool.call.arguments"] == {
        "name": "Ada",
        "password": "***",
        "pin": "***",
        "how": "well",
    }
    assert attributes["gen_ai.tool.call.result"] == {
        "as": "Ada:***:***",
        "password": "**********",
        "roles": ("reader", {"pin": "***"}),
    }


def test_a_value_that_the_model_does_not_see_is_not_exported(traced: Any) -> None:
    traced.open(silent, settings={"capture": True})
    traced.call("silent")
    assert traced.attributes()["gen_ai.tool.call.result"] == "It is there."
    assert "a big value" not in traced.span.to_json()


def test_a_text_without_a_value_is_masked_too(traced: Any) -> None:
    @tool
    def hush(password: SecretStr) -> ToolResult[None]:
        """Say what is to be kept to oneself."""
        return ToolResult.ok(message=f"It is {password.get_secret_value()}.")

    traced.open(hush, settings={"capture": True})
    traced.call("hush", password=SECRETS[0])
    assert traced.attributes()["gen_ai.tool.call.result"] == "It is ***."


def test_what_a_failed_call_said_is_no_result(traced: Any) -> None:
    @tool
    def fail() -> ToolResult[None]:
        """Fail."""
        return ToolResult.error("No paper.")

    traced.open(fail, settings={"capture": True})
    traced.call("fail")
    assert "gen_ai.tool.call.result" not in traced.attributes()


def test_arguments_that_do_not_fit_are_not_exported(traced: Any) -> None:
    traced.open(sign_in, settings={"capture": True})
    traced.call("sign_in", **arguments(name=7))
    assert "gen_ai.tool.call.arguments" not in traced.attributes()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["well", "badly", "never", "wrongly"])
@pytest.mark.parametrize("capture", [True, False])
def test_no_secret_is_in_any_span_point_or_log_line(
    traced: Any, how: str, capture: bool, caplog: pytest.LogCaptureFixture
) -> None:
    traced.open(
        sign_in,
        policies=(Telling(),),
        auth=Secret(SECRETS[2]),
        settings={"capture": capture, "stages": True},
    )
    given = arguments(how=how) if how != "wrongly" else arguments(hwo="well")
    with caplog.at_level(logging.DEBUG):
        outcome = traced.call("sign_in", **given)

    assert outcome.success is (how == "well")
    exported = [span.to_json() for span in traced.spans]
    exported += [str(point) for point in traced.points()]
    exported.append(caplog.text)
    for secret in SECRETS:
        assert not [text for text in exported if secret in text]


@pytest.mark.parametrize(
    ("value", "captures"),
    [("true", True), ("SPAN_AND_EVENT", True), ("EVENT_ONLY", False), ("", False), (None, False)],
)
def test_the_conventions_variable_opts_in(
    monkeypatch: pytest.MonkeyPatch, value: str | None, captures: bool
) -> None:
    monkeypatch.delenv(CAPTURE_VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(CAPTURE_VARIABLE, value)
    assert OtelSettings().capture is captures
    assert OtelSettings(capture=True).capture
