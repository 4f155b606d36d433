"""Contents beside a workspace, to be read only, and the links by which clients find them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

from toolstile_hookspecs.content import ResourceLink

WORKSPACE_URI: Final = "workspace:///"
"""The beginning of links into a workspace; what serves them elsewhere puts its own there."""


@runtime_checkable
class SupportsAttachments(Protocol):
    """An optional part of a `Filesystem`: contents to be read that are not part of its tree."""

    def attach(self, content: bytes, suffix: str = "") -> str:
        """Let a content be read at a path that no listing, search, diff, digest or commit shows.

        It stays, whatever becomes of the call, until the workspace is closed or newer ones need
        the room.

        Args:
            content: The content.
            suffix: The end of the path, such as `.txt`.

        Returns:
            The path.
        """
        ...


@runtime_checkable
class SupportsLinks(Protocol):
    """An optional part of a value: resources beside it, for clients that can read them."""

    @property
    def links(self) -> Sequence[ResourceLink]:
        """The links."""
        ...
