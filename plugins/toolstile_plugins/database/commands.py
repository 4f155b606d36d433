"""The commands of `toolstile database`, and the findings of `toolstile doctor`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Final

from toolstile_hookspecs import ConfigurationError, Diagnostic, HostHandle, StateError
from toolstile_plugins.database.postgres_database import is_pooled
from toolstile_plugins.database.schema import Part, found_in, parts_in, script, upgrade
from toolstile_plugins.database.session_store import APPROVALS, COUNTS, SESSIONS, STOPS
from toolstile_plugins.database.settings import DatabaseSettings
from toolstile_plugins.database.stores import DatabaseStores
from toolstile_plugins.inbox.doctor import lost_questions
from toolstile_plugins.ledger.doctor import effects_found
from toolstile_plugins.ledger.stores.postgres import LEDGER
from toolstile_plugins.screen import progress, tell
from toolstile_plugins.sessions.sqlite import fault_of_version
from toolstile_plugins.sqlite_file import database_finding
from toolstile_plugins.workers.dbos.tables import WORKERS

if TYPE_CHECKING:
    from toolstile_plugins.database.bounded_connection import BoundedConnection as Connection

PARTS: Final[tuple[Part, ...]] = (SESSIONS, STOPS, COUNTS, LEDGER, APPROVALS, WORKERS)
"""All parts, in the order of their creation."""


def run_command(host: HostHandle, args: argparse.Namespace) -> int:
    """Carry out a command; `ConfigurationError` or `StateError`: the database is unusable."""
    settings: DatabaseSettings = host.settings("database")
    if settings.url is None:
        raise ConfigurationError(
            "No database is configured. Name one in the configuration, as url in "
            "[plugins.database]; then retry."
        )
    command = _check if args.what == "check" else _upgrade
    with closing(DatabaseStores(settings)) as stores:
        return stores.database().on_new_connection(lambda connection: command(connection, args))


def _check(connection: Connection, args: argparse.Namespace) -> int:
    status = 0
    for part, there, fault in parts_in(connection, PARTS):
        status = status if fault is None else 1
        version = None if there is None else there.version
        told = f"They are of version {part.version}." if fault is None else " ".join(fault)
        line = {"part": part.name, "version": version, "known": part.version, "ok": fault is None}
        tell(args, f"{part.name}  {told}", {**line, "text": told})
    return status


def _upgrade(connection: Connection, args: argparse.Namespace) -> int:
    if args.sql:
        sys.stdout.write(script(found_in(connection), PARTS))
        return 0
    with progress("Upgrade") as note:
        changed = upgrade(connection, PARTS, note)
    for part in PARTS:
        is_new = part.name in changed
        told = f"is now of version {part.version}" if is_new else f"was of version {part.version}"
        line = {"part": part.name, "version": part.version, "changed": is_new}
        tell(args, f"{part.name} {told}.", line)
    return 0


# --- toolstile doctor


def diagnosed(
    settings: DatabaseSettings, host: HostHandle, offering: Collection[str]
) -> Iterator[Diagnostic]:
    """Yield findings on the database, the tables of each part, their effects and questions."""
    if settings.path is not None:
        yield database_finding(settings.path, "database", fault_of_version)
        return
    subject, stores = "database", DatabaseStores(settings)
    try:
        database = stores.database()
        parts, is_through_pooler = database.on_new_connection(
            lambda connection: (parts_in(connection, PARTS), is_pooled(connection))
        )
    except (ConfigurationError, StateError) as error:
        yield Diagnostic.error(subject, str(error), "When it is fixed, run this again.")
        return
    reached = f"{database.database} can be reached"
    if is_through_pooler:
        yield Diagnostic.ok(
            subject,
            f"{reached}, through a pooler: so each call asks whether its session has moved, since "
            "a pooler passes on no news.",
        )
    else:
        yield Diagnostic.ok(subject, f"{reached}.")
    for part, _, fault in parts:
        about = f"{subject} {part.name}"
        if fault is None:
            yield Diagnostic.ok(about, f"The tables are of version {part.version}.")
        else:
            yield Diagnostic.error(about, *fault)
        if part is LEDGER and fault is None and "ledger" in offering:
            yield from effects_found(stores.ledger(), host.settings("ledger"))
        if part is APPROVALS and fault is None and "inbox" in offering:
            store = stores.sessions().approvals()
            yield from lost_questions(store, host.settings("inbox"), host)
    stores.close()
