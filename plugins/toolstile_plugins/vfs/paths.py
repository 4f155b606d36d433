"""Canonical paths, and a plain refusal for text that cannot be a path.

`./a`, `a//b/../c`, `a/` and `/workspace/a` are other spellings of `a`, `a/c`, `a` and `a`; the
root is the empty string. Unicode is kept as it is. Two spellings of one word are two names, as in
file systems.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

ALIAS: Final = "/workspace"
"""The root, for those who want absolute paths."""

RESERVED: Final = ".toolstile"
"""The name that a workspace keeps for itself, in any directory and in any case."""

NO_NAMES: Final = frozenset({"", ".", ".."})
"""The parts of a path that name nothing of their own."""

MAX_NAME_BYTES: Final = 255
MAX_DEPTH: Final = 128
_MAX_PATH_CHARACTERS: Final = 32_768

_FORBIDDEN: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff\\\\]")
_DRIVE: Final = re.compile(r"[A-Za-z]:")


def canonical(path: str) -> str:
    r"""Return the one form of a path.

    Raises:
        PermissionError: When it leads outside the workspace or to what the workspace keeps for
            itself.
        ValueError: When it cannot be a path.

    Example:
        >>> canonical("/workspace/./docs//a.txt")
        'docs/a.txt'
        >>> canonical("docs/..")
        ''
    """
    if len(path) > _MAX_PATH_CHARACTERS:
        raise ValueError(f"The path has {len(path)} characters; {_MAX_PATH_CHARACTERS} at most.")
    _check_characters(path)
    relative = _without_alias(path)
    names: list[str] = []
    for name in relative.split("/"):
        if name == "..":
            if not names:
                raise PermissionError(
                    f"The path {_shown(path)} leads outside the workspace, which cannot be left. "
                    "Give a path relative to its root."
                )
            names.pop()
        elif name not in {"", "."}:
            names.append(name)
    _check_names(path, names)
    return "/".join(names)


def is_usable(name: str) -> bool:
    """Tell whether a name found in a directory can be a part of a path here."""
    return (
        not _FORBIDDEN.search(name)
        and name.casefold() != RESERVED
        and len(name.encode()) <= MAX_NAME_BYTES
    )


def why_unusable(name: str) -> str:
    """Return why a name found in a directory cannot be a part of a path."""
    bad = _FORBIDDEN.search(name)
    if bad is None:
        reserved = name.casefold() == RESERVED
        return "the workspace keeps this name for itself" if reserved else "it is too long"
    if bad[0] == "\\":
        return "it has a backslash"
    return "it has a control character" if bad[0] < "\x80" else "it has bytes that are not UTF-8"


def depth(path: str) -> int:
    """Return how many names a canonical path has."""
    return path.count("/") + 1 if path else 0


def join(directory: str, name: str) -> str:
    """Return the path of a name in a directory, both canonical."""
    return f"{directory}/{name}" if directory else name


def split(path: str) -> tuple[str, str]:
    """Return the directory of a canonical path, and its name in there."""
    directory, _, name = path.rpartition("/")
    return directory, name


def ancestors(path: str) -> Iterator[str]:
    """Yield the directories above a canonical path, nearest first, without the root."""
    directory = path.rpartition("/")[0]
    while directory:
        yield directory
        directory = directory.rpartition("/")[0]


def is_within(path: str, directory: str) -> bool:
    """Tell whether a canonical path is the directory or lies beneath it."""
    return not directory or path == directory or path.startswith(f"{directory}/")


def _check_characters(path: str) -> None:
    bad = _FORBIDDEN.search(path)
    if bad is None:
        return
    character = bad[0]
    if _DRIVE.match(path):
        raise PermissionError(_drive(path))
    if character == "\\":
        raise ValueError(
            f"The path {_shown(path)} holds a backslash. Write paths with /, as in src/main.py."
        )
    what = "NUL" if character == "\0" else f"the character U+{ord(character):04X}"
    raise ValueError(f"The path {_shown(path)} holds {what}, which no path here can hold.")


def _without_alias(path: str) -> str:
    if not path.startswith("/"):
        if _DRIVE.match(path):
            raise PermissionError(_drive(path))
        return path
    if path == ALIAS or path.startswith(f"{ALIAS}/"):
        return path[len(ALIAS) :]
    raise PermissionError(
        f"The path {_shown(path)} is absolute. Give it relative to the workspace, as in "
        f"src/main.py; only {ALIAS}/... is taken for the root."
    )


def _check_names(path: str, names: list[str]) -> None:
    if len(names) > MAX_DEPTH:
        raise ValueError(f"The path is {len(names)} directories deep; {MAX_DEPTH} at most.")
    for name in names:
        if name.casefold() == RESERVED:
            raise PermissionError(
                f"{_shown(path)} cannot be used: the workspace keeps {RESERVED} for itself."
            )
        if len(name.encode()) > MAX_NAME_BYTES:
            raise ValueError(
                f"The name {_shown(name)} has {len(name.encode())} bytes; {MAX_NAME_BYTES} at "
                "most. Choose a shorter one."
            )


def _drive(path: str) -> str:
    return (
        f"The path {_shown(path)} names a drive. Give it relative to the workspace, with /, as "
        "in src/main.py."
    )


def _shown(path: str) -> str:
    text = path if len(path) <= 80 else f"{path[:60]}...{path[-15:]}"  # noqa: PLR2004 - a line
    return ascii(text) if _FORBIDDEN.search(text) else f'"{text}"'
