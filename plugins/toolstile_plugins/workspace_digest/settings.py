"""The bounds of digests: in code, and as the table `[plugins.workspace_digest]`."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0, strict=True)]


class DigestConfig(BaseModel):
    """The bounds of what is looked at and shown.

    Args:
        depth: Directories of this many levels are shown.
        max_entries: Files and directories that the tree shows at most.
        max_chars: Characters of a digest at most.
        max_files: Files and directories that are counted at most; the nearest to the root first.
        max_file_size: In bytes; of larger files nothing is read.
        exclude: Lines as in `.gitignore`, for what is left out wherever no ignore file decides.
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
