"""One SQLite file for sessions, effects, questions and queued calls; or none, with `memory`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import ConfigurationError, IdempotencyConfig, ToolCall, ToolContext, tool
from toolstile_hookspecs.services.approval_store import QuestionState
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_plugins.database.settings import DatabaseSettings
from toolstile_plugins.inbox import Inbox
from toolstile_plugins.workers.local import LocalDispatcher
from toolstile_plugins.workers.settings import WorkersSettings, dispatcher_of

RUNS: list[str] = []


@tool(idempotency=IdempotencyConfig(scope="global"))
def order(item: str, *, context: ToolContext) -> str:
    """Order something."""
    RUNS.append(item)
    context.session[str].append(item)
    return f"Ordered {item}."


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def host(tables):
    settings = Settings.model_validate({"plugins": tables})
    found = ["database", "inbox", "ledger", "sessions", "workers"]
    return Host(settings=settings, discover=found, tools=[order])


def test_everything_is_in_one_file(tmp_path: Path) -> None:
    RUNS.clear()
    tables = {
        "database": {"path": tmp_path / "state.db"},
        "inbox": {"key": tmp_path / "inbox.key"},
    }
    for _ in range(2):
        with host(tables) as opened, opened.executor(session_id="s") as tools:
            assert tools.dispatch(ToolCall("order", {"item": "tea"})).text == "Ordered tea."
            assert list(tools.resources.get(Inbox).store.questions({QuestionState.WAITING})) == []
            dispatcher = dispatcher_of(opened.settings("workers"), opened)
            assert isinstance(dispatcher, LocalDispatcher)
            assert dispatcher.find("none") is None
            dispatcher.close()
            store = tools.resources.get(SessionStore)
            assert [each.id for each in store.sessions()] == ["s"]
    assert RUNS == ["tea"]
    assert {file.name for file in tmp_path.iterdir() if file.suffix == ".db"} == {"state.db"}
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    names = {"effects", "sessions", "questions", "calls"}
    assert {f"toolstile_{name}" for name in names} <= tables


def test_the_queue_keeps_a_file_that_is_named_for_it(tmp_path: Path) -> None:
    tables = {"database": {"path": tmp_path / "state.db"}}
    with host(tables) as opened:
        settings = WorkersSettings(path=tmp_path / "calls.db")
        dispatcher = dispatcher_of(settings, opened)
        assert dispatcher.find("none") is None
        dispatcher.close()
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".db"] == ["calls.db"]


def test_with_memory_no_file_is_made(tmp_path: Path) -> None:
    RUNS.clear()
    with host({"database": {"memory": True}}) as opened, opened.executor() as tools:
        for _ in range(2):
            assert tools.dispatch(ToolCall("order", {"item": "tea"})).text == "Ordered tea."
    assert RUNS == ["tea"]
    assert list(tmp_path.iterdir()) == []


def test_two_places_are_refused(tmp_path: Path) -> None:
    for more in ({"path": "state.db"}, {"url": "postgresql://x/y"}):
        with pytest.raises(ValueError, match="url, path and memory each name a place"):
            DatabaseSettings.model_validate({"memory": True, **more})


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({"store": "memory"}, r"remove store, and write in \[plugins.database\]: memory = true"),
        (
            {"store": "postgres", "url": "postgresql://u:hidden@x/y"},
            r"remove store and url, and write in \[plugins.database\]: url = ",
        ),
        ({"store": "sqlite", "path": "a.db"}, "remove store; a file needs no store"),
    ],
)
def test_a_store_of_the_ledger_alone_is_refused_with_the_line_to_write(table, line) -> None:
    with pytest.raises(ConfigurationError, match=line) as raised, host({"ledger": table}):
        pass
    assert "hidden" not in str(raised.value)
