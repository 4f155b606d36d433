"""Archives, which can hold names that no path leads to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from toolyard_plugins.vfs import paths

ENDINGS: Final = {".zip": "zip", ".tar": "tar", ".tar.gz": "tar", ".tgz": "tar"}
"""How archives are called, and the protocol that fsspec opens them with."""

_PROTOCOLS: Final = frozenset(ENDINGS.values())


def protocols(files: Any) -> tuple[str, ...]:
    """Return the protocols of one of fsspec's file systems."""
    protocol: str | tuple[str, ...] = files.protocol
    return (protocol,) if isinstance(protocol, str) else protocol


def is_archive(files: Any) -> bool:
    """Tell whether one of fsspec's file systems is an archive."""
    return not _PROTOCOLS.isdisjoint(protocols(files))


def unreachable(files: Any, root: str) -> dict[str, dict[str, str]]:
    """Return, by directory, the names in an archive that no path leads to, with the reasons.

    Args:
        files: fsspec's file system of the archive.
        root: The directory of it that is looked at.
    """
    files.ls("", detail=False)
    kinds = {str(name): str(info.get("type")) for name, info in files.dir_cache.items()}
    found: dict[str, dict[str, str]] = {}
    for name, kind in kinds.items():
        if kind != "directory" and paths.is_within(name, root):
            inside = name[len(root) :].removeprefix("/") if root else name
            lost = _lost(inside, root, kinds)
            if lost is not None:
                directory, rest, reason = lost
                found.setdefault(directory, {})[rest] = reason
    return found


def _lost(name: str, root: str, kinds: Mapping[str, str]) -> tuple[str, str, str] | None:
    """Return at which directory a name leads nowhere, what it is from there, and why."""
    directory, rest = "", name
    while rest:
        first, _, further = rest.partition("/")
        if first in paths.NO_NAMES:
            return directory, rest, "it has an empty part, . or .."
        if not paths.is_usable(first):
            return directory, rest, paths.why_unusable(first)
        here = paths.join(directory, first)
        if further and kinds.get(paths.join(root, here)) == "file":
            return directory, rest, f"{first} is a file"
        directory, rest = here, further
    return None
