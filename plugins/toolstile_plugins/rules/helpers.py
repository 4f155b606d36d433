"""The variables and the functions of expressions."""

from __future__ import annotations

import ipaddress
import posixpath
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

from toolstile_hookspecs import Tool, ToolContext
from toolstile_hookspecs.tools import Category, Consequence
from toolstile_plugins.policies.governed_files import WORKSPACE, DirectoryFiles
from toolstile_plugins.policies.path_arguments import Schema

ARGUMENTS: Final = "args"
SESSION: Final = "session"
_TEXT: Final[Schema] = {"type": "string"}
_TEXTS: Final[Schema] = {"type": "array", "items": _TEXT}


class EvaluationFailed(Exception):
    """An expression has no value; the text says why."""


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": [*properties]}


COMMAND: Final = _object(program=_TEXT, words=_TEXTS, assignments=_TEXTS, redirections=_TEXTS)
"""The schema of a command in `commands()`."""

SCHEMAS: Final[Mapping[str, Schema]] = {
    "tool": _object(
        name=_TEXT,
        category={"enum": list(get_args(Category))},
        consequence={"enum": list(get_args(Consequence))},
        server=_TEXT,
        tags=_TEXTS,
    ),
    "principal": _object(source=_TEXT, id=_TEXT, groups=_TEXTS),
    "agent": _TEXT,
    "request": _TEXTS,
    SESSION: {"type": "session"},
    "now": {"type": "timestamp"},
}


def _tool(tool: Tool[Any, Any], _: ToolContext) -> Mapping[str, Any]:
    return {
        "name": tool.name,
        "category": tool.category,
        "consequence": tool.consequence,
        "server": tool.origin or "",
        "tags": [*tool.tags],
    }


def _principal(_: Tool[Any, Any], context: ToolContext) -> Mapping[str, Any]:
    who = context.principal
    if who is None:
        raise EvaluationFailed("the principal of the call is unknown")
    return {"source": who.source, "id": who.id, "groups": sorted(who.groups)}


def _request(_: Tool[Any, Any], context: ToolContext) -> list[str]:
    if not context.request:
        raise EvaluationFailed("the user's request is unknown")
    return [turn.text for turn in context.request]


MAKERS: Final[Mapping[str, Callable[[Tool[Any, Any], ToolContext], Any]]] = {
    "tool": _tool,
    "principal": _principal,
    "agent": lambda _, context: context.agent,
    "request": _request,
    "now": lambda _, context: context.clock.now(),
}
"""Functions that return the value of a variable for a call; `EvaluationFailed` without one."""


_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_DOUBTFUL: Final = re.compile(
    r"[\\\x00-\x1f\x7f]|%[0-9A-Fa-f]{2}|%\w+%|\$\w|\$\{|\A[~\s\"'`]|[\s\"'`]\Z|[. ](?:/|\Z)"
)
_UP: Final = re.compile(r"(?:\A|/)\.\.?(?=/|\Z)")
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]+)(?:[/?#]\S*)?")
_BARE: Final = re.compile(r"[^/?#:]+(?:[/?#]\S*)?")
_WITHOUT_HOST: Final = frozenset({"data", "file", "javascript", "mailto", "vbscript"})
"""Schemes whose programs do not connect to the host in such a URL."""
_MAIL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+'=~-]*@([^@]+)")
_HOST: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_LONGEST: Final = 253
_PORT: Final = re.compile(r":[0-9]{0,5}\Z")
_NUMERIC: Final = re.compile(r"(?:\A|\.)(?:[0-9]+|0x[0-9a-f]*)\Z")


def path_in(root: Path | None, path: str) -> str:
    """Return the one spelling of a path, by the rules of read-before-write.

    Relative to a `root`, links are followed, and names alike are one. Without one, the path is of
    the workspace, and only normalized; each spelling that is refused then is refused with one, too.
    Raises `ValueError` if the path leads outside, or programs may read it in several ways.
    """
    if not path or _ADDRESS.match(path) or _DOUBTFUL.search(_UP.sub("", path)):
        raise ValueError(f"{path!a} may be read in several ways. Give the plain path.")
    if not path.isascii() and unicodedata.normalize("NFKC", path) != path:
        raise ValueError(f"{path!a} looks like another path. Give it in the form NFKC of Unicode.")
    given = path
    if path == WORKSPACE or path.startswith(f"{WORKSPACE}/"):
        path = path.removeprefix(WORKSPACE).lstrip("/")
    found = posixpath.normpath(path or ".")
    if found.split("/", 1)[0] == posixpath.pardir:
        raise ValueError(f"{path!a} leads outside of the workspace. Give a path within it.")
    if root is not None:
        return _in_directory(DirectoryFiles(root), given)
    return f"/{found.lstrip('/')}" if found.startswith("/") else found


def _in_directory(files: DirectoryFiles, path: str) -> str:
    found = files.canonical(path)
    if files.kind(found) is not None:
        return found
    # A new file may be in an existing directory, under a similar name.
    above, name = posixpath.split(found)
    return files.taken_for(posixpath.join(_in_directory(files, above) if above else "", name))


def host_of(url: str, scheme: str = "") -> str:
    """Return the host of a URL in lower case; `scheme` is that of a URL without one.

    Raises `ValueError` if it has no host, or programs may read it as another.
    """
    if scheme and _BARE.fullmatch(url):
        url = f"{scheme}://{url}"
    found = _URL.fullmatch(url)
    host = _PORT.sub("", found[2]) if found and found[1].lower() not in _WITHOUT_HOST else ""
    with suppress(ValueError):
        if host.startswith("[") and host.endswith("]") and "%" not in host:
            return f"[{ipaddress.IPv6Address(host[1:-1])}]"
        return _plain_host(host)
    raise ValueError(
        f"{url!a} has no host that all programs agree on. Give scheme://host/path, in ASCII and "
        "without a password."
    )


def mail_host_of(address: str) -> str:
    """Return the host of a plain e-mail address in lower case.

    Raises `ValueError` if it is not plain, or programs may read it as another.
    """
    found = _MAIL.fullmatch(address)
    with suppress(ValueError):
        return _plain_host(found[1] if found else "")
    raise ValueError(
        f"{address!a} is not an address that all programs agree on. Give name@host alone, in ASCII."
    )


def _plain_host(text: str) -> str:
    host = text.removesuffix(".").lower()
    if not text.isascii() or len(host) > _LONGEST or not _HOST.fullmatch(host):
        raise ValueError(text)
    return str(ipaddress.IPv4Address(host)) if _NUMERIC.search(host) else host


def words_of(text: str) -> list[str]:
    """Return the words of a text, without case, accents of spelling and invisible characters."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    seen = "".join(char for char in plain if unicodedata.category(char) != "Cf")
    return re.findall(r"\w+", seen)


def commands_of(line: str | Sequence[str]) -> list[dict[str, Any]]:
    """Return the simple commands that a shell line would run; a list of words is one.

    Raises `ValueError` if it is unknown which commands it runs.
    """
    # Late, because few rules are over commands.
    from toolstile_plugins.rules.shell.lines import listed, parsed

    read = listed(line) if not isinstance(line, str) else parsed(line)
    if read.unknown:
        raise ValueError(f"it is unknown which commands it runs: {read.unknown}. Write it plainly.")
    return [
        {
            "program": "".join(word.text.rpartition("/")[2] for word in each.words[:1]),
            "words": [word.text for word in each.words],
            "assignments": [word.text for word in each.assignments],
            "redirections": [f"{operator} {word.text}" for operator, word in each.redirections],
        }
        for each in read.commands
    ]


SPELLINGS: Final[Mapping[str, tuple[Callable[[str], str], str]]] = {
    "host": (
        lambda text: host_of(f"https://{text}"),
        "write a host alone, in lower case, without scheme, port and path",
    ),
    "mail_host": (
        lambda text: mail_host_of(f"a@{text}"),
        "write a host alone, in lower case, without a name and @",
    ),
    "path": (
        partial(path_in, None),
        f"write a path as from the workspace on, without {WORKSPACE}, ./, // and a / at its end",
    ),
    "words": (lambda text: "\n".join(words_of(text)), "write one word, in small letters"),
}
"""By the name of a function, its spelling of a text, and how to write one."""


def is_given(name: str, text: str, around: tuple[str, str] = ("", "")) -> bool:
    """Tell whether a function may give a text, or one with more around it.

    Example:
        >>> is_given("host", "Example.com"), is_given("path", "etc/", ("", "x"))
        (False, True)
    """
    whole = text.join(around)
    try:
        return SPELLINGS[name][0](whole) == whole
    except ValueError:
        # The text around it may be at fault.
        return any(around)
