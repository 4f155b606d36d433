"""One place for sessions, effects, questions and queued calls: PostgreSQL, a file, or memory.

Settings, `[plugins.database]`: see `DatabaseSettings`. An empty table offers nothing.
`toolstile database` checks the tables, and upgrades them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, closing
from typing import Any

from pydantic import BaseModel

from toolstile_hookspecs import Binding, Command, Diagnostic, HostHandle, effect_free, hookimpl
from toolstile_hookspecs.services.ledger import LedgerStore
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_plugins.database import cli
from toolstile_plugins.database.settings import DatabaseSettings
from toolstile_plugins.database.stores import DatabaseStores

__all__ = ["DatabaseSettings"]


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return DatabaseSettings


@hookimpl
def toolstile_diagnose(
    host: HostHandle, settings: DatabaseSettings, bound: Mapping[type[Any], str]
) -> Iterable[Diagnostic]:
    """Check whether the database and its tables can be used, and list overdue entries."""
    if settings.memory:
        return [Diagnostic.ok("database", "Effects stay in memory, and are forgotten at the end.")]
    if settings.path is None and settings.url is None:
        return ()
    from toolstile_plugins.database.commands import diagnosed  # only `toolstile doctor` asks

    return diagnosed(settings, host, {*bound.values()})


@hookimpl
def toolstile_resources(settings: DatabaseSettings) -> list[Binding[Any]]:
    """Offer the stores in the database; bindings of the application replace them."""
    sessions = Binding[SessionStore](
        SessionStore,  # type: ignore[type-abstract]
        lambda resources: resources.get(DatabaseStores).sessions(),
    )
    effects = Binding[LedgerStore](
        LedgerStore,  # type: ignore[type-abstract]
        lambda resources: resources.get(DatabaseStores).ledger(),
    )
    # In an open host, the state of the plugin replaces this binding.
    stores = Binding(DatabaseStores, lambda _: DatabaseStores(settings))
    if settings.path is not None:
        return [stores, sessions]  # the ledger joins the sessions in their file
    if settings.url is not None:
        return [stores, sessions, effects]
    return [stores, effects] if settings.memory else []


# First, because other lifespans use the database until they end.
@hookimpl(tryfirst=True)
@effect_free
def toolstile_lifespan(settings: DatabaseSettings) -> AbstractContextManager[DatabaseStores]:
    """Close the connections when the host closes."""
    return closing(DatabaseStores(settings))


@hookimpl
def toolstile_commands() -> list[Command]:
    return cli.commands(Command)
