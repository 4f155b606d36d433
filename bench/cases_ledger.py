"""The cost that the ledger adds to a call, empty and full."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from floors import FLOOR_OF_ADD
from full_host import executor_for, full_host
from ledger_on_postgres import measure_claims
from measuring import Block, Case, Effort, Probe, Row, compare, on_top, timed
from workload import ADD_ARGUMENTS, add

from toolstile_hookspecs import Binding, Durability, IdempotencyConfig, ToolCall, tool
from toolstile_hookspecs.services.ledger import Claim, LedgerStore, RecordedResult
from toolstile_plugins.ledger import EffectLedger, MemoryStore
from toolstile_plugins.ledger.api import DAY
from toolstile_plugins.ledger.stores.sqlite import SqliteStore

ON_TOP: Final = {"memory": (21, 10), "SQLite": (70, 40)}
"""The most that each may add, as a multiple of the floor, and the goal."""
FULL: Final = 1.5
FEW: Final = 1_000

Stores = AbstractContextManager[LedgerStore | None]


def measure_ledger(effort: Effort) -> list[Row]:
    """Measure `add` through a full host, recorded and not; and over a ledger that is full."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            *_measure_on_top(Path(folder), effort),
            *_measure_full(Path(folder), effort),
            *measure_claims(effort),
        ]


def _measure_on_top(folder: Path, effort: Effort) -> list[Row]:
    stores: dict[str, Callable[[], Stores]] = {
        "add: a full host, not idempotent": _none,
        "add: a full host with the memory ledger": _memory,
        "add: a full host with the SQLite ledger": partial(_sqlite, folder / "new.db"),
        "add: the same with durability = power": partial(_sqlite, folder / "power.db", "power"),
    }
    cases = [
        Case(Probe(name, partial(_calling, make)), FLOOR_OF_ADD) for name, make in stores.items()
    ]
    rows = compare(cases, effort)
    plain, memory, sqlite, _ = ({row.case: row for row in rows}[name] for name in stores)
    return [
        *rows,
        on_top("add: the memory ledger, on top of a full host", memory, plain, *ON_TOP["memory"]),
        on_top("add: the SQLite ledger, on top of a full host", sqlite, plain, *ON_TOP["SQLite"]),
    ]


def _measure_full(folder: Path, effort: Effort) -> list[Row]:
    few, many = folder / "few.db", folder / "many.db"
    _fill(few, FEW)
    _fill(many, effort.entries)
    base = Probe(
        f"add: the SQLite ledger at {FEW:,} rows", partial(_calling, partial(_sqlite, few))
    )
    full = Probe(
        f"add: the SQLite ledger at {effort.entries:,} rows, full",
        partial(_calling, partial(_sqlite, many)),
    )
    return compare([Case(full, base, FULL)], effort)


@contextmanager
def _calling(make: Callable[[], Stores]) -> Iterator[Block]:
    with make() as store:
        once = IdempotencyConfig(scope="call") if store is not None else None
        timeless = tool(name="add", timeout=None, idempotency=once)(add)
        book = EffectLedger(store)
        bindings = (Binding.instance(EffectLedger, book),)
        with (
            full_host() as host,
            executor_for(host, timeless, resources=bindings) as executor,
        ):
            assert executor.dispatch(ToolCall("add", ADD_ARGUMENTS)).success
            yield timed(lambda: executor.dispatch(ToolCall("add", ADD_ARGUMENTS)))
        book.shut()


@contextmanager
def _none() -> Iterator[LedgerStore | None]:
    yield None


@contextmanager
def _memory() -> Iterator[LedgerStore | None]:
    yield MemoryStore()


@contextmanager
def _sqlite(path: Path, durability: Durability = "process") -> Iterator[LedgerStore | None]:
    with closing(SqliteStore(path, durability=durability)) as store:
        yield store


def _fill(path: Path, rows: int) -> None:
    """Make a ledger of so many effects, as calls would have left it."""
    now = datetime.now(UTC)
    key = f"call/{'s' * 32}/call-1:add:"
    with closing(SqliteStore(path, durability="process")) as store:
        claim = Claim(f"{key}0", "add", "h" * 64, "e" * 32, "s" * 32, "call-1", now)
        store.claim(claim, now=now)
        store.finish(claim.key, claim.effect_id, RecordedResult("", b"42"), now + DAY)
    with closing(sqlite3.connect(path)) as connection, connection:
        columns = [each[1] for each in connection.execute("PRAGMA table_info(toolstile_effects)")]
        rest = ", ".join(columns[1:])
        # Keys at random places of the index, as hashes are.
        connection.execute(
            f"INSERT INTO toolstile_effects (key, {rest}) WITH RECURSIVE n(i) AS "
            "(SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
            f"SELECT ? || lower(hex(randomblob(32))), {rest} FROM toolstile_effects, n",
            (max(rows - 1, 1), key),
        )
