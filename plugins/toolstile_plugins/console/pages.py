"""Pages out of templates, the same as JSON for programs, and the rows of a diff.

A part of a diff is a heading and lines below, indented by two spaces: a unified diff, or a list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from toolstile_hookspecs.stops import Stop
from toolstile_hookspecs.support.text import counted, duration, printable
from toolstile_plugins.console.access import Access, Fields

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a diff, with its number before and after the change."""

    kind: Literal["same", "added", "removed", "note"]
    text: str
    old: int | None = None
    new: int | None = None

    @property
    def sign(self) -> str:
        return {"added": "+", "removed": "-"}.get(self.kind, " ")


def read_diff(text: str) -> Iterator[Line]:
    """Yield the lines of a diff; a line outside of a hunk is a note."""
    old = new = old_end = new_end = 0
    for indented in text.removesuffix("\n").split("\n"):
        # Blank lines are not indented.
        is_heading = bool(indented) and not indented.startswith(" ")
        line = indented if is_heading else indented[2:]
        sign, rest = line[:1], line[1:]
        if is_heading:
            old_end = new_end = 0
            yield Line("note", line)
        # By the numbers of its hunk, a removed line that begins with `--` is not a file name.
        elif sign == "-" and old < old_end:
            yield Line("removed", rest, old=old)
            old += 1
        elif sign == "+" and new < new_end:
            yield Line("added", rest, new=new)
            new += 1
        elif sign in {" ", ""} and old < old_end and new < new_end:
            yield Line("same", rest, old, new)
            old, new = old + 1, new + 1
        else:
            if found := _HUNK.match(line):
                old, old_count, new, new_count = (int(number or 1) for number in found.groups())
                old_end, new_end = old + old_count, new + new_count
            yield Line("note", line)


Pair = tuple[Line | None, Line | None]


def pairs_of(lines: list[Line]) -> Iterator[Pair]:
    """Yield the lines side by side: removed lines beside the added lines in their place."""
    removed, added = list[Line](), list[Line]()
    for line in [*lines, None]:
        # Added lines above a removed one belong to another change.
        if line is None or line.kind in {"same", "note"} or (line.kind == "removed" and added):
            yield from zip_longest(removed, added)
            removed, added = [], []
        if line is not None and line.kind in {"same", "note"}:
            yield line, None if line.kind == "note" else line
        elif line is not None:
            (removed if line.kind == "removed" else added).append(line)


HERE: Final = Path(__file__).parent


class Pages:
    """Shows values in templates, escaped; `sections` has the path and title of each section."""

    def __init__(
        self, access: Access, sections: Mapping[str, str], stops: Callable[[], Iterable[Stop]]
    ) -> None:
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_visible,
            trim_blocks=True,
            lstrip_blocks=True,
        )

        filters: dict[str, Any] = {
            "diff": read_diff,
            "pairs": pairs_of,
            "id": id_of,
            "counted": counted,
        }
        self._templates.filters.update(filters, duration=duration)
        self._access = access
        self.form = access.form
        self._known: dict[str, Any] = {
            "once": access.once,
            "root": access.root,
            "base": f"{access.root}{access.path}",
            "csrf": access.csrf,
            "sections": sections,
            "stops": stops,
        }

    def show(
        self,
        request: Request,
        template: str,
        values: Mapping[str, Any],
        wire: Any = None,
        status: int = 200,
    ) -> Response:
        """Return a page with values, or `wire` as JSON if the client asks for that."""
        if wants_json(request):
            # In ASCII, because UTF-8 cannot encode a lone surrogate.
            return Response(json.dumps(wire), status, media_type="application/json")
        return HTMLResponse(self.text(template, values), status)

    def show_list(
        self,
        request: Request,
        name: str,
        rows: Sequence[Any],
        older: Mapping[str, str] | None,
        places: Sequence[Path],
        **values: Any,
    ) -> Response:
        """Return a page of a long list; `older` is the query of the next page, if any."""
        asked = dict(request.query_params)
        is_newest = not asked.pop("before", "")
        query, next_ = urlencode(asked), older and urlencode({**asked, **older})
        values |= {"rows": rows, "older": next_, "is_newest": is_newest, "is_kept": bool(places)}
        values |= {"asked": asked, "query": query}
        wire = {name: [row.wire() for row in rows], "older": next_}
        return self.show(request, f"{name}.html", values, wire)

    def done(self, request: Request, path: str, show: Callable[[Request], Response]) -> Response:
        """Return the redirect to a page after a form, or `show` it to a program or a script."""
        if wants_json(request) or is_partial(request):
            return show(request)
        return RedirectResponse(f"{self._known['base']}/{path}", HTTPStatus.SEE_OTHER)

    def ask_again(
        self, request: Request, fields: Fields, title: str, points: Sequence[str], button: str
    ) -> Response | None:
        """Return the page that asks a person again, None once the person has confirmed it.

        The confirmation is for the shown points: if they have changed since, the page asks again.
        It sends the fields of the form again, whose route has `once`.
        """
        path, about = request.scope["path"], version_of([title, *points])
        if self._access.use(dict(fields).get("sure", ""), path, about):
            return None
        own = {"csrf", "once", "sure"}
        tokens = [("once", self._access.once(path)), ("sure", self._access.once(path, about))]
        values = {
            "title": title,
            "points": points,
            "button": button,
            "action": request.url.path,
            "fields": [field for field in fields if field[0] not in own],
            "tokens": tokens,
        }
        return self.show(request, "confirm.html", values, values)

    def text(self, template: str, values: Mapping[str, Any]) -> str:
        return self._templates.get_template(template).render(self._known, **values)


def wants_json(request: Request) -> bool:
    """Return whether a client asks for JSON and not for a page."""
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def is_partial(request: Request) -> bool:
    """Return whether a script of the page asks for a part of it."""
    return "hx-request" in request.headers


def id_of(text: str) -> str:
    """Return a short name for a text, of letters and digits alone."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def version_of(wire: Any) -> str:
    """Return a version that changes with JSON data."""
    return id_of(json.dumps(wire))


def _visible(value: Any) -> Any:
    # Some characters hide a text, or turn its direction.
    return printable(value, keep="\n\t") if type(value) is str else value


def lines_of(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return arguments as text: a text of several lines unchanged, others as JSON."""
    return {
        name: value
        if isinstance(value, str) and "\n" in value
        else json.dumps(value, ensure_ascii=False, indent=2)
        for name, value in arguments.items()
    }
