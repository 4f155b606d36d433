"""Pages out of templates, and the same as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from toolstile_hookspecs.support.text import duration, printable
from toolstile_plugins.console.access import Access
from toolstile_plugins.console.diff import Line, pairs_of, read_diff

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
