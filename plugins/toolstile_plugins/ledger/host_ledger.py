"""The one ledger of a host, with its file or store."""

from __future__ import annotations

import logging
import threading
from datetime import datetime
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING

from toolstile_hookspecs import (
    NOTICE,
    Clock,
    ConfigurationError,
    HostHandle,
    ResourceResolver,
    SystemClock,
)
from toolstile_hookspecs.services.ledger import LedgerStore
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_hookspecs.support.process import deferred_interrupts
from toolstile_plugins.ledger.api import EffectLedger
from toolstile_plugins.ledger.settings import LedgerSettings

if TYPE_CHECKING:
    from toolstile_plugins.ledger.stores.sqlite import SqliteStore

log = logging.getLogger("toolstile.ledger")


class HostLedger:
    """Opens the one ledger of a host when it is first needed; the state of the plugin.

    Args:
        settings: The settings.
        host: The host; None for one that is not open.
    """

    def __init__(self, settings: LedgerSettings, host: HostHandle | None = None) -> None:
        self._settings = settings
        self._clock: Clock = SystemClock() if host is None else host.clock
        self._looks = host is not None and host.purpose == "look"
        self._ledger: EffectLedger | None = None
        self._lock = threading.Lock()

    @deferred_interrupts()
    def ledger(self, resources: ResourceResolver) -> EffectLedger:
        """Return the ledger, in the store that a plugin or the application binds, else in a file.

        Raises:
            ConfigurationError: The ledger's own file has entries that still count, and stored
                sessions keep the ledger in another file.
        """
        with self._lock:
            if self._ledger is None:
                store: LedgerStore | None = resources.get(LedgerStore, None)  # type: ignore[type-abstract]
                if store is None:
                    store = self._file_store(resources)
                elif unused := self._settings.unused:
                    class_ = type(store)
                    log.warning(
                        "The ledger is kept in the store that is offered, %s: %s of "
                        "[plugins.ledger] is not used. Remove it there, or the plugin that offers "
                        "the store.",
                        f"{class_.__qualname__} of {class_.__module__}",
                        " and ".join(unused),
                        extra=NOTICE,
                    )
                self._ledger = EffectLedger(store, clock=self._clock, wait=self._settings.wait)
            return self._ledger

    def _file_store(self, resources: ResourceResolver) -> SqliteStore:
        # Late: few hosts record anything.
        from toolstile_plugins.ledger.stores.sqlite import SqliteStore

        settings = self._settings
        file = settings.path
        sessions = resources.get(SessionStore, None)  # type: ignore[type-abstract]
        # Because a call of a stored session is decided once, its record is in the same file.
        if "path" not in settings.model_fields_set and (found := sessions_file(sessions)):
            file = found
            if not self._looks and has_entries_left(settings.path, file, self._clock.now()):
                raise ConfigurationError(
                    f"Stored sessions keep the ledger in {file}, and {settings.path} has entries "
                    "that still count: their calls would run again. Stop the hosts that use it, "
                    f'and run `toolstile ledger move`, or set path = "{settings.path}" in both '
                    "[plugins.ledger] and [plugins.sessions]."
                )
        return SqliteStore(file, durability=settings.durability, lease=settings.lease)

    def close(self) -> None:
        """Close the ledger, if it was used."""
        with self._lock:
            if self._ledger is not None:
                self._ledger.shut()


def sessions_file(store: SessionStore | None) -> Path | None:
    """Return the SQLite file of stored sessions, or None."""
    if (file := getattr(store, "file", None)) is None:
        return None
    from toolstile_plugins.sqlite_file import SqliteFile  # late: few hosts store sessions

    return Path(file.database) if isinstance(file, SqliteFile) else None


def has_entries_left(own: Path, file: Path, now: datetime) -> bool:
    """Tell whether the ledger's own file has entries that still count, beside the file in use."""
    if not own.exists() or realpath(own) == realpath(file):
        return False
    from toolstile_plugins.ledger.stores.sqlite import SqliteStore  # late: few hosts need it

    store = SqliteStore(own)
    try:
        return any(
            each.expires_at is None or each.expires_at > now or each.state == "claimed"
            for each in store.entries()
        )
    finally:
        store.close()
