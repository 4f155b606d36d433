"""Services that fail in one way each, over real sockets, and the clients that call them."""

from __future__ import annotations

import asyncio
import http.client
import importlib
import json
import socket
import ssl
import struct
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from toolstile_plugins.workers.connections import Certificate

SECONDS = 0.3
"""The time limit of each client."""
LARGE = b"x" * 12_000_000

Serve = Callable[[socket.socket], object]


def read_request(connection: socket.socket) -> None:
    """Read a request as far as its body."""
    read = b""
    while b"\r\n\r\n" not in read or not read.endswith(b"}"):
        if not (chunk := connection.recv(65536)):
            return
        read += chunk


def reset(connection: socket.socket) -> None:
    """Let the close that follows be a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def answers(text: str, *, ends: Serve | None = None) -> Serve:
    """Return a service that reads a request, and sends a text before the connection ends."""

    def serve(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(text.encode())
        if ends is not None:
            ends(connection)

    return serve


def silent(connection: socket.socket) -> None:
    """Answer nothing for as long as the client waits."""
    with suppress(OSError):
        while connection.recv(65536):
            pass


def deaf(connection: socket.socket) -> None:
    """Read nothing for as long as the client waits."""
    threading.Event().wait(SECONDS * 6)


HEADERS = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
CHUNKED = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{"


@contextmanager
def listening(serve: Serve, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """Serve connections on threads; gives the port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=20)

    def one(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            if tls is None:
                serve(connection)
            else:
                with tls.wrap_socket(connection, server_side=True) as inner:
                    serve(inner)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=one, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@contextmanager
def refusing() -> Iterator[int]:
    """Give a port at which no program listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    yield port


@contextmanager
def full() -> Iterator[int]:
    """Give a port whose queue of connections is full, so that connecting takes for ever."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(8):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(listener.getsockname())
        yield listener.getsockname()[1]


@contextmanager
def failing(fault: str, folder: Path) -> Iterator[str]:
    """Give the URL of a service that fails in one way."""
    with ExitStack() as stack:
        host, scheme = "127.0.0.1", "http"
        match fault:
            case "refused" | "no such name":
                port = stack.enter_context(refusing())
                host = "nosuch.invalid" if fault == "no such name" else host
            case "connect timeout":
                port = stack.enter_context(full())
            case "redirected to a refused address":
                other = stack.enter_context(refusing())
                head = f"HTTP/1.1 303 See Other\r\nLocation: http://127.0.0.1:{other}/"
                told = answers(f"{head}\r\nContent-Length: 0\r\n\r\n")
                port = stack.enter_context(listening(told))
            case _:
                scheme = "https" if fault.startswith("TLS") else "http"
                secure = Certificate.make(folder).tls if fault == "TLS untrusted" else None
                port = stack.enter_context(listening(SERVICES[fault], secure))
        yield f"{scheme}://{host}:{port}/charges"


SERVICES: dict[str, Serve] = {
    "TLS untrusted": silent,
    "TLS with a plain service": answers("HTTP/1.1 400 Bad Request\r\n\r\n"),
    "TLS reset": reset,
    "TLS closed": lambda connection: connection.recv(1),
    "TLS silent": silent,
    "silent": silent,
    "deaf": deaf,
    "closed": read_request,
    "reset": answers("", ends=reset),
    "cut": answers(HEADERS + "{"),
    "cut in a chunk": answers(CHUNKED),
    "reset within the answer": answers(HEADERS + "{", ends=reset),
    "silent within the answer": answers(HEADERS + "{", ends=silent),
    "no HTTP": answers("nonsense\r\n\r\n"),
}
UNSENT = (
    "refused",
    "no such name",
    "connect timeout",
    "TLS untrusted",
    "TLS with a plain service",
    "TLS reset",
    "TLS closed",
    "TLS silent",
)
SENT = (
    *(name for name in SERVICES if not name.startswith("TLS")),
    "redirected to a refused address",
)

# --- Clients: each sends one POST, and raises


def by_httpx(url: str, body: bytes, library: str = "httpx") -> object:
    client = importlib.import_module(library)
    return client.post(url, content=body, timeout=SECONDS, follow_redirects=True)


def by_httpx_async(url: str, body: bytes, library: str = "httpx") -> object:
    library_ = importlib.import_module(library)

    async def post() -> object:
        async with library_.AsyncClient(timeout=SECONDS, follow_redirects=True) as client:
            return await client.post(url, content=body)

    return asyncio.run(post())


def by_httpx_limited(url: str, body: bytes) -> object:
    httpx = importlib.import_module("httpx")

    async def post() -> object:
        async with httpx.AsyncClient(follow_redirects=True) as client, asyncio.timeout(SECONDS):
            return await client.post(url, content=body)

    return asyncio.run(post())


def by_requests(url: str, body: bytes) -> object:
    return importlib.import_module("requests").post(url, data=body, timeout=SECONDS)


def by_urllib3(url: str, body: bytes) -> object:
    pool = importlib.import_module("urllib3").PoolManager()
    return pool.request("POST", url, body=body, timeout=SECONDS)


def by_urllib(url: str, body: bytes) -> object:
    with urllib.request.urlopen(url, body, timeout=SECONDS) as answer:
        return answer.read()


def by_http_client(url: str, body: bytes) -> object:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc, timeout=SECONDS)
    connection.request("POST", parts.path, body)
    answer = connection.getresponse()
    return answer.read()


def by_aiohttp(url: str, body: bytes) -> object:
    aiohttp = importlib.import_module("aiohttp")

    async def post() -> object:
        limits = aiohttp.ClientTimeout(sock_connect=SECONDS, sock_read=SECONDS, total=SECONDS * 3)
        async with (
            aiohttp.ClientSession(timeout=limits) as session,
            session.post(url, data=body) as answer,
        ):
            return await answer.read()

    return asyncio.run(post())


def by_openai(url: str, body: bytes) -> object:
    openai = importlib.import_module("openai")
    client = openai.OpenAI(base_url=url, api_key="k", timeout=SECONDS, max_retries=0)
    return client.post("/", body=json.loads(body), cast_to=object)


def by_anthropic(url: str, body: bytes) -> object:
    anthropic = importlib.import_module("anthropic")
    client = anthropic.Anthropic(base_url=url, api_key="k", timeout=SECONDS, max_retries=0)
    return client.post("/", body=json.loads(body), cast_to=object)


def by_streams(url: str, body: bytes) -> object:
    parts = urlsplit(url)

    async def post() -> bytes:
        async with asyncio.timeout(SECONDS):
            secure = parts.scheme == "https"
            reader, writer = await asyncio.open_connection(
                parts.hostname, parts.port, ssl=secure or None
            )
            writer.write(b"POST / HTTP/1.1\r\n\r\n" + body)
            await writer.drain()
            return await reader.readexactly(1000)

    return asyncio.run(post())


def by_socket(url: str, body: bytes) -> object:
    parts = urlsplit(url)
    with ExitStack() as stack:
        place = (parts.hostname, parts.port)
        connection = stack.enter_context(socket.create_connection(place, timeout=SECONDS))
        if parts.scheme == "https":
            context = ssl.create_default_context()
            wrapped = context.wrap_socket(connection, server_hostname=parts.hostname)
            connection = stack.enter_context(wrapped)
        connection.sendall(b"POST / HTTP/1.1\r\n\r\n" + body)
        read = b""
        while len(read) < 1000:
            if not (chunk := connection.recv(1000)):
                raise ConnectionAbortedError("the connection was closed")
            read += chunk
        return read


CLIENTS: dict[str, tuple[str, Callable[[str, bytes], object]]] = {
    "httpx": ("httpx", by_httpx),
    "httpx async": ("httpx", by_httpx_async),
    "httpx in asyncio.timeout": ("httpx", by_httpx_limited),
    "httpx2": ("httpx2", lambda url, body: by_httpx(url, body, "httpx2")),
    "httpx2 async": ("httpx2", lambda url, body: by_httpx_async(url, body, "httpx2")),
    "requests": ("requests", by_requests),
    "urllib3": ("urllib3", by_urllib3),
    "urllib": ("urllib", by_urllib),
    "http.client": ("http.client", by_http_client),
    "aiohttp": ("aiohttp", by_aiohttp),
    "openai": ("openai", by_openai),
    "anthropic": ("anthropic", by_anthropic),
    "asyncio": ("asyncio", by_streams),
    "socket": ("socket", by_socket),
}


def raised_by(client: str, fault: str, folder: Path) -> Exception:
    """Return the exception that a client raises for a service that fails."""
    _, call = CLIENTS[client]
    body = LARGE + b"}" if fault == "deaf" else b'{"cents": 500}'
    if fault == "deaf" and client in {"openai", "anthropic"}:
        body = json.dumps({"note": LARGE.decode()}).encode()
    with failing(fault, folder) as url:
        try:
            answer: Any = call(url, body)
        except Exception as error:
            return error
    raise AssertionError(f"{client} got an answer: {answer!r}")
