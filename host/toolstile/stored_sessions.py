"""The sessions of a host; a stored session has one `Session` object for its id."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import ExitStack
from os.path import realpath
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

from toolstile.settings import Settings
from toolstile.state.session import Session
from toolstile_hookspecs import Binding, ConfigurationError, Decider, ResourceResolver
from toolstile_hookspecs.resources import is_borrowed
from toolstile_hookspecs.services.approval_store import OffersApprovalKey
from toolstile_hookspecs.services.counter import Counter
from toolstile_hookspecs.services.session_store import SessionStore

OWN_SESSION: Final = "host"
_NOT_NOTED: Final = (
    "approval_key is given without approval_spent, and no sessions are stored here. Give both, or "
    "store sessions: used approvals are noted where their calls are decided."
)
_NOT_KEPT: Final = (
    "Sessions are stored here, and nothing beside them notes which approvals were used, so an "
    "approval would be lost with this process. Bind a Counter of the same database, as the plugin "
    "sessions does, or give approval_key and approval_spent."
)


class Sessions:
    """The sessions that a host gives to its executors; without a `store` all stay in memory.

    The configuration bounds their histories. `counter` notes used approvals, if neither a file nor
    this host alone does. `key` seals approvals if none is configured.
    """

    def __init__(
        self,
        configuration: Settings,
        store: SessionStore | None = None,
        counter: Counter | None = None,
        key: OffersApprovalKey | None = None,
    ) -> None:
        self.counter = counter
        self.key = key
        self._events, self._bytes = configuration.history_events, configuration.history_bytes
        self.store = store
        self._open: WeakValueDictionary[str, Session] = WeakValueDictionary()
        self._lock = threading.Lock()

    @property
    def own_id(self) -> str | None:
        """The id of the session of `Host.call`; None for a new one, if no sessions are stored."""
        return None if self.store is None else OWN_SESSION

    def get(self, session_id: str | None) -> Session:
        """Return the one session of an id, as the store has it now, or a new one in memory."""
        if self.store is None or session_id is None:
            return self._new(session_id)
        with self._lock:
            session = self._open.get(session_id)
            if session is None:
                session = self._new(session_id)
                session.record_in(self.store)
                self._open[session_id] = session
                return session
        # Not under the lock: workspaces may have commits to finish first.
        if (journal := session.journal) is not None and journal.is_behind:
            journal.catch_up()
        return session

    def read(self, text: str, kinds: Iterable[type[Any]]) -> Session:
        """Return a session that was saved as JSON, in memory; see `Session.from_json`."""
        return Session.from_json(text, kinds=kinds, history=(self._events, self._bytes))

    def leave(self) -> None:
        """Condense a long history, so that the next host opens it quickly."""
        for session in list(self._open.values()):
            if session.journal is not None:
                session.journal.condense()

    def _new(self, session_id: str | None) -> Session:
        return Session(id=session_id, history_events=self._events, history_bytes=self._bytes)


def opened(bindings: Iterable[Binding[Any]], running: ExitStack, settings: Settings) -> Sessions:
    """Return the sessions of a host, stored where a store is bound.

    Of one type, the last binding counts. `running` closes the resources that are built here.
    `ConfigurationError`: a ledger would decide, a counter count, or an approval be used up beside
    the store, a resource locks the file of calls' decisions, or nothing records the approvals that
    hosts with a common key, or one after the other, use up.
    """
    by_type = {binding.kind: binding for binding in bindings}
    wanted: Any = SessionStore
    known = {kind: _known(binding) for kind, binding in by_type.items()}
    locking = {kind: each for kind, each in known.items() if hasattr(each, "locked_file")}
    has_key, keyed = settings.approval_key is not None, OffersApprovalKey in by_type
    needs_counter = has_key and settings.approval_spent is None
    if wanted not in by_type and not (locking or needs_counter or keyed):
        return Sessions(settings)
    from toolstile.resources.bindings import ResourceRegistry  # few hosts store sessions

    resources = ResourceRegistry.of(*by_type.values()).open()
    running.callback(resources.close)
    for kind, each in locking.items():
        resources.check_file(kind, each)
    store: SessionStore | None = resources.get(wanted, None)
    if store is not None and (fault := _beside(store, resources, settings.approval_spent)):
        raise ConfigurationError(fault)
    # Also without a use: a key that other hosts do not share keeps the host from opening.
    offered: OffersApprovalKey | None = resources.get(OffersApprovalKey, None)  # type: ignore[type-abstract]
    if store is None or has_key:
        offered = None
    needs_counter = needs_counter or offered is not None
    counter: Counter | None = resources.get(Counter, None)  # type: ignore[type-abstract]
    if needs_counter and (counter is None or counter.database is None):
        raise ConfigurationError(_NOT_NOTED if offered is None else _NOT_KEPT)
    return Sessions(settings, store, counter if needs_counter else None, offered)


def _beside(store: SessionStore, resources: ResourceResolver, spent: Path | None) -> str | None:
    """Return why a store does not decide all effects of its calls; None if it does."""
    counter: Any = resources.get(Counter, None)  # type: ignore[type-abstract]
    decider: Any = resources.get(Decider, None)  # type: ignore[type-abstract]
    beside = getattr(decider, "database", None)
    if beside is not None and beside != store.database:
        return (
            f"Calls of stored sessions are decided once, in {store.database}, and the ledger would "
            f"decide beside it, in {beside}. Give both the same database, with a store of the "
            "ledger that is a JoinsDecision, or set memory = true in [plugins.database]."
        )
    if spent is not None and realpath(spent) != realpath(store.database or ""):
        return (
            f"Approvals in stored sessions are used up where calls are decided, in "
            f"{store.database}, and not in {spent}. Give approval_spent the same file, or leave "
            "it out."
        )
    return fault_of_counter(counter, store)


def fault_of_counter(counter: Any, store: SessionStore) -> str | None:
    """Return why a counter cannot count beside a store of sessions; None if it can."""
    if counter is None or counter.database is None or getattr(counter, "store", None) is store:
        return None
    return (
        f"Calls of stored sessions are counted where they are decided, within the open transaction "
        f"of {store.database}, and not in {counter.database}. Give the counter the same store, as "
        "its `store` (see CountsWithin), or no database."
    )


def _known(binding: Binding[Any]) -> object:
    """Return a resource if it is built already, else its provider."""
    provider: Any = binding.provider
    return provider(None) if is_borrowed(binding) else provider
