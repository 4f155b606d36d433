"""A stranger's plugin records within the call's one decision."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import ToolCall

from .spent_tickets import Tickets


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def executors(file: Path) -> Iterator[list[Executor]]:
    settings = Settings.model_validate({"plugins": {"sessions": {"path": file}}})
    with ExitStack() as stack:
        hosts = [
            stack.enter_context(Host(settings=settings, discover=["sessions"], plugins=[Tickets()]))
            for _ in range(2)
        ]
        yield [stack.enter_context(host.executor(session_id="door")) for host in hosts]


def test_a_ticket_is_spent_once_over_hosts_and_threads(executors, file):
    def enter(number: int) -> bool:
        tools = executors[number % 2]
        return tools.dispatch(ToolCall("enter", {"ticket": str(number % 5)})).success

    with ThreadPoolExecutor(8) as pool:
        entered = list(pool.map(enter, range(40)))
    assert sum(entered) == 5
    executors[0].session.journal.catch_up()
    assert sorted(executors[0].session[str].all()) == ["0", "1", "2", "3", "4"]
    with closing(sqlite3.connect(file)) as database:
        spent = dict(database.execute("SELECT ticket, id FROM tickets"))
        decided = {id_ for (id_,) in database.execute("SELECT decision_id FROM toolstile_sessions")}
    assert sorted(spent) == ["0", "1", "2", "3", "4"]
    assert set(spent.values()) <= decided


def test_a_refusal_leaves_nothing_and_says_how_to_go_on(executors):
    assert executors[0].dispatch(ToolCall("enter", {"ticket": "a"})).success
    refused = executors[1].dispatch(ToolCall("enter", {"ticket": "a"}))
    assert not refused.success
    assert refused.text == "The ticket a was used. Get another one, then retry."
    assert list(executors[1].session[str].all()) == ["a"]
