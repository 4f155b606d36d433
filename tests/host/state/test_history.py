"""A session keeps the newest events of its calls, within a bound."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolstile import Host, Session, Settings
from toolstile.state.persistent_list import History
from toolstile_hookspecs import (
    MarkdownSection,
    Prompt,
    Stage,
    Status,
    ToolCall,
    ToolInvoked,
    ToolResult,
    tool,
)
from toolstile_hookspecs.codecs import Codec


def event(number: int, text: str = "") -> ToolInvoked:
    """Return an event with a result of its own text."""
    return ToolInvoked(
        ToolCall("echo", id=str(number)),
        None,
        None,
        ToolResult.error(text),
        Status.ERROR,
        Stage.LOOKUP,
        "s",
        None,
        datetime.now(UTC),
        0.0,
        text=text,
    )


def number_of(event: ToolInvoked) -> int:
    return int(event.call.id)


@tool(category="read")
def echo(text: str) -> str:
    """Return the text."""
    return text


@given(most=st.integers(1, 20), added=st.integers(0, 100))
def test_the_newest_are_kept_and_no_more_than_the_bound(most: int, added: int) -> None:
    history = History(most, 0)
    for number in range(added):
        history.extend([event(number)])
    kept = [*map(number_of, history.items())]
    assert kept == list(range(added))[-len(kept) :]
    assert len(kept) <= max(most, 2)
    assert len(kept) >= min(added, most // 2)


def test_long_events_are_fewer() -> None:
    history = History(0, 1_000)
    for number in range(100):
        history.extend([event(number, "x" * 100)])
    assert 5 <= len(history.items()) <= 10


def test_a_version_that_somebody_reads_stays_as_it_is() -> None:
    history = History(4, 0)
    for number in range(3):
        history.extend([event(number)])
    version = history.items()
    seen = list(version)
    for number in range(3, 20):
        history.extend([event(number)])
    assert list(version) == seen
    assert number_of(version.last()) == 2


def test_a_fork_is_independent_and_has_the_bound() -> None:
    history = History(10, 0)
    for number in range(9):
        history.extend([event(number)])
    fork = history.fork()
    for number in range(9, 40):
        fork.extend([event(number)])
        assert len(fork.items()) <= 10
    assert [*map(number_of, history.items())] == list(range(9))
    assert [*map(number_of, fork.items())] == list(range(35, 40))


def test_threads_lose_no_event_that_is_within_the_bound() -> None:
    history = History(1_000_000, 0)

    def add() -> None:
        for number in range(5_000):
            history.extend([event(number)])

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(history.items()) == 20_000


def dispatched(session: Session | None, count: int, **settings: int) -> list[ToolInvoked]:
    with Host(discover=False, settings=Settings(**settings)) as host:
        section = MarkdownSection(key="e", title="E", tools=[echo])
        prompt = Prompt.of("t", "t", [section])
        given = {} if session is None else {"session": session}
        with host.executor(prompt=prompt, **given) as tools:
            for number in range(count):
                tools.session[int].append(number)
                assert tools.dispatch(ToolCall("echo", {"text": str(number)})).success
            assert len(tools.session[int].all()) == count
            return list(tools.session[ToolInvoked].all())


def test_the_configuration_bounds_the_sessions_that_a_host_makes() -> None:
    events = dispatched(None, 20, history_events=8)
    assert [event.text for event in events] == [str(number) for number in range(16, 20)]


def test_zero_keeps_all() -> None:
    assert len(dispatched(None, 30, history_events=0, history_bytes=0)) == 30


def test_a_session_of_ones_own_has_its_own_bound() -> None:
    assert len(dispatched(Session(history_events=4), 20, history_events=8)) <= 4
    assert len(dispatched(Session(history_events=0, history_bytes=0), 20, history_events=8)) == 20


@dataclass(frozen=True)
class Letter:
    """A value that cannot change."""

    text: str


@dataclass
class Draft:
    """A value that can change."""

    text: str


@tool
def write(text: str) -> Letter:
    """Write a letter."""
    return Letter(text)


@tool
def draft(text: str) -> Draft:
    """Draft a letter."""
    return Draft(text)


@tool
def count(words: dict[str, int]) -> dict[str, int]:
    """Count words."""
    return words


@tool
def fail(text: str) -> str:
    """Fail."""
    raise ValueError(text)


LONG = "x" * 10_000


@pytest.mark.operator_text("its text is made when it is read, and none is to read it before")
@pytest.mark.filterwarnings("ignore:.* has no render")
@pytest.mark.parametrize("made", [write, draft, echo], ids=lambda made: made.name)
def test_a_long_value_is_kept_once(made: Any) -> None:
    with Host(discover=False, tools=[made]) as host, host.executor() as tools:
        event = tools.dispatch(ToolCall(made.name, {"text": LONG})).event
        kept = vars(event)
        held = sum(len(kept.get(name) or "") for name in ("text", "told", "data"))
        value = kept["result"].value if "result" in kept else None
        if value is not None:
            held += len(LONG) if getattr(value, "text", value) is not kept.get("told") else 0
        assert len(LONG) <= held < 2 * len(LONG)
        assert event.result.value is not None
        assert LONG.encode() in (event.data or b"")
        assert LONG in event.text


@pytest.mark.operator_text("its text is made when it is read, and none is to read it before")
@pytest.mark.filterwarnings("ignore:.* has no render")
@pytest.mark.parametrize("made", [write, draft, echo], ids=lambda made: made.name)
def test_params_and_value_are_written_once(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[object] = []
    encode = Codec.encode

    def noted(codec: Codec, value: object) -> bytes:
        written.append(value)
        return encode(codec, value)

    with Host(discover=False, tools=[made]) as host, host.executor() as tools:
        monkeypatch.setattr(Codec, "encode", noted)
        assert tools.dispatch(ToolCall(made.name, {"text": LONG})).success
    assert len(written) == 2


@pytest.mark.filterwarnings("ignore:.* has no render")
@pytest.mark.parametrize(
    "call",
    [
        ToolCall("echo", {"text": LONG}),
        ToolCall("echo", json.dumps({"text": LONG})),
        ToolCall("echo", {"txt": LONG}),
        ToolCall("echo", json.dumps({"txt": LONG})),
        ToolCall("write", {"text": LONG}),
        ToolCall("draft", {"text": LONG}),
        ToolCall("count", {"words": {f"word{number}": number for number in range(1_000)}}),
        ToolCall("fail", {"text": LONG}),
        ToolCall("unknown", json.dumps({"text": LONG})),
        ToolCall("unknown", {"text": LONG}),
    ],
    ids=lambda call: f"{call.name}-{type(call.arguments).__name__}",
)
def test_what_an_event_holds_counts_whatever_became_of_the_call(call: ToolCall) -> None:
    tools_of_all = [echo, write, draft, count, fail]
    settings = Settings(history_events=0, history_bytes=200_000)
    host = Host(discover=False, tools=tools_of_all, settings=settings)
    with host, host.executor() as tools:
        for number in range(100):
            tools.dispatch(replace(call, id=str(number)))
        assert 1 <= len(tools.session[ToolInvoked].all()) <= 20


def test_a_text_is_kept_once() -> None:
    (event,) = dispatched(None, 1)
    assert "data" not in vars(event)
    assert event.text is vars(event)["told"] is event.result.value
    assert event.data == b'"0"'


GROWTH = """
import resource, sys
from toolstile import Host, MarkdownSection, Prompt, ToolCall, tool

@tool(timeout=None)
def add(a: int, b: int) -> int:
    "Add two integers."
    return a + b

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

prompt = Prompt.of("t", "t", [MarkdownSection(key="s", title="S", tools=[add])])
with Host(discover=False) as host, host.executor(prompt=prompt) as tools:
    def run(count):
        for number in range(count):
            tools.dispatch(ToolCall("add", {"a": number, "b": 1}))
    run(30_000)
    before = resident()
    run(int(sys.argv[1]))
    print(resident() - before)
"""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads /proc")
def test_memory_does_not_grow_once_the_bound_is_reached() -> None:
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, "1000000"], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 10_000_000
