"""The limits of digests: in code, and as the table `[plugins.workspace_digest]`."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0, strict=True)]


class DigestConfig(BaseModel):
    """The limits of a digest.

    Args:
        depth: The number of levels of directories that the tree shows.
        max_entries: The maximum number of files and directories in the tree.
        max_chars: The maximum number of characters in a digest.
        max_files: The maximum number of files and directories that are counted, from the root on.
        max_file_size: In bytes; larger files are not read.
        exclude: Lines as in `.gitignore`, for paths that no ignore file decides about.
        summary: The text shown at first; None for the first line of the digest.

    Example:
        >>> DigestConfig(depth=2).max_entries
        120
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    depth: Positive = 3
    max_entries: Positive = 120
    max_chars: Positive = 6_000
    max_files: Positive = 20_000
    max_file_size: Positive = 64 * 1024
    exclude: tuple[str, ...] = (".git/", ".venv/", "__pycache__/", "node_modules/")
    summary: str | None = None
