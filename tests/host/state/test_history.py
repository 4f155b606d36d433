"""A session keeps the newest events of its calls, within a bound."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import dataclass

import pytest
from hypothesis import given, strategies as st

from toolstile import Host, Session, Settings
from toolstile.state.log_slice import History
from toolstile_hookspecs import MarkdownSection, Prompt, ToolCall, ToolInvoked, tool


@dataclass(frozen=True)
class Event:
    """As much of an event as a history looks at."""

    number: int
    text: str = ""


@tool(category="read")
def echo(text: str) -> str:
    """Return the text."""
    return text


@given(most=st.integers(1, 20), added=st.integers(0, 100))
def test_the_newest_are_kept_and_no_more_than_the_bound(most: int, added: int) -> None:
    history = History(most, 0)
    for number in range(added):
        history.add(Event(number))
    kept = [event.number for event in history.items()]
    assert kept == list(range(added))[-len(kept) :]
    assert len(kept) <= max(most, 2)
    assert len(kept) >= min(added, most // 2)


def test_long_events_are_fewer() -> None:
    history = History(0, 1_000)
    for number in range(100):
        history.add(Event(number, "x" * 100))
    assert 5 <= len(history.items()) <= 10


def test_a_version_that_somebody_reads_stays_as_it_is() -> None:
    history = History(4, 0)
    for number in range(3):
        history.add(Event(number))
    version = history.items()
    seen = list(version)
    for number in range(3, 20):
        history.add(Event(number))
    assert list(version) == seen
    assert version.last().number == 2


def test_a_fork_is_independent_and_has_the_bound() -> None:
    history = History(10, 0)
    for number in range(9):
        history.add(Event(number))
    fork = history.fork()
    for number in range(9, 40):
        fork.add(Event(number))
        assert len(fork.items()) <= 10
    assert [event.number for event in history.items()] == list(range(9))
    assert [event.number for event in fork.items()] == list(range(35, 40))


def test_threads_lose_no_event_that_is_within_the_bound() -> None:
    history = History(1_000_000, 0)

    def add() -> None:
        for number in range(5_000):
            history.add(Event(number))

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
