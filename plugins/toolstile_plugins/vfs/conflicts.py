"""What a call is told when somebody else was faster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from toolstile_hookspecs import ConflictError
from toolstile_plugins.vfs.base import Base, Changes
from toolstile_plugins.vfs.paths import join

_SHOWN: Final = 5


def check_seen(base: Base, changes: Changes) -> None:
    """Check that everything a call has looked at is as it was.

    Raises:
        ConflictError: Naming what has changed.
    """
    moved = [path for path, version in changes.seen.items() if not base.unchanged(path, version)]
    if moved:
        raise conflict(moved)


def check_emptied(base: Base, changes: Changes) -> None:
    """Check that directories which are to go hold nothing that was put there meanwhile.

    Raises:
        ConflictError: Naming what is in the way.
    """
    changed = {change.path for change in changes.made}
    for change in changes.made:
        if change.kind == "directory":
            names = (join(change.path, name) for name in base.names(change.path))
            left = [path for path in names if path not in changed]
            left += [join(change.path, ascii(name)) for name in base.hidden(change.path)]
            if left:
                raise conflict(left)


def conflict(paths: Iterable[str]) -> ConflictError:
    """Return the error that names what has changed."""
    names = sorted(path or "the root" for path in paths)
    shown = ", ".join(names[:_SHOWN])
    if len(names) > _SHOWN:
        shown += f" and {len(names) - _SHOWN} more"
    return ConflictError(
        f"{shown} changed in the workspace since this call looked; nothing was overwritten and "
        "nothing of this call was kept. Read again, then retry."
    )
