"""The operations of a commit, each carried out only onto the file it was prepared for; the record.

Each commit has a directory in `.toolstile/`. It holds the new contents (`new-0`, ...) and
takes the replaced and removed ones (`new-0`, `old-0`, ...). The name of its record is the state.
A commit is `prepared` until it is decided, and `decided` until all operations are done. It is
`revoked` while they are undone after a foreign change. Without a record it is litter.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from pydantic import TypeAdapter

from toolstile_hookspecs import StateError
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.base import Undo
from toolstile_plugins.vfs.backends.disk import descriptors
from toolstile_plugins.vfs.backends.disk.descriptors import CREATE_FILE, READ_DIRECTORY, READ_FILE

State = Literal["prepared", "decided", "revoked"]

STATES: Final[tuple[State, ...]] = ("decided", "revoked", "prepared")
_PREFIX: Final = "commit-"
_VERSION: Final = 1


class RecoveryError(StateError):
    """A commit that a crash has interrupted needs a person to finish."""


@dataclass(frozen=True, slots=True)
class Image:
    """The identity of a file."""

    inode: int  # its number, which a rename keeps
    size: int  # in bytes
    mtime_ns: int  # when its content last changed
    # SHA-256 in hex, also of a link's text; None for large files and other kinds.
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a commit."""

    kind: Literal["install", "remove", "mkdir", "rmdir", "chmod"]
    path: str
    slot: int  # the number of its files in the commit's directory
    before: Image | None = None  # the file or link that must be there before; None for none
    after: Image | None = None  # the file or link that is there afterwards
    # The mode of a directory that is made or removed, or the mode to set; None for the usual one.
    mode: int | None = None
    former: int | None = None  # the mode that was there before one is set


@dataclass(frozen=True, slots=True)
class Record:
    """A commit's operations in their order."""

    operations: tuple[Operation, ...]
    key: str | None = None  # the call's top-level key, where a decider elsewhere knows its outcome
    undo: Undo | None = None
    version: int = _VERSION  # of this format


class Slots:
    """The directory of a commit: its record, its new contents and the contents they replace."""

    def __init__(self, area: int, name: str, *, fsync: bool) -> None:
        self.name = name
        self.descriptor = os.open(name, READ_DIRECTORY, dir_fd=area)
        self._area = area
        self._fsync = fsync

    @classmethod
    def make(cls, area: int, *, fsync: bool) -> Slots:
        name = f"{_PREFIX}{secrets.token_hex(8)}"
        os.mkdir(name, 0o700, dir_fd=area)
        return cls(area, name, fsync=fsync)

    @staticmethod
    def found(names: Iterable[str]) -> list[str]:
        """Return the names of commits among those in `.toolstile/`."""
        return sorted(name for name in names if name.startswith(_PREFIX))

    def write(self, record: Record) -> None:
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
        os.rename(before, after, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        if self._fsync:
            os.fsync(self.descriptor)

    def state(self) -> State | None:
        """Return how far the commit is; None for litter."""
        names = self._names()
        return next((state for state in STATES if state in names), None)

    def read(self, state: State) -> Record | None:
        """Return the record, or None if it was cut while undecided; or raise `RecoveryError`."""
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
        """Close it; the files stay."""
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

    def end(self, undo: Undo | None, steps: Callable[[str], None] = lambda step: None) -> None:  # noqa: ARG005 - does nothing
        """Remove it, or move it into the store of undos, which is faster."""
        if undo is None:
            self.remove(steps)
            return
        try:
            os.rename(self.name, undo.directory, src_dir_fd=self._area)
        except OSError as error:
            if error.errno == errno.EXDEV:
                # In two steps, so that a crash leaves no half of it under its name.
                part, source = f"{undo.directory}.part", f"/proc/self/fd/{self.descriptor}"
                with contextlib.suppress(OSError):
                    shutil.copytree(source, part, symlinks=True)
                    os.replace(part, undo.directory)  # noqa: PTH105 - of texts
            # A missing store of undos must not stop a workspace.
            self.remove(steps)
        else:
            self.close()
        steps("kept")

    def _names(self) -> list[str]:
        return os.listdir(self.descriptor)  # noqa: PTH208 - of a descriptor


@cache
def _adapter() -> TypeAdapter[Record]:
    return TypeAdapter(Record)


Steps = Callable[[str], None]


class BlockedError(Exception):
    """Another file is in the place of an operation."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class Operations:
    """The operations of one commit.

    A finished one has left its mark in the commit's directory, for recovery after a crash. The
    file that it replaced or removed lies there, too.
    """

    def __init__(
        self, root: int, slots: int, operations: Sequence[Operation], steps: Steps
    ) -> None:
        self._root = root
        self._slots = slots
        self._operations = operations
        self._steps = steps
        # The operations that `apply` has begun. None after a crash: then the marks decide.
        self._begun: list[int] | None = None

    def blocked(self) -> list[str]:
        """Return the paths whose content is not the recorded one."""
        blocked: list[str] = []
        vacated: set[str] = set()
        for operation in self._operations:
            state = self._state(operation, vacated)
            if state == "blocked":
                blocked.append(operation.path)
            elif state == "pending" and operation.kind in {"remove", "rmdir"}:
                vacated.add(operation.path)
        return blocked

    def apply(self) -> None:
        """Carry out the operations that are not done yet, up to a `BlockedError`."""
        self._begun = []
        for index, operation in enumerate(self._operations):
            self._steps(f"apply:{index}")
            state = self._state(operation, set())
            if state == "blocked":
                raise BlockedError(operation.path)
            if state == "pending":
                self._begun.append(index)
                self._apply(operation)

    def undo(self) -> list[str]:
        """Undo the operations, last first; return the paths where that is impossible."""
        stuck: list[str] = []
        begun = range(len(self._operations)) if self._begun is None else self._begun
        for index in reversed(begun):
            self._steps(f"undo:{index}")
            operation = self._operations[index]
            try:
                done = self._undo(operation)
            except OSError:
                done = False
            if not done:
                stuck.append(operation.path)
        return stuck

    def sync(self) -> None:
        """Make sure that the directories with changes are on the disk."""
        for directory in {paths.split(operation.path)[0] for operation in self._operations}:
            try:
                with descriptors.listable(self._root, directory) as handle:
                    os.fsync(handle)
            except PermissionError:
                # Its user has closed it, so that this process cannot open it alone.
                os.sync()
            except (FileNotFoundError, NotADirectoryError):
                pass
        for operation in self._operations:
            if operation.kind != "chmod":
                continue
            with (
                contextlib.suppress(OSError),
                descriptors.parent_of(self._root, operation.path) as (parent, name),
            ):
                handle = os.open(name, READ_FILE, dir_fd=parent)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)

    # --- state ---

    def _state(
        self, operation: Operation, vacated: set[str]
    ) -> Literal["pending", "done", "blocked"]:
        found = None if operation.path in vacated else descriptors.look(self._root, operation.path)
        is_directory = found is not None and stat.S_ISDIR(found.st_mode)
        if operation.kind == "mkdir":
            return "done" if is_directory else "blocked" if found is not None else "pending"
        if operation.kind == "rmdir":
            return "pending" if is_directory else "done"
        if operation.kind == "chmod":
            return self._state_of_mode(operation, found)
        if operation.kind == "install":
            return self._state_of_install(operation, found)
        if self._slot(f"old-{operation.slot}") is not None or found is None:
            return "done"
        return "pending" if self._is(operation.path, found, operation.before) else "blocked"

    def _state_of_install(
        self, operation: Operation, found: os.stat_result | None
    ) -> Literal["pending", "done", "blocked"]:
        new = self._slot(f"new-{operation.slot}")
        if new is None or operation.after is None:
            return "done"
        if new.st_ino != operation.after.inode:
            # An exchange leaves the old file in the slot. Any other file is a foreign edit, or
            # the whole tree is a copy of a crashed one: its state is unknown.
            exchanged = operation.before is not None and new.st_ino == operation.before.inode
            return "done" if exchanged else "blocked"
        if found is not None and found.st_ino == new.st_ino:
            # Power was lost after the disk had half of the rename: the file has both names.
            return "done"
        halfway = self._slot(f"old-{operation.slot}") is not None
        before = None if halfway else operation.before
        if before is None:
            return "pending" if found is None else "blocked"
        return "pending" if self._is(operation.path, found, before) else "blocked"

    def _state_of_mode(
        self, operation: Operation, found: os.stat_result | None
    ) -> Literal["pending", "done", "blocked"]:
        if found is None:
            # An earlier operation may still have to make the directory.
            return "pending" if operation.before is None else "blocked"
        mode = stat.S_IMODE(found.st_mode)
        if operation.before is None:
            is_there = stat.S_ISDIR(found.st_mode)
        elif mode == operation.mode:
            # Without its digest, because the mode may forbid to read it.
            is_there = _looks_like(found, operation.before)
        else:
            is_there = self._is(operation.path, found, operation.before)
        if not is_there or mode not in {operation.mode, operation.former}:
            return "blocked"
        return "done" if mode == operation.mode else "pending"

    def _is(self, path: str, found: os.stat_result | None, image: Image | None) -> bool:
        if image is None or not _looks_like(found, image):
            return False
        if image.digest is None:
            return True
        return found is not None and image.digest == descriptors.digest_there(
            self._root, path, found
        )

    def _slot(self, name: str) -> os.stat_result | None:
        return descriptors.look_in(self._slots, name)

    # --- doing ---

    def _apply(self, operation: Operation) -> None:
        try:
            with descriptors.parent_of(self._root, operation.path) as (parent, name):
                match operation.kind:
                    case "mkdir":
                        _make_directory(parent, name, operation.mode)
                    case "rmdir":
                        # A directory that others have put files into stays.
                        with contextlib.suppress(OSError):
                            os.rmdir(name, dir_fd=parent)
                    case "remove":
                        self._set_aside(operation, parent, name)
                    case "chmod":
                        assert operation.mode is not None  # noqa: S101 - of this operation
                        descriptors.change_mode(parent, name, operation.mode)
                    case "install":
                        self._install(operation, parent, name)
        except (FileNotFoundError, NotADirectoryError, FileExistsError) as error:
            raise BlockedError(operation.path) from error

    def _set_aside(self, operation: Operation, parent: int, name: str) -> None:
        """Rename a file into the commit's directory, and check that it was the expected one."""
        old = f"old-{operation.slot}"
        os.rename(name, old, src_dir_fd=parent, dst_dir_fd=self._slots)
        if not _looks_like(self._slot(old), operation.before):
            place(old, self._slots, name, parent)
            raise BlockedError(operation.path)

    def _install(self, operation: Operation, parent: int, name: str) -> None:
        new = f"new-{operation.slot}"
        halfway = self._slot(f"old-{operation.slot}") is not None
        if operation.before is None or halfway:
            place(new, self._slots, name, parent)
        elif exchange(new, self._slots, name, parent):
            if not _looks_like(self._slot(new), operation.before):
                exchange(new, self._slots, name, parent)
                raise BlockedError(operation.path)
        else:
            self._set_aside(operation, parent, name)
            self._steps(f"halfway:{operation.slot}")
            place(new, self._slots, name, parent)

    # --- undoing ---

    def _undo(self, operation: Operation) -> bool:
        """Undo one operation if it was done; return whether no trace of it is left."""
        if operation.kind in {"install", "remove"} and not self._has_mark(operation):
            return True
        if operation.kind == "mkdir" and descriptors.look(self._root, operation.path) is None:
            return True
        if operation.kind == "chmod":
            return self._undo_mode(operation)
        with descriptors.parent_of(self._root, operation.path) as (parent, name):
            match operation.kind:
                case "mkdir":
                    with contextlib.suppress(OSError):
                        os.rmdir(name, dir_fd=parent)
                case "rmdir":
                    with contextlib.suppress(FileExistsError):
                        _make_directory(parent, name, operation.mode)
                case "remove":
                    self._bring_back(operation, parent, name)
                case "install":
                    return self._uninstall(operation, parent, name)
        return True

    def _undo_mode(self, operation: Operation) -> bool:
        found = descriptors.look(self._root, operation.path)
        if found is None and operation.before is None:
            return True
        if operation.former is None or self._state_of_mode(operation, found) == "blocked":
            return False
        with descriptors.parent_of(self._root, operation.path) as (parent, name):
            descriptors.change_mode(parent, name, operation.former)
        return True

    def _has_mark(self, operation: Operation) -> bool:
        """Return whether the commit's directory shows that an operation was done, or half done."""
        if self._slot(f"old-{operation.slot}") is not None:
            return True
        if operation.kind == "remove" or operation.after is None:
            return False
        new = self._slot(f"new-{operation.slot}")
        return new is None or new.st_ino != operation.after.inode

    def _bring_back(self, operation: Operation, parent: int, name: str) -> None:
        old = f"old-{operation.slot}"
        if self._slot(old) is not None:
            place(old, self._slots, name, parent)

    def _uninstall(self, operation: Operation, parent: int, name: str) -> bool:
        new = f"new-{operation.slot}"
        in_slot = self._slot(new)
        if operation.after is None or (in_slot and in_slot.st_ino == operation.after.inode):
            self._bring_back(operation, parent, name)
            return True
        if not _looks_like(descriptors.look_in(parent, name), operation.after):
            # Edited since, and an edit is never overwritten.
            return False
        if in_slot is not None:
            return exchange(new, self._slots, name, parent)
        place(name, parent, new, self._slots)
        self._bring_back(operation, parent, name)
        return True


def _make_directory(parent: int, name: str, mode: int | None) -> None:
    os.mkdir(name, dir_fd=parent)
    if mode is not None:
        descriptors.change_mode(parent, name, mode)


def _looks_like(found: os.stat_result | None, image: Image | None) -> bool:
    if found is None or image is None:
        return False
    known = image.inode, image.size, image.mtime_ns
    return (found.st_ino, found.st_size, found.st_mtime_ns) == known


# --- Renames


_NO_REPLACE: Final = 1
_EXCHANGE: Final = 2
#: The errors of a system or file system that does not know the call or its flag.
_UNKNOWN: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})

_Rename = Callable[[int, bytes, int, bytes, int], int]


def place(source: str, source_dir: int, target: str, target_dir: int) -> None:
    """Rename to a free name; raises `FileExistsError` if it is taken."""
    if _renameat2(source, source_dir, target, target_dir, _NO_REPLACE):
        return
    try:
        os.stat(target, dir_fd=target_dir, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(source, target, src_dir_fd=source_dir, dst_dir_fd=target_dir)
    else:
        raise FileExistsError(target)


def exchange(source: str, source_dir: int, target: str, target_dir: int) -> bool:
    """Exchange the files of two names in one step; returns False if the system cannot."""
    return _renameat2(source, source_dir, target, target_dir, _EXCHANGE)


def _renameat2(source: str, source_dir: int, target: str, target_dir: int, flag: int) -> bool:
    function = _system_call()
    if function is None:
        return False
    if function(source_dir, os.fsencode(source), target_dir, os.fsencode(target), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNKNOWN:
        return False
    raise OSError(number, os.strerror(number), target)


@cache
def _system_call() -> _Rename | None:
    if sys.platform != "linux":
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return None
    names = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    function.argtypes = names
    function.restype = ctypes.c_int
    return function
