"""Which session a request belongs to: the process's one, a kept one, or one of its own."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolstile_hookspecs import SessionProtocol
from toolstile_plugins.mcp.server.elicitation_rounds import RequestState
from toolstile_plugins.mcp.server.handles import NEW, SESSION_HEADER, SESSION_META
from toolstile_plugins.mcp.server.principals import principal_of
from toolstile_plugins.mcp.server.requests import RequestContext
from toolstile_plugins.mcp.server.sessions import (
    ServedSession,
    Sessions,
    TooManySessions,
    UnknownSession,
)

NO_META: Final[Mapping[str, Any]] = {}
UNKNOWN: Final = (
    "There is no such session: it has ended, or it is not yours. Begin another with "
    f"_meta[{SESSION_META!r}] = {NEW!r}."
)
FULL: Final = "This server keeps as many sessions as it can. Try again later."


@dataclass(frozen=True, slots=True)
class Chosen:
    """A session for a request.

    Args:
        session: The session; None where one that has just begun would be as good.
        meta: What the result tells of it in `_meta`.
    """

    session: ServedSession | None
    meta: Mapping[str, Any] = field(default_factory=lambda: NO_META)

    @property
    def state(self) -> SessionProtocol | None:
        """The state that calls of the session see, None where it has just begun."""
        return None if self.session is None else self.session.executor.session


class SessionChoice(Protocol):
    """Chooses the session of a request."""

    def for_call(self, context: RequestContext) -> AbstractContextManager[Chosen]:
        """Give the session that a call runs in; it is always there.

        Raises:
            MCPError: When the request names one that there is not.
        """
        ...

    def for_look(self, context: RequestContext) -> AbstractContextManager[Chosen]:
        """Give the session that a request looks at, None for one that has just begun.

        Raises:
            MCPError: When the request names one that there is not.
        """
        ...


class OneSession:
    """One session for all requests: those of the process at the other end of a pipe.

    Args:
        session: The session.
    """

    def __init__(self, session: ServedSession) -> None:
        self._given = nullcontext(Chosen(session))

    def for_call(self, context: RequestContext) -> AbstractContextManager[Chosen]:  # noqa: ARG002 - always that
        """Give the session."""
        return self._given

    for_look = for_call


class NamedSessions:
    """The session that a request names, in `_meta` or the older era's header, or a fresh one.

    Args:
        sessions: Those that are kept.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    @contextmanager
    def for_call(self, context: RequestContext) -> Generator[Chosen]:
        """Give the session that is named, or one that ends with the request."""
        with self.for_look(context) as chosen:
            if chosen.session is not None:
                yield chosen
                return
            answered = RequestState.in_answer(context.params)
            session_id = None if answered is None else answered.session
            with self._sessions.fresh(principal_of(context), session_id) as session:
                yield Chosen(session)

    @contextmanager
    def for_look(self, context: RequestContext) -> Generator[Chosen]:
        """Give the session that is named, if any."""
        principal = principal_of(context)
        header = _header(context)
        asked = (context.meta or {}).get(SESSION_META)
        try:
            if header is not None:
                # The transport has checked whose it is.
                with self._sessions.kept(principal, header, make=True) as session:
                    yield Chosen(session)
            elif asked is None:
                yield Chosen(None)
            else:
                handle = self._handle(context, principal) if asked == NEW else str(asked)
                with self._sessions.kept(principal, handle) as session:
                    yield Chosen(session, {SESSION_META: handle} if asked == NEW else NO_META)
        except UnknownSession:
            raise MCPError(INVALID_PARAMS, UNKNOWN) from None
        except TooManySessions:
            raise MCPError(INTERNAL_ERROR, FULL) from None

    def _handle(self, context: RequestContext, principal: str | None) -> str:
        """Return the handle of a new session, or of that which the request has begun before."""
        answered = RequestState.in_answer(context.params)
        if answered is not None and answered.handle is not None:
            return answered.handle
        return self._sessions.begin(principal)


def _header(context: RequestContext) -> str | None:
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        # It means nothing there, so the transport has not checked it.
        return None
    headers: Mapping[str, str] = getattr(context.request, "headers", {})
    return headers.get(SESSION_HEADER)
