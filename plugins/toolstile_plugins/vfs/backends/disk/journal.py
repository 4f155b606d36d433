"""The record of a commit: the operations, their paths, and the state of the decision.

A commit has a directory of its own in `.toolstile/`. It holds the new contents (`new-0`, ...) and
takes the replaced and removed ones (`new-0`, `old-0`, ...). The name of its record is the state.
A commit is `prepared` until it is decided, and `decided` until all is done. It is `revoked` while
it is put back after a foreign change. Without a record it is litter.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from pydantic import TypeAdapter

from toolstile_hookspecs import StateError
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.disk.descriptors import CREATE_FILE, READ_DIRECTORY, READ_FILE

State = Literal["prepared", "decided", "revoked"]

STATES: Final[tuple[State, ...]] = ("decided", "revoked", "prepared")
_PREFIX: Final = "commit-"
_VERSION: Final = 1


class RecoveryError(StateError):
    """A commit that a crash has interrupted cannot be finished without a person's help."""


@dataclass(frozen=True, slots=True)
class Image:
    """The identity of a file.

    Args:
        inode: Its number, which a rename keeps.
        size: In bytes.
        mtime_ns: When its content last changed.
        digest: SHA-256 in hex, also of a link's text; None for large files and other kinds.
    """

    inode: int
    size: int
    mtime_ns: int
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a commit.

    Args:
        kind: The operation.
        path: Its path.
        slot: The number of its files in the commit's directory.
        before: The file or link that must be there; None for none.
        after: The file or link that is there afterwards.
        mode: The mode of a directory, made or removed, or the one that is set; None for the usual
            one.
        former: The mode that was there before one is set.
    """

    kind: Literal["install", "remove", "mkdir", "rmdir", "chmod"]
    path: str
    slot: int
    before: Image | None = None
    after: Image | None = None
    mode: int | None = None
    former: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A commit's operations in their order.

    Args:
        operations: The operations.
        key: The call's top-level key, where a decider elsewhere knows its outcome.
        version: Of this format.
    """

    operations: tuple[Operation, ...]
    key: str | None = None
    version: int = _VERSION


class Slots:
    """The directory of a commit: its record, its new contents and what these replace."""

    def __init__(self, area: int, name: str, *, fsync: bool) -> None:
        self.name = name
        self.descriptor = os.open(name, READ_DIRECTORY, dir_fd=area)
        self._area = area
        self._fsync = fsync

    @classmethod
    def make(cls, area: int, *, fsync: bool) -> Slots:
        """Make a new one."""
        name = f"{_PREFIX}{secrets.token_hex(8)}"
        os.mkdir(name, 0o700, dir_fd=area)
        return cls(area, name, fsync=fsync)

    @staticmethod
    def found(names: Iterable[str]) -> list[str]:
        """Return the names of commits among those in `.toolstile/`."""
        return sorted(name for name in names if name.startswith(_PREFIX))

    def write(self, record: Record) -> None:
        """Write the record of a commit that is prepared."""
        handle = os.open("prepared", CREATE_FILE, 0o600, dir_fd=self.descriptor)
        try:
            data = _adapter().dump_json(record)
            while data:
                data = data[os.write(handle, data) :]
            if self._fsync:
                os.fsync(handle)
                os.fsync(self.descriptor)
                os.fsync(self._area)
        finally:
            os.close(handle)

    def change_state(self, before: State, after: State) -> None:
        """Let the record say something else from now on."""
        os.rename(before, after, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        if self._fsync:
            os.fsync(self.descriptor)

    def state(self) -> State | None:
        """Return how far the commit is; None for litter."""
        names = self._names()
        return next((state for state in STATES if state in names), None)

    def read(self, state: State) -> Record | None:
        """Return the record; None for a cut one, which cannot have been decided on.

        Raises:
            RecoveryError: When it cannot be understood.
        """
        handle = os.open(state, READ_FILE, dir_fd=self.descriptor)
        with os.fdopen(handle, "rb") as stream:
            data = stream.read()
        try:
            record = _adapter().validate_json(data)
            if record.version == _VERSION and all(
                operation.path and paths.canonical(operation.path) == operation.path
                for operation in record.operations
            ):
                return record
        except (PermissionError, ValueError):
            pass
        if state == "prepared":
            return None
        raise RecoveryError("its record cannot be understood by this version of Toolstile")

    def close(self) -> None:
        """Leave it where it is."""
        os.close(self.descriptor)

    def remove(self, steps: Callable[[str], None] = lambda step: None) -> None:  # noqa: ARG005 - does nothing
        """Remove it, the record first: from then on the rest is litter."""
        try:
            for state in STATES:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(state, dir_fd=self.descriptor)
                    if self._fsync:
                        os.fsync(self.descriptor)
            steps("forgotten")
            for name in self._names():
                os.unlink(name, dir_fd=self.descriptor)
            os.rmdir(self.name, dir_fd=self._area)
        finally:
            self.close()

    def _names(self) -> list[str]:
        with os.scandir(self.descriptor) as entries:
            return [entry.name for entry in entries]


@cache
def _adapter() -> TypeAdapter[Record]:
    return TypeAdapter(Record)
