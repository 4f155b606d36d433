"""The sessions a server keeps: how long they live, whose they are, how many there may be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from toolstile_hookspecs import ResourceError
from toolstile_plugins.mcp.server.http import _FairManager
from toolstile_plugins.mcp.server.sessions import FULL, UNKNOWN, Sessions

HOUR = 3600.0


@dataclass
class HeldClock:
    at: float = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def monotonic(self) -> float:
        return self.at


@dataclass
class Opener:
    """Makes executors, and knows which are open."""

    open: set[int] = field(default_factory=set)
    made: int = 0
    broken: set[int] = field(default_factory=set)

    @contextmanager
    def __call__(self, principal: str | None, session_id: str | None) -> Iterator[Any]:
        number = self.made = self.made + 1
        self.open.add(number)
        yield SimpleNamespace(number=number, principal=principal)
        self.open.remove(number)
        if number in self.broken:
            raise ResourceError("its-password was refused")


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
def opener() -> Opener:
    return Opener()


@pytest.fixture
def sessions(clock, opener) -> Sessions:
    return Sessions(opener, clock, timeout=HOUR, most=3)


def _number(sessions: Sessions, principal: str | None, handle: str | None) -> int:
    with sessions.kept(principal, handle) as session:
        executor: Any = session.executor
        return executor.number


def test_a_fresh_session_ends_with_its_request(sessions, opener):
    with sessions.fresh("ada") as session:
        assert session.executor.principal == "ada"
        assert opener.open == {1}
    assert opener.open == set()
    assert len(sessions) == 0


def test_a_fresh_session_stays_open_while_a_call_in_it_is_rolled_back(sessions, opener):
    with sessions.fresh(None) as session:
        call = session
        call.__enter__()
    assert opener.open == {1}
    call.__exit__(None, None, None)
    assert opener.open == set()


def test_a_session_is_kept_until_nobody_has_used_it_for_too_long(sessions, clock, opener):
    handle = sessions.begin(None)
    clock.at += HOUR - 1
    assert _number(sessions, None, handle) == 1
    clock.at += HOUR - 1
    assert _number(sessions, None, handle) == 1
    clock.at += HOUR
    with pytest.raises(MCPError, match=re.escape(UNKNOWN)):
        _number(sessions, None, handle)
    assert opener.open == set()


def test_a_session_in_use_does_not_end(sessions, clock):
    handle = sessions.begin(None)
    with sessions.kept(None, handle):
        clock.at += 2 * HOUR
        sessions.sweep()
        assert _number(sessions, None, handle) == 1
    clock.at += HOUR
    sessions.sweep()
    assert len(sessions) == 0


def test_a_session_is_its_principals_alone(sessions):
    handle = sessions.begin("ada")
    for other in ("bert", None):
        with pytest.raises(MCPError, match=re.escape(UNKNOWN)):
            _number(sessions, other, handle)


def test_there_may_be_so_many_and_room_is_made_when_one_ends(sessions):
    handles = [sessions.begin(None) for _ in range(3)]
    with pytest.raises(MCPError, match=re.escape(FULL)):
        sessions.begin(None)
    sessions.end(None, handles[0])
    assert sessions.begin(None) not in handles


def test_a_principal_has_a_session_without_a_handle(sessions, clock, opener):
    assert [_number(sessions, name, None) for name in ("ada", "bert", None)] == [1, 2, 3]
    assert [_number(sessions, name, None) for name in ("ada", "bert", None)] == [1, 2, 3]
    with pytest.raises(MCPError, match=re.escape(UNKNOWN)):
        _number(sessions, "ada", "")
    clock.at += HOUR
    assert _number(sessions, "ada", None) == 4
    assert opener.open == {4}


def test_nobody_is_shut_out_of_their_own_session_by_those_who_begin_many(sessions):
    for _ in range(3):
        sessions.begin("eve")
    assert _number(sessions, "ada", None) == 4
    assert _number(sessions, "eve", None) == 5


def test_all_end_with_the_server(sessions, opener):
    handles = [sessions.begin(None) for _ in range(3)]
    sessions.end_all()
    assert opener.open == set()
    with pytest.raises(MCPError, match=re.escape(UNKNOWN)):
        _number(sessions, None, handles[0])


def test_all_end_with_the_server_though_one_cannot_be_closed(sessions, opener, caplog):
    for _ in range(3):
        sessions.begin(None)
    opener.broken = {1, 2}
    sessions.end_all()
    assert opener.open == set()
    assert [each.getMessage() for each in caplog.records] == 2 * [
        "A session of an MCP client could not be closed (ResourceError); it may hold things open."
    ]


def test_nobody_hears_that_the_session_of_another_cannot_be_closed(sessions, clock, opener):
    sessions.begin("ada")
    sessions.begin("ada")
    opener.broken = {1}
    clock.at += HOUR
    assert _number(sessions, "bert", sessions.begin("bert")) == 3
    assert opener.open == {3}


def test_the_answer_of_a_call_is_given_though_its_session_cannot_be_closed(sessions, opener):
    opener.broken = {1}
    with sessions.fresh("ada") as session:
        assert session.executor.principal == "ada"
    assert opener.open == set()


PRINCIPALS = ("ada", "bert", None)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "use", "end", "wait"]),
        st.sampled_from(PRINCIPALS),
        st.integers(0, 5),
    ),
    max_size=40,
)


@pytest.mark.slow
@given(STEPS)
def test_whatever_happens_a_handle_leads_to_its_session_or_to_none(steps):
    clock, opener = HeldClock(), Opener()
    sessions = Sessions(opener, clock, timeout=HOUR, most=4)
    begun: list[tuple[str | None, str, int]] = []
    for step, principal, which in steps:
        handle, number = (begun[which][1:]) if which < len(begun) else ("unknown", 0)
        if step == "wait":
            clock.at += which * HOUR / 4
        elif step == "end":
            sessions.end(principal, handle)
        elif step == "begin":
            try:
                begun.append((principal, sessions.begin(principal), opener.made))
            except MCPError:
                assert sum(owner == principal for owner, _, _ in begun) >= 4
        else:
            try:
                found = _number(sessions, principal, handle)
            except MCPError:
                continue
            assert (principal, handle, found) == begun[which]
            assert found == number
        assert len(opener.open) == len(sessions) <= 4 * len(PRINCIPALS)


@pytest.mark.parametrize("nobody", [None, "eve"])
def test_a_principal_that_begins_many_sessions_keeps_no_other_out(sessions, nobody):
    for _ in range(3):
        sessions.begin(nobody)
    with pytest.raises(MCPError, match=re.escape(FULL)):
        sessions.begin(nobody)
    assert [_number(sessions, "ada", sessions.begin("ada")) for _ in range(3)] == [4, 5, 6]


def test_nor_does_it_over_the_transport_of_the_older_era():
    manager = _FairManager(Server("desk"), max_sessions=2)
    admitted: Any = manager._admit_session
    assert [admitted(who) is not None for who in ("eve", "eve", "eve", "ada", "ada", "ada")] == [
        *(True, True, False),
        *(True, True, False),
    ]
    assert manager.max_sessions == 2
    assert admitted(None) is None
