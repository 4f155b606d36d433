"""A workspace in a directory that other programs may change too, and its commits."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from toolstile_hookspecs import Deadline, Durability, ToolstileError
from toolstile_hookspecs.services.workspace import WorkspaceLayers
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.base import (
    Changes,
    Lock,
    Prepared,
    Store,
    Transaction,
    Undo,
    WatchMark,
    check_emptied,
    check_seen,
    conflict,
    shown,
    wait,
)
from toolstile_plugins.vfs.backends.disk import descriptors
from toolstile_plugins.vfs.backends.disk.descriptors import (
    WATCH_PREFIX,
    Hold,
    Pin,
    WatchFile,
    WorkspaceLock,
    check_changeable,
    explained,
    named,
    node_of,
    sweep_watches,
)
from toolstile_plugins.vfs.backends.disk.operations import (
    BlockedError,
    Operations,
    Record,
    RecoveryError,
    Slots,
    Steps,
)
from toolstile_plugins.vfs.backends.disk.staging import Staging
from toolstile_plugins.vfs.nodes import Kind, Node, stamp_of
from toolstile_plugins.vfs.paths import RESERVED

# --- Commits


log = logging.getLogger("toolstile.vfs")


@dataclass(frozen=True)
class DiskTransaction:
    """A prepared commit."""

    _root: str
    _hold: Hold
    _slots: Slots
    _work: Operations
    _fsync: bool
    _steps: Steps
    _undo: Undo | None = None

    def commit(self) -> None:
        """Decide, then carry out the operations; an error undoes all of them.

        `ConflictError`: a file was changed from outside at the last moment. `OSError`: the system
        refuses.
        """
        try:
            self._steps("deciding")
            try:
                self._slots.change_state("prepared", "decided")
            except OSError:
                self._slots.remove()
                raise
            self._steps("decided")
            try:
                self._hold.mark()
                self._work.apply()
            except BlockedError as error:
                self._revoke()
                raise conflict([error.path]) from None
            except OSError:
                self._revoke()
                raise
            self._steps("applied")
            try:
                if self._fsync:
                    self._work.sync()
                self._slots.end(self._undo, self._steps)
            except OSError:
                # The changes are made; recovery finds the record and finishes the commit.
                log.exception("The record of a commit could not be removed.")
        except OSError as error:
            raise explained(error, "", self._root) from error
        finally:
            self._hold.release()

    def leave(self) -> None:
        """Leave it prepared, because its decision is unknown."""
        try:
            self._slots.close()
        finally:
            self._hold.release()

    def rollback(self) -> None:
        try:
            self._slots.remove()
        finally:
            self._hold.release()

    def _revoke(self) -> None:
        self._slots.change_state("decided", "revoked")
        stuck = self._work.undo()
        if stuck:
            self._slots.close()
            raise RecoveryError(
                f"{', '.join(stuck)} changed from outside while a commit was made, and could "
                f"not be put back; the former contents are in {RESERVED}. This requires human "
                "intervention."
            )
        self._slots.remove()


Decided = Callable[[str], bool | None]


class UndecidedError(RecoveryError):
    """The decider does not know yet whether a commit was decided."""

    def __init__(self, reason: str, record: Record) -> None:
        super().__init__(reason)
        self.record = record


class Undecided(NamedTuple):
    """A commit whose decision is not known yet."""

    message: str  # the reason, for the calls that are refused
    paths: frozenset[str]  # the paths that it changes

    def covers(self, path: str) -> bool:
        """Return whether it changes a path or a directory above."""
        return any(path == each or path.startswith(f"{each}/") for each in self.paths)


class CommitArea:
    """The commits of a workspace; `root` returns its descriptor, messages have its `name`."""

    def __init__(self, root: Callable[[], int], name: str, *, fsync: bool, steps: Steps) -> None:
        self._root = root
        self._name = name
        self._fsync = fsync
        self._steps = steps
        # The commit that recovery could not finish, and the reason. No call can commit before.
        self.stopped: str | None = None
        # The commits whose decision is unknown. They block their own paths only.
        self.undecided: tuple[Undecided, ...] = ()
        # Returns whether the call of a key was committed; None until there is a decider.
        self.decided: Decided | None = None

    def prepare(self, hold: Hold, changes: Changes) -> DiskTransaction:
        """Stage a commit and write its record; nothing outside of `.toolstile/` changes."""
        slots = Slots.make(hold.area, fsync=self._fsync)
        try:
            self._steps("staging")
            staging = Staging(self._root(), slots.descriptor, changes, fsync=self._fsync)
            operations = staging.operations()
            self._steps("staged")
            slots.write(Record(operations, changes.key, changes.undo))
            self._steps("prepared")
        except BaseException:
            slots.remove()
            raise
        work = Operations(self._root(), slots.descriptor, operations, self._steps)
        fsync, steps = self._fsync, self._steps
        return DiskTransaction(self._name, hold, slots, work, fsync, steps, changes.undo)

    def finish_others(self, hold: Hold, paths: Iterable[str] | None = None) -> None:
        """Finish the commits of killed processes; the caller needs `paths`, None for all.

        `RecoveryError`: one cannot be finished, or the decision about one of the paths is unknown.
        """
        self.recover(hold)
        refusals = [each.message for each in self.undecided] if paths is None else []
        refusals += filter(None, (self.refusal(path) for path in paths or ()))
        if self.stopped is not None or refusals:
            raise RecoveryError(self.stopped or refusals[0])

    def refusal(self, path: str) -> str | None:
        """Return the reason why a path cannot be used now."""
        if self.stopped is not None:
            return self.stopped
        return next((each.message for each in self.undecided if each.covers(path)), None)

    def recover(self, hold: Hold) -> None:
        """Finish every decided commit and drop all others; see `stopped`."""
        before, self.stopped = self.stopped, None
        known, undecided = {each.message for each in self.undecided}, list[Undecided]()
        names = os.listdir(hold.area)  # noqa: PTH208 - of a descriptor
        hold.watches = [name for name in names if name.startswith(WATCH_PREFIX)]
        for name in Slots.found(names):
            try:
                slots = Slots(hold.area, name, fsync=self._fsync)
                try:
                    undo = self._finish(slots, hold)
                except BaseException:
                    slots.close()
                    raise
                slots.end(undo)
            except UndecidedError as error:
                paths = frozenset(operation.path for operation in error.record.operations)
                told = (
                    f"The workspace was left in the middle of a commit of {shown(paths)}, and "
                    f"whether it was decided is unknown: {error}. Nothing was overwritten. Calls "
                    "that use these paths are refused until the decision is known; each of them "
                    f"asks for it again. If it stays unknown, remove {RESERVED}/{name}, which "
                    "holds its new and former contents, to abandon it half done. This requires "
                    "human intervention."
                )
                waiting = Undecided(told, paths)
                undecided.append(waiting)
                # No warning at the start, because the decider registers a moment later.
                if waiting.message not in known and self.decided is not None:
                    log.warning("%s: %s", self._name, waiting.message)
            except (RecoveryError, OSError) as error:
                self.stopped = self._report(name, error)
                if self.stopped != before:
                    log.log(logging.ERROR, "%s: %s", self._name, self.stopped)
            except BaseException as error:
                # Because a caller may catch the error and use the workspace.
                self.stopped = self._report(name, error)
                raise
        self.undecided = tuple(undecided)

    def _finish(self, slots: Slots, hold: Hold) -> Undo | None:
        """Bring one commit to its end, and return how to undo it if it was decided.

        Raises `RecoveryError` if that needs a person.
        """
        state = slots.state()
        record = None if state is None else slots.read(state)
        if record is None:
            return None
        work = Operations(self._root(), slots.descriptor, record.operations, self._steps)
        if state == "revoked":
            _stop_at(work.undo())
        elif state == "decided" or _is_decided(record, self.decided):
            _stop_at(work.blocked())
            if state == "prepared":
                slots.change_state(state, "decided")
            hold.mark()
            try:
                work.apply()
            except BlockedError as error:
                _stop_at([error.path])
            if self._fsync:
                work.sync()
            return record.undo
        return None

    def _report(self, name: str, error: BaseException) -> str:
        cause = str(error)
        if isinstance(error, OSError):
            where = f"{named(error)}: " if named(error) else ""
            cause = f"{where}{error.strerror or error}"
        elif not isinstance(error, RecoveryError):
            cause = f"that was ended by {type(error).__name__}"
        return (
            "The workspace was left in the middle of a commit, which cannot be "
            f"finished: {cause}. Nothing was overwritten, and nothing can be committed "
            "until a person decides: put the files back as they were, and it is finished; or "
            f"remove {RESERVED}/{name}, which holds its new and former contents, to abandon it "
            "half done. This requires human intervention."
        )


def _is_decided(record: Record, decided: Decided | None) -> bool:
    """Return whether a commit that was prepared when its process died was decided."""
    if record.key is None:
        return False
    try:
        answer = None if decided is None else decided(record.key)
    except ToolstileError as error:
        reason = str(error).rstrip(".")
        raise UndecidedError(f"its decider cannot say: {reason}", record) from error
    except Exception as error:
        # Only its class, because the text of an unknown exception may hold secrets.
        reason = type(error).__name__
        raise UndecidedError(f"its decider has failed ({reason})", record) from error
    if answer is None:
        raise UndecidedError(f"the store that decides about {record.key} has not answered", record)
    return answer


def _stop_at(paths: list[str]) -> None:
    if paths:
        raise RecoveryError(f"{', '.join(paths)} changed since then")


# --- The store


_PATIENCE: Final = 1.0
"""Seconds for which a store waits while another store finishes the commits after a crash."""


class DiskStore(Store):
    """A directory, reached through a descriptor of it: renamed, it stays the same workspace.

    Several stores, in one process or several, may lie on one directory. Commits take turns by a
    lock in `.toolstile/`, which the first commit makes. Links are not followed. FIFOs, sockets and
    devices are never opened. A commit replaces files: other hard links of a file that is written
    keep its former content.

    Other programs can see the tree between two renames of one commit.

    Args:
        root: The directory.
        durability: Whether a commit also survives a loss of power; see `Durability`.
        steps: Called before each step of a commit; for tests that end the process there.

    Attributes:
        root: The directory's path.
        stopped: The commit that recovery could not finish, and the reason, else None. Before it is
            finished, no call can commit.

    Raises:
        OSError: It is not a directory that can be opened.
    """

    keeps_former = True

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        durability: Durability = "power",
        steps: Steps = lambda step: None,  # noqa: ARG005 - does nothing
    ) -> None:
        self.root = os.path.realpath(root)
        self.directories = (self.root,)
        try:
            self._descriptor: int | None = os.open(
                self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
            )
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno is not None else str(error)
            raise type(error)(
                f"{self.root} cannot be a workspace: {reason}. Give a directory that exists and "
                "can be read."
            ) from error
        self._lock = WorkspaceLock(self._handle)
        # Whether a commit of this store was left undecided and not recovered since.
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
        with self._explained(path):
            status = descriptors.look(self._handle(), path)
        if status is None:
            self._check_there()
            return None
        return node_of(self._handle, path, status)

    def contents(self, path: str) -> tuple[Mapping[str, Kind], Mapping[str, str]]:
        scanned: list[tuple[str, Kind]] = []
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            self._explained(path),
            descriptors.listable(self._handle(), path) as directory,
            os.scandir(directory) as entries,
        ):
            scanned = [(entry.name, _kind(entry)) for entry in entries]
        usable: dict[str, Kind] = {name: kind for name, kind in scanned if paths.is_usable(name)}
        ours = paths.RESERVED if not path else None
        others = sorted(name for name, _ in scanned if name not in usable and name != ours)
        return usable, {name: paths.why_unusable(name) for name in others}

    def nodes(self, path: str, names: Iterable[str]) -> Iterator[tuple[str, Node]]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), self._explained(path):
            with descriptors.listable(self._handle(), path) as directory:
                found = [(name, descriptors.look_in(directory, name)) for name in names]
            for name, status in found:
                if status is not None:
                    yield name, node_of(self._handle, paths.join(path, name), status)

    def readonly(self, path: str) -> str | None:
        refusal = self._area.refusal(path)
        if refusal is not None:
            return refusal
        if os.fstatvfs(self._handle()).f_flag & os.ST_RDONLY:
            return "The workspace is read-only, so it cannot be changed."
        return None

    def check_changeable(self, directory: str) -> None:
        with self._explained(directory):
            check_changeable(self._handle(), directory)

    def notice(self) -> str | None:
        if self.stopped is not None or self._area.undecided or self._has_left:
            with self._explained():
                self._finish_others()
        return self.stopped or next((each.message for each in self._area.undecided), None)

    def unchanged(self, path: str, version: object | None) -> bool:
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
        with self._explained():
            hold = self._lock.try_hold(create=True)
            if hold is not None:
                try:
                    # Because the call must see the changes of decided commits.
                    self._area.recover(hold)
                except BaseException:
                    hold.release()
                    raise
            return hold

    def watch(self, hold: Lock | None = None) -> WatchMark | None:
        with self._explained():
            self._check_there()
            held = hold if isinstance(hold, Hold) else self._lock.try_hold(create=True)
            if held is None:
                return None
            try:
                # Half a commit must not be read. An undecided commit marks its watches later.
                self._area.finish_others(held, ())
                return WatchFile(held.area)
            finally:
                if held is not hold:
                    held.release()

    def begin(self, changes: Changes, hold: Lock | None = None) -> Transaction | None:
        given = hold if isinstance(hold, Hold) else None
        with self._explained():
            self._check_there()
            if not changes.made:
                # Of several paths, some could be read before a commit and others after it.
                if given is None and len(changes.seen) > 1:
                    given = self._lock.try_hold(create=False)
                    if given is None and self._lock.is_held():
                        return None
                try:
                    if given is not None:
                        self._area.finish_others(given, changes.paths())
                    check_seen(self, changes)
                finally:
                    if given is not None:
                        given.release()
                return Prepared(lambda: None, lambda: None)
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
        with self._explained():
            self._check_in_place()
        return WorkspaceLayers(self.root)

    def recover(self, decided: Callable[[str], bool | None]) -> None:
        """After a crash, finish decided commits and drop all others; see `stopped`.

        The store asks `decided` later, too, after other processes have died.
        """
        self._area.decided = decided
        self._finish_others()
        # Because another store may be finishing them, and an earlier read would conflict.
        until, left = time.monotonic() + _PATIENCE, self._commits()
        while left and self._lock.is_held() and time.monotonic() < until:
            time.sleep(0.005)
            left &= self._commits()

    def leave(self, transaction: Transaction) -> None:
        if isinstance(transaction, DiskTransaction):
            transaction.leave()
            self._has_left = True

    def _finish_others(self) -> None:
        hold = self._lock.try_hold(create=False)
        # Without the lock, it belongs to a living process.
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
        try:
            yield
        except OSError as error:
            if error.errno is None:
                raise
            raise explained(error, path, self.root) from error


def _check_unwatched(root: int, changes: Changes) -> None:
    """Raise `ConflictError` if others changed a path that a watched call overwrites or removes.

    The call pins a path after its program has read it, so the pin may be of the change. Files that
    others have moved into a directory may be older than the call, but the directory is not.
    """
    began = [watch.began_ns for watch in changes.watches if isinstance(watch, WatchFile)]
    moved: list[str] = []
    for change in changes.made if began else ():
        changed_ns = 0
        if isinstance(change.before, Pin):
            changed_ns = change.before.stamp.ctime_ns
        elif change.kind == "directory" and not change.keeps:
            status = descriptors.look(root, change.path)
            changed_ns = 0 if status is None else status.st_ctime_ns
        if changed_ns >= min(began):
            moved.append(change.path)
    if moved:
        raise conflict(moved)


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    if entry.is_symlink():
        return "link"
    return "file" if entry.is_file(follow_symlinks=False) else "other"
