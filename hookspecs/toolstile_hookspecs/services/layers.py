"""The parts of a workspace, for sandboxes that lay it out as a directory and harvest it again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class WorkspaceLayers:
    """The parts of which a call's workspace consists.

    Args:
        directory: The real directory underneath; None where there is none, as in memory.
        changed: The paths that differ from it so far, each with True where the directory shows
            nothing beneath it any more.
        mounts: The paths of parts that only can be read, each with its real directory, or None.
    """

    directory: str | None = None
    changed: Mapping[str, bool] = field(default_factory=dict[str, bool])
    mounts: Mapping[str, str | None] = field(default_factory=dict[str, str | None])


@runtime_checkable
class SupportsLayers(Protocol):
    """An optional part of a `Filesystem`: a sandbox need not copy all of it."""

    def layers(self) -> WorkspaceLayers:
        """Return the parts of the workspace as this call sees it."""
        ...

    def take(
        self,
        path: str,
        source: str | os.PathLike[str],
        *,
        mode: int,
        modified: int,
        keeper: object = None,
    ) -> None:
        """Make the file at a path the one that a program has left outside of the workspace.

        Args:
            path: The path, at which there may be anything but a directory.
            source: The file. Nobody else changes it from now on.
            mode: Its permission bits.
            modified: When it last changed, in nanoseconds since 1970.
            keeper: Lives as long as the file may be needed, such as what removes its directory.
        """
