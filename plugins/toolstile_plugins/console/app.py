"""The console as an ASGI application."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from toolstile_hookspecs import HostHandle, Principal, ToolstileError
from toolstile_plugins.approval.beside import person as user_of_process
from toolstile_plugins.console.access import Access, guarded, read_form, signed_in
from toolstile_plugins.console.call_index import CallIndex
from toolstile_plugins.console.calls import Calls
from toolstile_plugins.console.charts import charts
from toolstile_plugins.console.feed import Feed, SharedFeed
from toolstile_plugins.console.ledger import Ledger
from toolstile_plugins.console.pages import HERE, Pages
from toolstile_plugins.console.rules import Rules
from toolstile_plugins.console.sessions import Sessions
from toolstile_plugins.console.settings import ConsoleSettings
from toolstile_plugins.console.waiting import Waiting
from toolstile_plugins.inbox.grants import InboxGrants
from toolstile_plugins.ledger.api import EffectLedger
from toolstile_plugins.record.settings import RecordSettings

if TYPE_CHECKING:
    from toolstile_plugins.console.servers import Servers

RECORD_FILES: Final = ("toolstile_plugins.record", "static")
_OPENED_BEFORE: Final = (
    "This address was opened before, or is of an earlier start. Open the address that the console "
    "printed last."
)


class Console:
    """The console of a host, as an ASGI application for this machine.

    Args:
        host: The host.
        url: The address at which it is served, with the path at which it is mounted.
        tell: Called with the next address that opens it, after a use of the current one.
        person: The person who answers; by default the user of this process.

    Attributes:
        routes: The door, and the pages behind it.

    Raises:
        ConfigurationError: If other machines can reach the address.

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
        titles = dict[str, str]()
        self._pages = Pages(access, titles, host.stops)
        record: RecordSettings | None = host.settings("record")
        records = [] if record is None else [record.file, record.folder]
        index = CallIndex([place for place in records if place is not None], settings.index)
        effects = Ledger(host, ledger, index, self._pages)
        person = person or user_of_process()
        sections: list[Waiting | Calls | Sessions | Ledger | Rules | Servers] = [
            Waiting(host, grants, person, self._pages),
            Calls(index, effects, self._pages),
            Sessions(host, index, person, self._pages),
            effects,
            Rules(host, index, self._pages),
        ]
        if (gateway := host.state("mcp")) is not None:
            # Because the MCP SDK is heavy, only a console with servers imports it.
            from toolstile_plugins.console.servers import Servers

            sections.append(Servers(gateway, self._pages))
        titles |= {section.path: section.title for section in sections}
        rooms = [route for section in sections for route in section.routes()]
        rooms.append(charts(host, index, self._pages))
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
            # The record's files have the colours.
            Mount("/static", StaticFiles(directory=HERE / "static", packages=[RECORD_FILES])),
            Mount(access.path, routes=rooms, middleware=[Middleware(signed_in, access=access)]),
        ]

        def show_fault(_: Request, error: Exception) -> Response:
            return PlainTextResponse(str(error), HTTPStatus.SERVICE_UNAVAILABLE)

        app = Starlette(routes=self.routes, exception_handlers={ToolstileError: show_fault})
        # Outermost, so that it also guards the responses of errors.
        self._app = guarded(app, access)

    @property
    def url(self) -> str:
        """The address that opens the console, once."""
        return self._access.url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    async def _door(self, request: Request) -> Response:
        return self._pages.show(request, "door.html", {"fault": None})

    async def _login(self, request: Request) -> Response:
        token = dict(await read_form(request)).get("token", "")
        if (entered := self._access.sign_in(token)) is not None:
            return entered
        values = {"fault": _OPENED_BEFORE}
        return self._pages.show(request, "door.html", values, values, HTTPStatus.UNAUTHORIZED)
