"""How long clients over HTTP may take: until their request has arrived, until they read on."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, cast

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

log = logging.getLogger("toolstile.mcp")

PATIENCE: Final = 60.0
"""Seconds from when a connection stands, or a further request on it begins; from when what a
client has not read is too much to send on, until it has read some of that."""


class PatientProtocol(H11Protocol):
    """HTTP, of which connections are ended where a client neither completes a request nor reads on.

    Each of them holds one of the few files that a process may have open.
    """

    _giving_up: asyncio.TimerHandle | None = None
    _watching: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._look()

    def data_received(self, data: bytes) -> None:
        """Take what has come of a request."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for a further request."""
        super().on_response_complete()
        self._look()
        if self.transport.is_closing():
            self._watch()

    def pause_writing(self) -> None:
        """Wait until the client has read something."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Wait no more, as the client has read; what was sent last it has to read still."""
        super().resume_writing()
        self._watch_no_more()
        if self.transport.is_closing():
            self._watch()

    def timeout_keep_alive_handler(self) -> None:
        """End an idle connection, once the client has read what it was sent."""
        super().timeout_keep_alive_handler()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._wait_no_more()
        self._watch_no_more()
        super().connection_lost(exc)

    def _look(self) -> None:
        if not self._awaits_more() or self.transport.is_closing():
            self._wait_no_more()
        elif self._giving_up is None:
            self._giving_up = self.loop.call_later(PATIENCE, self._give_up)

    def _awaits_more(self) -> bool:
        if self.timeout_keep_alive_task is not None:
            # It is idle between two requests, which the web server ends by itself.
            return False
        # Unlike what is declared, there is none before the first request.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete or cycle.more_body

    def _wait_no_more(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def _give_up(self) -> None:
        log.info("A client's request has not arrived within %g s; it is hung up on.", PATIENCE)
        self.transport.abort()

    def _watch(self) -> None:
        unread = self.transport.get_write_buffer_size()
        if unread and self._watching is None:
            self._watching = self.loop.call_later(PATIENCE, self._look_what_is_read, unread)

    def _watch_no_more(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    def _look_what_is_read(self, unread: int) -> None:
        self._watching = None
        if self.transport.get_write_buffer_size() < unread:
            self._watch()
            return
        log.info("A client has read nothing for %g s; it is hung up on.", PATIENCE)
        self.transport.abort()
