"""A server over HTTP that speaks the protocol of 2025 by hand, and breaks it on demand."""

from __future__ import annotations

import gzip
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TOOL = {"name": "say", "description": "Say it.", "inputSchema": {"type": "object"}}


UNDER_WAY = threading.Semaphore(0)
"""Counts the calls that are never answered."""


class Handler(BaseHTTPRequestHandler):
    """Answers requests; `server.mode` says how those are answered that say `now`."""

    protocol_version = "HTTP/1.1"
    packed = retry_after = None
    leaves = False

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        message = json.loads(body)
        self.number = message.get("id")
        method = message.get("method")
        if self.server.mode == "shut":
            self.answer(401, b"who are you?", "text/plain")
        elif self.server.mode == "moved":
            self.redirects()
        elif self.number is None:
            self.answer(202, b"")
        elif method == "initialize":
            self.server.met += 1
            version = message["params"]["protocolVersion"]
            server = {"name": "raw", "version": "1"}
            self.reply(protocolVersion=version, capabilities={"tools": {}}, serverInfo=server)
        elif method == "tools/list" and self.server.mode.startswith("bottomless"):
            self.bottomless()
        elif method == "tools/list":
            self.reply(tools=[TOOL])
        elif method == "tools/call":
            now = message["params"]["arguments"].get("text") == "now"
            getattr(self, self.server.mode if now else "say")()
        else:
            self.send({"error": {"code": -32601, "message": "Method not found"}})

    def do_GET(self):
        self.answer(405, b"")

    do_DELETE = do_GET  # noqa: N815 - so it is called

    def log_message(self, *args):
        """Say nothing."""

    def answer(self, status, body, kind="application/json"):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if status == 302:
            self.send_header("location", "https://ada:pass@moved.example/mcp?key=value")
        if self.packed is not None:
            self.send_header("content-encoding", self.packed)
            self.packed = None
        if self.retry_after is not None:
            self.send_header("retry-after", self.retry_after)
            self.retry_after = None
        if self.leaves:
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def send(self, what):
        self.answer(200, json.dumps({"jsonrpc": "2.0", "id": self.number, **what}).encode())

    def reply(self, **result):
        self.send({"result": result})

    def __getattr__(self, name):
        if name.startswith("status_"):
            return lambda: self.refuse(int(name.removeprefix("status_")))
        raise AttributeError(name)

    def refuse(self, status):
        self.retry_after = "3"
        self.answer(status, b'{"message": "not now"}')

    def say(self):
        self.reply(content=[{"type": "text", "text": "said"}])

    def oversized(self):
        self.reply(content=[{"type": "text", "text": "x" * 3_000_000}])

    def compressed(self):
        self.packed = "gzip"
        text = "x" * 3_000_000
        body = {"jsonrpc": "2.0", "id": self.number, "result": {"content": []}, "more": text}
        self.answer(200, gzip.compress(json.dumps(body).encode()))

    def bottomless(self):
        """List a tool whose schema has no end, as one message or as an event."""
        tools = json.dumps([TOOL, {**TOOL, "name": "deep", "inputSchema": {"type": "here"}}])
        deep = b'{"items":' * 5000 + b"{}" + b"}" * 5000
        body = b'{"jsonrpc":"2.0","id":%d,"result":{"tools":%b}}'
        body %= (self.number, tools.encode().replace(b'{"type": "here"}', deep))
        if self.server.mode == "bottomless":
            self.answer(200, body)
        else:
            end = b"\r" if self.server.mode.endswith("cr") else b"\n"
            self.stream()
            self.write(b"event: message" + end + b"data: " + body + end + end)

    def malformed(self):
        self.answer(200, b'{"jsonrpc": oops')

    def nested(self):
        self.answer(200, b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 9000 + b"]" * 9000 + b"}")

    def nested_event(self):
        self.stream()
        deep = b"[" * 9000 + b"]" * 9000
        self.write(b'data: {"jsonrpc":"2.0","id":%d,"result":%s}\n\n' % (self.number, deep))

    def nested_failure(self):
        body = b'{"jsonrpc":"2.0","id":null,"error":' + b"[" * 9000 + b"]" * 9000 + b"}"
        self.answer(400, body)

    def nested_refusal(self):
        body = b'{"jsonrpc":"2.0","id":null,"error":' + b"[" * 9000 + b"]" * 9000 + b"}"
        self.answer(429, body)

    def accepted(self):
        self.answer(202, b"")

    def in_html(self):
        self.answer(200, b"<h1>yes</h1>", "text/html")

    def fails(self):
        self.answer(500, b"<h1>no</h1>", "text/html")

    def refuses_beside(self):
        """Leave the first call until the second one has been refused, and a while longer."""
        if self.server.calls.acquire(blocking=False):
            self.server.released.wait(60)
            self.say()
        else:
            self.send({"error": {"code": -32000, "message": "try another text"}})
            threading.Timer(1, self.server.released.set).start()

    def forgets(self):
        """Say what many a server says that was started again, until it is met anew."""
        if self.server.met > 1:
            self.say()
            return
        error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
        self.answer(400, json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode())

    def redirects(self):
        self.answer(302, b"")

    def changes_certificate(self):
        """Answer, and show another certificate to the connections that follow."""
        self.server.context.load_cert_chain(self.server.others)
        self.leaves = True
        self.say()

    def never(self):
        UNDER_WAY.release()
        self.server.released.wait(60)
        self.close_connection = True

    def hangs_up(self):
        self.close_connection = True

    def stream(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True

    def oversized_event(self):
        self.stream()
        self.write(b"data: " + b"x" * 3_000_000 + b"\n\n")

    def floods(self):
        self.stream()
        params = {"level": "info", "data": "z"}
        message = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
        event = b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"
        while self.write(event * 100):
            pass

    def cuts_one(self):
        """Answer the first call once the stream of the second one has been cut for a while."""
        if self.server.calls.acquire(blocking=False):
            self.never()
            self.say()
        else:
            self.stream()
            threading.Timer(1, self.server.released.set).start()

    def write(self, data):
        try:
            self.wfile.write(data)
        except OSError:
            return False
        return True


@contextmanager
def serving(
    mode: str, certificate: Path | None = None, others: Path | None = None
) -> Iterator[str]:
    """Serve on a thread, with a certificate over TLS; gives the URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        # A handshake that fails is made on the thread of its connection, which it ends.
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        server.context, server.others = context, others
        server.handle_error = lambda *_: None
    server.mode = mode
    server.met = 0
    server.released = threading.Event()
    server.calls = threading.Semaphore(1)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join(30)
