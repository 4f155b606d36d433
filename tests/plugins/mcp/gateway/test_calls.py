"""Calls through the gateway, in front of the official SDK's server, over pipes and over HTTP."""

from __future__ import annotations

import logging
from contextvars import ContextVar

import pytest
from mcp import Client

from toolstile_hookspecs import (
    AudioContent,
    Cancellation,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    Status,
    TextContent,
    ToolCall,
)
from toolstile_plugins.mcp.gateway.tools import Definition, make_tool
from toolstile_plugins.mcp.settings import ServerSettings

pytestmark = [pytest.mark.slow, pytest.mark.long_if(driver="sync")]
ERAS = ("auto", "legacy", "2026-07-28")


@pytest.fixture(params=["stdio", pytest.param("http", marks=pytest.mark.long)])
def server(request, yard):
    """Return the settings of a server, over each transport."""
    if request.param == "stdio":
        return yard.sdk()
    return {"url": request.getfixturevalue("http_server").url}


@pytest.fixture(params=["stdio", pytest.param("http", marks=pytest.mark.long)])
def own_server(request, yard):
    """Return the settings of a server that a test may change."""
    if request.param == "stdio":
        return yard.sdk()
    return {"url": request.getfixturevalue("own_http_server").url}


@pytest.mark.parametrize("protocol", ERAS)
def test_tools_of_both_eras_are_called(yard, server, protocol):
    yard.open({"demo": {**server, "protocol": protocol}})
    added = yard.call("demo_add", a=2, b=3)
    assert added.text == "5"
    assert added.result.value.structured == {"result": 5}
    spoken = yard.host.state("mcp").upstreams[0].connection.protocol
    assert (spoken == "2026-07-28") == (protocol != "legacy")


def test_all_faults_of_the_arguments_are_told_before_the_call_leaves(yard):
    yard.open({"bad": yard.raw("plain")})
    wrong = yard.call("bad_say", txt="x", times=0)
    assert wrong.status is Status.INVALID
    assert "text: required, but missing" in wrong.text
    assert "times: 0 is less than the minimum of 1" in wrong.text
    assert "txt: not known; did you mean 'text'?" in wrong.text
    assert yard.noted("calls") == []


def test_contents_of_every_kind_pass_through(yard, server):
    yard.open({"demo": server})
    contents = yard.call("demo_everything").result.value
    assert contents.parts == (
        TextContent("All:"),
        ImageContent("aGk=", "image/png"),
        AudioContent("aGk=", "audio/wav"),
        ResourceLink("demo://it", "it"),
        EmbeddedResource("demo://it", text="inside"),
    )


def test_a_failure_is_told_as_it_is(yard, server):
    yard.open({"demo": server})
    failed = yard.call("demo_fail")
    assert (failed.status, failed.text) == (Status.FAILED, "It is broken.")


def test_progress_is_passed_on(yard, server):
    heard = []
    yard.open({"demo": server}, on_progress=lambda call, *told: heard.append(told))
    assert yard.call("demo_count", to=3).text == "counted"
    assert heard
    assert set(heard) <= {(float(n), 3.0, f"at {n}") for n in (1, 2, 3)}


def test_progress_is_told_in_the_context_of_its_call(yard):
    mine, heard = ContextVar("mine", default="nobody's"), []
    yard.open({"demo": yard.sdk()}, on_progress=lambda *told: heard.append(mine.get()))
    for whose in ("one's", "two's"):
        mine.set(whose)
        assert yard.call("demo_count", to=3).text == "counted"
        assert set(heard) == {whose}
        heard.clear()


def test_the_trace_goes_along(yard, server):
    yard.open({"demo": server})
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    call = ToolCall("demo_trace", meta={"traceparent": parent, "secret": "x"})
    assert "0af7651916cd43dd8448eb211c80319c" in yard.dispatch(call).text


@pytest.mark.parametrize("protocol", ["legacy", "2026-07-28"])
def test_a_cancelled_call_is_cancelled_at_the_server(yard, server, protocol):
    yard.open({"demo": {**server, "protocol": protocol}})
    stop = Cancellation()
    call = ToolCall("demo_wait", {"folder": str(yard.folder)}, cancellation=stop)
    outcome = yard.later(call)
    yard.until((yard.folder / "waiting").exists, "the server works on it")
    stop.cancel()
    assert outcome().status is Status.CANCELLED
    yard.until((yard.folder / "stopped").exists, "the server stops")
    assert yard.call("demo_add", a=1, b=1).text == "2"


@pytest.mark.parametrize("protocol", ["legacy", "2026-07-28"])
def test_tools_that_appear_while_the_host_is_open_can_be_called(yard, own_server, caplog, protocol):
    caplog.set_level(logging.DEBUG, "toolstile.mcp")
    yard.open({"demo": {**own_server, "protocol": protocol}})
    assert yard.call("demo_shrink").status is Status.UNKNOWN_TOOL
    if protocol == "2026-07-28":
        yard.until(lambda: "MCP server demo reports changes" in caplog.text, "it was asked to")
    assert yard.call("demo_grow").text == "grown"
    yard.until(lambda: "demo_shrink" in yard.names(), "the tool appears")
    assert yard.call("demo_shrink").text == "shrunk"


def test_why_a_server_tells_of_no_changes_is_logged(yard, caplog, monkeypatch):
    def refuse(client, **_):
        raise RuntimeError("no subscriptions today")

    caplog.set_level(logging.DEBUG, "toolstile.mcp")
    monkeypatch.setattr(Client, "listen", refuse)
    yard.open({"demo": yard.sdk(protocol="2026-07-28")})
    yard.until(lambda: "MCP server demo reports no changes" in caplog.text, "it is logged")
    assert "no subscriptions today" in caplog.text
    assert yard.call("demo_add", a=1, b=1).text == "2"


def test_a_server_that_dies_in_the_middle_fails_the_call_and_the_next_one_works(yard):
    yard.open({"demo": yard.sdk()})
    died = yard.call("demo_exit_now")
    assert died.status is Status.FAILED
    assert "it has ended" in died.text
    assert yard.call("demo_add", a=1, b=1).text == "2"


def test_a_server_over_http_that_was_started_again_is_found_again(yard, own_http_server):
    yard.open({"demo": {"url": own_http_server.url, "protocol": "legacy"}})
    assert yard.call("demo_add", a=1, b=1).text == "2"
    own_http_server.kill()
    assert not yard.call("demo_add", a=1, b=2).success
    own_http_server.start()
    yard.until(lambda: yard.call("demo_add", a=1, b=3).success, "it answers again")


def test_a_server_over_http_that_was_started_again_unnoticed_is_asked_once_more(
    yard, own_http_server
):
    yard.open({"demo": {"url": own_http_server.url, "protocol": "legacy"}})
    assert yard.call("demo_add", a=1, b=1).text == "2"
    own_http_server.kill()
    own_http_server.start()
    assert yard.call("demo_add", a=1, b=2).text == "3"


def test_tools_that_were_met_are_there_while_their_server_is_away(yard):
    yard.open({"one": yard.raw("plain")})
    yard.close()
    yard.open({"one": {"command": "/none/no-such-program-here"}})
    assert yard.names() == ["one_say"]
    away = yard.call("one_say", text="y")
    assert "cannot be reached: the program no-such-program-here does not exist" in away.text
    assert "Nothing was sent" in away.text
    advice = away.event.attributes["toolstile.for_operator"]
    assert "the program /none/no-such-program-here does not exist" in advice
    assert advice.endswith("`toolstile mcp check` tries again.")


@pytest.mark.parametrize("mode", ["upgraded", "replaced"])
def test_a_server_that_was_upgraded_offers_what_it_has_now(yard, mode):
    yard.open({"one": yard.raw(mode)})
    assert yard.names() == ["one_say"]
    yard.close()
    (yard.folder / "changed").touch()
    yard.open({"one": yard.raw(mode)})
    assert yard.names() == (["one_say", "one_sing"] if mode == "upgraded" else ["one_sing"])
    assert yard.call("one_sing", text="x").text == "said x"


def test_what_a_slow_server_has_new_is_there_when_it_is_called(yard):
    yard.open({"one": yard.raw("upgraded")})
    yard.close()
    (yard.folder / "changed").touch()
    yard.open({"one": yard.raw("upgraded", env={"RAW_DELAY": "4"})})
    assert yard.call("one_sing", text="x").text == "said x"


def test_a_list_that_cannot_be_had_ends_no_call_that_is_under_way(yard, caplog):
    yard.open({"one": yard.raw("forgetful")})
    assert yard.call("one_say", text="now").text == "said late"
    assert "The tools of MCP server one stay as they were: the list is lost." in caplog.text
    assert yard.call("one_say", text="again").text == "said again"
    assert len(yard.noted("started")) == 1


def test_a_tool_that_is_gone_is_told_of(yard):
    yard.open({"one": yard.raw("shrinking")})
    assert yard.names() == ["one_say", "one_sing"]
    yard.call("one_say", text="change")
    yard.until(lambda: yard.names() == ["one_sing"], "the tool is gone")
    assert yard.call("one_say", text="x").status is Status.UNKNOWN_TOOL


class TestWhatIsConfigured:
    def test_wins_over_what_the_server_says(self, yard):
        known = {
            "say": {"category": "side_effect", "consequence": "high", "description": "Shout."},
            "drop": {"name": "let_go", "tags": ["x"], "timeout": "none"},
        }
        yard.open({"one": yard.raw("annotated", tools=known)})
        say, drop = (yard.host.catalog.get(name) for name in ("one_say", "let_go"))
        assert (say.category, say.consequence) == ("side_effect", "high")
        assert (say.description, say.long_description) == ("Shout.", None)
        assert (drop.category, drop.consequence) == ("delete", "high")
        assert (drop.tags, drop.timeout, drop.wire_name) == (("mcp", "x"), None, "drop")

    @pytest.mark.parametrize(
        ("category", "consequence"),
        [("read", "low"), ("write", "medium"), ("delete", "high"), ("side_effect", "medium")],
    )
    def test_a_category_brings_its_own_consequence(self, category, consequence):
        settings = ServerSettings(command="x", tools={"drop": {"category": category}})
        for hint in ("readOnlyHint", "destructiveHint"):
            schema = {"type": "object"}
            drop = Definition("drop", None, "Drop it.", schema, None, {hint: True})
            made = make_tool("one_drop", "one", settings, drop, None)
            assert (made.category, made.consequence) == (category, consequence)

    def test_what_a_server_calls_harmless_is_not_contained(self, yard):
        yard.open({"one": yard.raw("annotated")}, dry_run=True)
        assert yard.host.catalog.get("one_say").category == "read"
        assert yard.call("one_say", text="x").status is Status.DENIED
        assert yard.noted("calls") == []

    def test_annotations_can_be_left_out_of_account(self, yard):
        yard.open({"one": yard.raw("annotated", annotations=False)})
        assert {each.category for each in yard.host.catalog if each.origin} == {"side_effect"}

    def test_says_which_tools_are_offered(self, yard):
        yard.open({"one": yard.raw("crowd", only=["say1", "say2", "say3"], without=["say2"])})
        assert yard.names() == ["one_say1", "one_say3"]

    def test_lets_the_ledger_stop_a_repeated_call(self, yard):
        once = {"idempotency": {"scope": "global"}}
        yard.open({"one": yard.raw("plain", tools={"say": once})})
        first, second = yard.call("one_say", text="x"), yard.call("one_say", text="x")
        assert first.text == second.text == "said x"
        assert second.event.replayed
        assert len(yard.noted("calls")) == 1

    def test_after_a_death_in_the_middle_the_ledger_does_not_know(self, yard):
        once = {"idempotency": {"scope": "global"}}
        yard.open({"one": yard.raw("dies", tools={"say": once})})
        assert not yard.call("one_say", text="now").success
        again = yard.call("one_say", text="now")
        assert "may have happened" in again.text
        assert len(yard.noted("calls")) == 1

    def test_variables_are_filled_in_and_missing_ones_named(self, yard, monkeypatch):
        monkeypatch.setenv("RAW_MODE", "plain")
        monkeypatch.delenv("NO_SUCH_VARIABLE", raising=False)
        missing = yard.raw("plain", env={"A": "${NO_SUCH_VARIABLE}"})
        yard.open({"one": yard.raw("${RAW_MODE}"), "two": missing})
        assert yard.call("one_say", text="x").success
        told = yard.call("two_say", text="x").text
        assert "env.A names the environment variable NO_SUCH_VARIABLE, which is not set" in told
