"""The console as an ASGI application."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from toolstile_hookspecs import HostHandle, Principal, ToolstileError
from toolstile_plugins.approval.beside import person as user_of_process
from toolstile_plugins.console.access import Access, Guard, SignedIn, read_form
from toolstile_plugins.console.call_index import CallIndex
from toolstile_plugins.console.calls import Calls
from toolstile_plugins.console.feed import Feed, SharedFeed
from toolstile_plugins.console.ledger import Ledger
from toolstile_plugins.console.pages import HERE, Pages
from toolstile_plugins.console.settings import ConsoleSettings
from toolstile_plugins.console.waiting import Waiting
from toolstile_plugins.inbox.grants import InboxGrants
from toolstile_plugins.ledger.api import EffectLedger
from toolstile_plugins.record.settings import RecordSettings

SECTIONS: Final = {section.path: section.title for section in (Waiting, Calls, Ledger)}


class Console:
    """The console of a host, as an ASGI application for this machine.

    Args:
        host: The host.
        url: The address at which it is served, with the path at which it is mounted.
        tell: Called with the next address that opens it, once one was opened.
        person: The person who answers; the user of this process where nobody is named.

    Attributes:
        routes: The door, and the pages behind it.

    Raises:
        ConfigurationError: The address is not one of this machine alone.

    Example:
        >>> from toolstile import Host
        >>> with Host() as host:
        ...     console = Console(host, "http://127.0.0.1:8000")
        ...     console.url.startswith("http://127.0.0.1:8000/#")
        True
    """

    def __init__(
        self,
        host: HostHandle,
        url: str,
        *,
        tell: Callable[[str], None] = lambda _: None,
        person: Principal | None = None,
    ) -> None:
        settings: ConsoleSettings = host.settings("console")
        with host.executor() as tools:
            grants = tools.resources.get(InboxGrants, None)
            ledger = tools.resources.get(EffectLedger, None)
        self._access = access = Access(url, tell)
        self._pages = Pages(access, SECTIONS)
        index = CallIndex(_records_of(host), settings.index)
        effects = Ledger(host, ledger, index, access, self._pages)
        sections: list[Waiting | Calls | Ledger] = [
            Waiting(host, grants, person or user_of_process(), access, self._pages),
            Calls(index, effects, self._pages),
            effects,
        ]
        rooms = [route for section in sections for route in section.routes()]
        feeds: dict[str, Feed] = {}
        for section in sections:
            news = section.news if isinstance(section, Calls) else None
            name = section.title.lower()
            feeds[name] = feed = Feed(section.version, settings.interval, news)
            rooms.append(Route(f"/events/{name}", feed.serve))
        rooms.append(Route("/events", SharedFeed(feeds).serve))
        self.routes = [
            Route("/", self._door),
            Route("/login", self._login, methods=["POST"]),
            Mount("/static", StaticFiles(directory=HERE / "static")),
            Mount(access.path, routes=rooms, middleware=[Middleware(SignedIn, access=access)]),
        ]
        app = Starlette(routes=self.routes, exception_handlers={ToolstileError: _tell_fault})
        # Outermost, so that it also guards what is told of errors.
        self._app = Guard(app, access)

    @property
    def url(self) -> str:
        """The address that opens the console, once."""
        return self._access.url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        await self._app(scope, receive, send)

    async def _door(self, request: Request) -> Response:
        return self._pages.show(request, "door.html", {"fault": None})

    async def _login(self, request: Request) -> Response:
        token = dict(await read_form(request)).get("token", "")
        if (entered := self._access.sign_in(token)) is not None:
            return entered
        fault = "This address was opened before, or is of an earlier start. Open the one that the "
        fault += "console printed last."
        values = {"fault": fault}
        return self._pages.show(request, "door.html", values, values, HTTPStatus.UNAUTHORIZED)


def _records_of(host: HostHandle) -> list[Path]:
    """Return the records that the hosts of this configuration write."""
    settings: RecordSettings | None = host.settings("record")
    if settings is None:
        return []
    return [place for place in (settings.file, settings.folder) if place is not None]


def _tell_fault(request: Request, error: Exception) -> Response:  # noqa: ARG001 - a handler
    return PlainTextResponse(str(error), HTTPStatus.SERVICE_UNAVAILABLE)
