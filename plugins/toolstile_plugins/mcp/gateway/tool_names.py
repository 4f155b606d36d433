"""Names of the tools of servers."""

from __future__ import annotations

import hashlib
import re
from typing import Final

LONGEST: Final = 64
_STRANGE: Final = re.compile(r"[^a-z0-9_-]+")
_HASHED: Final = 6


def prefix_of(server: str) -> str:
    """Return what goes before the names of a server's tools unless it is configured.

    Example:
        >>> prefix_of("GitHub Issues")
        'github_issues_'
    """
    return f"{_slug(server)[:40]}_"


def tool_name(prefix: str, own: str) -> str:
    """Return the name of a tool here: of letters that a name may have, and not too long.

    A name that is too long is cut, and ends with some digits of its hash.

    Example:
        >>> tool_name("gh_", "Issues.List")
        'gh_issues_list'
    """
    name = f"{prefix}{_slug(own)}"
    if len(name) <= LONGEST:
        return name
    digits = hashlib.sha256(own.encode("utf-8", "replace")).hexdigest()[:_HASHED]
    return f"{name[: LONGEST - _HASHED - 1]}_{digits}"


def _slug(text: str) -> str:
    return _STRANGE.sub("_", text.lower()).strip("_") or "tool"
