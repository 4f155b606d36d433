"""Diagnosis of the ledger's store, for `toolstile doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from toolstile_hookspecs import Diagnostic, LedgerError, Severity, SystemClock
from toolstile_hookspecs.services.ledger import LedgerStore, SettlesUnknown
from toolstile_plugins.ledger.entries import due_of
from toolstile_plugins.ledger.settings import LedgerSettings
from toolstile_plugins.ledger.stores.sqlite import SqliteStore, SqlStore, fault_of
from toolstile_plugins.sqlite_file import database_finding


def diagnosed(
    settings: LedgerSettings, file: Path, *, offering: str | None = None
) -> Iterator[Diagnostic]:
    """Yield findings on the file in use, or on the store that a plugin (`offering`) offers."""
    if offering is not None:
        told = f"The store that is used is offered by plugin {offering}."
        if unused := settings.unused:
            yield Diagnostic.warning(
                "ledger",
                f"{told} So {' and '.join(unused)} of [plugins.ledger] is not.",
                f"Remove it there, or the setting with which {offering} offers a store.",
            )
        else:
            yield Diagnostic.ok("ledger", told)
        return
    found = database_finding(file, "ledger", fault_of)
    yield found
    if file.exists() and found.severity is Severity.OK:
        with closing(SqliteStore(file, lease=settings.lease)) as store:
            yield from effects_found(store, settings)


def effects_found(store: LedgerStore, settings: LedgerSettings) -> Iterator[Diagnostic]:
    """Yield findings on rows that are damaged, and on effects that a person has not settled."""
    now = SystemClock().now()
    try:
        for key in store.damaged() if isinstance(store, SqlStore) else ():
            yield Diagnostic.error(
                "ledger",
                f"The row of the key {key!r} in the table toolstile_effects is damaged.",
                "Find out whether its call has happened, then delete the row, or correct it.",
            )
        entries = store.unsettled() if isinstance(store, SettlesUnknown) else iter(())
        dues = [due_of(entry, settings, now) for entry in entries]
    except LedgerError as error:
        yield Diagnostic.error("ledger", str(error), "When it is fixed, run this again.")
        return
    over = [due for due in dues if due is not None and due.is_over]
    if over:
        yield Diagnostic.warning(
            "ledger",
            f"Unknown effects that a person must resolve: {len(over)}; the first is {min(over)}.",
            "List them with `toolstile ledger list --state unknown`, then resolve them. `toolstile "
            "ledger reconcile` tries owed undos again.",
        )
