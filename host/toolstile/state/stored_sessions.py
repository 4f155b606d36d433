"""The stored sessions of a host: one `Session` object for each id."""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import WeakValueDictionary

from toolstile.state.session import Session
from toolstile_hookspecs.services.session_store import SessionStore


class StoredSessions:
    """The sessions of a host that a store keeps.

    Args:
        store: The store.
    """

    def __init__(self, store: SessionStore) -> None:
        self.store = store
        self._sessions: WeakValueDictionary[str, Session] = WeakValueDictionary()
        self._lock = threading.Lock()

    def get(self, session_id: str, make: Callable[[str], Session]) -> Session:
        """Return the one session of an id, as the store has it.

        Raises:
            StateError: The store cannot be read.
        """
        with self._lock:
            session = self._sessions.get(session_id)
            if session is None:
                session = make(session_id)
                session.record_in(self.store)
                self._sessions[session_id] = session
            return session

    def leave(self) -> None:
        """Condense what is long, for those who open it next."""
        for session in list(self._sessions.values()):
            if session.journal is not None:
                session.journal.condense()
