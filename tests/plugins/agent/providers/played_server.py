"""A provider on loopback: answers from a script, and refuses what its protocol does not allow."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from toolstile_hookspecs.agents.messages import CallMade, Message, Role, StopReason, Turn, Usage
from toolstile_hookspecs.agents.provider import FaultType, ProviderError
from toolstile_hookspecs.testing.providers import (
    Events,
    Json,
    ProviderApi,
    event_text,
)

USAGE = Usage(120, 30, 20, 3, 8)


@dataclass(frozen=True)
class Cut:
    """A stream that ends in the midst of a turn; the connection breaks, or ends as if all came."""

    turn: Turn
    is_clean: bool = False
    after: int | None = None
    """The number of events that come, None for half of them."""
    after_text: str | None = None
    """The text with which the last event comes, instead of a number."""


@dataclass(frozen=True)
class Hang:
    """A request that is not answered until the server is closed, or a stream after some events."""

    turn: Turn | None = None
    after: int | None = None


@dataclass(frozen=True)
class Paused:
    """A stream that stands still after its first half, until it is to go on."""

    turn: Turn
    go_on: threading.Event = field(default_factory=threading.Event)


Scripted = Turn | ProviderError | Cut | Hang | Paused


def said(text: str, stop: StopReason = StopReason.END, **more: Any) -> Turn:
    """Return a turn that says something."""
    return Turn(Message(Role.ASSISTANT, text), stop, more.get("usage", USAGE))


def called(*calls: tuple[str, Any], text: str = "", stop: StopReason = StopReason.TOOL_USE) -> Turn:
    """Return a turn with calls; arguments that are a text are sent as they are."""
    made = tuple(
        CallMade("", name, given if isinstance(given, str) else json.dumps(given))
        for name, given in calls
    )
    return Turn(Message(Role.ASSISTANT, text, made), stop, USAGE)


class Wire(ProviderApi, Protocol):
    """The shapes of one API."""

    @property
    def slips(self) -> Mapping[str, Callable[[Json], None]]:
        """Return requests broken on purpose: each changes what is sent, by the fault it makes."""
        ...

    def fault(self, body: Json, sent: Sequence[Json]) -> str | None:
        """Return how a request breaks the protocol, beside the replies that were sent before."""
        ...


@dataclass
class Played:
    """The script of a server, and the requests that it was sent."""

    wire: Wire
    script: Iterator[Scripted]
    requests: list[Json] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    sent: list[Json] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    asked: threading.Event = field(default_factory=threading.Event)
    closed: threading.Event = field(default_factory=threading.Event)
    left: threading.Event = field(default_factory=threading.Event)
    """Set once a client has closed a request that is not answered."""
    url: str = ""


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that none of them writes after the test

    def __init__(self, played: Played) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.played = played
        self.lock = threading.Lock()
        self._open: list[socket.socket] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        """Note a connection, and handle it on a thread."""
        self._open.append(request)
        super().process_request(request, client_address)

    def cut_off(self) -> None:
        """End the connections that clients keep open, so that no thread waits for them."""
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 5

    def do_POST(self) -> None:
        played = self.server.played
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            played.requests.append(body)
            played.headers.append({name.lower(): value for name, value in self.headers.items()})
            fault = played.wire.fault(body, played.sent)
            if self.path != played.wire.path:
                fault = f"There is no {self.path}."
            entry: Any = None if fault else next(played.script, None)
        played.asked.set()
        if entry is None:
            fault = fault or "The script is at its end."
            played.refused.append(fault)
            entry = ProviderError(fault, FaultType.REFUSED)
        try:
            self._answer(entry, body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _answer(self, entry: Scripted, body: Json) -> None:
        played = self.server.played
        if isinstance(entry, Hang) and entry.turn is None:
            self._wait_for_end()
            self.close_connection = True
            return
        if isinstance(entry, ProviderError):
            status, told = played.wire.error(entry)
            self._json(status, told, entry.retry_after)
            return
        turn = entry if isinstance(entry, Turn) else entry.turn
        assert turn is not None
        reply = played.wire.reply(turn, len(played.requests), body)
        if isinstance(entry, Turn):
            played.sent.append(reply)
        if body.get("stream"):
            self._stream(entry, played.wire.events(reply, body))
        else:
            assert isinstance(entry, Turn), "only a stream breaks off"
            self._json(200, reply)

    def _json(self, status: int, told: Json, retry_after: float | None = None) -> None:
        text = json.dumps(told).encode()
        self.send_response(status)
        if retry_after is not None:
            self.send_header("retry-after-ms", str(int(retry_after * 1_000)))
            self.send_header("retry-after", str(max(1, int(retry_after))))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _stream(self, entry: Scripted, events: Events) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        half = getattr(entry, "after", None) or len(events) // 2
        if text := getattr(entry, "after_text", None):
            # Because thoughts may come first, which are more than half of the events.
            half = 1 + next(n for n, event in enumerate(events) if text in event_text(event))
        for number, event in enumerate(events):
            if number == half and isinstance(entry, (Cut, Hang)):
                break
            if number == half and isinstance(entry, Paused):
                entry.go_on.wait()
            self._chunk(event_text(event))
        if isinstance(entry, Hang):
            self._wait_for_end()
        if isinstance(entry, Hang) or (isinstance(entry, Cut) and not entry.is_clean):
            self.close_connection = True
        else:
            self._chunk("")

    def _wait_for_end(self) -> None:
        """Wait for the end of the test, and note whether the client has gone before it."""
        while not self.server.played.closed.is_set():
            if select.select([self.connection], [], [], 0.01)[0]:
                self.server.played.left.set()
                self.server.played.closed.wait()

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def log_message(self, *_: Any) -> None:
        """Write nothing."""


@contextmanager
def serving(wire: Wire, *script: Scripted) -> Iterator[Played]:
    """Serve a script on loopback."""
    played = Played(wire, iter(script))
    server = _Server(played)
    played.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield played
    finally:
        played.closed.set()
        server.shutdown()
        thread.join()
        server.cut_off()
        server.server_close()
