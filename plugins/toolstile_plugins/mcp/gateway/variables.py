"""`${NAME}` in what is configured of a server: variables of this process's environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

from toolstile_plugins.mcp.gateway.faults import ServerFault

_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")


def named_in(text: str) -> Iterator[str]:
    """Yield the values of the variables that a text names, as far as they are set."""
    for name in _VARIABLE.findall(text):
        if name in os.environ:
            yield os.environ[name]


def filled(text: str, where: str, environment: Mapping[str, str] | None = None) -> str:
    """Return a text with the values of the variables it names.

    Args:
        text: The text.
        where: The key it stands under, for the message.
        environment: The variables; those of this process if not given.

    Raises:
        ServerFault: When there is no such variable; names it, and never a value.

    Example:
        >>> filled("Bearer ${TOKEN}", "headers", {"TOKEN": "t0p"})
        'Bearer t0p'
    """
    known = os.environ if environment is None else environment

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name not in known:
            raise ServerFault(
                f"{where} names the environment variable {name}, which is not set; set it"
            )
        return known[name]

    return _VARIABLE.sub(value, text)
