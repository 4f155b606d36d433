"""The variables of the environment that settings of servers name, and the secrets among these."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from toolstile_plugins.mcp.gateway.errors import ServerFault
from toolstile_plugins.mcp.settings import ServerSettings

_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")


def named_in(text: str) -> Iterator[str]:
    """Yield the values of the variables that a text names, as far as they are set."""
    for name in _VARIABLE.findall(text):
        if name in os.environ:
            yield os.environ[name]


def filled(text: str, where: str) -> str:
    """Return a text with the values of the variables of this process that it names.

    Args:
        text: The text.
        where: The key it stands under, for the message.

    Raises:
        ServerFault: When there is no such variable; names it, and never a value.
    """

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name not in os.environ:
            raise ServerFault(
                f"{where} names the environment variable {name}, which is not set; set it"
            )
        return os.environ[name]

    return _VARIABLE.sub(value, text)


def secrets_of(settings: ServerSettings) -> tuple[str, ...]:
    """Return the values that are hidden in whatever is said of a server.

    They are those of `env` and `headers`, those of the variables that `args` and `url` name, and
    the user and the query of `url`.
    """
    return tuple(dict.fromkeys(value for value in _found(settings) if value))


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
