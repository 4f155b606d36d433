"""A fake provider: a server on loopback that answers from a script, and refuses as a real one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Protocol, Self

from toolstile_hookspecs.agents.messages import Turn
from toolstile_hookspecs.agents.provider import FaultType, ProviderError

Json = dict[str, Any]
Events = Sequence["Json | str"]
"""The events of a stream; the `type` of one is its name as well."""

STATUS: Final = {
    FaultType.RATE_LIMIT: 429,
    FaultType.QUOTA: 429,
    FaultType.TIMEOUT: 408,
    FaultType.UNAVAILABLE: 500,
    FaultType.REFUSED: 400,
}


class ProviderApi(Protocol):
    """The shapes of an API.

    Attributes:
        path: The end of its path.
    """

    path: str

    def faults(self, body: Json) -> Iterator[str]:
        """Yield how a request breaks the protocol."""
        ...

    def reply(self, turn: Turn, number: int, body: Json) -> Json:
        """Return a turn as the reply to a request; calls without an id get one."""
        ...

    def events(self, reply: Json, body: Json) -> Events:
        """Return a reply as the events of a stream."""
        ...

    def error(self, fault: ProviderError) -> tuple[int, Json]:
        """Return the status and the body of a fault."""
        ...


class FakeProvider:
    """Answers each request with the next entry of a script.

    An entry is a `Turn`, with ids and arguments as odd as they are given; a `ProviderError`; or an
    answer as it stands, with the status of a good one: a whole reply, or the events of a stream.

    Args:
        api: The API: `ChatApi()`, `ResponsesApi()` or `AnthropicApi()`.
        script: The entries.

    Attributes:
        url: The address without the path of the API.
        requests: The requests so far.
        refused: The faults of those that broke the protocol.

    Example:
        >>> from toolstile_hookspecs.testing.providers.chat import ChatApi
        >>> with FakeProvider(ChatApi(), {"error": {"message": "No.", "code": 503}}) as fake:
        ...     fake.url.startswith("http://127.0.0.1:")
        True
    """

    def __init__(self, api: ProviderApi, *script: Turn | ProviderError | Json | Events) -> None:
        self.api = api
        self.requests: list[Json] = []
        self.refused: list[str] = []
        self._script = iter(script)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        """Serve until the end of the block."""
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, body: Json) -> tuple[int, Json | Events]:
        """Return the status of the answer to a request, and the answer."""
        with self._lock:
            self.requests.append(body)
            number, entry = len(self.requests), None
            faults = [] if path.endswith(self.api.path) else [f"There is no {path}."]
            faults += self.api.faults(body)
            if not faults and (entry := next(self._script, None)) is None:
                faults = ["The script is at its end."]
            self.refused += faults
        if entry is None:
            entry = ProviderError(faults[0], FaultType.REFUSED)
        if isinstance(entry, ProviderError):
            return self.api.error(entry)
        if isinstance(entry, Turn):
            entry = self.api.reply(entry, number, body)
            return 200, self.api.events(entry, body) if body.get("stream") else entry
        return 200, entry


def _handler(fake: FakeProvider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, told = fake.answer(self.path, body)
            kind, text = "application/json", json.dumps(told)
            if not isinstance(told, dict):
                kind, text = "text/event-stream", "".join(map(event_text, told))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its word
            pass

    return Handler


def event_text(event: Json | str) -> str:
    """Return an event as it is sent."""
    if isinstance(event, str):
        return f"data: {event}\n\n"
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"


def pieces(text: str, size: int = 5) -> list[str]:
    """Return a text in pieces, as streams bring it."""
    return [text[start : start + size] for start in range(0, len(text), size)]
