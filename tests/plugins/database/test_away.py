"""A database that goes away keeps those from going on who need it, and nobody else."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import StateError, ToolCall, ToolContext, tool
from toolstile_hookspecs.services.counter import Counter

pytestmark = pytest.mark.slow

RUNS: list[str] = []


@tool(category="write", timeout=None)
def note(text: str, *, context: ToolContext) -> str:
    """Take a note."""
    RUNS.append(text)
    context.session[str].append(text)
    return " ".join(context.session[str].all())


@tool(category="read")
def look() -> str:
    """Look at something that is in no session."""
    return "seen"


@pytest.fixture
def host(url):
    RUNS.clear()
    settings = Settings.model_validate({"plugins": {"database": {"url": url}}})
    with Host(
        settings=settings, discover=["database", "ledger", "sessions"], tools=[note, look]
    ) as opened:
        yield opened


def test_calls_of_stored_sessions_fail_before_they_run_and_go_on_once_it_is_back(host, postgres):
    with ExitStack() as stack:
        tools = stack.enter_context(host.executor(session_id="s"))
        aside = stack.enter_context(host.executor())
        assert tools.dispatch(ToolCall("note", {"text": "a"})).text == "a"
        postgres.stop("fast")
        try:
            started = time.monotonic()
            refused = tools.dispatch(ToolCall("note", {"text": "b"}))
            assert not refused.success
            assert "cannot be used: " in refused.text
            advice = refused.event.attributes["toolstile.for_operator"]
            assert "Start the server or fix plugins.database.url, then retry." in advice
            with pytest.raises(StateError, match="cannot be used"):
                tools.session[str].append("c")
            with pytest.raises(StateError, match="cannot be used"):
                host.executor(session_id="other")
            # Who needs no database is not concerned.
            assert aside.dispatch(ToolCall("look")).text == "seen"
            assert aside.dispatch(ToolCall("note", {"text": "d"})).text == "d"
            # A server that refuses is not waited for.
            assert time.monotonic() - started < 20
        finally:
            postgres.start()
        assert RUNS == ["a", "d"]
        assert tools.dispatch(ToolCall("note", {"text": "e"})).text == "a e"


def test_what_counts_is_there_again_with_the_database(host, postgres):
    with host.executor(session_id="s") as tools:
        counter = tools.resources.get(Counter)
        now = host.clock.now()
        assert counter.reserve("k", 1, 1, None, "first", now=now).granted
        postgres.stop("immediate")
        try:
            with pytest.raises(StateError, match="cannot be used"):
                counter.reserve("k", 1, 1, None, "second", now=now)
        finally:
            postgres.start()
        assert not counter.reserve("k", 1, 1, None, "second", now=now).granted
