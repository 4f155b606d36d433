"""The directory of one commit, within `.toolstile/`."""

from __future__ import annotations

import os
import secrets
from typing import Final

from toolstile_plugins.vfs import journal
from toolstile_plugins.vfs.descriptors import READ_DIRECTORY
from toolstile_plugins.vfs.operations import Steps

_PREFIX: Final = "commit-"


class Slots:
    """Holds a commit's record, its new contents and what these replace.

    Args:
        area: Descriptor of `.toolstile/`.
        name: Its name there.
        descriptor: Of the directory.
    """

    def __init__(self, area: int, name: str, descriptor: int) -> None:
        self.name = name
        self.descriptor = descriptor
        self._area = area

    @classmethod
    def make(cls, area: int) -> Slots:
        """Make a new one."""
        name = f"{_PREFIX}{secrets.token_hex(8)}"
        os.mkdir(name, 0o700, dir_fd=area)
        return cls.open(area, name)

    @classmethod
    def open(cls, area: int, name: str) -> Slots:
        """Open one that is there."""
        return cls(area, name, os.open(name, READ_DIRECTORY, dir_fd=area))

    @staticmethod
    def found(area: int) -> list[str]:
        """Return the names of those that are there."""
        with os.scandir(area) as entries:
            return sorted(entry.name for entry in entries if entry.name.startswith(_PREFIX))

    def close(self) -> None:
        """Leave it where it is."""
        os.close(self.descriptor)

    def remove(self, *, fsync: bool, steps: Steps | None = None) -> None:
        """Remove it, the record first: from then on the rest is litter."""
        try:
            journal.forget(self.descriptor, fsync=fsync)
            if steps is not None:
                steps("forgotten")
            with os.scandir(self.descriptor) as entries:
                names = [entry.name for entry in entries]
            for name in names:
                os.unlink(name, dir_fd=self.descriptor)
            os.rmdir(self.name, dir_fd=self._area)
        finally:
            self.close()
