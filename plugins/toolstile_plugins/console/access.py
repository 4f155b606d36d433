"""Access to the console, for the person at this machine's browser alone.

Every program of the machine reaches the port, and every page in the browser can send requests to
it. So a request must have the name of the server, the console's origin, and a cookie.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from hmac import compare_digest, digest
from http import HTTPStatus
from ipaddress import ip_address
from secrets import token_hex, token_urlsafe
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolstile_hookspecs import ConfigurationError

Fields = list[tuple[str, str]]
MOST_BYTES: Final = 1024 * 1024
"""The size of the largest form."""
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Browsers send forms with their origin only if pages of the same origin get a referrer.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SAFE: Final = ("GET", "HEAD")
_NOT_IN: Final = (
    "You are not signed in. Open the address that the console printed last; each opens it once."
)
_USED: Final = "This form was sent before, or is of another page. Load its page again, then retry."


class Access:
    """The secrets of one start of the console.

    The token is in the fragment of an address, which browsers do not send. The page posts it once,
    for a cookie. Browsers send the cookie to every port of the machine, but only for one random
    path, which no other server knows.

    The `url` has no token, such as `http://127.0.0.1:8765`, and `tell` is called with the next
    address after a use of the current one. Below the path of the address, `root`, and the random
    `path` are the pages, whose forms have the token `csrf`.
    """

    def __init__(self, url: str, tell: Callable[[str], None] = lambda _: None) -> None:
        self._url = url.rstrip("/")
        parts = urlsplit(self._url)
        is_here = parts.hostname == "localhost"
        with suppress(ValueError):
            is_here = is_here or ip_address(parts.hostname or "").is_loopback
        if not is_here:
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
        self._key = token_urlsafe(24).encode()
        self._used = set[str]()

    @property
    def url(self) -> str:
        """The address that opens the console once."""
        return f"{self._url}/#{self._token}"

    def fault_of(self, method: str, headers: Headers) -> tuple[str, int] | None:
        """Return the fault of a request by its headers, and the status; None without a fault."""
        # An attacker's name server may point another host name to this machine.
        if headers.getlist("host") != [self._host]:
            return "The request names another host.", HTTPStatus.MISDIRECTED_REQUEST
        origins = headers.getlist("origin")
        if origins != [self._origin] and (origins or method not in _SAFE):
            return "Another page sent this request.", HTTPStatus.FORBIDDEN
        return None

    def sign_in(self, token: str) -> Response | None:
        """Return the redirect to the pages, with the cookie; None for a wrong or used token."""
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
        """Return whether a request has the cookie, and was sent by a page of the console."""
        sent_by = request.headers.get("sec-fetch-site", "none")
        cookie = request.cookies.get(self._cookie_name, "")
        return sent_by in {"none", "same-origin"} and _same(cookie, self._cookie)

    def once(self, path: str, about: str = "") -> str:
        """Return a one-time token for the form of a path (not percent-encoded)."""
        number = token_hex(8)
        # Given tokens are not stored, so that a page that is open for long keeps a valid one.
        return number + digest(self._key, f"{number}{path}\0{about}".encode(), "sha256").hex()

    def use(self, token: str, path: str, about: str = "") -> bool:
        """Use a one-time token up; return False if it was used, or is of another form."""
        text = f"{token[:16]}{path}\0{about}".encode(errors="replace")
        is_ours = _same(token[16:], digest(self._key, text, "sha256").hex())
        if not is_ours or token in self._used:
            return False
        self._used.add(token)
        return True

    def form(
        self, path: str, take: Callable[[Request, Fields], Response], *, once: bool = False
    ) -> Route:
        """Return the route of a form, which `take` answers on a thread.

        A request fails if the form is too large, or was sent by another page. With `once`, it also
        fails without an unused token in the field `once`; see `Pages.ask_again`, too.
        """

        async def posted(request: Request) -> Response:
            fields = await read_form(request)
            if not _same(dict(fields).get("csrf", ""), self.csrf):
                fault = "The form is of another page. Load it again."
                raise HTTPException(HTTPStatus.FORBIDDEN, fault)
            if once and not self.use(dict(fields).get("once", ""), request.scope["path"]):
                raise HTTPException(HTTPStatus.CONFLICT, _USED)
            return await run_in_threadpool(take, request, fields)

        return Route(path, posted, methods=["POST"])


async def read_form(request: Request) -> Fields:
    """Return the fields of a form in their order; raise `HTTPException` if it is too large."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The form is too large.")
    return parse_qsl(body.decode(errors="replace"), keep_blank_values=True)


def guarded(app: ASGIApp, access: Access) -> ASGIApp:
    """Return an application that rejects requests of other pages, and limits its own pages."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return

        async def send_limited(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        fault = access.fault_of(scope["method"], Headers(scope=scope))
        await (app if fault is None else PlainTextResponse(*fault))(scope, receive, send_limited)

    return serve


def signed_in(app: ASGIApp, access: Access) -> ASGIApp:
    """Return an application that rejects requests without a session."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        refusal = PlainTextResponse(_NOT_IN, HTTPStatus.UNAUTHORIZED)
        await (app if access.is_signed_in(Request(scope)) else refusal)(scope, receive, send)

    return serve


def _same(given: str, secret: str) -> bool:
    return compare_digest(given.encode(errors="replace"), secret.encode())
