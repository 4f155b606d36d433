"""The inbox of one open host, and the calls that continue with its answers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from toolstile_hookspecs import (
    NOTICE,
    ConfigurationError,
    Filesystem,
    HostHandle,
    ResourceResolver,
    StateError,
    SystemClock,
    ToolInvoked,
    hookimpl,
)
from toolstile_hookspecs.services.approval_store import (
    ApprovalStore,
    OffersApprovals,
    Question,
    QuestionState,
)
from toolstile_hookspecs.services.filesystem import SupportsDirectories
from toolstile_hookspecs.services.replay import Recorder
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_plugins.inbox.events import Events
from toolstile_plugins.inbox.inbox import Inbox
from toolstile_plugins.inbox.seal import Seal
from toolstile_plugins.inbox.settings import InboxSettings, refuse_within
from toolstile_plugins.inbox.sql import SqliteApprovals

log = logging.getLogger("toolstile.inbox")

_UNUSED: Final = (
    "Questions are kept where sessions are stored, in %s: path of [plugins.inbox] is not used. "
    "Remove it there, and name the file of the key as key."
)
_NO_STORE: Final = (
    "[plugins.inbox] has a key, and nothing that keeps questions. Name a file as path, or a "
    "database as url in [plugins.database]."
)


class Ended:
    """Closes the question of an answered call when the call ends, and records events."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, str], tuple[Inbox, str]] = {}
        self.events: Events | None = None

    def note(self, inbox: Inbox, question: Question, call_id: str) -> None:
        """Note that a call of the same session continues with the answer to a question."""
        self._taken[question.session_id, call_id] = (inbox, question.ticket)

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked) -> None:
        """Close the question of a call that has ended."""
        if (taken := self._taken.pop((event.session_id, event.call_id), None)) is not None:
            inbox, ticket = taken
            inbox.store.end(ticket, QuestionState.RESUMED)
        if self.events is not None:
            self.events.to_record(is_due=False)


class OpenInbox:
    """The inbox of one host; its store and its parts are made at their first use."""

    def __init__(self, settings: InboxSettings, host: HostHandle | None = None) -> None:
        assert settings.key_file is not None  # noqa: S101 - offered only then
        self.ended = Ended()
        self._settings, self._host = settings, host
        self._seal = Seal(settings.key_file, settings.secret)
        self._store: ApprovalStore | None = None
        self._inbox: Inbox | None = None

    def store(self, resources: ResourceResolver) -> ApprovalStore:
        """Return the store of the questions; a store of sessions may offer one.

        Raises:
            ConfigurationError: No store is configured.
        """
        path = self._settings.path
        sessions: SessionStore | None = resources.get(SessionStore, None)  # type: ignore[type-abstract]
        if isinstance(sessions, OffersApprovals):
            if path is not None and self._store is None:
                log.warning(_UNUSED, sessions.database, extra=NOTICE)
            self._store = sessions.approvals()
        elif path is None:
            raise ConfigurationError(_NO_STORE)
        elif self._store is None:
            self._store = SqliteApprovals(path)
        return self._store

    def inbox(self, resources: ResourceResolver) -> Inbox:
        """Return the one inbox.

        Raises:
            ConfigurationError: Tools could read or write its files.
        """
        files: Any = resources.get(Filesystem, None)  # type: ignore[type-abstract]
        if isinstance(files, SupportsDirectories):
            refuse_within(files.directories, self._settings)
        store: ApprovalStore = resources.get(ApprovalStore)  # type: ignore[type-abstract]
        if self._inbox is None:
            host, settings = self._host, self._settings
            clock = SystemClock() if host is None else host.clock
            recorder = resources.get(Recorder, None)
            events = Events(store, self._seal, clock, recorder, settings.interval)
            self._inbox = Inbox(settings, store, self._seal, clock, events, host)
            self.ended.events = events
        return self._inbox

    def key(self, resources: ResourceResolver) -> Seal:
        """Return the key of approvals; refuse a key that opens none of the waiting questions."""
        if self._host is not None and self._host.purpose != "look":
            waiting: Sequence[Question] = ()
            with suppress(StateError, ConfigurationError):  # because each use raises the reason
                waiting = self.store(resources).questions({QuestionState.WAITING})
            self._seal.refuse_other(waiting)
        return self._seal

    def close(self) -> None:
        """Close the store, if it was used."""
        if self._store is not None:
            self._store.close()
