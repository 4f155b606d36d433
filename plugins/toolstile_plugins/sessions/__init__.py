"""Stored sessions, which several processes share and which outlive them all; counters beside them.

Settings, `[plugins.sessions]`: see `SessionsSettings`. Without a `path` both stay in memory.
`toolstile sessions` lists, shows, exports and deletes stored sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, PrivateAttr

from toolstile_hookspecs import Binding, Command, Diagnostic, Durability, effect_free, hookimpl
from toolstile_hookspecs.services.counter import Counter, OffersCounter
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_plugins.sessions import cli

if TYPE_CHECKING:
    from toolstile_plugins.sessions.sqlite import SqliteSessions


class SessionsSettings(BaseModel):
    """Where sessions are stored, and where limits over several sessions are counted.

    Args:
        path: The file, which the ledger takes, too, so that a call is decided once, with its
            record. None stores nothing, and counts in this host alone.
        durability: The host's; `power` waits for the disk at each call.

    Example:
        >>> SessionsSettings(path=".toolstile/ledger.db").durability
        'power'
    """

    model_config = ConfigDict(extra="forbid")

    path: Path | None = None
    durability: Durability = "power"

    _store: SqliteSessions | None = PrivateAttr(default=None)
    _counter: Counter | None = PrivateAttr(default=None)

    def store(self, path: Path) -> SqliteSessions:
        """Return the one store of these settings."""
        if self._store is None:
            # Late: few hosts store sessions.
            from toolstile_plugins.sessions.sqlite import SqliteSessions

            self._store = SqliteSessions(path, durability=self.durability)
        return self._store

    def counter(self, bound: SessionStore | None = None) -> Counter:
        """Return the one counter of these settings, within the store that is bound."""
        if self._counter is None:
            self._counter = self._counter_in(bound)
        return self._counter

    def _counter_in(self, bound: SessionStore | None) -> Counter:
        # Late: few hosts count.
        from toolstile_plugins.sessions.memory_counter import MemoryCounter

        if bound is None and self.path is None:
            return MemoryCounter()
        if isinstance(bound, OffersCounter):
            return bound.counter()
        from toolstile_plugins.sessions.sqlite import SqliteSessions
        from toolstile_plugins.sessions.sqlite_counter import SqliteCounter

        if isinstance(bound, SqliteSessions):
            return SqliteCounter(bound)
        return MemoryCounter() if self.path is None else SqliteCounter(self.store(self.path))

    def close(self) -> None:
        """Close the store, if it was used."""
        if self._store is not None:
            self._store.close()


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the settings."""
    return SessionsSettings


@hookimpl
def toolstile_diagnose(
    settings: SessionsSettings, bound: Mapping[type[Any], str]
) -> Iterable[Diagnostic]:
    """Find out whether the store can be used."""
    from toolstile_plugins.sessions.commands import diagnosed  # only `toolstile doctor` asks

    return diagnosed(settings.path, offering=bound.get(SessionStore))


@hookimpl
def toolstile_resources(settings: SessionsSettings) -> list[Binding[Any]]:
    """Offer the store and the counter; bindings of the application replace them."""
    offered: list[Binding[Any]] = [
        Binding[Counter](
            Counter,  # type: ignore[type-abstract]
            lambda resources: settings.counter(resources.get(SessionStore, None)),  # type: ignore[type-abstract]
        )
    ]
    path = settings.path
    if path is not None:
        offered.append(
            Binding[SessionStore](
                SessionStore,  # type: ignore[type-abstract]
                lambda resources: settings.store(path),  # noqa: ARG005 - it needs none
            )
        )
    return offered


@hookimpl
@effect_free
def toolstile_lifespan(settings: SessionsSettings) -> AbstractContextManager[object]:
    """Close the store when the host closes."""
    return closing(settings)


@hookimpl
def toolstile_commands() -> list[Command]:
    """Offer `toolstile sessions`."""
    return cli.commands(Command)
