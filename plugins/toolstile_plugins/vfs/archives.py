"""Archives, which can hold names that no path leads to."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from typing import Any, Final

from toolstile_plugins.vfs import paths

ENDINGS: Final = {".zip": "zip", ".tar": "tar", ".tar.gz": "tar", ".tgz": "tar"}
"""How archives are called, and the protocol that fsspec opens them with."""

LINK: Final = "a link, which mounts do not follow"
"""How messages call a link."""

OTHER: Final = "neither file nor directory"
"""How messages call a device, say."""

_PROTOCOLS: Final = frozenset(ENDINGS.values())


def protocols(files: Any) -> tuple[str, ...]:
    """Return the protocols of one of fsspec's file systems."""
    protocol: str | tuple[str, ...] = files.protocol
    return (protocol,) if isinstance(protocol, str) else protocol


def is_archive(files: Any) -> bool:
    """Tell whether one of fsspec's file systems is an archive."""
    return not _PROTOCOLS.isdisjoint(protocols(files))


def special(files: Any) -> dict[str, str]:
    """Return by name what in an archive is neither file nor directory, which fsspec does not tell.

    A tar archive's hard link is another name of a file.
    """
    if "zip" in protocols(files):
        entries = files.zip.infolist()
        return {each.filename: LINK for each in entries if stat.S_ISLNK(each.external_attr >> 16)}
    # The last one of a name is the one that is read.
    members = {re.sub("/+", "/", each.name): each for each in files.tar}
    return {
        name: LINK if each.issym() else OTHER
        for name, each in members.items()
        if not (each.isfile() or each.isdir() or each.islnk())
    }


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
