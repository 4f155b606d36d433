"""Stop and go: a person halts calls from the first page, and lets them run again."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from toolstile_hookspecs import ConfigurationError, HostHandle, Principal
from toolstile_hookspecs.stops import SCOPES
from toolstile_plugins.console.access import Access, Fields
from toolstile_plugins.console.pages import Pages


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
        scope: dict[str, Any] = {} if kind == "all" else {kind: name}
        if scope and not (name and SCOPES.issuperset(scope)):
            fault = f"Nothing is stopped: write the name of one of {sorted(SCOPES)}, then retry."
            raise HTTPException(HTTPStatus.BAD_REQUEST, fault)
        try:
            self._host.stop(form.get("reason", ""), by=self._person.id, **scope)
        except ConfigurationError as error:
            fault = f"Nothing is stopped: {error}"
            raise HTTPException(HTTPStatus.BAD_REQUEST, fault) from None
        return self._pages.done(request, "", self._wire)

    def _go(self, request: Request, fields: Fields) -> Response:
        stops = self._host.stops()
        if stops:
            title, button = "End these stops?", "End all stops: calls run again"
            points = [str(stop) for stop in stops]
            if asked := self._pages.ask_again(request, fields, title, points, button):
                return asked
            # A stop of another process that the person has not seen stays.
            self._host.go(*stops)
        return self._pages.done(request, "", self._wire)

    def _wire(self, request: Request) -> Response:
        stops = [str(stop) for stop in self._host.stops()]
        return self._pages.show(request, "", {}, {"stops": stops})
