"""Pages out of templates, the same as JSON for programs, and the rows of a diff."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from toolstile_hookspecs.support.text import duration, printable
from toolstile_plugins.console.access import Access

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a diff.

    Args:
        kind: Context, added, removed, or a note about the file.
        text: The text, without the sign in front.
        old: The number of the line before the change.
        new: The number of the line after it.
    """

    kind: Literal["same", "added", "removed", "note"]
    text: str
    old: int | None = None
    new: int | None = None

    @property
    def sign(self) -> str:
        """The sign in front of the line."""
        return {"added": "+", "removed": "-"}.get(self.kind, " ")


def read_diff(text: str) -> Iterator[Line]:
    """Yield the lines of what a call would change; one outside of a hunk is a note."""
    old = new = old_end = new_end = 0
    for indented in text.removesuffix("\n").split("\n"):
        # Blank lines are not indented.
        is_heading = bool(indented) and not indented.startswith(" ")
        line = indented if is_heading else indented[2:]
        sign, rest = line[:1], line[1:]
        if is_heading:
            old_end = new_end = 0
            yield Line("note", line)
        # The numbers of a hunk tell a removed line that begins with `--` from the name of a file.
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
    """Yield the lines side by side: removed ones beside those that stand in their place."""
    removed: list[Line] = []
    added: list[Line] = []
    for line in lines:
        if line.kind == "removed":
            # Lines that are added above belong to another change.
            if added:
                yield from _together(removed, added)
            removed.append(line)
        elif line.kind == "added":
            added.append(line)
        else:
            yield from _together(removed, added)
            yield line, None if line.kind == "note" else line
    yield from _together(removed, added)


def _together(removed: list[Line], added: list[Line]) -> Iterator[Pair]:
    yield from zip_longest([*removed], [*added])
    removed.clear()
    added.clear()


HERE: Final = Path(__file__).parent


class Pages:
    """Shows values in templates. Everything in them is escaped.

    Args:
        access: Says where pages are, and signs their forms.
        sections: The sections of the console in their order, each path with its title.
    """

    def __init__(self, access: Access, sections: Mapping[str, str]) -> None:
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_visible,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        filters: dict[str, Any] = {
            "diff": _lines_of_diff,
            "pairs": pairs_of,
            "duration": duration,
            "id": id_of,
        }
        self._templates.filters.update(filters)
        self._known: dict[str, Any] = {
            "root": access.root,
            "base": f"{access.root}{access.path}",
            "csrf": access.csrf,
            "sections": sections,
        }

    def show(
        self,
        request: Request,
        template: str,
        values: Mapping[str, Any],
        wire: Any = None,
        status: int = 200,
    ) -> Response:
        """Return a page, or JSON where the client asks for that.

        Args:
            request: The request.
            template: The name of the template.
            values: The values for it.
            wire: The same as JSON data.
            status: The status.
        """
        if wants_json(request):
            # In ASCII, as no UTF-8 holds a lone surrogate.
            return Response(json.dumps(wire), status, media_type="application/json")
        return HTMLResponse(self.text(template, values), status)

    def text(self, template: str, values: Mapping[str, Any]) -> str:
        """Return what a template shows of values."""
        return self._templates.get_template(template).render(self._known, **values)


def wants_json(request: Request) -> bool:
    """Tell whether a client asks for JSON and not for a page."""
    accepted = request.headers.get("accept", "")
    return "application/json" in accepted and "text/html" not in accepted


def is_partial(request: Request) -> bool:
    """Tell whether a script of the page asks for a part of it."""
    return "hx-request" in request.headers


def id_of(text: str) -> str:
    """Return a short name for a text, of letters and digits alone."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def version_of(wire: Any) -> str:
    """Return a version that changes with JSON data."""
    return id_of(json.dumps(wire))


def lines_of(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return arguments as text: several lines as they are, all else as JSON."""
    return {
        name: value
        if isinstance(value, str) and "\n" in value
        else json.dumps(value, ensure_ascii=False, indent=2)
        for name, value in arguments.items()
    }


def _lines_of_diff(text: str) -> list[Line]:
    return [*read_diff(text)]


def _visible(value: Any) -> Any:
    """Return a value without characters that hide what is there, or turn its direction."""
    return printable(value, keep="\n\t") if type(value) is str else value
