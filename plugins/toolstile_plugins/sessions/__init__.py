"""Stored sessions, which several processes share and which outlive them, and counters.

Settings, `[plugins.sessions]`: see `SessionsSettings`. Without a `path` both stay in memory.
`toolstile sessions` lists, shows, exports and deletes stored sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from toolstile_hookspecs import Binding, Command, Diagnostic, effect_free, hookimpl
from toolstile_hookspecs.services.counter import Counter, OffersCounter
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_plugins.sessions import cli
from toolstile_plugins.sessions.counter import MemoryCounter
from toolstile_plugins.sessions.settings import SessionsSettings

if TYPE_CHECKING:
    from toolstile_plugins.sessions.sqlite import SqliteSessions

__all__ = ["SessionsSettings"]


class StoredSessions:
    """The store and the counter of one host, each made at its first use."""

    def __init__(self, settings: SessionsSettings) -> None:
        self._settings = settings
        self._store: SqliteSessions | None = None
        self._counter: Counter | None = None

    def store(self) -> SqliteSessions:
        """Return the one store; the settings have a path."""
        if self._store is None:
            from toolstile_plugins.sessions.sqlite import SqliteSessions  # late: few hosts store

            assert self._settings.path is not None  # noqa: S101 - bound only then
            self._store = SqliteSessions(self._settings.path, durability=self._settings.durability)
        return self._store

    def counter(self, bound: SessionStore | None) -> Counter:
        """Return the one counter, which counts within the store that is bound."""
        if self._counter is None:
            if isinstance(bound, OffersCounter):
                self._counter = bound.counter()
            elif self._settings.path is None:
                self._counter = MemoryCounter()
            else:
                self._counter = self.store().counter()
        return self._counter

    def close(self) -> None:
        if self._store is not None:
            self._store.close()


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return SessionsSettings


@hookimpl
def toolstile_diagnose(
    settings: SessionsSettings, bound: Mapping[type[Any], str]
) -> Iterable[Diagnostic]:
    """Check whether the store can be used."""
    from toolstile_plugins.sessions.commands import diagnosed  # only `toolstile doctor` asks

    return diagnosed(settings.path, offering=bound.get(SessionStore))


@hookimpl
def toolstile_resources(settings: SessionsSettings) -> list[Binding[Any]]:
    """Offer the store and the counter; bindings of the application replace them."""
    # In an open host, the state of the plugin replaces the first binding.
    stored = Binding(StoredSessions, lambda _: StoredSessions(settings))
    counter = Binding[Counter](
        Counter,  # type: ignore[type-abstract]
        lambda resources: resources.get(StoredSessions).counter(resources.get(SessionStore, None)),  # type: ignore[type-abstract]
    )
    if settings.path is None:
        return [stored, counter]
    store = Binding[SessionStore](
        SessionStore,  # type: ignore[type-abstract]
        lambda resources: resources.get(StoredSessions).store(),
    )
    return [stored, counter, store]


@hookimpl
@effect_free
def toolstile_lifespan(settings: SessionsSettings) -> AbstractContextManager[StoredSessions]:
    """Close the store when the host closes."""
    return closing(StoredSessions(settings))


@hookimpl
def toolstile_commands() -> list[Command]:
    """Offer `toolstile sessions`."""
    return cli.commands(Command)
