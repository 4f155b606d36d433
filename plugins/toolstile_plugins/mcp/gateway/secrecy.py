"""What is configured of a server and told to nobody: it may be a secret."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qsl, urlsplit

from toolstile_plugins.mcp.gateway.faults import ServerFault
from toolstile_plugins.mcp.gateway.settings import ServerSettings
from toolstile_plugins.mcp.gateway.variables import filled, named_in


def secrets_of(settings: ServerSettings) -> tuple[str, ...]:
    """Return the values that are hidden in whatever is said of a server.

    They are those of `env` and `headers`, those of the variables that `args` and `url` name, and
    the user and the query of `url`.
    """
    return tuple(dict.fromkeys(each for each in _found(settings) if each))


def _found(settings: ServerSettings) -> Iterator[str]:
    for value in (*settings.env.values(), *settings.headers.values()):
        whole = _filled(value)
        yield whole
        yield from named_in(value)
        # Of `Bearer TOKEN` the token alone, too.
        yield whole.partition(" ")[2].strip()
    for text in (*settings.args, settings.url or ""):
        yield from named_in(text)
    yield from _of_url(_filled(settings.url or ""))


def _of_url(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        yield parts.username or ""
        yield parts.password or ""
        yield parts.query
        yield from (value for _, value in parse_qsl(parts.query))
    except ValueError:
        return


def _filled(text: str) -> str:
    try:
        return filled(text, "")
    except ServerFault:
        return text
