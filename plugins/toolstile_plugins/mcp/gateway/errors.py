"""Texts, faults and variables of servers, fit to be read by a model and a person."""

from __future__ import annotations

import os
import re
import unicodedata
from contextlib import suppress
from typing import Final, cast
from urllib.parse import parse_qsl, urlsplit

from pydantic import ValidationError

from toolstile_hookspecs import ToolstileError
from toolstile_plugins.mcp.settings import ServerSettings

# --- Texts


CUT: Final = "..."
NESTED_DEEPER: Final = "#/nested too deeply"
"""The reference that stands for a part of a message that is not read."""
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, movements of the cursor
    r"|[\x1b\x9d]\]?[^\x07\x1b\x9c]{0,1000}(?:\x07|\x1b\\|\x9c)"  # titles, links
)
_KEPT: Final = frozenset("\n\t")
# Categories of characters that are invisible, or change the look of their neighbours.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})


def cleaned(text: str) -> str:
    r"""Return a text without terminal escapes, control and invisible characters.

    Example:
        >>> cleaned("a\x1b[31mred\x1b[0m \u202etxt.exe")
        'ared txt.exe'
    """
    if text.isascii() and text.isprintable():
        return text
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    return "".join(
        character for character in text if character in _KEPT or not _is_unseen(character)
    )


def one_line(text: str, limit: int = 200) -> str:
    """Return a text on one line, cut if it is longer than the limit."""
    line = " ".join(cleaned(text).split())
    return line if len(line) <= limit else f"{line[: limit - len(CUT)].rstrip()}{CUT}"


def is_plain(name: str) -> bool:
    """Tell whether a name has only visible characters."""
    return not any(_is_unseen(character) for character in name)


def amount(size: int) -> str:
    """Return a number of bytes as people read it."""
    for unit, step in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if size >= step:
            return f"{size / step:.3g} {unit}"
    return f"{size} bytes"


def _is_unseen(character: str) -> bool:
    return unicodedata.category(character) in _UNSEEN


# --- Faults


MOST: Final = 500


class ServerFault(ToolstileError):
    """A server cannot be used; the text names it, the cause and the remedy."""


class ServerBroken(ToolstileError):
    """A connection had to be ended for a message of the server; the text says why."""


def told(error: BaseException) -> str:
    """Return the text of an error (of a group, its first), without details for programmers."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"the program {error.filename} does not exist"
    if isinstance(error, ValidationError):
        return one_line(f"its answer does not fit the protocol: {where_wrong(error)}")
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return one_line(text, MOST).rstrip(".") or type(error).__name__


def where_wrong(error: ValidationError) -> str:
    """Return the first place where a message does not fit, and why."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


# --- Nested hosts


DEPTH: Final = "TOOLSTILE_MCP_DEPTH"
"""The environment variable that counts the hosts above a program."""
DEEPEST: Final = 4


def one_deeper() -> dict[str, str]:
    """Return the variable with the number of hosts above a program; `ServerFault` beyond 4."""
    depth = os.environ.get(DEPTH, "")
    above = int(depth) if depth.isdecimal() else 0
    if above >= DEEPEST:
        raise ServerFault(
            f"{above} hosts stand behind one another already; if Toolstile is its own server here, "
            "take it out of the configuration"
        )
    return {DEPTH: str(above + 1)}


_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")


def filled(text: str, where: str) -> str:
    """Return a text with the values of the variables of this process that it names.

    Raises `ServerFault` for a variable that is not set, naming it and the key, never a value.
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
    """Return the values that are hidden in messages about a server.

    These are the values of `env` and `headers`, of the variables in `args` and `url`, and the user
    and the query of `url`.
    """
    found: list[str] = []
    for value in (*settings.env.values(), *settings.headers.values()):
        whole = _filled(value)
        # Of `Bearer TOKEN` the token alone, too.
        found += [whole, *_named_in(value), whole.partition(" ")[2].strip()]
    for text in (*settings.args, settings.url or ""):
        found += _named_in(text)
    with suppress(ValueError):
        parts = urlsplit(_filled(settings.url or ""))
        found += [parts.username or "", parts.password or "", parts.query]
        found += [value for _, value in parse_qsl(parts.query)]
    return tuple(dict.fromkeys(filter(None, found)))


def _named_in(text: str) -> list[str]:
    return [os.environ[name] for name in _VARIABLE.findall(text) if name in os.environ]


def _filled(text: str) -> str:
    try:
        return filled(text, "")
    except ServerFault:
        return text
