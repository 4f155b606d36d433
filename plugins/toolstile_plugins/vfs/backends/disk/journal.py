"""The record of a commit: what is to happen to which path, and how far the decision is.

A commit has a directory of its own in `.toolstile/`. It holds the new contents (`new-0`, ...),
takes what is replaced or removed (`new-0`, `old-0`, ...), and one record, whose name tells the
state: `prepared` until it is decided, `decided` until all is done, `revoked` while a commit that
met a foreign change is put back. Without a record it is litter.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from pydantic import TypeAdapter, ValidationError

from toolstile_hookspecs import StateError
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.disk.descriptors import CREATE_FILE, READ_FILE

State = Literal["prepared", "decided", "revoked"]

STATES: Final[tuple[State, ...]] = ("decided", "revoked", "prepared")
_VERSION: Final = 1


class RecoveryError(StateError):
    """A commit that a crash has interrupted cannot be finished without a person's help."""


@dataclass(frozen=True, slots=True)
class Image:
    """By what a file is recognised.

    Args:
        inode: Its number, which a rename keeps.
        size: In bytes.
        mtime_ns: When its content last changed.
        digest: SHA-256 in hex; None for what is large or no file.
    """

    inode: int
    size: int
    mtime_ns: int
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a commit.

    Args:
        kind: What is done.
        path: To which path.
        slot: The number of its files in the commit's directory.
        before: What must be there; None for nothing.
        after: What is then there.
        mode: Of a directory that is made, or removed and may have to be made again; None for
            the usual one.
    """

    kind: Literal["install", "remove", "mkdir", "rmdir"]
    path: str
    slot: int
    before: Image | None = None
    after: Image | None = None
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A commit's operations in their order.

    Args:
        operations: What is to be done.
        key: The call's top-level key, where a decider elsewhere knows what became of it.
        version: Of this format.
    """

    operations: tuple[Operation, ...]
    key: str | None = None
    version: int = _VERSION


@cache
def _adapter() -> TypeAdapter[Record]:
    return TypeAdapter(Record)


def write(directory: int, record: Record, *, fsync: bool) -> None:
    """Write the record of a commit that is prepared."""
    handle = os.open("prepared", CREATE_FILE, 0o600, dir_fd=directory)
    try:
        data = _adapter().dump_json(record)
        while data:
            data = data[os.write(handle, data) :]
        if fsync:
            os.fsync(handle)
            os.fsync(directory)
    finally:
        os.close(handle)


def change_state(directory: int, before: State, after: State, *, fsync: bool) -> None:
    """Let the record say something else from now on."""
    os.rename(before, after, src_dir_fd=directory, dst_dir_fd=directory)
    if fsync:
        os.fsync(directory)


def forget(directory: int, *, fsync: bool) -> None:
    """Remove the record: from now on the commit's directory is litter."""
    for state in STATES:
        try:
            os.unlink(state, dir_fd=directory)
        except FileNotFoundError:
            continue
        if fsync:
            os.fsync(directory)


def state_of(directory: int) -> State | None:
    """Return how far a commit is; None for litter."""
    with os.scandir(directory) as entries:
        names = {entry.name for entry in entries}
    return next((state for state in STATES if state in names), None)


def read(directory: int, state: State) -> Record | None:
    """Return a commit's record; None when it was cut short, so that nobody can have decided on it.

    Raises:
        RecoveryError: When it cannot be understood.
    """
    handle = os.open(state, READ_FILE, dir_fd=directory)
    with os.fdopen(handle, "rb") as stream:
        data = stream.read()
    try:
        record = _adapter().validate_json(data)
        well_formed = record.version == _VERSION and all(
            each.path and paths.canonical(each.path) == each.path for each in record.operations
        )
    except (ValidationError, PermissionError, ValueError):
        well_formed, record = False, Record(())
    if not well_formed and state == "prepared":
        return None
    if not well_formed:
        raise RecoveryError("its record cannot be understood by this version of Toolstile")
    return record
