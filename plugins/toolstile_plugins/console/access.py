"""Access to the console: nobody but the person at this machine's browser comes in.

Every program of the machine reaches the port, and every page that the browser shows can send
requests there. So a request shows the name of the server, its own origin, and a cookie.
"""

from __future__ import annotations

from collections.abc import Callable
from hmac import compare_digest
from http import HTTPStatus
from ipaddress import ip_address
from secrets import token_hex, token_urlsafe
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolstile_hookspecs import ConfigurationError

CSRF: Final = "csrf"
MOST_BYTES: Final = 1024 * 1024
"""The size of the largest form that is read."""
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Forms are sent with their origin only where pages of the same origin are told where from.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SAFE: Final = ("GET", "HEAD")
_NOT_IN: Final = (
    "You are not signed in. Open the address that the console printed last; each opens it once."
)


class Access:
    """The secrets of one start of the console.

    The token stands in the fragment of an address, which browsers send to nobody. It is posted
    once, for a cookie. The cookie is sent to every port of the machine, but only for one random
    path, which no other server knows.

    Args:
        url: The address of the console without a token, such as `http://127.0.0.1:8765`.
        tell: Called with the next address, once one was opened.

    Attributes:
        root: The path of the address, "" where it has none.
        path: The path below which the pages are, below the root.
        csrf: The token of its forms.

    Raises:
        ConfigurationError: The address is not one of this machine alone.
    """

    def __init__(self, url: str, tell: Callable[[str], None] = lambda _: None) -> None:
        self._url = url.rstrip("/")
        parts = urlsplit(self._url)
        if not _is_loopback(parts.hostname):
            raise ConfigurationError(
                f"{url} can be reached from elsewhere. Serve the console on 127.0.0.1; to use it "
                "from elsewhere, forward the port, with `ssh -L` for example."
            )
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self.root = parts.path
        self._host = parts.netloc
        self._tell = tell
        self._token = token_urlsafe(24)
        self._cookie_name = f"toolstile-console-{token_hex(4)}"
        self._cookie = token_urlsafe(24)
        self.path = f"/{token_urlsafe(16)}"
        self.csrf = token_urlsafe(24)

    @property
    def url(self) -> str:
        """The address that opens the console once."""
        return f"{self._url}/#{self._token}"

    def fault_of(self, method: str, headers: Headers) -> tuple[str, int] | None:
        """Return why a request is refused before it is looked at, and the status; else None."""
        # A name that an attacker's server of names points to this machine is another host.
        if headers.getlist("host") != [self._host]:
            return "This is not the host that was asked for.", HTTPStatus.MISDIRECTED_REQUEST
        origins = headers.getlist("origin")
        if origins != [self._origin] and (origins or method not in _SAFE):
            return "Another page sent this request.", HTTPStatus.FORBIDDEN
        return None

    def sign_in(self, token: str) -> Response | None:
        """Return the way to the pages, with the cookie; None for a wrong or used token."""
        if not _same(token, self._token):
            return None
        self._token = token_urlsafe(24)
        self._tell(self.url)
        path = f"{self.root}{self.path}"
        response = Response(status_code=HTTPStatus.SEE_OTHER, headers={"Location": f"{path}/"})
        response.set_cookie(
            self._cookie_name, self._cookie, path=path, httponly=True, samesite="strict"
        )
        return response

    def is_signed_in(self, request: Request) -> bool:
        """Tell whether a request has the cookie, and was sent by a page of the console itself."""
        sent_by = request.headers.get("sec-fetch-site", "none")
        cookie = request.cookies.get(self._cookie_name, "")
        return sent_by in {"none", "same-origin"} and _same(cookie, self._cookie)

    async def form(self, request: Request) -> list[tuple[str, str]]:
        """Return the fields of a form that a page of the console has sent.

        Raises:
            HTTPException: It is too large, or another page has sent it.
        """
        fields = await read_form(request)
        if not _same(dict(fields).get(CSRF, ""), self.csrf):
            raise HTTPException(HTTPStatus.FORBIDDEN, "The form is of another page. Load it again.")
        return fields


async def read_form(request: Request) -> list[tuple[str, str]]:
    """Return the fields of a form in their order.

    Raises:
        HTTPException: It is too large.
    """
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The form is too large.")
    return parse_qsl(body.decode(errors="replace"), keep_blank_values=True)


class Guard:
    """Refuses requests of other pages, and says to browsers what the console's own may do."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        fault = self._access.fault_of(scope["method"], Headers(scope=scope))
        app = self._app if fault is None else PlainTextResponse(*fault)
        await app(scope, receive, guarded)


class SignedIn:
    """Lets nobody to the pages who has not signed in."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        app = self._app
        if not self._access.is_signed_in(Request(scope)):
            app = PlainTextResponse(_NOT_IN, HTTPStatus.UNAUTHORIZED)
        await app(scope, receive, send)


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def _same(given: str, secret: str) -> bool:
    return compare_digest(given.encode(errors="replace"), secret.encode())
