"""The recorded sessions come out as expected in one process, under both drivers, with faults."""

import asyncio
import json
from contextlib import contextmanager
from itertools import groupby

import pytest

from toolstile import Host
from toolstile_hookspecs import MarkdownSection, ToolCall, ToolContext, hookimpl, tool


@tool
def note(name: str, text: str, *, context: ToolContext) -> str:
    """Write a note and read it again, each by a nested call."""
    context.call("touch", {"file_name": name})
    context.call("echo", {"content": text, "file_name": name})
    return context.call("cat", {"file_name": name}).result.value["file_content"]


class Helper:
    """A plugin that makes nested calls, and fails calls that have run if their id asks for it."""

    @hookimpl
    def toolstile_sections(self):
        return [MarkdownSection(key="notes", title="Notes", tools=[note])]

    @hookimpl
    def toolstile_on_result(self, context):
        if context.tool_call.id.startswith("veto-"):
            msg = "injected fault"
            raise RuntimeError(msg)


@pytest.fixture
def opened(tmp_path):
    """Opens a host and an executor in a session's start state."""

    @contextmanager
    def opened(suites, start):
        table = {"suites": suites, "final_state": str(tmp_path / "final.json")}
        table["start"] = str(tmp_path / "start.json")
        (tmp_path / "start.json").write_text(json.dumps(start))
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in table.items())
        (tmp_path / "toolstile.toml").write_text(f"[plugins.bfcl]\n{lines}\n")
        with Host(config=tmp_path / "toolstile.toml") as host:
            host.register(Helper(), name="helper")
            with host.executor() as tools:
                yield tools

    return opened


@pytest.fixture
def final_state(tmp_path):
    """Reads what was written when the session was closed."""

    def read():
        return json.loads((tmp_path / "final.json").read_text())

    return read


def calls_of(session):
    for turn, values in zip(session["turns"], session["expected"]["results"], strict=True):
        yield from zip(turn["calls"], values, strict=True)


def as_call(call):
    return ToolCall(call["name"], call["arguments"], id=call["id"])


def check(outcome, value):
    assert outcome.success, outcome.text
    assert outcome.envelope()["data"] == value


def vetoed(call):
    return ToolCall(call["name"], call["arguments"], id=f"veto-{call['id']}")


def test_one_by_one(sessions, opened, final_state):
    for session in sessions:
        with opened(session["suites"], session["initial_config"]) as tools:
            for call, value in calls_of(session):
                check(tools.dispatch(as_call(call)), value)
        assert final_state() == session["expected"]["final_state"]


def test_one_by_one_each_after_a_failure_under_the_sync_driver(sessions, opened, final_state):
    for session in sessions:
        with opened(session["suites"], session["initial_config"]) as tools:
            for call, value in calls_of(session):
                assert "injected fault" in tools.dispatch(vetoed(call)).text
                check(tools.dispatch(as_call(call)), value)
        assert final_state() == session["expected"]["final_state"]


def test_one_by_one_each_after_a_failure_under_the_async_driver(sessions, opened, final_state):
    async def drive(tools, session):
        for call, value in calls_of(session):
            assert "injected fault" in (await tools.adispatch(vetoed(call))).text
            check(await tools.adispatch(as_call(call)), value)

    for session in sessions:
        with opened(session["suites"], session["initial_config"]) as tools:
            asyncio.run(drive(tools, session))
        assert final_state() == session["expected"]["final_state"]


def test_calls_that_look_side_by_side(sessions, opened, final_state, tools):
    for session in sessions:
        kinds = {name: tool.category for name, tool in tools(*session["suites"]).items()}
        with opened(session["suites"], session["initial_config"]) as executor:
            for reads, group in groupby(
                calls_of(session), key=lambda each: kinds[each[0]["name"]] == "read"
            ):
                pairs = list(group)
                batches = [pairs] if reads else [[pair] for pair in pairs]
                for batch in batches:
                    outcomes = executor.dispatch_all([as_call(call) for call, _ in batch])
                    for outcome, (_, value) in zip(outcomes, batch, strict=True):
                        check(outcome, value)
        assert final_state() == session["expected"]["final_state"]


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_changes_to_one_backend_side_by_side_are_kept_in_call_order(opened, final_state, driver):
    calls = [ToolCall("post_tweet", {"content": str(number)}) for number in range(8)]
    start = {"TwitterAPI": {"authenticated": True, "username": "john", "password": "john123"}}
    with opened(["TwitterAPI"], start) as tools:
        if driver == "sync":
            outcomes = tools.dispatch_all(calls)
        else:
            outcomes = asyncio.run(tools.adispatch_all(calls))
        assert [outcome.text for outcome in outcomes if not outcome.success] == []
        numbers = [outcome.result.value["id"] for outcome in outcomes]
    assert numbers == sorted(set(numbers))
    tweets = final_state()["TwitterAPI"]["tweets"]
    assert [tweets[str(number)]["content"] for number in numbers] == [str(n) for n in range(8)]


def test_what_nested_calls_change_is_seen_by_the_next_and_kept_with_their_caller(
    opened, final_state
):
    with opened(["GorillaFileSystem"], {}) as tools:
        check(tools.dispatch(ToolCall("note", {"name": "a", "text": "one"})), "one")
        failed = tools.dispatch(ToolCall("note", {"name": "b", "text": "two"}, id="veto-1"))
        assert not failed.success
        check(asyncio.run(tools.adispatch(ToolCall("note", {"name": "c", "text": "3"}))), "3")
    contents = final_state()["GorillaFileSystem"]["root"]["contents"]
    assert {name: file["content"] for name, file in contents.items()} == {"a": "one", "c": "3"}
