"""Stop and go: a person halts calls from the first page, and lets them run again."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute

from toolstile_hookspecs import ConfigurationError, HostHandle, Principal, StateError
from toolstile_hookspecs.stops import SCOPES
from toolstile_plugins.console.access import Access, Fields
from toolstile_plugins.console.pages import Pages, wants_json


@dataclass(eq=False)
class Stopping:
    """Takes the forms Stop and Go of the first page."""

    _host: HostHandle
    _person: Principal
    _access: Access
    _pages: Pages

    def routes(self) -> list[BaseRoute]:
        return [
            self._access.form("/stop", self._stop, once=True),
            self._access.form("/go", self._go, once=True),
        ]

    def _stop(self, request: Request, fields: Fields) -> Response:
        form = {name: value.strip() for name, value in fields}
        kind, name = form.get("kind", "all"), form.get("name", "")
        if kind in SCOPES and not name:
            fault = f"Nothing is stopped: write the name of the {kind}, then retry."
            return PlainTextResponse(fault, HTTPStatus.BAD_REQUEST)
        scope: dict[str, Any] = {} if kind == "all" else {kind: name}
        try:
            self._host.stop(form.get("reason", ""), by=self._person.id, **scope)
        except ConfigurationError as error:
            return PlainTextResponse(f"Nothing is stopped: {error}", HTTPStatus.BAD_REQUEST)
        except StateError as error:
            return PlainTextResponse(str(error), HTTPStatus.CONFLICT)
        return self._first_page(request)

    def _go(self, request: Request, fields: Fields) -> Response:
        stops = [str(stop) for stop in self._host.stops()]
        title, button = "End these stops?", "End all stops: calls run again"
        asked = self._pages.ask_again(request, fields, title, stops, button) if stops else None
        if asked is not None:
            return asked
        self._host.go()
        return self._first_page(request)

    def _first_page(self, request: Request) -> Response:
        if wants_json(request):
            stops = [str(stop) for stop in self._host.stops()]
            return self._pages.show(request, "", {}, {"stops": stops})
        first = request.url.path.rpartition("/")[0]
        return RedirectResponse(f"{first}/", HTTPStatus.SEE_OTHER)
