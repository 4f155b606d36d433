"""Serving over streamable HTTP: addresses, limits of clients, and the application."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final, Self, cast

import uvicorn
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INTERNAL_ERROR
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from toolstile_hookspecs import NOTICE, ConfigurationError, HostHandle
from toolstile_plugins.mcp.gateway.errors import one_line
from toolstile_plugins.mcp.server.request import Tokens, connected_principal
from toolstile_plugins.mcp.server.server import DISTRIBUTION, HostServer
from toolstile_plugins.mcp.server.sessions import (
    SESSION_HEADER,
    NamedSessions,
    Sessions,
    executors_of,
)
from toolstile_plugins.mcp.settings import ServeSettings

# --- Addresses


LOCAL: Final = ("127.0.0.1", "localhost", "[::1]")
HIGHEST_PORT: Final = 65535
HTTP_PORT: Final = 80


@dataclass(frozen=True, slots=True)
class Address:
    """A host (a name or an IP address) and a port; port 0 stands for any free port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the address in `HOST:PORT`; raise `ValueError` for another text.

        Example:
            >>> Address.parse("[::1]:8000")
            Address(host='::1', port=8000)
        """
        host, colon, port = text.rpartition(":")
        bare = host.removeprefix("[").removesuffix("]")
        if not colon or not bare or not port.isascii() or not port.isdigit():
            raise ValueError("give HOST:PORT, such as 127.0.0.1:8000")
        if int(port) > HIGHEST_PORT:
            raise ValueError(f"the port {port} does not exist; the highest is {HIGHEST_PORT}")
        return cls(bare, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """True if only this machine reaches it."""
        return self.host == "localhost" or _is(self.host, "is_loopback")

    def listen(self, backlog: int) -> socket.socket:
        """Return a socket that listens there; raise `ConfigurationError` if that fails."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            listening = socket.create_server(
                (self.host, self.port), family=family, backlog=backlog, reuse_port=False
            )
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise ConfigurationError(
                f"Cannot serve on {self}: {why}. Choose another address with --http HOST:PORT."
            ) from error
        # Without this option the parts of an answer wait for one another. asyncio sets it only for
        # sockets that name their protocol, unlike this socket; accepted sockets inherit it.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening


@dataclass(frozen=True, slots=True)
class AllowedHeaders:
    """The allowed `Host` and `Origin` headers, each compared whole; `name:*` stands for any port.

    A page in a browser can be made to send requests anywhere; these headers reveal it. The SDK's
    own check takes `127.0.0.1:8000.evil` for `127.0.0.1:*`.
    """

    hosts: frozenset[str]
    origins: frozenset[str]

    @classmethod
    def of(cls, address: Address, settings: ServeSettings) -> Self:
        origins: list[str] = []
        if _is(address.host, "is_unspecified"):  # all addresses of this machine
            names = [*LOCAL, socket.gethostname(), socket.getfqdn()]
        elif address.is_loopback:
            names = [*LOCAL, _bracketed(address.host)]
            # Another port of this machine is another program, and another origin.
            origins = [f"http://{name}:{address.port}" for name in names]
            if address.port == HTTP_PORT:
                origins += [f"http://{name}" for name in names]
        else:
            names = [_bracketed(address.host)]
        hosts = [f"{name}{end}" for name in names for end in ("", ":*")]
        return cls(
            frozenset(map(str.lower, [*hosts, *settings.allowed_hosts])),
            frozenset(map(str.lower, [*origins, *settings.allowed_origins])),
        )

    def fault(self, headers: Headers) -> tuple[str, int] | None:
        """Return the fault of the headers of a request, and its HTTP status."""
        if not _are_allowed(headers.getlist("host") or [""], self.hosts):
            return "Invalid Host header", HTTPStatus.MISDIRECTED_REQUEST
        if not _are_allowed(headers.getlist("origin"), self.origins):
            return "Invalid Origin header", HTTPStatus.FORBIDDEN
        return None


def _are_allowed(given: list[str], allowed: frozenset[str]) -> bool:
    for text in map(str.lower, given):
        name, _, port = text.rpartition(":")
        is_port = port.isascii() and port.isdigit()
        if text not in allowed and not (is_port and f"{name}:*" in allowed):
            return False
    return True


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is(host: str, what: str) -> bool:
    try:
        return bool(getattr(ipaddress.ip_address(host), what))
    except ValueError:
        return False


# --- Timeouts of clients


log = logging.getLogger("toolstile.mcp")

PATIENCE: Final = 60.0
"""Seconds that a client has to complete a request, or to read some of its answer."""
LOOKS: Final = 4
"""Checks of a connection in that time."""


class PatientProtocol(H11Protocol):
    """HTTP that ends a connection whose client neither completes a request nor reads on.

    Each connection holds one of the few files that a process may have open.
    """

    _steps = 0  # the number of complete answers, and of times that the client has read on
    _next_look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look(None, 0, 0.0)

    def on_response_complete(self) -> None:
        self._steps += 1
        super().on_response_complete()

    def resume_writing(self) -> None:
        self._steps += 1
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
        super().connection_lost(exc)

    def _look(self, before: tuple[str, int] | None, unread_before: int, since: float) -> None:
        awaited, unread = self._awaited(), self.transport.get_write_buffer_size()
        if awaited is None or awaited != before or unread < unread_before:
            since = self.loop.time()
        elif self.loop.time() - since >= PATIENCE:
            log.info("A client has not %s for %g s; its connection is ended.", awaited[0], PATIENCE)
            self.transport.abort()
            return
        delay = PATIENCE / LOOKS
        self._next_look = self.loop.call_later(delay, self._look, awaited, unread, since)

    def _awaited(self) -> tuple[str, int] | None:
        """Return the client's next step, and the number of steps before; None if it owes none."""
        if self.flow.write_paused or self.transport.is_closing():
            return ("read on", self._steps) if self.transport.get_write_buffer_size() else None
        if self.timeout_keep_alive_task is not None:
            # The web server itself ends a connection that is idle between two requests.
            return None
        # Although declared otherwise, it is None before the first request.
        cycle = cast("RequestResponseCycle | None", self.cycle)
        is_complete = cycle is not None and not cycle.response_complete and not cycle.more_body
        return None if is_complete else ("completed a request", self._steps)


# --- The server


PATH: Final = "/mcp"
ENDING: Final = "The server is shutting down, so this was cancelled. Ask again once it is back."
KEEP_ALIVE: Final = 75
"""Seconds for which an idle connection stays: clients close it earlier, and lose no request."""
LEAVE: Final = 5
"""Seconds for clients to take their answers when the server ends."""


async def serve_http(
    host: HostHandle,
    settings: ServeSettings,
    address: Address,
    beside: Callable[[str], BaseRoute] | None = None,
) -> None:
    """Serve any client that connects until the process is asked to end.

    `beside` returns more to serve, given the URL of the server. Raises `ConfigurationError` if
    others reach the address and clients have no tokens, or the address is not available.
    """
    if not settings.tokens and not address.is_loopback:
        raise ConfigurationError(
            f"{address} can be reached from other machines, which could call the tools. "
            "Give a bearer token, with --token-file FILE or in [plugins.mcp.serve.tokens], or "
            "serve on 127.0.0.1."
        )
    listening = address.listen(2048)
    with contextlib.closing(listening):
        served = Address(address.host, listening.getsockname()[1])
        app = application(host, settings, served)
        if beside is not None:
            app.routes.append(beside(f"http://{served}"))
        sys.stderr.write(f"Serving on http://{served}{PATH}\n")
        sys.stderr.flush()
        config = uvicorn.Config(
            app,
            http=PatientProtocol,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=LEAVE,
        )
        server: Any = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext  # the command line has them
        await server.serve(sockets=[listening])


def application(host: HostHandle, settings: ServeSettings, address: Address) -> Starlette:
    """Return the application that serves a host at an address."""
    sessions = Sessions(
        executors_of(host), host.clock, timeout=settings.session_timeout, most=settings.max_sessions
    )
    server = HostServer(host, settings, NamedSessions(sessions, shared=settings.shared_sessions))
    manager = _FairManager(
        server.protocol,
        session_idle_timeout=settings.session_timeout,
        max_request_body_size=settings.max_request,
        max_sessions=settings.max_sessions,
    )
    endpoint: ASGIApp = _Endpoint(manager, sessions)
    middleware: list[Middleware] = []
    if settings.tokens:
        backend = BearerAuthBackend(Tokens(settings.tokens))
        middleware = [
            Middleware(AuthenticationMiddleware, backend=backend),
            Middleware(AuthContextMiddleware),
        ]
        endpoint = RequireAuthMiddleware(endpoint, [])
    endpoint = _Guard(endpoint, AllowedHeaders.of(address, settings))

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:  # noqa: ARG001 - there is one
        sweeping = asyncio.create_task(_sweep(sessions, settings.session_timeout / 2))
        try:
            # A cancellation at the end would look like a fault to the web framework.
            with contextlib.suppress(asyncio.CancelledError):
                async with manager.run():
                    yield
        finally:
            sweeping.cancel()
            await server.caller.finish()
            sessions.end_all()

    return Starlette(
        routes=[
            Route(PATH, endpoint=endpoint),
            Route("/health", endpoint=_health),
            Route("/ready", endpoint=_Readiness(host).tell),
        ],
        middleware=middleware,
        lifespan=lifespan,
    )


class _FairManager(StreamableHTTPSessionManager):
    """Counts the sessions of each principal separately, so that none keeps another out."""

    def _admit_session(self, requestor: Any) -> Any:
        kept = len(self._server_instances)
        if requestor is not None:
            kept = sum(owner == requestor for owner in self._session_owners.values())
        most, self.max_sessions = self.max_sessions, None
        try:
            return None if most and kept >= most else super()._admit_session(requestor)
        finally:
            self.max_sessions = most


class _Guard:
    """Refuses requests whose headers show that a page of another site has sent them."""

    def __init__(self, app: ASGIApp, allowed: AllowedHeaders) -> None:
        self._app = app
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        fault = self._allowed.fault(Headers(scope=scope))
        if fault is not None:
            log.warning("A request was refused: %s.", fault[0])
        await (self._app if fault is None else Response(*fault))(scope, receive, send)


class _Endpoint:
    """The endpoint of the protocol.

    A session that the client ends is ended here, too. When the server ends, a waiting client gets
    an error, and a stream that has begun is ended.
    """

    def __init__(self, manager: StreamableHTTPSessionManager, sessions: Sessions) -> None:
        self._manager = manager
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = ended = False

        async def watched(message: Message) -> None:
            nonlocal begun, ended
            begun = True
            ended = message["type"] == "http.response.body" and not message.get("more_body")
            is_answered = message.get("status", HTTPStatus.BAD_REQUEST) < HTTPStatus.BAD_REQUEST
            if is_answered and scope["method"] == "DELETE":
                handle = Request(scope).headers.get(SESSION_HEADER, "")
                self._sessions.end(connected_principal(scope), handle)
            await send(message)

        try:
            await self._manager.asgi_app(scope, receive, watched)
        except asyncio.CancelledError:
            if begun:
                if not ended:
                    await send({"type": "http.response.body"})
                return
            fault = {"code": INTERNAL_ERROR, "message": ENDING}
            answer = {"jsonrpc": "2.0", "id": None, "error": fault}
            told = JSONResponse(answer, HTTPStatus.SERVICE_UNAVAILABLE)
            await told(scope, receive, send)


async def _health(_: Request) -> JSONResponse:
    return JSONResponse({"status": "ok", "version": version(DISTRIBUTION)})


class _Readiness:
    """Tells whether calls can be served; as any client may ask, it checks once a second."""

    def __init__(self, host: HostHandle) -> None:
        self._host = host
        self._lock = asyncio.Lock()
        self._away: list[str] = []
        self._until = 0.0

    async def tell(self, request: Request) -> JSONResponse:  # noqa: ARG002 - always the same
        async with self._lock:
            now = asyncio.get_running_loop().time
            if now() >= self._until:
                looks = [self._is_away(name, look) for name, look in self._looks().items()]
                self._away = [name for name in await asyncio.gather(*looks) if name]
                self._until = now() + 1
        status = {"status": "unavailable" if self._away else "ready", "away": self._away}
        return JSONResponse(status, HTTPStatus.SERVICE_UNAVAILABLE if self._away else HTTPStatus.OK)

    def _looks(self) -> dict[str, Awaitable[object]]:
        looks: dict[str, Awaitable[object]] = {}
        database, gateway = self._host.settings("database"), self._host.state("mcp")
        if database is not None and database.url is not None:
            stores = self._host.state("database")
            looks["database"] = asyncio.to_thread(lambda: stores.database().read("SELECT 1"))
        for upstream in () if gateway is None else gateway.upstreams:
            if upstream.settings.required:
                looks[f"MCP server {upstream.name}"] = upstream.answers()
        return looks

    async def _is_away(self, name: str, look: Awaitable[object]) -> str | None:
        try:
            await asyncio.wait_for(look, LEAVE)
        except Exception as error:  # noqa: BLE001 - a server may fail in any way
            if name not in self._away:
                # Because any client may ask, only the log has the address.
                told = one_line(str(error) or type(error).__name__)
                log.warning("The %s is away: %s", name, told, extra=NOTICE)
            return name
        return None


async def _sweep(sessions: Sessions, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        sessions.sweep()
