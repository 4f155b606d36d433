"""The request is a slice that only the executor writes, and that is in nobody's read set."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from toolstile import Executor, Host, Session, Settings
from toolstile_hookspecs import (
    ConfigurationError,
    ExecutorHandle,
    PolicyDecision,
    Principal,
    RequestTurn,
    Secret,
    StateError,
    ToolCall,
    ToolContext,
    tool,
)

ADA = Principal("https://id.example.org", "ada", auth=Secret("hunter2-of-ada"))
THEN = datetime(2026, 1, 15, 10, 30, tzinfo=UTC)


def texts(context: ToolContext) -> list[str]:
    """Return the texts of the request that a call sees."""
    return [turn.text for turn in context.request]


@tool(category="read")
def hear(*, context: ToolContext) -> list[str]:
    """Return the request."""
    return texts(context)


@tool(category="read")
def hear_nested(*, context: ToolContext) -> list[str]:
    """Return the request as a nested call sees it."""
    value: list[str] = context.call("hear").result.value
    return value


@tool(category="read", isolation="process")
def hear_apart(*, context: ToolContext) -> list[str]:
    """Return the request in another process."""
    return texts(context)


@contextmanager
def opened(*tools: Any, policies: Any = (), **options: Any) -> Iterator[Executor]:
    """Open a host with tools, and an executor."""
    with (
        Host(discover=False, tools=tools, policies=policies) as host,
        host.executor(**options) as executor,
    ):
        yield executor


def said(tools: ExecutorHandle, name: str = "hear") -> Any:
    return tools.dispatch(ToolCall(name)).result.value


def test_a_request_grows_by_turns_that_say_who_said_them_and_when() -> None:
    with opened(hear, principal=ADA, request="Book a room.") as tools:
        assert said(tools) == ["Book a room."]
        tools.request(["And a table.", RequestTurn("For two.", THEN, "bob", "mcp")])
        outcome = tools.dispatch(ToolCall("hear"))
    assert outcome.result.value == ["Book a room.", "And a table.", "For two."]
    first, _, last = outcome.event.request
    assert (first.user_id, first.source) == ("ada", ADA.source)
    assert first.at.tzinfo is not None
    assert (last.user_id, last.source, last.at) == ("bob", "mcp", THEN)


def test_without_a_request_contexts_and_events_have_none() -> None:
    with Host(discover=False, tools=[hear]) as host, host.executor() as tools:
        outcome = tools.dispatch(ToolCall("hear"))
        assert outcome.result.value == []
        assert "request" not in vars(outcome.event)
        assert len(tools.session[RequestTurn].all()) == 0


@pytest.mark.parametrize("name", ["hear_nested", "hear_apart"])
def test_nested_and_isolated_handlers_see_the_request(name: str) -> None:
    options: Any = {"discover": ["isolation"], "tools": [hear, hear_nested, hear_apart]}
    with Host(settings=Settings(), **options) as host, host.executor(request="Go on.") as tools:
        assert said(tools, name) == ["Go on."]


def test_a_request_is_part_of_the_session_and_of_its_json() -> None:
    with Host(discover=False, tools=[hear]) as host:
        with host.executor(request="One.") as tools:
            session = tools.session
            before = session.snapshot()
            tools.request("Two.")
        with host.executor(session=session, request="Three.") as tools:
            assert said(tools) == ["One.", "Two.", "Three."]
            saved = Session.from_json(session.snapshot().to_json())
            session.restore(before)
            assert said(tools) == ["One."]
        with host.executor(session=saved) as tools:
            assert said(tools) == ["One.", "Two.", "Three."]


WRITES: dict[str, Callable[[Any], object]] = {
    "append": lambda turns: turns.append(RequestTurn("Pay.", THEN)),
    "seed": lambda turns: turns.seed(RequestTurn("Pay.", THEN)),
    "replace": lambda turns: turns.replace(RequestTurn("Pay.", THEN)),
    "clear": lambda turns: turns.clear(),
    "register": lambda turns: turns.register(str, lambda items, event: items),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_nobody_but_the_executor_writes_it(write: Callable[[Any], object]) -> None:
    @tool(category="write")
    def forge(*, context: ToolContext) -> str:
        """Write into the request."""
        write(context.session[RequestTurn])
        return "forged"

    with opened(hear, forge, request="Read it.") as tools:
        outcome = tools.dispatch(ToolCall("forge"))
        assert not outcome.success
        assert "tools and plugins only read it" in outcome.text
        with pytest.raises(StateError, match="only read it"):
            write(tools.session[RequestTurn])
        assert said(tools) == ["Read it."]


def test_a_handler_that_puts_the_session_back_leaves_the_request() -> None:
    @tool(category="write")
    def forget(*, context: ToolContext) -> str:
        """Empty the session."""
        context.session.reset()
        return "empty"

    with opened(hear, forget, request="Read it.") as tools:
        tools.session[str].append("a")
        assert tools.dispatch(ToolCall("forget")).success
        assert list(tools.session[str].all()) == []
        assert said(tools) == ["Read it."]


@pytest.mark.parametrize("reading", ["request", "snapshot"])
def test_a_turn_that_comes_while_a_call_runs_is_no_conflict_and_is_not_seen(reading: str) -> None:
    began, told = threading.Event(), threading.Event()

    @tool(category="side_effect")
    def wait(*, context: ToolContext) -> list[str]:
        """Read, and wait for a turn."""
        context.session[str].append("ran")
        if reading == "snapshot":
            context.session.snapshot()
        began.set()
        assert told.wait(30)
        return texts(context)

    with opened(hear, wait, request="One.") as tools:
        running = threading.Thread(target=lambda: ended.append(tools.dispatch(ToolCall("wait"))))
        ended: list[Any] = []
        running.start()
        assert began.wait(30)
        tools.request("Two.")
        told.set()
        running.join()
        [outcome] = ended
        assert (outcome.text, outcome.event.reruns) == ("One.", 0)
        assert [turn.text for turn in outcome.event.request] == ["One."]
        assert said(tools) == ["One.", "Two."]


def test_a_dry_run_keeps_no_request() -> None:
    session = Session()
    with opened(hear, session=session, dry_run=True, request="One.") as tools:
        tools.request("Two.")
        assert said(tools) == ["One.", "Two."]
        assert tools.rehearsed() == "no changes"
    assert len(session[RequestTurn].all()) == 0


def test_credentials_are_masked_in_the_request_and_its_text_is_in_no_repr() -> None:
    with opened(hear, principal=ADA, request="Sign in with hunter2-of-ada.") as tools:
        outcome = tools.dispatch(ToolCall("hear"))
        assert outcome.result.value == ["Sign in with ***."]
        assert "hunter2" not in tools.session.snapshot().to_json()
    assert "Sign in" not in repr(outcome.event.request)


@pytest.mark.parametrize("wrong", [7, [7], {"text": 1}.values(), b"text"])
def test_what_is_no_text_is_refused(wrong: Any) -> None:
    with Host(discover=False) as host, host.executor() as tools:
        with pytest.raises(ConfigurationError, match="A request is a text"):
            tools.request(wrong)
        with pytest.raises(ConfigurationError, match="A request is a text"):
            host.executor(request=wrong)


def test_policies_and_approvers_see_it_while_they_decide() -> None:
    class AskedFor:
        name = "asked_for"

        def check(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
            if "hear" in " ".join(texts(context)):
                return PolicyDecision.allow()
            return PolicyDecision.deny("Nobody asked for it.")

        def on_result(self, *given: Any, **context: Any) -> None:
            """Remember nothing."""

    with opened(hear, policies=[AskedFor()], request="Say something.") as tools:
        denied = tools.dispatch(ToolCall("hear"))
        tools.request("I want to hear it.")
        allowed = tools.dispatch_all([ToolCall("hear"), ToolCall("hear")])
    assert denied.text == "Nobody asked for it."
    assert [turn.text for turn in denied.event.request] == ["Say something."]
    assert [getattr(each, "success", False) for each in allowed] == [True, True]


def test_a_stored_session_has_its_request_in_another_host(tmp_path: Path) -> None:
    tables: Any = {"sessions": {"path": str(tmp_path / "sessions.db")}}
    options: Any = {"discover": ["sessions"], "settings": Settings(plugins=tables), "tools": [hear]}
    with Host(**options) as host, host.executor(session_id="s", request="One.") as tools:
        assert said(tools) == ["One."]
    with Host(**options) as other, other.executor(session_id="s") as tools:
        assert said(tools) == ["One."]
