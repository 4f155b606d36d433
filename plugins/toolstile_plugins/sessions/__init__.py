"""Stored sessions: several processes share a session, which outlives them all.

Settings, `[plugins.sessions]`: see `SessionsSettings`. Without a `path` sessions stay in memory.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, PrivateAttr

from toolstile_hookspecs import Binding, HostHandle, hookimpl
from toolstile_hookspecs.services.session_store import SessionStore


class SessionsSettings(BaseModel):
    """Where sessions are stored.

    Args:
        path: The file; give the one of `[plugins.ledger]`, so that a call is decided once, with
            its record. None stores nothing.
        synchronous: `full` survives also a loss of power; it waits for the disk at each call.

    Example:
        >>> SessionsSettings(path=".toolstile/ledger.db").synchronous
        'normal'
    """

    model_config = ConfigDict(extra="forbid")

    path: Path | None = None
    synchronous: Literal["normal", "full"] = "normal"

    _store: SessionStore | None = PrivateAttr(default=None)

    def store(self, path: Path) -> SessionStore:
        """Return the one store of these settings."""
        if self._store is None:
            # Late: few hosts store sessions.
            from toolstile_plugins.sessions.sqlite import SqliteSessions

            self._store = SqliteSessions(path, synchronous=self.synchronous)
        return self._store

    def close(self) -> None:
        """Close the store, if it was used."""
        if self._store is not None:
            self._store.close()


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the settings."""
    return SessionsSettings


@hookimpl
def toolstile_resources(settings: SessionsSettings) -> list[Binding[Any]]:
    """Offer the store; a binding of the application replaces it."""
    path = settings.path
    if path is None:
        return []
    return [
        Binding[SessionStore](
            SessionStore,  # type: ignore[type-abstract]
            lambda resources: settings.store(path),  # noqa: ARG005 - it needs none
        )
    ]


@hookimpl
@contextmanager
def toolstile_lifespan(host: HostHandle, settings: SessionsSettings) -> Generator[None]:  # noqa: ARG001 - the hook's
    """Close the store when the host closes."""
    try:
        yield
    finally:
        settings.close()
