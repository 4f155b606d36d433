"""The check of links to elsewhere, where there is a network."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

#: How long an answer may take, in seconds.
PATIENCE = 30.0

#: What a server says that has the page, but not for programs, or not now.
_THERE = {
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
}

#: Names that stand for no machine (RFC 2606, RFC 6761).
_EXAMPLES = ("example", "example.com", "example.net", "example.org", "invalid", "localhost", "test")


def is_meant(address: str) -> bool:
    """Tell whether an address is one on the web, not an example of one."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    named = any(host == each or host.endswith(f".{each}") for each in _EXAMPLES)
    return parts.scheme in {"http", "https"} and not named


def fault(address: str) -> str | None:
    """Return why an address leads nowhere, None where it leads somewhere.

    Raises:
        ConnectionError: When its machine cannot be reached, which says nothing about the page.
    """
    request = Request(address, headers={"User-Agent": "Toolstile's documentation"})
    try:
        with urlopen(request, timeout=PATIENCE):
            return None
    except HTTPError as error:
        error.close()
        return None if error.code in _THERE else f"the answer is {error.code} {error.reason}"
    except (URLError, TimeoutError, OSError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, socket.gaierror) and has_network():
            return f"there is no {urlsplit(address).hostname}"
        raise ConnectionError(f"{address}: {reason}") from error


def has_network(host: str = "www.iana.org", port: int = 443) -> bool:
    """Tell whether a machine that is always there can be reached from here."""
    try:
        with socket.create_connection((host, port), timeout=PATIENCE):
            return True
    except OSError:
        return False


def dead(addresses: Iterable[str]) -> list[str]:
    """Return those that lead nowhere, each with why; what cannot be reached says nothing."""

    def told(address: str) -> str | None:
        try:
            why = fault(address)
        except ConnectionError:
            return None
        return f"{address}: {why}" if why else None

    with ThreadPoolExecutor(8) as threads:
        return [each for each in threads.map(told, addresses) if each]
