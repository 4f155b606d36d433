"""The settings of the ledger, the table `[plugins.ledger]`, and the one ledger of a host."""

from __future__ import annotations

import logging
import threading
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from toolstile_hookspecs import (
    NOTICE,
    Clock,
    ConfigurationError,
    Durability,
    HostHandle,
    ResourceResolver,
    SystemClock,
)
from toolstile_hookspecs.services.ledger import LedgerStore
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_hookspecs.support.process import deferred_interrupts
from toolstile_plugins.ledger.api import EffectLedger
from toolstile_plugins.ledger.stores.memory import MemoryStore

if TYPE_CHECKING:
    from toolstile_plugins.ledger.stores.sqlite import SqliteStore

log = logging.getLogger("toolstile.ledger")

Seconds = Annotated[float, Field(gt=0)]

YEAR: Final = 365 * 24 * 3600
"""In seconds; neither threads nor databases count without end."""
_OWN: Final = ("path", "lease")
"""The settings of the ledger's own file, unused with a store that a plugin offers."""
_REPLACED: Final = {"memory": "memory = true", "postgres": 'url = "postgresql://..."'}
"""The lines of `[plugins.database]` in place of a `store` of earlier versions."""


class OtherTool(BaseModel):
    """A tool that says what became of another tool's calls, `[plugins.ledger.reconcile.TOOL]`.

    Args:
        tool: Its name.
        arguments: Its arguments: `key`, `params`, or a part of them such as `params.item`, each
            under the name that the tool gives it.

    Example:
        >>> OtherTool(tool="find_order", arguments={"reference": "key"}).tool
        'find_order'
    """

    model_config = ConfigDict(extra="forbid")

    tool: str
    arguments: dict[str, str] = Field(default={"key": "key"}, min_length=1)


class LedgerSettings(BaseModel):
    """Where effects are recorded, and who settles those of which nobody knows.

    Args:
        path: A SQLite file; without it, the file of stored sessions if there is one.
            `[plugins.database]` names another place.
        durability: The host's; `power` waits for the disk twice a call.
        lease: Seconds after which the claim of a silent process is given up; at most a year.
        wait: The most seconds that a call waits for another one of the same key, and for what
            became of an unknown effect.
        reconcile: The tools that say what became of others' calls, by the names of those.
        backoff: The least seconds until an effect of which nothing can be told is asked about
            again; the pause grows up to an hour.
        reconcile_every: Seconds between two looks at all unknown effects while a host is open; 0
            for none.
        owner: Who settles what stays unknown, for messages.
        settle_within: Seconds after which an unknown effect is an alarm.

    Example:
        >>> LedgerSettings(lease=10).path
        PosixPath('.toolstile/ledger.db')
    """

    model_config = ConfigDict(extra="forbid")

    path: Path = Path(".toolstile/ledger.db")
    durability: Durability = "power"
    lease: Annotated[Seconds, Field(le=YEAR)] = 30.0
    wait: Seconds = 30.0
    reconcile: dict[str, OtherTool] = Field(default_factory=dict[str, OtherTool])
    backoff: Annotated[Seconds, Field(le=3600)] = 5.0
    reconcile_every: Annotated[float, Field(ge=0, le=YEAR)] = 30.0
    owner: str | None = None
    settle_within: Annotated[Seconds, Field(le=YEAR)] = 3600.0

    # Each host validates settings of its own, so each has a ledger of its own.
    _ledger: EffectLedger | None = PrivateAttr(default=None)
    _offered: LedgerStore | None = PrivateAttr(default=None)
    _clock: Clock | None = PrivateAttr(default=None)
    _beside: Path | None = PrivateAttr(default=None)
    _looks: bool = PrivateAttr(default=False)
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    @model_validator(mode="before")
    @classmethod
    def _refuse_another_place(cls, table: Any) -> Any:
        if not isinstance(table, dict) or not (found := table.keys() & {"store", "url"}):
            return table
        store = "postgres" if "url" in found else str(table["store"])
        line = _REPLACED.get(store)
        instead = (
            f", and write in [plugins.database]: {line}" if line else "; a file needs no store"
        )
        raise ValueError(f"remove {' and '.join(sorted(found))}{instead}")

    def begin(self, host: HostHandle) -> None:
        """Take the clock and the purpose of the host that is opened with them."""
        self._clock = host.clock
        self._looks = host.purpose == "look"

    @property
    def file(self) -> Path:
        """The SQLite file: the path, or the file of stored sessions."""
        return self._beside or self.path

    def join(self, sessions: Path) -> None:
        """Take the file of stored sessions, in which a call is decided, unless a path is named.

        Raises:
            ConfigurationError: The ledger's own file has entries that still count.
        """
        if "path" not in self.model_fields_set:
            self._beside = sessions
            if not self._looks and self.left_behind() is not None:
                raise ConfigurationError(
                    f"Stored sessions keep the ledger in {sessions}, and {self.path} has entries "
                    "that still count: their calls would run again. Stop the hosts that use it, "
                    f'and run `toolstile ledger move`, or set path = "{self.path}" in both '
                    "[plugins.ledger] and [plugins.sessions]."
                )

    def left_behind(self) -> SqliteStore | None:
        """Return the ledger's own file, beside that of the sessions, if entries in it count."""
        if (
            self._beside is None
            or not self.path.exists()
            or realpath(self.path) == realpath(self._beside)
        ):
            return None
        # Late: few runs record anything.
        from toolstile_plugins.ledger.stores.sqlite import SqliteStore

        store, now = SqliteStore(self.path), (self._clock or SystemClock()).now()
        try:
            counts = any(
                each.expires_at is None or each.expires_at > now or each.state == "claimed"
                for each in store.entries()
            )
        finally:
            store.close()
        return store if counts else None

    @deferred_interrupts()
    def ledger(self, offered: LedgerStore | None = None) -> EffectLedger:
        """Return the one ledger of these settings; a store that a plugin offers comes first."""
        with self._lock:
            if self._ledger is None:
                self._offered = offered
                if offered is not None and self.unused:
                    class_ = type(offered)
                    log.warning(
                        "The ledger is kept in the store that is offered, %s: %s of "
                        "[plugins.ledger] is not used. Remove it there, or what offers the store.",
                        f"{class_.__qualname__} of {class_.__module__}",
                        " and ".join(self.unused),
                        extra=NOTICE,
                    )
                store = self._open_store() if offered is None else offered
                self._ledger = EffectLedger(store, clock=self._clock, wait=self.wait)
            return self._ledger

    @property
    def place(self) -> str:
        """Where effects are recorded, for a person to read."""
        if type(self._offered) is MemoryStore:
            return "memory"
        return str(self.file) if self._offered is None else type(self._offered).__qualname__

    @property
    def unused(self) -> list[str]:
        """The settings of the own file, for a host in which a plugin offers another store."""
        return [name for name in _OWN if name in self.model_fields_set]

    def is_empty(self, ledger: EffectLedger) -> bool:
        """Tell whether a ledger is in the file of these settings, and there is none yet."""
        is_own = ledger is self._ledger and self._offered is None
        return is_own and not self.file.exists()

    def shut(self) -> None:
        """Close the ledger, if it was used."""
        with self._lock:
            if self._ledger is not None:
                self._ledger.shut()

    def _open_store(self) -> LedgerStore:
        # Late: few runs record anything.
        from toolstile_plugins.ledger.stores.sqlite import SqliteStore

        return SqliteStore(self.file, durability=self.durability, lease=self.lease)


def sessions_file(resources: ResourceResolver) -> Path | None:
    """Return the SQLite file of stored sessions, or None."""
    store = resources.get(SessionStore, None)  # type: ignore[type-abstract]
    file = getattr(store, "file", None)
    if file is None:
        return None
    from toolstile_plugins.sqlite_file import SqliteFile  # late: few hosts store sessions

    return Path(file.database) if isinstance(file, SqliteFile) else None


def offered_store(resources: ResourceResolver) -> LedgerStore | None:
    """Return the store that a plugin or the application binds, or None."""
    return resources.get(LedgerStore, None)  # type: ignore[type-abstract]
