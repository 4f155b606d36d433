"""Stored sessions: catching up before a fork, and a decision with the ledger's record."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from full_host import full_host, sections_of
from measuring import Block, Case, Effort, Probe, Row, compare, in_time, timed
from workload import ADD_ARGUMENTS, add

from toolstile import Executor, Prompt
from toolstile_hookspecs import (
    Binding,
    IdempotencyConfig,
    Tool,
    ToolCall,
    ToolContext,
    tool,
)
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_plugins.ledger import EffectLedger
from toolstile_plugins.ledger.stores.sqlite import SqliteStore
from toolstile_plugins.sessions.sqlite import SqliteSessions

CATCH_UP: Final = 8
"""Microseconds that a look for the entries of others may take before a fork."""
CATCH_UP_GOAL: Final = 4
DECISION: Final = 1.3
"""The most that a decision with record and entry may cost, in times of the record alone."""
FLAT: Final = 1.1
ENTRIES: Final = (100, 10_000)

_files = count()


@dataclass(frozen=True)
class Sum:
    """An item that a call leaves in its session."""

    value: int


@tool(name="add", timeout=None, idempotency=IdempotencyConfig(scope="call"))
def add_once(a: int, b: int, *, context: ToolContext) -> int:
    """Add two numbers, once, and keep the sum in the session."""
    context.session[Sum].append(Sum(a + b))
    return a + b


def measure_stored(effort: Effort) -> list[Row]:
    """Measure what a stored session adds to calls, at few entries and at many."""
    with tempfile.TemporaryDirectory() as name:
        calling = partial(_calling, Path(name))
        plain = tool(name="add", timeout=None)(add)
        memory = Probe("add: a full host, its session in memory", partial(calling, plain))
        stored = Probe(
            "add: a full host, its session in SQLite", partial(calling, plain, entries=100)
        )
        look = Probe("a catch-up before a fork, in SQLite", partial(_looking, Path(name)))
        alone = Probe("add, once: the ledger's record alone", partial(calling, add_once))
        few, many = (
            Probe(
                f"add, once: a decision with record and entry, at {entries:,} entries",
                partial(calling, add_once, entries=entries),
            )
            for entries in ENTRIES
        )
        flat = replace(many, name=f"{many.name}, against {ENTRIES[0]:,}")
        *rows, looked = compare([Case(stored, memory), Case(look, memory)], effort)
        return [
            *rows,
            in_time(looked, "us", CATCH_UP, CATCH_UP_GOAL),
            *compare([Case(few, alone, DECISION), Case(many, alone, DECISION)], effort),
            compare([Case(flat, few, FLAT)], effort)[-1],
        ]


@contextmanager
def _looking(folder: Path) -> Iterator[Block]:
    """Give what looks for entries of other hosts, as each call does before its fork."""
    with _executor(folder, tool(name="add", timeout=None)(add), 100) as executor:
        journal = executor.session.journal
        assert journal is not None
        yield timed(lambda: journal.is_behind)


@contextmanager
def _calling(folder: Path, called: Tool[Any, Any], entries: int | None = None) -> Iterator[Block]:
    """Give what calls a tool, in a session of so many entries; None keeps it in memory."""
    with _executor(folder, called, entries) as executor:
        assert executor.dispatch(ToolCall("add", ADD_ARGUMENTS)).success
        yield timed(lambda: executor.dispatch(ToolCall("add", ADD_ARGUMENTS)))


@contextmanager
def _executor(folder: Path, called: Tool[Any, Any], entries: int | None) -> Iterator[Executor]:
    file = folder / f"{next(_files)}.db"
    ledger = EffectLedger(SqliteStore(file, durability="process"))
    resources: list[Binding[Any]] = [Binding.instance(EffectLedger, ledger)]
    prompt = Prompt.of("bench", "bench", sections_of(called))
    with closing(SqliteSessions(file, durability="process")) as store:
        if entries is not None:
            resources.append(Binding.instance(SessionStore, store))  # type: ignore[type-abstract]
        with (
            full_host(resources=resources) as host,
            host.executor(prompt=prompt, session_id="bench") as executor,
        ):
            for number in range(entries or 0):
                executor.session[Sum].append(Sum(number))
            yield executor
        ledger.shut()
