"""The request is in the record, masked as arguments are, and a replay decides by it as then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from toolstile import Host, Settings
from toolstile_hookspecs import (
    PolicyDecision,
    Principal,
    RequestTurn,
    Secret,
    Tool,
    ToolCall,
    ToolContext,
    tool,
)
from toolstile_plugins.record import Recording, recorder
from toolstile_plugins.record.replayer import replayed

ADA = Principal("https://id.example.org", "ada", auth=Secret("hunter2-of-ada"))


@tool(category="write")
def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"


@tool(category="write")
def sign_in(password: Annotated[str, Field(json_schema_extra={"writeOnly": True})]) -> str:
    """Sign in."""
    return f"signed in with {len(password)} characters"


class AskedFor:
    """A policy: what the request does not name is denied."""

    name = "asked_for"

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        if any(tool.name.split("_")[0] in turn.text.lower() for turn in context.request):
            return PolicyDecision.allow()
        return PolicyDecision.deny(f"Nobody asked for {tool.name}.")

    def on_result(self, *given: Any, **context: Any) -> None:
        """Remember nothing."""


def host_of(file: Path | None) -> Host:
    table = {} if file is None else {"record": {"file": str(file)}}
    settings = Settings(plugins=table)
    tools = [send, sign_in]
    return Host(settings=settings, discover=["record"], tools=tools, policies=[AskedFor()])


def lines_of(file: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line["kind"] == "call"]


def letter() -> ToolCall:
    """Return a call, whose id is its own."""
    return ToolCall("send", {"to": "Bob"})


def replay(file: Path) -> list[str]:
    """Return the statuses of a replay in which nothing differs."""
    with host_of(None) as host:
        compared = list(replayed(host, Recording.load(file)))
    assert not any(each.differs for each in compared)
    return [str(each.status) for each in compared]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


def test_a_replay_decides_by_the_request_of_each_call(file: Path) -> None:
    with host_of(file) as host:
        with host.executor() as tools:
            tools.dispatch(letter())
        with host.executor(principal=ADA, request="Read my letters.") as tools:
            tools.dispatch(letter())
            tools.dispatch(ToolCall("nothing"))
            tools.request("Send one to Bob.")
            tools.dispatch(letter())
            tools.dispatch(letter())
    assert replay(file) == ["denied", "denied", "unknown_tool", "succeeded", "succeeded"]


def test_a_dry_run_is_replayed_by_its_request(file: Path) -> None:
    @tool(category="read")
    def look() -> str:
        """Look."""
        return "seen"

    settings = Settings(plugins={"record": {"file": str(file)}})
    options: Any = {"discover": ["record"], "tools": [look], "policies": [AskedFor()]}
    with (
        Host(settings=settings, **options) as host,
        host.executor(dry_run=True, request="Look.") as tools,
    ):
        tools.dispatch(ToolCall("look"))
        tools.dispatch(ToolCall("look"))
    with Host(settings=Settings(), **options) as host:
        compared = list(replayed(host, Recording.load(file)))
    assert [str(each.status) for each in compared] == ["succeeded", "succeeded"]


def test_the_request_stands_once_in_the_record_as_long_as_it_stays(file: Path) -> None:
    with host_of(file) as host, host.executor(principal=ADA, request="Send it.") as tools:
        tools.dispatch(letter())
        tools.dispatch(ToolCall("nothing"))
        tools.dispatch(letter())
        tools.request("And again.")
        tools.dispatch(letter())
    found = [line.get("request") for line in lines_of(file)]
    assert [turns and [turn["text"] for turn in turns] for turns in found] == [
        ["Send it."],
        None,
        None,
        ["Send it.", "And again."],
    ]
    [turn] = found[0] or []
    assert (turn["user_id"], turn["source"]) == ("ada", ADA.source)
    assert turn["at"].endswith("Z")
    read = [entry.request for entry in Recording.load(file).calls]
    assert [len(turns or ()) for turns in read] == [1, 1, 1, 2]


def test_a_session_that_is_put_back_is_replayed_without_the_later_turns(file: Path) -> None:
    with host_of(file) as host, host.executor(request="Read.") as tools:
        before = tools.session.snapshot()
        tools.request("Send.")
        tools.dispatch(letter())
        tools.session.restore(before)
        tools.dispatch(letter())
        tools.session.reset()
        tools.dispatch(letter())
    assert [len(line["request"]) for line in lines_of(file)] == [2, 1, 0]
    assert replay(file) == ["succeeded", "denied", "denied"]


def test_runs_and_more_sessions_than_are_remembered_each_say_their_request(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MAX_SESSIONS", 1)
    for _ in range(2):
        with host_of(file) as host:
            sessions = [host.executor(session_id=name, request="Send.") for name in "ab"]
            for tools in [*sessions, *sessions]:
                tools.dispatch(letter())
    assert [len(line["request"]) for line in lines_of(file)] == [1] * 8
    assert replay(file) == ["succeeded"] * 8


def test_secrets_of_the_call_and_credentials_are_masked_in_the_request(file: Path) -> None:
    said = "Sign in: my password is hunter3-of-ada, my token hunter2-of-ada."
    with host_of(file) as host, host.executor(principal=ADA, request=said) as tools:
        outcome = tools.dispatch(ToolCall("sign_in", {"password": "hunter3-of-ada"}))
    assert outcome.success
    [line] = lines_of(file)
    assert line["request"][0]["text"] == "Sign in: my password is ***, my token ***."
    assert "hunter" not in file.read_text(encoding="utf-8")


def test_a_call_without_a_request_has_no_field_for_it(file: Path) -> None:
    with host_of(file) as host, host.executor() as tools:
        tools.dispatch(letter())
    [line] = lines_of(file)
    assert "request" not in line
    assert "principal" not in line


def test_a_turn_that_a_conversation_recorded_keeps_who_and_when(file: Path) -> None:
    with host_of(file) as host, host.executor() as tools:
        at = host.clock.now()
        tools.request(RequestTurn("Send it.", at, "bob", "mcp"))
        tools.dispatch(letter())
    [entry] = Recording.load(file).calls
    assert entry.request == (RequestTurn("Send it.", at, "bob", "mcp"),)
