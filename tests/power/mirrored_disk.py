"""A folder that loses its power: what was not synced to the disk is gone.

`power_cut.c` says which bytes and names its mirror holds.
"""

from __future__ import annotations

import ctypes
import os
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, run
from typing import NamedTuple

SOURCE = Path(__file__).with_name("power_cut.c")


def build(folder: Path) -> Path:
    """Compile the library that keeps the mirror."""
    library = folder / "power_cut.so"
    warnings = ["-Wall", "-Wextra", "-Werror"]
    run(["cc", "-shared", "-fPIC", "-pthread", *warnings, "-o", library, SOURCE], check=True)
    return library


class Name(NamedTuple):
    """A name in a folder.

    Args:
        kind: `d` for a folder.
        key: See `power_cut.c`.
        name: The name.
    """

    kind: str
    key: str
    name: str


class MirroredDisk:
    """A folder with its mirror.

    Args:
        folder: Where both lie.
        library: The compiled `power_cut.c`.

    Attributes:
        root: The folder that loses its power.
    """

    def __init__(self, folder: Path, library: Path) -> None:
        self.root = folder.resolve() / "disk"
        self._mirror = self.root.with_name("mirror")
        self._lost = self.root.with_name("lost")
        self._library = ctypes.CDLL(str(library))
        self.environment = {
            "LD_PRELOAD": str(library),
            "POWER_CUT_ROOT": str(self.root),
            "POWER_CUT_MIRROR": str(self._mirror),
        }
        """The variables of processes that use the folder; this one sees to its own."""
        if not self.root.exists():
            self.root.mkdir(parents=True)
            self.settle()

    def settle(self) -> None:
        """Have all that is there on the disk."""
        # First the mirror: while it is there, nothing that it mirrors is removed for good.
        past = self._mirror.with_name("past")
        if self._mirror.exists():
            self._mirror.rename(past)
        for folder in (past, self._lost):
            shutil.rmtree(folder, ignore_errors=True)
        for name in ("files", "folders", "kept"):
            (self._mirror / name).mkdir(parents=True)
        for path in (self.root, *self.root.rglob("*")):
            self._sync(path)

    def run(self, program: str) -> str:
        """Run a program in the folder, and return what it prints."""
        command, environment = [sys.executable, "-c", program], {**os.environ, **self.environment}
        done = run(
            command, env=environment, cwd=self.root, check=True, stdout=PIPE, text=True, timeout=300
        )
        return done.stdout

    def cut(self, chance: random.Random | None = None) -> None:
        """Put what the disk holds in the place of the folder.

        Args:
            chance: Lets the system have written more than it had to: all names, and the bytes of
                some files. None for a system that writes at fsync only.
        """
        if chance is not None:
            for path in (self.root, *self.root.rglob("*")):
                if path.is_dir() or chance.random() < 0.5:
                    self._sync(path)
        self.root.rename(self._lost)
        found = [*self._lost.rglob("*"), *(self._mirror / "kept").iterdir()]
        self._lay(self.root, self._key(self._lost), {self._key(path): path for path in found})
        self.settle()

    def _lay(self, folder: Path, key: str, inodes: dict[str, Path]) -> None:
        folder.mkdir()
        for each in self._names(key):
            path = folder / each.name
            if each.kind == "d":
                self._lay(path, each.key, inodes)
            elif (there := inodes.get(each.key)) is not None and there.is_relative_to(self.root):
                os.link(there, path)
            else:
                self._lay_file(path, each.key, there)
                inodes[each.key] = path

    def _lay_file(self, path: Path, key: str, there: Path | None) -> None:
        """Give a file, with the inode that it had, the bytes and the time that are on the disk."""
        if there is not None:
            there.rename(path)
        mirrored = self._mirror / "files" / key
        path.write_bytes(mirrored.read_bytes() if mirrored.exists() else b"")
        if mirrored.exists():
            status = mirrored.stat()
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _names(self, key: str) -> Iterator[Name]:
        names = self._mirror / "folders" / key
        if names.exists():
            for line in names.read_text().split("\0")[:-1]:
                yield Name(*line.split(" ", 2))

    def _key(self, path: Path) -> str:
        buffer = ctypes.create_string_buffer(64)
        assert self._library.power_cut_key(os.fsencode(path), buffer), path
        return buffer.value.decode()

    def _sync(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            assert not self._library.fsync(descriptor)
        finally:
            os.close(descriptor)
