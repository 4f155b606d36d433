"""A workspace in a directory that other programs may change too."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from toolstile_hookspecs import Deadline, Durability
from toolstile_hookspecs.services.workspace import WorkspaceLayers
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.base import (
    Change,
    Changes,
    Lock,
    Prepared,
    Store,
    Transaction,
    WatchMark,
    wait,
)
from toolstile_plugins.vfs.backends.disk import descriptors
from toolstile_plugins.vfs.backends.disk.commit import CommitArea, DiskTransaction
from toolstile_plugins.vfs.backends.disk.descriptors import (
    Hold,
    Pin,
    WatchFile,
    WorkspaceLock,
    check_changeable,
    explained,
    node_of,
    stamp_of,
    sweep_watches,
    unopened,
)
from toolstile_plugins.vfs.backends.disk.operations import Slots, Steps
from toolstile_plugins.vfs.nodes import Kind, Node
from toolstile_plugins.vfs.write_set import check_emptied, check_seen, conflict

_PATIENCE: Final = 1.0
"""Seconds for which a store waits while another one finishes what a crash has left."""


class DiskStore(Store):
    """A directory, reached through a descriptor of it: renamed, it stays the same workspace.

    Several stores, in one process or several, may lie on one directory. Commits take turns by a
    lock in `.toolstile/`, which is made at the first commit. Links are not followed, and what is
    neither file nor directory is never opened. A commit replaces files: other hard links of
    a file that is written keep its former content.

    Other programs can see the tree between two renames of one commit.

    Args:
        root: The directory.
        durability: Whether a commit also survives a loss of power; see `Durability`.
        steps: Called before each step of a commit; for tests that end the process there.

    Attributes:
        root: The directory's path.
        stopped: The commit that recovery could not finish, and why; None when all is well.
            Until then nothing can be committed.

    Raises:
        OSError: When it is not a directory that can be opened.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        durability: Durability = "power",
        steps: Steps = lambda step: None,  # noqa: ARG005 - does nothing
    ) -> None:
        self.root = os.path.realpath(root)
        self.directories = (self.root,)
        self._descriptor: int | None = _open_root(self.root)
        self._lock = WorkspaceLock(self._handle)
        # Whether a commit of ours was left undecided, which nobody has looked at since.
        self._has_left = False
        fsync = durability == "power"
        self._area = CommitArea(self._handle, self.root, fsync=fsync, steps=steps)
        self._finish_others()

    @property
    def stopped(self) -> str | None:
        """The part that recovery could not finish, and the reason."""
        return self._area.stopped

    # --- as a base ---

    def look(self, path: str) -> Node | None:
        """Return what is at a path."""
        with self._explained(path):
            status = descriptors.look(self._handle(), path)
        if status is None:
            self._check_there()
            return None
        return node_of(self._handle, path, status)

    def names(self, path: str) -> Mapping[str, Kind]:
        """Return what a directory holds, without what no path here can name."""
        return self.contents(path)[0]

    def hidden(self, path: str) -> Mapping[str, str]:
        """Return the names in a directory that no path here can hold, each with the reason."""
        return self.contents(path)[1]

    def contents(self, path: str) -> tuple[Mapping[str, Kind], Mapping[str, str]]:
        """Return both, `names` and `hidden`, by one look at the directory."""
        scanned = self._scan(path)
        usable: dict[str, Kind] = {name: kind for name, kind in scanned if paths.is_usable(name)}
        ours = paths.RESERVED if not path else None
        others = sorted(name for name, _ in scanned if name not in usable and name != ours)
        return usable, {name: paths.why_unusable(name) for name in others}

    def nodes(self, path: str, names: Iterable[str]) -> Iterator[tuple[str, Node]]:
        """Yield what is at names of a directory."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._explained(path):
            with descriptors.listable(self._handle(), path) as directory:
                found = [(name, descriptors.look_in(directory, name)) for name in names]
            for name, status in found:
                if status is not None:
                    yield name, node_of(self._handle, paths.join(path, name), status)

    def readonly(self, path: str) -> str | None:
        """Return why a path cannot be changed here, or None when it can."""
        refusal = self._area.refusal(path)
        if refusal is not None:
            return refusal
        if os.fstatvfs(self._handle()).f_flag & os.ST_RDONLY:
            return "The workspace is read-only, so it cannot be changed."
        return None

    def check_changeable(self, directory: str) -> None:
        """Check that what a directory holds can be changed; of one not there, what is above it."""
        with self._explained(directory):
            check_changeable(self._handle(), directory)

    def notice(self) -> str | None:
        """Return what recovery could not finish, having tried once more."""
        if self.stopped is not None or self._area.undecided or self._has_left:
            with self._explained():
                self._finish_others()
        return self.stopped or next((each.message for each in self._area.undecided), None)

    def unchanged(self, path: str, version: object | None) -> bool:
        """Tell whether a path is still in the state of a version."""
        status = descriptors.look(self._handle(), path)
        if status is None:
            return version is None
        if not isinstance(version, Pin):
            return node_of(self._handle, path, status).version == version
        if stamp_of(status) != version.stamp:
            return False
        return version.digest is None or version.digest == descriptors.digest_there(
            self._handle(), path, status
        )

    # --- commits ---

    def try_hold(self) -> Hold | None:
        """Keep all others from committing; None while another one does."""
        with self._explained():
            hold = self._lock.try_hold(create=True)
            if hold is not None:
                try:
                    # What was decided is seen by the call that holds it.
                    self._area.recover(hold)
                except BaseException:
                    hold.release()
                    raise
            return hold

    def watch(self, hold: Lock | None = None) -> WatchMark | None:
        """Set a watch; None while another commit holds the workspace."""
        with self._explained():
            self._check_there()
            held = hold if isinstance(hold, Hold) else self._lock.try_hold(create=True)
            if held is None:
                return None
            try:
                # Half a commit must not be read; one that nobody has decided yet marks later.
                self._area.finish_others(held, ())
                return WatchFile(held.area)
            finally:
                if held is not hold:
                    held.release()

    def begin(self, changes: Changes, hold: Lock | None = None) -> Transaction | None:
        """Check what was seen and prepare what was made, without waiting."""
        given = hold if isinstance(hold, Hold) else None
        with self._explained():
            self._check_there()
            if not changes.made:
                return self._check_reads(changes, given)
            hold = given or self._lock.try_hold(create=True)
            if hold is None:
                return None
            try:
                self._area.finish_others(hold, changes.paths())
                check_seen(self, changes)
                _check_unwatched(self._handle(), changes)
                check_emptied(self, changes)
                return self._area.prepare(hold, changes)
            except BaseException:
                hold.release()
                raise

    @contextmanager
    def exclusive_path(
        self, hold: Lock | None = None, deadline: Deadline | None = None
    ) -> Generator[str]:
        """Give the real directory while no commit happens there."""
        given, hold = isinstance(hold, Hold), None
        with self._explained():
            self._check_in_place()
            if not given and self.readonly("") is None:
                hold = wait(lambda: self._lock.try_hold(create=True), deadline)
                try:
                    self._area.finish_others(hold)
                    # A program changes files just as a commit does.
                    hold.mark()
                except BaseException:
                    hold.release()
                    raise
        try:
            yield self.root
        finally:
            if hold is not None:
                hold.release()

    def layers(self) -> WorkspaceLayers:
        """Return the directory."""
        with self._explained():
            self._check_in_place()
        return WorkspaceLayers(self.root)

    def recover(self, decided: Callable[[str], bool | None]) -> None:
        """Finish after a crash what was decided, drop what was not; see `stopped`.

        Args:
            decided: Tells of a top-level key whether it was; None while nobody can say. It is
                asked later, too, when another process is found to have died.
        """
        self._area.decided = decided
        self._finish_others()
        # Because another store may be finishing them: what a call reads before that conflicts.
        until, left = time.monotonic() + _PATIENCE, self._commits()
        while left and self._lock.is_held() and time.monotonic() < until:
            time.sleep(0.005)
            left &= self._commits()

    def leave(self, transaction: Transaction) -> None:
        """Leave a transaction prepared, for recovery."""
        if isinstance(transaction, DiskTransaction):
            transaction.leave()
            self._has_left = True

    def _finish_others(self) -> None:
        hold = self._lock.try_hold(create=False)
        # Held, it belongs to a living process.
        if hold is not None:
            try:
                self._area.recover(hold)
                sweep_watches(hold.area, hold.watches)
            finally:
                hold.release()
        elif not self._lock.is_held():
            self._area.stopped, self._area.undecided = None, ()
        self._has_left = hold is None and self._has_left

    def close(self) -> None:
        """Close the directory."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    # --- underneath ---

    def _handle(self) -> int:
        if self._descriptor is None:
            raise ValueError(f"The workspace {self.root} is closed.")
        return self._descriptor

    def _commits(self) -> set[str]:
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            descriptors.listable(self._handle(), paths.RESERVED) as area,
        ):
            return {*Slots.found(os.listdir(area))}  # noqa: PTH208 - of a descriptor
        return set()

    def _scan(self, path: str) -> list[tuple[str, Kind]]:
        try:
            with (
                self._explained(path),
                descriptors.listable(self._handle(), path) as directory,
                os.scandir(directory) as entries,
            ):
                return [(entry.name, _kind(entry)) for entry in entries]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _check_reads(self, changes: Changes, hold: Hold | None) -> Transaction | None:
        """Check what a call has read that writes nothing; no half of a commit may be in it."""
        if hold is None and len(changes.seen) > 1:
            hold = self._lock.try_hold(create=False)
            if hold is None and self._lock.is_held():
                return None
        try:
            if hold is not None:
                self._area.finish_others(hold, changes.paths())
            check_seen(self, changes)
        finally:
            if hold is not None:
                hold.release()
        return Prepared(_nothing, _nothing)

    def _check_there(self) -> None:
        if os.fstat(self._handle()).st_nlink == 0:
            raise FileNotFoundError(
                "The directory of the workspace was removed, so nothing can be read or kept there. "
                "This requires human intervention."
            )

    def _check_in_place(self) -> None:
        self._check_there()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if os.path.samestat(Path(self.root).stat(), os.fstat(self._handle())):
                return
        raise FileNotFoundError(
            "The directory of the workspace was moved, so no program can be started there. This "
            "requires human intervention."
        )

    @contextmanager
    def _explained(self, path: str = "") -> Generator[None]:
        """Let the system's errors say what they mean here."""
        try:
            yield
        except OSError as error:
            if error.errno is None:
                raise
            raise explained(error, path, self.root) from error


def _open_root(root: str) -> int:
    try:
        return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise unopened(error, root) from error


def _check_unwatched(root: int, changes: Changes) -> None:
    """Raise `ConflictError` where others changed what a watched call overwrites or removes.

    What it has overwritten was pinned after it was read, so the pin may be of the change. What
    others have moved into a directory may be older than the call, yet the directory is not.
    """
    began = [watch.began_ns for watch in changes.watches if isinstance(watch, WatchFile)]
    moved = [
        change.path for change in changes.made if began and _changed_ns(root, change) >= min(began)
    ]
    if moved:
        raise conflict(moved)


def _changed_ns(root: int, change: Change) -> int:
    """Return when a file, or a directory to be removed, last changed; 0 for all else."""
    if isinstance(change.before, Pin):
        return change.before.stamp.ctime_ns
    is_removed = change.kind == "directory" and not change.keeps
    status = descriptors.look(root, change.path) if is_removed else None
    return 0 if status is None else status.st_ctime_ns


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    if entry.is_symlink():
        return "link"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _nothing() -> None:
    return
