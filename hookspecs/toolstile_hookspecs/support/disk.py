"""Names in directories that survive a loss of power."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def make_directory(directory: Path, mode: int = 0o777) -> None:
    """Make a directory, with those above, unless it is there; the names survive a loss of power."""
    missing = [each for each in (directory, *directory.parents) if not each.is_dir()]
    directory.mkdir(mode, parents=True, exist_ok=True)
    for each in missing:
        sync_names(each.parent)


def sync_names(directory: Path) -> None:
    """Have the names in a directory survive a loss of power, as `os.fsync` does for a file."""
    # Windows opens no directory; a user who cannot read one cannot sync it.
    with suppress(PermissionError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
