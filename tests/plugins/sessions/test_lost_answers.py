"""The answer to a decision can be lost: the host asks for it, or says that nobody knows."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from toolstile_hookspecs import Binding, Filesystem, Status, ToolContext, tool
from toolstile_hookspecs.errors import StateError
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_plugins.sessions.sqlite import SqliteSessions

from .conftest import Hosts, Note, call, texts


class Unreliable(SqliteSessions):
    """A store whose answers get lost, as on a network."""

    is_lost = False
    is_made = True
    is_away = False

    @contextmanager
    def deciding(self, session_id: str) -> Generator[Any]:
        if not self.is_lost:
            with super().deciding(session_id) as decision:
                yield decision
            return
        self.is_lost = False
        decided = super().deciding(session_id)
        with decided as decision:
            yield decision
            if not self.is_made:
                decision.connection.rollback()
                decision.connection.execute("BEGIN")
        raise StateError("The connection was lost.")

    def decided(self, key: str) -> bool | None:
        if self.is_away:
            raise StateError("The database is away.")
        return super().decided(key)


@tool(category="write", timeout=None)
def write(text: str, *, context: ToolContext) -> str:
    """Write a note and a file."""
    context.session[Note].append(Note(text))
    context.resources.get(Filesystem).write(f"{text}.txt", text)  # type: ignore[type-abstract]
    return text


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolstile.state.journal.PATIENCE", 0.1)


@pytest.fixture
def store(hosts: Hosts) -> Generator[Unreliable]:
    store = Unreliable(hosts.file)
    yield store
    store.close()


@pytest.fixture
def tools(hosts: Hosts, store: Unreliable) -> Any:
    bound = Binding.instance(SessionStore, store)  # type: ignore[type-abstract]
    return hosts.executor(write, resources=[bound])


def test_a_decision_that_was_made_is_kept_though_its_answer_was_lost(tools, store, hosts):
    store.is_lost = True
    assert call(tools, "write", text="a").success
    assert texts(tools) == ["a"]
    assert (hosts.workspace / "a.txt").read_text() == "a"


def test_a_decision_that_was_not_made_is_rolled_back(tools, store, hosts):
    store.is_lost, store.is_made = True, False
    outcome = call(tools, "write", text="a")
    assert not outcome.success
    assert texts(tools) == []
    assert not (hosts.workspace / "a.txt").exists()
    assert call(tools, "write", text="b").success


@pytest.mark.parametrize("is_made", [True, False])
def test_where_nobody_can_say_the_outcome_is_unknown_and_the_session_waits(
    tools, store, hosts, is_made
):
    store.is_lost = store.is_away = True
    store.is_made = is_made
    outcome = call(tools, "write", text="a")
    assert outcome.status == Status.UNKNOWN
    assert "whether its changes were kept is unknown" in outcome.text
    assert not (hosts.workspace / "a.txt").exists()

    refused = call(tools, "write", text="b")
    assert not refused.success
    assert "The database is away." in refused.text

    store.is_away = False
    assert call(tools, "write", text="c").success
    assert texts(tools) == (["a", "c"] if is_made else ["c"])
    assert (hosts.workspace / "a.txt").exists() is is_made
    assert list((hosts.workspace / ".toolstile").glob("commit-*")) == []
