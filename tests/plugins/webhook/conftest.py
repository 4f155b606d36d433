"""An endpoint of its own, which people answer at, and hosts that send questions there."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.plugins.inbox.conftest import House, house

from toolstile import Host

__all__ = ["house"]

KEY = b"a key of the tests, long enough"
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"
ADA = {"source": "https://id.example.org", "id": "ada", "groups": ["treasury"]}


def headers_of(id_: str, body: bytes, *, key: bytes = KEY, age: float = 0) -> dict[str, str]:
    """Sign as the standard says, in code that is not the product's."""
    moment = int(time.time() - age)
    told = b"%s.%d.%s" % (id_.encode(), moment, body)
    given = base64.b64encode(hmac.new(key, told, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": id_,
        "webhook-timestamp": str(moment),
        "webhook-signature": f"v1,{given}",
    }


@dataclass
class Sent:
    """A request to the endpoint."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def is_signed(self) -> bool:
        age = time.time() - int(self.headers["webhook-timestamp"])
        expected = headers_of(self.headers["webhook-id"], self.body, age=age)
        return expected["webhook-signature"] == self.headers["webhook-signature"]


@dataclass
class Given:
    """An answer of the endpoint."""

    status: int = 202
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def signed(cls, ticket: str, told: dict[str, Any], **how: Any) -> Given:
        body = json.dumps(told).encode()
        return cls(200, body, headers_of(f"{ticket}-answer", body, **how))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class Endpoint:
    """Keeps what it is sent, and answers as it was told to.

    Attributes:
        said: Answers to questions, by their ids.
        first: Takes requests before anything else does; each returns an answer, or None.
    """

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.said: dict[str, Given] = {}
        self.first: list[Callable[[Sent], Given | None]] = []
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/questions"
        threading.Thread(target=self._server.serve_forever, args=[0.01], daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                given = endpoint.answer(Sent(self.command, self.path, headers, body))
                if given.status == 0:
                    self.close_connection = True
                    return
                self.send_response(given.status)
                for name, value in given.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(given.body)))
                self.end_headers()
                self.wfile.write(given.body)

            do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - as the library names them

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def answer(self, sent: Sent) -> Given:
        self.sent.append(sent)
        for rule in list(self.first):
            if (given := rule(sent)) is not None:
                return given
        ticket = sent.headers["webhook-id"].partition("-")[0]
        return self.said.get(ticket, Given()) if sent.method != "DELETE" else Given(204)

    def once(self, given: Given) -> None:
        """Give this answer to the next request, whatever it is."""

        def rule(_: Sent) -> Given:
            self.first.remove(rule)
            return given

        self.first.append(rule)

    def of(self, method: str) -> list[Sent]:
        return [sent for sent in self.sent if sent.method == method]

    def questions(self) -> list[dict[str, Any]]:
        return [json.loads(sent.body) for sent in self.of("POST")]

    def say(self, question: dict[str, Any], answer: str = "approved", **more: Any) -> None:
        """Answer a question, as a person does in the endpoint's own page."""
        told = {"answer": answer, "by": ADA, "digest": question["digest"], **more}
        self.said[question["id"]] = Given.signed(question["id"], told)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    serving = Endpoint()
    yield serving
    serving.close()


@pytest.fixture
def open_host(house: House, endpoint: Endpoint):
    def open_host(*tools: Any, webhook: Any = None, top: Any = None, **more: Any) -> Host:
        settings = {"url": endpoint.url, "secret": SECRET, "interval": 0.02, "backoff": 0.1}
        top = top or {}
        plugins = {"webhook": {**settings, **(webhook or {})}, **top.get("plugins", {})}
        return house.host(*tools, top={**top, "plugins": plugins}, **more)

    return open_host
