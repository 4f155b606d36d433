"""News of the sessions in a database, so that the check before a call costs no round trip."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolstile_hookspecs import StateError
from toolstile_plugins.database.postgres_database import is_pooled, lock_of

if TYPE_CHECKING:
    from toolstile_plugins.database.postgres_database import PostgresDatabase

CHANNEL: Final = "toolstile_sessions"
TRUST: Final = 5.0
"""Seconds after which the database is queried anyway, because a network may lose news."""
_PAUSE: Final = 1.0
_MANY: Final = 1000


@dataclass(slots=True)
class Known:
    """The number of the newest known entry of a session, and the moment of the next query."""

    newest: int = 0
    until: float = 0.0


class Wakeups:
    """Receives other hosts' news of sessions, on a separate thread.

    Without news, through a pooler or on a lost connection, no number is known.
    """

    def __init__(self, held: PostgresDatabase) -> None:
        self._held = held
        self._lock = threading.Lock()
        self._sessions: dict[int, Known] = {}
        self._thread: threading.Thread | None = None
        self._process: int | None = None
        self._socket: socket.socket | None = None
        self._stopping = threading.Event()
        self._is_heard = threading.Event()

    def newest(self, session_id: str) -> int | None:
        """Return the number of a session's newest entry; None if only a query can tell."""
        known = self._sessions.get(lock_of("session", session_id))
        if known is None or time.monotonic() > known.until or not self._is_heard.is_set():
            return None
        return known.newest

    def follow(self, session_id: str) -> Callable[[int], None]:
        """Follow a session before reading it; return a function for the newest number read.

        Until the thread listens, the function does nothing, because later news would be missed.
        """
        self._begin()
        if not self._is_heard.is_set():
            return lambda newest: None  # noqa: ARG005 - the signature of `confirm`
        with self._lock:
            known = self._sessions.setdefault(lock_of("session", session_id), Known())
        before = known.newest

        def confirm(newest: int) -> None:
            # Numbers may fall, because a deleted session restarts at 1.
            known.newest = newest if known.newest == before else max(known.newest, newest)
            known.until = time.monotonic() + TRUST

        return confirm

    def follows(self, session_id: str) -> bool:
        """Tell whether a session is followed."""
        return lock_of("session", session_id) in self._sessions

    def close(self) -> None:
        """End the thread; the next use starts a new thread."""
        thread, self._thread = self._thread, None
        if thread is None or self._process != os.getpid():
            return
        self._stopping.set()
        with self._lock:
            if self._socket is not None:
                # Wakes the thread, which waits for news.
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
        thread.join()

    def _begin(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None:
                    self._process, self._stopping = os.getpid(), threading.Event()
                    self._thread = threading.Thread(
                        target=self._hear,
                        args=(self._stopping,),
                        daemon=True,
                        name="toolstile-news",
                    )
                    self._thread.start()

    def _hear(self, stopping: threading.Event) -> None:
        import psycopg  # late, because the extra `postgres` may be missing

        while not stopping.is_set():
            with suppress(psycopg.Error, StateError), closing(self._held.connect()) as connection:
                if is_pooled(connection):
                    return
                connection.execute(f"LISTEN {CHANNEL}".encode())
                # Because the next news may be far away.
                connection.patience = float("inf")
                with closing(socket.socket(fileno=os.dup(connection.fileno()))) as copy:
                    with self._lock:
                        self._socket = copy
                    try:
                        self._is_heard.set()
                        for news in () if stopping.is_set() else connection.notifies():
                            # Because any user of the database can send a notification.
                            with suppress(ValueError, TypeError):
                                self._note(*map(int, news.payload.split(":")))
                    finally:
                        with self._lock:
                            self._socket = None
            self._is_heard.clear()
            with self._lock:
                self._sessions.clear()
            stopping.wait(_PAUSE)

    def _note(self, session: int, number: int) -> None:
        known = self._sessions.get(session)
        if known is not None:
            known.newest = max(known.newest, number)
        if len(self._sessions) > _MANY:
            with self._lock:
                now = time.monotonic() - TRUST
                for name in [name for name, each in self._sessions.items() if each.until < now]:
                    del self._sessions[name]
