"""The lock of a workspace on disk, in a directory that is made when it is first needed."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable

from toolstile_plugins.vfs.backends.disk.descriptors import CREATE_FILE, READ_DIRECTORY, READ_FILE
from toolstile_plugins.vfs.paths import RESERVED


class Hold:
    """The lock on a workspace, held; nobody else commits until it is released.

    Args:
        area: Descriptor of `.toolstile/`.
        lock: Descriptor of the lock file.
    """

    def __init__(self, area: int, lock: int) -> None:
        self.area = area
        self._lock: int | None = lock

    def release(self) -> None:
        """Give the lock back; a second time does nothing."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)
            os.close(self.area)


class WorkspaceLock:
    """The lock in a workspace's `.toolstile/`, which holds between threads and processes.

    Args:
        root: Gives the workspace's descriptor.
    """

    def __init__(self, root: Callable[[], int]) -> None:
        self._root = root

    def try_hold(self, *, create: bool) -> Hold | None:
        """Take the lock without waiting.

        Args:
            create: Whether to make `.toolstile/` when there is none.

        Returns:
            The lock; None when another commit has it, or there is no `.toolstile/`.
        """
        area = self._open(create=create)
        if area is None:
            return None
        lock = None
        try:
            lock = self._open_lock(area)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_nlink and os.fstat(area).st_nlink:
                hold, lock = Hold(area, lock), None
                return hold
        except BlockingIOError:
            pass
        except BaseException:
            if lock is not None:
                os.close(lock)
            os.close(area)
            raise
        # Another one has it, or somebody has removed the lock that was just taken.
        if lock is not None:
            os.close(lock)
            os.close(area)
        return None

    def is_held(self) -> bool:
        """Tell whether another commit is under way."""
        area = self._open(create=False)
        if area is None:
            return False
        os.close(area)
        hold = self.try_hold(create=False)
        if hold is None:
            return True
        hold.release()
        return False

    def _open(self, *, create: bool) -> int | None:
        root = self._root()
        try:
            return os.open(RESERVED, READ_DIRECTORY, dir_fd=root)
        except FileNotFoundError:
            if not create:
                return None
        except NotADirectoryError:
            raise PermissionError(
                f"{RESERVED} in the workspace is not a directory; the workspace needs this name "
                "for itself. Remove it. This requires human intervention."
            ) from None
        with contextlib.suppress(FileExistsError):
            os.mkdir(RESERVED, 0o755, dir_fd=root)
        area = os.open(RESERVED, READ_DIRECTORY, dir_fd=root)
        # Version control is to leave it alone, without the user's own files being touched.
        with contextlib.suppress(FileExistsError):
            handle = os.open(".gitignore", CREATE_FILE, 0o644, dir_fd=area)
            try:
                os.write(handle, b"*\n")
            finally:
                os.close(handle)
        return area

    def _open_lock(self, area: int) -> int:
        try:
            return os.open("lock", READ_FILE, dir_fd=area)
        except FileNotFoundError:
            return os.open("lock", READ_FILE | os.O_CREAT, 0o644, dir_fd=area)
