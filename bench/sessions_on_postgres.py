"""Stored sessions in PostgreSQL: looks, decisions and openings, at few entries and at many."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from time import perf_counter, process_time, sleep
from typing import Any, Final

import psycopg
from measuring import Effort, Row
from postgres_server import is_installed, postgres_server

from toolstile import Executor, Host, Settings
from toolstile.state.journal import MANY
from toolstile.state.store import new_decision_id
from toolstile_hookspecs import ToolCall, ToolContext, tool
from toolstile_hookspecs.services.session_store import Entry
from toolstile_hookspecs.stored_names import stored_as
from toolstile_plugins.database.postgres_database import PostgresDatabase
from toolstile_plugins.database.session_store import PostgresSessions

FEW: Final = 100
FLAT: Final = 1.25
"""The most that a decision may cost at many entries, in times of one at few."""
OPENING: Final = 5.0
"""The most that opening a session of many entries may cost, in times of an empty one."""
ONE_MORE: Final = "a host that opens one more session in PostgreSQL"
LOOK: Final = 20
"""Microseconds for a look before a call, which asks the database for nothing."""

_sessions = count()


@stored_as("bench.Sum")
@dataclass(frozen=True)
class Sum:
    """An item that a call leaves in its session."""

    value: int


@tool(timeout=None, contained=True)
def add(a: int, b: int, *, context: ToolContext) -> int:
    """Add two numbers, and keep the sum in the session."""
    context.session[Sum].append(Sum(a + b))
    return a + b


def measure_in_postgres(effort: Effort) -> list[Row]:
    """Measure stored sessions on a server of its own; nothing where none is installed."""
    many = 10_000 if effort.judged else 200
    if not is_installed():
        return []
    with postgres_server() as url:
        few_id, many_id = (_written(url, number) for number in (FEW, many))
        with _opened(url, few_id) as few, _opened(url, many_id) as other:
            decisions = _in_turns(effort, *(_calls(each) for each in (few, other)))
            look = _look(few, effort)
            length = len(other.session[Sum].all())
        # As many as there are at most beside those that are condensed.
        _append(url, many_id, length, MANY - 1)
        openings = {
            what: _in_turns(
                effort,
                opening(url, lambda: f"new {next(_sessions)}"),
                opening(url, lambda: many_id),
            )
            for what, opening in _OPENINGS.items()
        }
    return [
        Row("a look before a call, in PostgreSQL", None, look, look, look * 1e6, LOOK, None, "us"),
        *_rows(
            "a decision in PostgreSQL", f"at {many:,} entries", f"at {FEW} entries", decisions, FLAT
        ),
        *(
            row
            for what, times in openings.items()
            for row in _rows(
                what, f"of {many:,} entries", "that is empty", times, _OPENING_LIMITS.get(what)
            )
        ),
    ]


def _rows(what: str, subject: str, floor: str, times: Any, limit: float | None = None) -> list[Row]:
    of_floor, of_subject = times
    middle = [statistics.median(each) for each in times]
    return [
        Row(f"{what} {floor}", None, min(of_floor), middle[0]),
        Row(
            f"{what} {subject}",
            f"{what} {floor}",
            min(of_subject),
            middle[1],
            statistics.median(b / a for a, b in zip(*times, strict=True)),
            limit,
        ),
    ]


def _in_turns(effort: Effort, *blocks: Callable[[], float]) -> list[list[float]]:
    times: list[list[float]] = [[] for _ in blocks]
    for block in blocks:
        block()
    for _ in range(effort.rounds):
        for block, found in zip(blocks, times, strict=True):
            found.append(block())
    return times


def _calls(executor: Executor, number: int = 40) -> Callable[[], float]:
    def block() -> float:
        started = perf_counter()
        for _ in range(number):
            assert executor.dispatch(ToolCall("add", {"a": 2, "b": 3})).success
        return (perf_counter() - started) / number

    return block


def _opening(url: str, name: Callable[[], str]) -> Callable[[], float]:
    def block() -> float:
        started = perf_counter()
        with _host(url) as host, host.executor(session_id=name()):
            return perf_counter() - started

    return block


def _opening_beside(
    url: str,
    name: Callable[[], str],
    *,
    clock: Callable[[], float] = perf_counter,
    looks: bool = False,
) -> Callable[[], float]:
    """Return what measures an opening, and a look at all items, where another session is open."""

    def block() -> float:
        with _host(url) as host, host.executor(session_id="warm"):
            started = clock()
            with host.executor(session_id=name()) as executor:
                if looks:
                    list(executor.session[Sum].all())
                return clock() - started

    return block


_OPENINGS: Final = {
    "a host that opens a session in PostgreSQL": _opening,
    ONE_MORE: _opening_beside,
    f"{ONE_MORE}, process time": partial(_opening_beside, clock=process_time),
    f"{ONE_MORE} and looks at its items": partial(_opening_beside, looks=True),
}
_OPENING_LIMITS: Final = dict.fromkeys(list(_OPENINGS)[:3], OPENING)


def _look(executor: Executor, effort: Effort) -> float:
    journal = executor.session.journal
    assert journal is not None
    # What others tell is heard by now.
    sleep(0.5 if effort.judged else 0)
    journal.catch_up()
    started = perf_counter()
    for _ in range(1_000):
        assert not journal.is_behind
    return (perf_counter() - started) / 1_000


def _host(url: str) -> Host:
    tables = {"database": {"url": url}}
    return Host(
        settings=Settings.model_validate({"plugins": tables}),
        discover=["database", "sessions", "ledger"],
        tools=[add],
    )


@contextmanager
def _opened(url: str, session_id: str) -> Iterator[Executor]:
    with _host(url) as host, host.executor(session_id=session_id) as executor:
        yield executor


def _written(url: str, number: int) -> str:
    """Store a session of so many entries, as so many calls would have, and condense it."""
    session_id = f"session {number}"
    _append(url, session_id, 0, number)
    with _opened(url, session_id) as executor:
        assert len(executor.session[Sum].all()) == number
    # A session that grew is condensed a hundred entries at a time, whose room is used again.
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM FULL ANALYZE toolstile_sessions")
    return session_id


def _append(url: str, session_id: str, length: int, number: int) -> None:
    """Store so many entries of a session that has so many items, as calls would have."""
    with (
        closing(PostgresSessions(PostgresDatabase(url))) as store,
        store.deciding(session_id) as decision,
    ):
        (*_, newest) = (0, *(entry.number for entry in decision.after(0)))
        for place in range(number):
            change = {"at": length + place, "items": [{"value": 5}]}
            changes = {
                "slices": {"bench.Sum": change},
                "records": [],
                "removed": [],
                "logs": {},
            }
            entry = Entry(newest + place + 1, new_decision_id(), 0, json.dumps(changes))
            decision.append(entry)
