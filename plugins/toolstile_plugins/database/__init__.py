"""One PostgreSQL database for all that hosts on many machines share.

Settings, `[plugins.database]`: see `DatabaseSettings`. Without a `url` nothing is offered.
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

__all__ = ["DatabaseSettings"]


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the settings."""
    return DatabaseSettings


@hookimpl
def toolstile_diagnose(
    host: HostHandle, settings: DatabaseSettings, bound: Mapping[type[Any], str]
) -> Iterable[Diagnostic]:
    """Find out whether the database and its tables can be used, and what is overdue in them."""
    if settings.url is None:
        return ()
    from toolstile_plugins.database.commands import diagnosed  # only `toolstile doctor` asks

    return diagnosed(settings, host, {*bound.values()})


@hookimpl
def toolstile_resources(settings: DatabaseSettings) -> list[Binding[Any]]:
    """Offer the stores in the database; bindings of the application replace them."""
    if settings.url is None:
        return []
    return [
        Binding[SessionStore](
            SessionStore,  # type: ignore[type-abstract]
            lambda resources: settings.sessions(),  # noqa: ARG005 - it needs none
        ),
        Binding[LedgerStore](
            LedgerStore,  # type: ignore[type-abstract]
            lambda resources: settings.ledger(),  # noqa: ARG005 - it needs none
        ),
    ]


@hookimpl
@effect_free
def toolstile_lifespan(settings: DatabaseSettings) -> AbstractContextManager[object]:
    """Close the connections when the host closes."""
    return closing(settings)


@hookimpl
def toolstile_commands() -> list[Command]:
    """Offer `toolstile database`."""
    return cli.commands(Command)
