"""The sessions that clients' calls run in: whose they are, how long they live."""

from __future__ import annotations

import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Self

from toolstile_hookspecs import NOTICE, Clock, ExecutorHandle

log = logging.getLogger("toolstile.mcp")

OpenExecutor = Callable[[str | None, str | None], AbstractContextManager[ExecutorHandle]]
"""Makes an executor for a principal, with a session of its own, of the id that is given."""

Key = tuple[str | None, str]


class TooManySessions(Exception):
    """As many sessions are kept as there may be."""


class UnknownSession(Exception):
    """No session of that handle is kept for that principal."""


class ServedSession:
    """A session with what dispatches calls in it; it ends when nobody uses it any more.

    Args:
        executor: Makes the executor.
    """

    def __init__(self, executor: AbstractContextManager[ExecutorHandle]) -> None:
        self._opened = executor
        self.executor = executor.__enter__()
        self.users = 0
        self._has_ended = False

    def used(self) -> AbstractContextManager[ServedSession]:
        """Keep it open within the block."""
        return self

    def __enter__(self) -> Self:
        """Give it, to one user more."""
        self.users += 1
        return self

    def __exit__(self, *_: object) -> None:
        """Take it back."""
        self.users -= 1
        self._close_if_done()

    def end(self) -> None:
        """Close it, as soon as the calls that run in it have ended."""
        if not self._has_ended:
            self._has_ended = True
            self._close_if_done()

    def _close_if_done(self) -> None:
        if self._has_ended and not self.users:
            try:
                self._opened.__exit__(None, None, None)
            except Exception as error:
                # It has ended all the same, and whoever asks next has nothing to do with it. What
                # the exception says may be secret.
                log.exception(
                    "A session of an MCP client could not be closed (%s); it may hold things open.",
                    type(error).__name__,
                    extra=NOTICE,
                )


class Sessions:
    """All sessions of a server; used on its event loop only.

    Args:
        open_executor: Makes what a session's calls are dispatched by.
        clock: Where time comes from.
        timeout: Seconds for which a session is kept while nobody uses it.
        most: How many are kept at a time.
    """

    def __init__(
        self, open_executor: OpenExecutor, clock: Clock, *, timeout: float, most: int
    ) -> None:
        self._open_executor = open_executor
        self._clock = clock
        self._timeout = timeout
        self._most = most
        # In the order in which they were used last.
        self._kept: OrderedDict[Key, ServedSession] = OrderedDict()
        self._used_at: dict[Key, float] = {}

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._kept)

    @contextmanager
    def fresh(
        self, principal: str | None, session_id: str | None = None
    ) -> Generator[ServedSession]:
        """Give a session that nobody else ever sees, and that ends after the block.

        Args:
            principal: Whose it is.
            session_id: Its id, that of one which has ended; made up where none is given.
        """
        session = ServedSession(self._open_executor(principal, session_id))
        try:
            with session.used():
                yield session
        finally:
            session.end()

    def begin(self, principal: str | None) -> str:
        """Keep a new session, and return the handle that nobody can guess.

        Raises:
            TooManySessions: When as many are kept as there may be.
        """
        handle = secrets.token_urlsafe(HANDLE_BYTES)
        self._keep((principal, handle))
        return handle

    @contextmanager
    def kept(
        self, principal: str | None, handle: str, *, make: bool = False
    ) -> Generator[ServedSession]:
        """Give the session of a handle.

        Args:
            principal: Who asks.
            handle: What names it.
            make: Whether to make one where there is none: somebody else vouches for the handle.

        Raises:
            UnknownSession: When there is none, or it is another principal's.
            TooManySessions: When as many are kept as there may be.
        """
        self.sweep()
        key = (principal, handle)
        if key not in self._kept:
            if not make:
                raise UnknownSession
            self._keep(key)
        session = self._kept[key]
        try:
            with session.used():
                yield session
        finally:
            if self._kept.get(key) is session:
                self._touch(key)

    def end(self, principal: str | None, handle: str) -> None:
        """End the session of a handle, where there is one."""
        self._drop((principal, handle))

    def end_all(self) -> None:
        """End all sessions."""
        for key in [*self._kept]:
            self._drop(key)

    def sweep(self) -> None:
        """End the sessions that nobody has used for too long."""
        now = self._clock.monotonic()
        old = [key for key, session in self._old(now) if not session.users]
        for key in old:
            self._drop(key)

    def _old(self, now: float) -> Generator[tuple[Key, ServedSession]]:
        for key, session in self._kept.items():
            if now - self._used_at[key] < self._timeout:
                return
            yield key, session

    def _keep(self, key: Key) -> None:
        self.sweep()
        if len(self._kept) >= self._most:
            raise TooManySessions
        self._kept[key] = ServedSession(self._open_executor(key[0], None))
        self._touch(key)

    def _touch(self, key: Key) -> None:
        self._kept.move_to_end(key)
        self._used_at[key] = self._clock.monotonic()

    def _drop(self, key: Key) -> None:
        session = self._kept.pop(key, None)
        self._used_at.pop(key, None)
        if session is not None:
            session.end()


HANDLE_BYTES: Final = 32
