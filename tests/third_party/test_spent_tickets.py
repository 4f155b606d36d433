"""A stranger's plugin records within the call's one decision."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import ToolCall, hookimpl
from toolstile_hookspecs.services.session_store import Decision

from .spent_tickets import Spending, Tickets, enter


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


class Beside(Spending):
    """One that opens the file by itself, and so waits for the decision that it is part of."""

    def __init__(self, file: Path) -> None:
        super().__init__("a")
        self._file = file

    def contribute(self, decision: Decision) -> None:
        with closing(sqlite3.connect(self._file, timeout=0.1)) as database, database:
            super().contribute(Decision(decision.id, database))


def test_one_with_a_connection_of_its_own_is_told_which_file_is_in_the_way(executors, file):
    class Plugin:
        @hookimpl
        def toolstile_snapshot(self) -> Beside:
            return Beside(file)

    settings = Settings.model_validate({"plugins": {"sessions": {"path": file}}})
    with (
        Host(settings=settings, discover=["sessions"], tools=[enter], plugins=[Plugin()]) as host,
        host.executor(session_id="door") as tools,
    ):
        refused = tools.dispatch(ToolCall("enter", {"ticket": "a"}))
        assert not refused.success
        assert "database is locked" in refused.text
        assert file.name in refused.text
        assert str(file) not in refused.text
        assert "other connection of this one, locks it" in refused.text
        assert list(tools.session[str].all()) == []
    assert executors[0].dispatch(ToolCall("enter", {"ticket": "a"})).success


def test_a_refusal_leaves_nothing_and_says_how_to_go_on(executors):
    assert executors[0].dispatch(ToolCall("enter", {"ticket": "a"})).success
    refused = executors[1].dispatch(ToolCall("enter", {"ticket": "a"}))
    assert not refused.success
    assert refused.text == "The ticket a was used. Get another one, then retry."
    assert list(executors[1].session[str].all()) == ["a"]
