"""The sessions that clients' calls run in: their owners and their lifetime."""

from __future__ import annotations

import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final, Self

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolstile_hookspecs import NOTICE, Clock, ExecutorHandle, HostHandle, Principal, ToolCall
from toolstile_plugins.mcp.server.elicitation import RequestState
from toolstile_plugins.mcp.server.request import RequestContext, current_request, principal_of

log = logging.getLogger("toolstile.mcp")

OpenExecutor = Callable[[Principal | None, str | None], AbstractContextManager[ExecutorHandle]]
"""Makes an executor for a principal, with a new session of the given id."""

Key = tuple[Principal | None, str | None]
"""A principal, and the handle of a session; None is the principal's own session."""


class ServedSession:
    """A session and its executor; it closes after its last user."""

    def __init__(self, executor: AbstractContextManager[ExecutorHandle]) -> None:
        self._opened = executor
        self.executor = executor.__enter__()
        self.users = 0
        self.used_at = 0.0  # the time of its last use, if it is kept
        self._has_ended = False

    def __enter__(self) -> Self:
        self.users += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.users -= 1
        self._close_if_done()

    def end(self) -> None:
        """Close it, as soon as the calls in it have ended."""
        if not self._has_ended:
            self._has_ended = True
            self._close_if_done()

    def _close_if_done(self) -> None:
        if self._has_ended and not self.users:
            try:
                self._opened.__exit__(None, None, None)
            except Exception as error:
                # The session has ended all the same. The exception's text may be secret.
                log.exception(
                    "A session of an MCP client could not be closed (%s); it may hold things open.",
                    type(error).__name__,
                    extra=NOTICE,
                )


class Sessions:
    """All sessions of a server; used on its event loop only.

    An unused session is kept for `timeout` seconds, and `most` with a handle for a principal.
    """

    def __init__(
        self, open_executor: OpenExecutor, clock: Clock, *, timeout: float, most: int
    ) -> None:
        self._open_executor = open_executor
        self._clock = clock
        self._timeout = timeout
        self._most = most
        # In the order of their last use.
        self._kept: OrderedDict[Key, ServedSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    @contextmanager
    def fresh(
        self, principal: Principal | None, session_id: str | None = None
    ) -> Generator[ServedSession]:
        """Yield a session for this block alone.

        `session_id` is the id of a session that has ended, None for a new id.
        """
        session = ServedSession(self._open_executor(principal, session_id))
        try:
            with session:
                yield session
        finally:
            session.end()

    def begin(self, principal: Principal | None) -> str:
        """Keep a new session, and return its unguessable handle; `MCPError` beyond the limit."""
        handle = secrets.token_urlsafe(32)
        self._keep((principal, handle))
        return handle

    @contextmanager
    def kept(
        self, principal: Principal | None, handle: str | None, *, make: bool = False
    ) -> Generator[ServedSession]:
        """Yield the session of a handle; None is the principal's own, which always exists.

        `make` makes a missing session, because the transport vouches for the handle. Raises
        `MCPError` if it does not exist, has another owner, or the principal has too many.
        """
        self.sweep()
        key = (principal, handle)
        if key not in self._kept:
            if not make and handle is not None:
                raise MCPError(INVALID_PARAMS, UNKNOWN)
            self._keep(key)
        session = self._kept[key]
        try:
            with session:
                yield session
        finally:
            if self._kept.get(key) is session:
                self._touch(key)

    def end(self, principal: Principal | None, handle: str) -> None:
        """End the session of a handle, if it exists."""
        self._drop((principal, handle))

    def end_all(self) -> None:
        for key in [*self._kept]:
            self._drop(key)

    def sweep(self) -> None:
        """End the sessions that were unused for too long."""
        before = self._clock.monotonic() - self._timeout
        old = takewhile(lambda item: item[1].used_at <= before, self._kept.items())
        for key in [key for key, session in old if not session.users]:
            self._drop(key)

    def _keep(self, key: Key) -> None:
        self.sweep()
        # Sessions count per principal, and a principal's own session does not count.
        begun = sum(owner == key[0] and handle is not None for owner, handle in self._kept)
        if key[1] is not None and begun >= self._most:
            raise MCPError(INTERNAL_ERROR, FULL)
        self._kept[key] = ServedSession(self._open_executor(key[0], None))
        self._touch(key)

    def _touch(self, key: Key) -> None:
        self._kept.move_to_end(key)
        self._kept[key].used_at = self._clock.monotonic()

    def _drop(self, key: Key) -> None:
        session = self._kept.pop(key, None)
        if session is not None:
            session.end()


# --- Session ids of requests


SESSION_META: Final = "toolstile/session"
"""The session of a request, or the session that it has begun, in `_meta`."""
NEW: Final = "new"
"""The value in a request that begins a session."""
SESSION_HEADER: Final = "mcp-session-id"
"""The header of the older era."""


# --- Choice of a session


UNKNOWN: Final = (
    "This session does not exist: it has ended, or it is not yours. Begin another with "
    f"_meta[{SESSION_META!r}] = {NEW!r}."
)
FULL: Final = "You have as many sessions as this server allows. End one, or try again later."


@dataclass(frozen=True, slots=True)
class Chosen:
    """A session for a request, and its part of the result's `_meta`."""

    session: ServedSession
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def executor(self) -> ExecutorHandle:
        return self.session.executor


class OneSession:
    """One session for all requests: requests of the process at the other end of a pipe."""

    def __init__(self, session: ServedSession) -> None:
        self._given = nullcontext(Chosen(session))

    def of(self, context: RequestContext) -> AbstractContextManager[Chosen]:  # noqa: ARG002 - always that
        return self._given


class NamedSessions:
    """The session that a request names, in `_meta` or the older era's header, else its principal's.

    With `shared`, clients of the older era have their principal's session, too.
    """

    def __init__(self, sessions: Sessions, *, shared: bool = False) -> None:
        self._sessions = sessions
        self._shared = shared

    @contextmanager
    def of(self, context: RequestContext) -> Generator[Chosen]:
        """Yield the session of a request; `MCPError` if it names an unknown session."""
        principal = principal_of(context)
        header = None
        # In the newer era the header has no meaning, so the transport has not checked it.
        if not self._shared and context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            header = getattr(context.request, "headers", {}).get(SESSION_HEADER)
        asked = (context.meta or {}).get(SESSION_META)
        if header is not None:
            # The transport has checked its owner.
            with self._sessions.kept(principal, header, make=True) as session:
                yield Chosen(session)
            return
        answered = RequestState.in_answer(context.params) if asked in (None, NEW) else None
        if asked is not None:
            # An answer is for the session that the request began before.
            handle = None if answered is None else answered.handle
            if asked != NEW:
                handle = str(asked)
            elif handle is None:
                handle = self._sessions.begin(principal)
            with self._sessions.kept(principal, handle) as session:
                yield Chosen(session, {SESSION_META: handle} if asked == NEW else {})
            return
        with self._sessions.kept(principal, None) as session:
            if answered is None or answered.session == session.executor.session.id:
                yield Chosen(session)
                return
        # The session of an answered call may have ended, or another server has begun it.
        with self._sessions.fresh(principal, answered.session) as session:
            yield Chosen(session)


SessionChoice = OneSession | NamedSessions


# --- Executors


def executors_of(host: HostHandle) -> OpenExecutor:
    """Return a function that makes an executor, with a new session, for a principal."""

    def open_executor(
        principal: Principal | None, session_id: str | None
    ) -> AbstractContextManager[ExecutorHandle]:
        return host.executor(session_id=session_id, principal=principal, on_progress=_report)

    return open_executor


def _report(call: ToolCall, done: float, total: float | None, message: str | None) -> None:  # noqa: ARG001 - the request knows
    request = current_request.get()
    if request is not None:
        request.progress.report(done, total, message)
