"""Diagnosis of the ledger's store, for `toolstile doctor`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Final

from toolstile_hookspecs import (
    ConfigurationError,
    Diagnostic,
    LedgerError,
    Severity,
    SystemClock,
)
from toolstile_hookspecs.services.ledger import LedgerStore, SettlesUnknown
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.directories import database_finding
from toolstile_plugins.ledger.entries import due_of
from toolstile_plugins.ledger.settings import LedgerSettings
from toolstile_plugins.ledger.stores.sqlite import why_unusable

PATIENCE: Final = 3
"""Seconds to wait for a database."""


def diagnosed(settings: LedgerSettings, *, offering: str | None) -> Iterator[Diagnostic]:
    """Yield a finding on the store in use, which a plugin (`offering`) may bring."""
    if offering is not None:
        yield _offered(offering, settings.unused)
        return
    found = list(_stores(settings))
    yield from found
    is_empty = settings.store == "memory" or (
        settings.store == "sqlite" and not settings.file.exists()
    )
    if not is_empty and all(diagnostic.severity is Severity.OK for diagnostic in found):
        try:
            yield from overdue(settings.ledger().store, settings)
        except ConfigurationError:
            return  # the finding on the store says so
        finally:
            settings.shut()


def _stores(settings: LedgerSettings) -> Iterator[Diagnostic]:
    match settings.store:
        case "memory":
            yield Diagnostic.ok("ledger", "In memory: what was done once is forgotten at the end.")
        case "sqlite":
            yield database_finding(settings.file, "ledger", _fault_of)
        case "postgres":
            yield _reached(settings)


def overdue(store: LedgerStore, settings: LedgerSettings) -> Iterator[Diagnostic]:
    """Yield a finding on effects that somebody should have settled by now."""
    now = SystemClock().now()
    try:
        entries = store.unsettled() if isinstance(store, SettlesUnknown) else iter(())
        dues = [due_of(entry, settings, now) for entry in entries]
    except LedgerError:
        return  # the finding on the store says so
    over = [due for due in dues if due is not None and due.is_over]
    if over:
        yield Diagnostic.warning(
            "ledger",
            f"Unknown effects that somebody has to settle: {len(over)}; the first is {min(over)}.",
            "Look at them with `toolstile ledger list --state unknown`, then settle them.",
        )


def _offered(offering: str, unused: list[str]) -> Diagnostic:
    found = f"The store that is used is offered by plugin {offering}."
    if not unused:
        return Diagnostic.ok("ledger", found)
    return Diagnostic.warning(
        "ledger",
        f"{found} So {' and '.join(unused)} of [plugins.ledger] is not.",
        f"Remove it there, or what has {offering} offer a store.",
    )


def _fault_of(connection: sqlite3.Connection) -> tuple[str, str] | None:
    unusable = why_unusable(connection)
    return unusable and (f"It {unusable.reason}.", unusable.remedy)


def _reached(settings: LedgerSettings) -> Diagnostic:
    subject = "ledger in PostgreSQL"
    if find_spec("psycopg") is None:
        return Diagnostic.error(subject, "psycopg is not installed.", extra_remedy("postgres"))
    import psycopg  # late: an extra

    assert settings.url is not None  # noqa: S101 - validated
    try:
        with psycopg.connect(settings.url.get_secret_value(), connect_timeout=PATIENCE):
            return Diagnostic.ok(subject, "It can be reached.")
    except psycopg.OperationalError as error:
        # Only the first line: it tells of the server, and of no password.
        why = str(error).partition("\n")[0]
    except psycopg.Error as error:
        why = f"{type(error).__name__}; the url may not be right"
    return Diagnostic.error(
        subject, f"It cannot be reached: {why}.", "Start the server, or fix plugins.ledger.url."
    )
