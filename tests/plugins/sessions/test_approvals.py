"""An approval that is given later is used up in the decision that keeps its call."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from toolstile import Executor, Host, Settings
from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalRequest,
    CallRefused,
    ConfigurationError,
    Outcome,
    Status,
    ToolCall,
    ToolContext,
    hookimpl,
    tool,
)
from toolstile_hookspecs.services.session_store import Decision
from toolstile_plugins.sessions.sqlite import SqliteSessions

from .conftest import Note, texts

KEY = "a key of these tests, of more than 32 characters"


@dataclass
class Yard:
    """The course of handlers and plugins of these hosts, and what has run."""

    ran: list[str] = field(default_factory=list[str])
    faults: list[str] = field(default_factory=list[str])
    meeting: threading.Barrier | None = None


yard = Yard()


@tool(requires_confirmation=True, timeout=None)
def send(text: str, *, context: ToolContext) -> str:
    """Send something, and note it."""
    yard.ran.append(text)
    if yard.meeting is not None:
        yard.meeting.wait(30)
    if "handler" in yard.faults:
        yard.faults.remove("handler")
        raise ValueError(text)
    context.session[Note].append(Note(text))
    return text


@tool(requires_confirmation=True, category="read")
def look() -> str:
    """Change nothing."""
    yard.ran.append("look")
    return "seen"


class Refusing:
    """A plugin that takes part in each decision, and refuses it once where that is wanted."""

    name, waits, contributes = "the plugin", False, True

    def prepare(self) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...

    def contribute(self, decision: Decision) -> None:
        if "decision" in yard.faults:
            yard.faults.remove("decision")
            raise CallRefused("Not now. Retry.")

    @hookimpl
    def toolstile_snapshot(self) -> Refusing:
        return self


def later(request: ApprovalRequest) -> ApprovalAnswer:
    return ApprovalAnswer.pending()


class House:
    """Hosts on one file, which take each other's tokens where they have a key."""

    def __init__(self, file: Path, stack: ExitStack, noted: str) -> None:
        self.file = file
        self.key: dict[str, Any] = {} if noted == "in memory" else {"approval_key": KEY}
        if noted == "in the file":
            self.key["approval_spent"] = file
        self._stack = stack

    def open(self, **more: Any) -> Executor:
        settings = Settings.model_validate(
            {"plugins": {"sessions": {"path": self.file}}, **self.key, **more}
        )
        host = Host(
            settings=settings,
            discover=["sessions"],
            tools=[send, look],
            plugins=[Refusing()],
            approver=later,
        )
        executor = self._stack.enter_context(host).executor(session_id="s")
        return self._stack.enter_context(executor)

    def noted(self) -> int:
        """Return the number of tokens that were noted in the file."""
        with closing(sqlite3.connect(self.file)) as database:
            tables = "SELECT name FROM sqlite_master WHERE name IN ('spent', 'toolstile_counts')"
            return sum(
                database.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
                for (name,) in database.execute(tables).fetchall()
            )


@pytest.fixture(autouse=True)
def fresh() -> None:
    yard.__init__()  # type: ignore[misc]


@pytest.fixture(params=["in the file", "in the counter", "in memory"])
def house(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[House]:
    with ExitStack() as stack:
        yield House(tmp_path / "state.db", stack, request.param)


@pytest.fixture(params=["in the file", "in the counter"])
def shared(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[House]:
    with ExitStack() as stack:
        yield House(tmp_path / "state.db", stack, request.param)


def ask(tools: Executor, name: str = "send", **arguments: Any) -> Outcome:
    waits = tools.dispatch(ToolCall(name, arguments))
    assert waits.status is Status.PENDING
    return waits


def resume(tools: Executor, waits: Outcome, answer: Any = True) -> Outcome:
    token = waits.approval_token
    assert token is not None
    return tools.resume(waits.call, token, answer)


def is_used(outcome: Outcome) -> bool:
    attributes = outcome.event.attributes
    return outcome.status is Status.DENIED and attributes["toolstile.approval"] == "refused"


@pytest.mark.parametrize(("name", "arguments"), [("send", {"text": "a"}), ("look", {})])
def test_a_call_that_is_kept_uses_its_approval_up(house, name, arguments):
    tools = house.open()
    waits = ask(tools, name, **arguments)
    assert resume(tools, waits).success
    assert house.noted() == bool(house.key)
    again = resume(tools, waits)
    assert is_used(again)
    assert "used before: it is valid for one call. Nothing has run." in again.text
    assert len(yard.ran) == 1


@pytest.mark.parametrize("fault", ["handler", "decision"])
def test_a_call_that_is_rolled_back_leaves_it_as_it_was(house, fault):
    tools = house.open()
    waits = ask(tools, text="a")
    yard.faults.append(fault)
    assert not resume(tools, waits).success
    assert texts(tools) == []
    assert house.noted() == 0
    assert resume(tools, waits).success
    assert texts(tools) == ["a"]
    assert is_used(resume(tools, waits))
    assert yard.ran == ["a", "a"]


def test_a_decision_that_the_store_cannot_keep_leaves_it_as_it_was(house, monkeypatch):
    tools = house.open()
    waits = ask(tools, text="a")

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("toolstile_plugins.sessions.sqlite.SqliteDecision.append", fail)
        assert "the disk is full" in resume(tools, waits).text
    assert resume(tools, waits).success
    assert texts(tools) == ["a"]


def test_of_two_hosts_that_use_it_at_once_one_wins_and_the_other_is_told(shared):
    one, two = shared.open(), shared.open()
    waits = ask(one, text="a")
    yard.meeting = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda tools: resume(tools, waits), [one, two]))
    (kept,) = [each for each in outcomes if each.success]
    (told,) = [each for each in outcomes if each is not kept]
    assert is_used(told)
    assert "used before: it is valid for one call. Nothing of it is kept. Call send" in told.text
    one.session.journal.catch_up()
    assert texts(one) == ["a"]
    assert shared.noted() == 1


def test_of_many_threads_of_a_host_one_runs_it(house):
    tools = house.open()
    waits = ask(tools, text="a")
    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(lambda _: resume(tools, waits), range(24)))
    assert sum(each.success for each in outcomes) == 1
    assert sum(map(is_used, outcomes)) == 23
    assert yard.ran == ["a"]
    assert texts(tools) == ["a"]


def test_a_denial_uses_it_up_at_once(house):
    tools = house.open()
    waits = ask(tools, text="a")
    denied = resume(tools, waits, ApprovalAnswer.deny("Too early"))
    assert "did not approve send: Too early." in denied.text
    assert is_used(resume(tools, waits))
    assert yard.ran == []


def test_asked_again_the_call_waits_with_another_token(house):
    tools = house.open()
    first = ask(tools, text="a")
    second = resume(tools, first, ApprovalAnswer.pending())
    assert second.status is Status.PENDING
    assert is_used(resume(tools, first))
    assert resume(tools, second).success
    assert texts(tools) == ["a"]


def test_a_session_in_memory_uses_it_up_before_the_handler_runs(shared):
    shared.open()
    settings = Settings.model_validate(
        {"plugins": {"sessions": {"path": shared.file}}, **shared.key}
    )
    with (
        Host(settings=settings, discover=["sessions"], tools=[send], approver=later) as host,
        host.executor() as tools,
    ):
        waits = ask(tools, text="a")
        yard.faults.append("handler")
        assert not resume(tools, waits).success
        assert shared.noted() == 1
        assert is_used(resume(tools, waits))


def test_a_dry_run_leaves_nothing_of_it_in_the_session(shared):
    tools = shared.open()
    host = Host(
        settings=Settings.model_validate({"plugins": {"sessions": {"path": shared.file}}}),
        discover=["sessions"],
        tools=[look],
        approver=later,
    )
    with host, host.executor(session_id="s", dry_run=True) as trying:
        waits = ask(trying, "look")
        assert resume(trying, waits).success
        assert is_used(resume(trying, waits))
    assert texts(tools) == []
    with closing(SqliteSessions(shared.file)) as store:
        assert store.sessions() == []


def test_approvals_in_another_file_keep_the_host_from_opening(shared, tmp_path):
    elsewhere = tmp_path / "spent.db"
    with pytest.raises(ConfigurationError, match=r"state\.db, and not in .*spent\.db\. Give appr"):
        shared.open(approval_spent=elsewhere)
    assert not elsewhere.exists()


def test_a_key_without_a_place_for_used_approvals_keeps_the_host_from_opening():
    host = Host(settings=Settings(approval_key=KEY), discover=["sessions"])
    with pytest.raises(ConfigurationError, match="no sessions are stored here"):
        host.open()
