"""The staging of a commit beside the tree: new contents as files, and the operations."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import Counter
from collections.abc import Iterator
from typing import Final

from toolstile_plugins.vfs.backends.base import Change, Changes
from toolstile_plugins.vfs.backends.disk import descriptors
from toolstile_plugins.vfs.backends.disk.descriptors import (
    CREATE_FILE,
    READ_FILE,
    OnDisk,
    Pin,
    check_changeable,
)
from toolstile_plugins.vfs.backends.disk.operations import Image, Operation
from toolstile_plugins.vfs.nodes import Content, Node, TakenFile
from toolstile_plugins.vfs.paths import split

_BLOCK_BYTES: Final = 1 << 20
_HASHED_BYTES: Final = 1 << 20
#: The bits that a directory needs before entries can be put into it.
_OF_OWNER: Final = 0o700


class Staging:
    """Prepares one commit in its directory; nothing outside of that changes."""

    def __init__(self, root: int, slots: int, changes: Changes, *, fsync: bool) -> None:
        self._root = root
        self._slots = slots
        self._changes = changes.made
        self._fsync = fsync
        self._removed = {c.path for c in changes.made if c.kind is not None and c.after is None}
        self._checked: set[str] = set()
        self._opened = {change.path for change in changes.made if change.opens}
        contents = [change.after.content for change in changes.made if change.after is not None]
        taken = Counter(content.path for content in contents if isinstance(content, OnDisk))
        self._sources = Counter(
            content.source for content in contents if isinstance(content, TakenFile)
        )
        # Only once, because two links to one file would change together.
        self._linkable = {path for path in self._removed if taken[path] == 1}

    def operations(self) -> tuple[Operation, ...]:
        """Stage everything and return the operations in order.

        A node of another kind is removed first. Otherwise new files come before old ones go, so
        that a file that moves always exists.
        """
        made: list[tuple[int, Change]] = []
        removes: list[Operation] = []
        modes: list[Operation] = []
        for slot, change in enumerate(self._changes):
            modes += self._mode_of_directory(slot, change)
            if change.keeps or change.only_empties:
                continue
            directory = split(change.path)[0]
            if directory not in self._checked:
                check_changeable(self._root, directory, self._opened)
                self._checked.add(directory)
            if change.kind == "directory" and (change.after is None or change.changes_kind):
                found = descriptors.look(self._root, change.path)
                mode = None if found is None else stat.S_IMODE(found.st_mode)
                removes.append(Operation("rmdir", change.path, slot, mode=mode))
            elif change.kind is not None and (change.after is None or change.changes_kind):
                before = self._image(change)
                removes.append(Operation("remove", change.path, slot, before=before))
            if change.after is not None:
                made.append((slot, change))
        # Links last, because a link changes the times that identify a file.
        made.sort(key=lambda item: self._is_linkable(item[1]))
        makes = [self._creation(slot, change) for slot, change in made]
        # Changes come sorted, a directory before its entries.
        files = [removal for removal in removes if removal.kind == "remove"]
        directories = [removal for removal in reversed(removes) if removal.kind == "rmdir"]
        makes.sort(key=lambda make: make.kind != "mkdir")
        # Because entries can be put into a directory only while its mode allows it.
        opening = [mode for mode in modes if mode.path in self._opened]
        closing = [mode for mode in reversed(modes) if mode.path not in self._opened]
        if any(change.changes_kind for change in self._changes):
            return (*opening, *files, *directories, *makes, *closing)
        return (*opening, *makes, *files, *directories, *closing)

    def _creation(self, slot: int, change: Change) -> Operation:
        after = change.after
        assert after is not None  # noqa: S101 - nothing is removed here
        if after.kind == "directory":
            mode = None if after.mode is None else after.mode | _OF_OWNER
            return Operation("mkdir", change.path, slot, mode=mode)
        replaced = None if change.kind is None or change.changes_kind else change
        before = self._image(replaced) if replaced is not None else None
        former = self._former_mode(change, after)
        if former is not None:
            return Operation("chmod", change.path, slot, before, mode=after.mode, former=former)
        if after.kind == "link":
            os.symlink(after.target, f"new-{slot}", dir_fd=self._slots)
            if isinstance(after.modified, int):
                times = (after.modified, after.modified)
                os.utime(f"new-{slot}", ns=times, dir_fd=self._slots, follow_symlinks=False)
        else:
            self._stage(f"new-{slot}", change, after, replaces=replaced is not None)
        status = os.stat(f"new-{slot}", dir_fd=self._slots, follow_symlinks=False)
        image = Image(status.st_ino, status.st_size, status.st_mtime_ns)
        return Operation("install", change.path, slot, before, image)

    def _mode_of_directory(self, slot: int, change: Change) -> Iterator[Operation]:
        """Yield the operation that sets the mode of a directory."""
        after = change.after
        if after is None or after.kind != "directory" or after.mode is None:
            return
        if change.kind == "directory":
            found = descriptors.look(self._root, change.path)
            former = None if found is None else stat.S_IMODE(found.st_mode)
            if found is not None and os.geteuid() not in {0, found.st_uid}:
                raise PermissionError(
                    f"{change.path} belongs to another user, so its mode cannot be changed. Choose "
                    "another path."
                )
        else:
            former = after.mode | _OF_OWNER
        if former not in {None, after.mode}:
            yield Operation("chmod", change.path, slot, mode=after.mode, former=former)

    def _former_mode(self, change: Change, after: Node) -> int | None:
        content = after.content
        if not isinstance(content, OnDisk) or content.path != change.path:
            return None
        found = descriptors.look(self._root, change.path)
        # Only with one name, because a write does not change the file's other names either.
        is_alone = (
            content.pin == change.before
            and found is not None
            and found.st_nlink == 1
            and found.st_mtime_ns == after.modified
            and os.geteuid() in {0, found.st_uid}
        )
        return stat.S_IMODE(found.st_mode) if found is not None and is_alone else None

    def _image(self, change: Change) -> Image:
        pin = change.before
        assert isinstance(pin, Pin)  # noqa: S101 - of this store
        stamp, digest = pin.stamp, pin.digest
        if digest is None and change.kind == "file" and stamp.size <= _HASHED_BYTES:
            digest = descriptors.digest_at(self._root, change.path)
        return Image(stamp.inode, stamp.size, stamp.mtime_ns, digest)

    def _is_linkable(self, change: Change) -> bool:
        content = change.after.content if change.after is not None else None
        return (
            isinstance(content, OnDisk)
            and content.path in self._linkable
            and (change.kind is None or change.changes_kind)
        )

    def _stage(self, slot: str, change: Change, after: Node, *, replaces: bool) -> None:
        content = after.content
        assert content is not None  # noqa: S101 - of a file
        if (
            isinstance(content, OnDisk)
            and self._is_linkable(change)
            and self._link(slot, content.path, after.mode)
        ):
            return
        is_taken = isinstance(content, TakenFile) and self._take(slot, content)
        if is_taken:
            try:
                handle = os.open(slot, READ_FILE, dir_fd=self._slots)
            except PermissionError:
                # A command may have left a file that its owner cannot read.
                descriptors.change_mode(self._slots, slot, _OF_OWNER)
                handle = os.open(slot, READ_FILE, dir_fd=self._slots)
        else:
            handle = os.open(slot, CREATE_FILE, 0o666, dir_fd=self._slots)
        try:
            if is_taken:
                # Such as the marks of an overlay, and capabilities.
                with contextlib.suppress(OSError, AttributeError):
                    for name in os.listxattr(handle):
                        with contextlib.suppress(OSError):
                            os.removexattr(handle, name)
            else:
                _fill(handle, content)
            self._give_owner(handle, change.path, content, replaces=replaces)
            if after.mode is not None:
                os.fchmod(handle, after.mode)
            if isinstance(after.modified, int):
                os.utime(handle, ns=(after.modified, after.modified))
            if self._fsync:
                os.fsync(handle)
        finally:
            os.close(handle)

    def _take(self, slot: str, content: TakenFile) -> bool:
        """Stage a file from outside by renaming it; return whether that was possible."""
        try:
            status = os.lstat(content.source)
            content.check(status)
            # Because with another name, or at another path, the file could still change.
            if status.st_nlink > 1 or self._sources[content.source] > 1:
                return False
            os.rename(content.source, slot, dst_dir_fd=self._slots)
        except OSError:
            return False
        moved = os.stat(slot, dir_fd=self._slots, follow_symlinks=False)
        content.check(moved, renamed=True)
        return True

    def _link(self, slot: str, path: str, mode: int | None) -> bool:
        """Stage a file that moves by a hard link; return whether that was possible."""
        try:
            with descriptors.parent_of(self._root, path) as (parent, name):
                status = os.stat(name, dir_fd=parent, follow_symlinks=False)
                # Because a new mode would show under the old name, too.
                if mode is not None and stat.S_IMODE(status.st_mode) != mode:
                    return False
                os.link(
                    name, slot, src_dir_fd=parent, dst_dir_fd=self._slots, follow_symlinks=False
                )
        except OSError:
            return False
        return True

    def _give_owner(self, handle: int, path: str, content: Content, *, replaces: bool) -> None:
        if replaces:
            source = self._replaced(handle, path)
        elif isinstance(content, OnDisk) and content.path in self._removed:
            source = content.descriptor()
        else:
            source = None
            parent = descriptors.look(self._root, split(path)[0])
            if parent is not None and parent.st_mode & stat.S_ISGID:
                _own(handle, -1, parent.st_gid)
        if source is None:
            return
        try:
            status = os.fstat(source)
            _own(handle, status.st_uid, status.st_gid)
            with contextlib.suppress(OSError, AttributeError):
                for name in os.listxattr(source):
                    with contextlib.suppress(OSError):
                        os.setxattr(handle, name, os.getxattr(source, name))
        finally:
            os.close(source)

    def _replaced(self, handle: int, path: str) -> int | None:
        """Return a descriptor of the replaced file; of an unreadable file, only take its owner."""
        try:
            return descriptors.open_file(self._root, path)[0]
        except PermissionError:
            status = descriptors.look(self._root, path)
            if status is not None:
                _own(handle, status.st_uid, status.st_gid)
            return None


def _own(handle: int, user: int, group: int) -> None:
    status = os.fstat(handle)
    if user in {-1, status.st_uid} and group == status.st_gid:
        return
    # A user who may not give files away keeps them, as in editors that save by renaming.
    with contextlib.suppress(PermissionError):
        os.fchown(handle, user, group)


def _fill(handle: int, content: Content) -> None:
    if isinstance(content, OnDisk | TakenFile):
        source = content.descriptor()
        try:
            # By extents, which leaves out the holes of a file.
            for start, end in _extents(source, content.size):
                os.lseek(source, start, os.SEEK_SET)
                os.lseek(handle, start, os.SEEK_SET)
                left = end - start
                # The system can copy without reading, by sharing blocks.
                with contextlib.suppress(OSError, AttributeError):
                    while left > 0 and (done := os.copy_file_range(source, handle, left)):
                        left -= done
                while left > 0 and (block := os.read(source, min(_BLOCK_BYTES, left))):
                    _write_all(handle, block)
                    left -= len(block)
            os.ftruncate(handle, content.size)
        finally:
            os.close(source)
        return
    with content.open() as stream:
        while block := stream.read(_BLOCK_BYTES):
            _write_all(handle, block)


def _extents(source: int, size: int) -> Iterator[tuple[int, int]]:
    end = 0
    while end < size:
        try:
            start = os.lseek(source, end, os.SEEK_DATA)
            end = os.lseek(source, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            # A file system without holes.
            yield end, size
            return
        yield start, end


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
