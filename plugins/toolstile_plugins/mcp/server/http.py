"""Serving over streamable HTTP: who may connect, from where, and to what."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Generator
from importlib.metadata import version
from typing import Final

import uvicorn
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INTERNAL_ERROR
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolstile_hookspecs import ConfigurationError, HostHandle
from toolstile_plugins.mcp.server.addresses import Address, security_of
from toolstile_plugins.mcp.server.choosing import NamedSessions
from toolstile_plugins.mcp.server.executors import executors_of
from toolstile_plugins.mcp.server.handles import SESSION_HEADER
from toolstile_plugins.mcp.server.patience import PatientProtocol
from toolstile_plugins.mcp.server.principals import Tokens, user_of
from toolstile_plugins.mcp.server.scarcity import Scarcity
from toolstile_plugins.mcp.server.serving import DISTRIBUTION, HostServer
from toolstile_plugins.mcp.server.sessions import Sessions
from toolstile_plugins.mcp.server.settings import ServeSettings

PATH: Final = "/mcp"
HEALTH: Final = "/health"
BACKLOG: Final = 2048
BAD_REQUEST: Final = 400
UNAVAILABLE: Final = 503
ENDING: Final = "The server is being ended, so this was cancelled. Ask again once it is back."
KEEP_ALIVE: Final = 75
"""Seconds for which an idle connection stays: clients give up earlier, and lose no request."""
LEAVE: Final = 5
"""Seconds that clients have to take their answers when the server ends."""


async def serve_http(host: HostHandle, settings: ServeSettings, address: Address) -> None:
    """Serve any client that connects until the process is asked to end.

    Raises:
        ConfigurationError: When nobody could be told from anybody else at an address that others
            reach, or the address cannot be had.
    """
    if not settings.tokens and not address.is_loopback:
        raise ConfigurationError(
            f"{address} can be reached from elsewhere, and anybody there could call the tools. "
            "Give a bearer token, with --token-file FILE or in [plugins.mcp.serve.tokens], or "
            "serve on 127.0.0.1."
        )
    listening = address.listen(BACKLOG)
    with contextlib.closing(listening):
        port = listening.getsockname()[1]
        app = application(host, settings, Address(address.host, port))
        sys.stderr.write(f"Serving on {Address(address.host, port).url}{PATH}\n")
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
        asyncio.get_running_loop().set_exception_handler(Scarcity())
        await _Uvicorn(config).serve(sockets=[listening])


def application(host: HostHandle, settings: ServeSettings, address: Address) -> Starlette:
    """Return the application that serves a host at an address."""
    sessions = Sessions(
        executors_of(host),
        host.clock,
        timeout=settings.session_timeout,
        most=settings.max_sessions,
    )
    server = HostServer(host, settings, NamedSessions(sessions))
    manager = StreamableHTTPSessionManager(
        server.protocol,
        security_settings=security_of(address, settings),
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

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:  # noqa: ARG001 - there is one
        sweeping = asyncio.create_task(_sweep(sessions, settings.session_timeout / 2))
        try:
            # Whoever is told to end is cancelled, which the web framework would take for a fault.
            with contextlib.suppress(asyncio.CancelledError):
                async with manager.run():
                    yield
        finally:
            sweeping.cancel()
            await server.caller.finish()
            sessions.end_all()

    return Starlette(
        routes=[Route(PATH, endpoint=endpoint), Route(HEALTH, endpoint=_health)],
        middleware=middleware,
        lifespan=lifespan,
    )


class _Endpoint:
    """The endpoint of the protocol.

    A session that the client ends is ended here, too. Who waits for an answer when the server ends
    is told so, and a stream that has begun is ended.
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
            if _is_end_of_session(scope, message):
                handle = Request(scope).headers.get(SESSION_HEADER, "")
                self._sessions.end(user_of(scope), handle)
            await send(message)

        try:
            await self._manager.asgi_app(scope, receive, watched)
        except asyncio.CancelledError:
            if begun:
                if not ended:
                    await send({"type": "http.response.body"})
                return
            fault = {"code": INTERNAL_ERROR, "message": ENDING}
            told = JSONResponse({"jsonrpc": "2.0", "id": None, "error": fault}, UNAVAILABLE)
            await told(scope, receive, send)


def _is_end_of_session(scope: Scope, message: Message) -> bool:
    is_ended = message["type"] == "http.response.start" and message["status"] < BAD_REQUEST
    return bool(is_ended and scope["method"] == "DELETE")


async def _health(request: Request) -> JSONResponse:  # noqa: ARG001 - always the same
    return JSONResponse({"status": "ok", "version": version(DISTRIBUTION)})


async def _sweep(sessions: Sessions, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        sessions.sweep()


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the command line, which knows how to end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield
