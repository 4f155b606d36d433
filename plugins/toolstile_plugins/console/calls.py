"""The sections Calls and one call: recorded calls, new and old."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, cast

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from toolstile_hookspecs import Status
from toolstile_hookspecs.calls import DIFF, NO_CHANGES
from toolstile_plugins.cli_support import moment
from toolstile_plugins.console.call_index import MOST, CallIndex, Filter, Look, Tail
from toolstile_plugins.console.ledger import Ledger
from toolstile_plugins.console.pages import Pages, lines_of


class Calls:
    """Shows recorded calls, with their effects in the ledger."""

    title = "Calls"
    path = "calls"

    def __init__(self, index: CallIndex, ledger: Ledger, pages: Pages) -> None:
        self._index = index
        self._ledger = ledger
        self._pages = pages
        self._tail = Tail(index)

    def routes(self) -> list[BaseRoute]:
        return [Route("/calls", self._list), Route("/calls/{name}", self._show)]

    def version(self) -> Look:
        return self._tail.look()

    def news(self, request: Request, told: str, now: Look) -> str | None:
        """Return the rows for a page since a version; None if the page must load again."""
        rows = now.since(told, _filter_of(request.query_params))
        return None if rows is None else self._pages.text("news.html", {"rows": rows})

    def _list(self, request: Request) -> Response:
        asked = request.query_params
        rows = self._index.page(_filter_of(asked), MOST + 1, asked.get("before", ""))
        older = {"before": rows[MOST - 1].name} if len(rows) > MOST else None
        choices = [status.value for status in Status]
        return self._pages.show_list(
            request, "calls", rows[:MOST], older, self._index.places, most=MOST, choices=choices
        )

    def _show(self, request: Request) -> Response:
        found = self._index.find(request.path_params["name"])
        if found is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "The records have no such call.")
        row, call = found
        nested, parent = self._index.nested_in(row), self._index.parent_of(row)
        whole = None if call.transaction is None else self._index.end_of(call.transaction)
        effect = self._ledger.effect_of(call.attributes.get("ledger.key"))
        attributes = dict(call.attributes)
        diff = attributes.pop(DIFF, None)
        arguments: Any = call.params if call.params is not None else call.arguments
        is_text = not isinstance(arguments, dict)
        values = {
            "row": row,
            "call": call,
            "nested": nested,
            "parent": parent,
            "whole": whole,
            "effect": effect,
            "arguments": arguments if is_text else lines_of(cast("dict[str, Any]", arguments)),
            "diff": diff if isinstance(diff, str) and diff != NO_CHANGES else None,
            "changes": None
            if call.changes is None
            else json.dumps(json.loads(call.changes), ensure_ascii=False, indent=2),
            "envelope": json.dumps(call.envelope, ensure_ascii=False, indent=2),
            "attributes": lines_of(attributes),
        }
        wire = {
            "call": call.model_dump(mode="json", exclude={"prev", "hash"}),
            "nested": [other.wire() for other in nested],
            "transaction": whole and whole.model_dump(mode="json", exclude={"prev", "hash"}),
            "effect": effect and effect.wire,
        }
        return self._pages.show(request, "call.html", values, wire)


def _filter_of(asked: Mapping[str, str]) -> Filter:
    names = ("tool", "outcome", "session", "principal")
    given: dict[str, Any] = {name: asked.get(name, "").strip() for name in names}
    for name in ("since", "until"):
        with suppress(ArgumentTypeError):
            given[name] = moment(asked.get(name, ""))
    return Filter(**given)
