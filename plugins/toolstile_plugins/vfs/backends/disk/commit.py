"""A commit to a directory: decided in one step, carried out, or put back."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from toolstile_hookspecs import ToolstileError
from toolstile_plugins.vfs.backends.base import Changes
from toolstile_plugins.vfs.backends.disk.descriptors import WATCH_PREFIX, Hold, explained, named
from toolstile_plugins.vfs.backends.disk.operations import (
    BlockedError,
    Operations,
    Record,
    RecoveryError,
    Slots,
    Steps,
)
from toolstile_plugins.vfs.backends.disk.staging import Staging
from toolstile_plugins.vfs.paths import RESERVED
from toolstile_plugins.vfs.write_set import conflict, shown

log = logging.getLogger("toolstile.vfs")


class DiskTransaction:
    """A commit that is prepared."""

    def __init__(  # noqa: PLR0913 - what it takes over from the area
        self, root: str, hold: Hold, slots: Slots, work: Operations, *, fsync: bool, steps: Steps
    ) -> None:
        self._root = root
        self._hold = hold
        self._slots = slots
        self._work = work
        self._fsync = fsync
        self._steps = steps

    def commit(self) -> None:
        """Decide, and carry it out.

        Raises:
            ConflictError: When a file was changed from outside at the last moment; what was
                done before was put back.
            OSError: When the system refuses; put back alike, and said what it means.
        """
        try:
            self._decide_and_apply()
        except OSError as error:
            raise explained(error, "", self._root) from error
        finally:
            self._hold.release()

    def leave(self) -> None:
        """Leave it prepared: nobody knows yet whether it was decided."""
        try:
            self._slots.close()
        finally:
            self._hold.release()

    def rollback(self) -> None:
        """Drop it."""
        try:
            self._slots.remove()
        finally:
            self._hold.release()

    def _decide_and_apply(self) -> None:
        try:
            self._steps("deciding")
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
            self._slots.remove(self._steps)
        except OSError:
            # All is done; the next one to come finds that, too.
            log.exception("The record of a commit could not be removed.")

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
    """The decider cannot say yet whether a commit was decided.

    Args:
        reason: Why.
        record: The commit.
    """

    def __init__(self, reason: str, record: Record) -> None:
        super().__init__(reason)
        self.record = record


class Undecided(NamedTuple):
    """A commit of which nobody can say yet whether it was decided.

    Args:
        message: The reason, for the calls that are refused.
        paths: The paths that it changes.
    """

    message: str
    paths: frozenset[str]

    def covers(self, path: str) -> bool:
        """Tell whether it changes a path, or what is above it."""
        return any(path == each or path.startswith(f"{each}/") for each in self.paths)


class CommitArea:
    """The commits of a workspace.

    Args:
        root: Returns the workspace's descriptor.
        name: The workspace's path, for messages.
        fsync: Whether a commit also survives a loss of power.
        steps: Called before each step of a commit.

    Attributes:
        stopped: What recovery could not finish, and why; nothing can be committed until then.
        undecided: The commits that wait for an answer; they keep others from their paths only.
        decided: Tells whether the call of a key was committed; None until somebody can.
    """

    def __init__(self, root: Callable[[], int], name: str, *, fsync: bool, steps: Steps) -> None:
        self._root = root
        self._name = name
        self._fsync = fsync
        self._steps = steps
        self.stopped: str | None = None
        self.undecided: tuple[Undecided, ...] = ()
        self.decided: Decided | None = None

    def prepare(self, hold: Hold, changes: Changes) -> DiskTransaction:
        """Stage a commit and write its record; nothing outside of `.toolstile/` changes."""
        slots = Slots.make(hold.area, fsync=self._fsync)
        try:
            self._steps("staging")
            staging = Staging(self._root(), slots.descriptor, changes, fsync=self._fsync)
            operations = staging.operations()
            self._steps("staged")
            slots.write(Record(operations, changes.key))
            self._steps("prepared")
        except BaseException:
            slots.remove()
            raise
        work = Operations(self._root(), slots.descriptor, operations, self._steps)
        return DiskTransaction(self._name, hold, slots, work, fsync=self._fsync, steps=self._steps)

    def finish_others(self, hold: Hold, paths: Iterable[str] | None = None) -> None:
        """Finish what killed processes have left.

        Args:
            hold: The lock of the workspace.
            paths: The paths that are to be used; None for any.

        Raises:
            RecoveryError: When something is stuck, or waits for an answer about one of the paths.
        """
        self.recover(hold)
        refusals = [each.message for each in self.undecided] if paths is None else []
        refusals += filter(None, (self.refusal(path) for path in paths or ()))
        if self.stopped is not None or refusals:
            raise RecoveryError(self.stopped or refusals[0])

    def refusal(self, path: str) -> str | None:
        """Return why a path can be neither read nor written now."""
        if self.stopped is not None:
            return self.stopped
        return next((each.message for each in self.undecided if each.covers(path)), None)

    def recover(self, hold: Hold) -> None:
        """Finish every commit that was decided, drop every other one; see `stopped`."""
        before, self.stopped = self.stopped, None
        known, undecided = {each.message for each in self.undecided}, list[Undecided]()
        names = os.listdir(hold.area)  # noqa: PTH208 - of a descriptor
        hold.watches = [name for name in names if name.startswith(WATCH_PREFIX)]
        for name in Slots.found(names):
            try:
                self._recover_one(hold, name)
            except UndecidedError as error:
                paths = frozenset(operation.path for operation in error.record.operations)
                waiting = Undecided(self._wait_report(name, error, sorted(paths)), paths)
                undecided.append(waiting)
                # Who decides is made known in a moment, and may well be able to say.
                if waiting.message not in known and self.decided is not None:
                    log.warning("%s: %s", self._name, waiting.message)
            except (RecoveryError, OSError) as error:
                self.stopped = self._report(name, error)
                if self.stopped != before:
                    log.log(logging.ERROR, "%s: %s", self._name, self.stopped)
            except BaseException as error:
                # A caller that catches it must not take the workspace for a sound one.
                self.stopped = self._report(name, error)
                raise
        self.undecided = tuple(undecided)

    def _recover_one(self, hold: Hold, name: str) -> None:
        slots = Slots(hold.area, name, fsync=self._fsync)
        try:
            self._finish(slots, hold)
        except BaseException:
            slots.close()
            raise
        slots.remove()

    def _finish(self, slots: Slots, hold: Hold) -> None:
        """Bring one commit to its end; raises `RecoveryError` when a person has to help."""
        state = slots.state()
        record = None if state is None else slots.read(state)
        if record is None:
            return
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

    def _report(self, name: str, error: BaseException) -> str:
        return (
            "The workspace was left in the middle of a commit, which cannot be "
            f"finished: {_cause(error)}. Nothing was overwritten, and nothing can be committed "
            "until a person decides: put the files back as they were, and it is finished; or "
            f"remove {RESERVED}/{name}, which holds its new and former contents, and it is given "
            "up where it stands. This requires human intervention."
        )

    def _wait_report(self, name: str, error: UndecidedError, paths: list[str]) -> str:
        return (
            f"The workspace was left in the middle of a commit of {shown(paths)}, and "
            f"nobody can say yet whether it was decided: {_cause(error)}. Nothing was overwritten. "
            "Calls that use these paths are refused until that is known, for which the next one "
            f"asks again; all others go on. If it never can be known, remove {RESERVED}/{name}, "
            "which holds its new and former contents, and it is given up where it stands. This "
            "requires human intervention."
        )


def _cause(error: BaseException) -> str:
    if isinstance(error, RecoveryError):
        return str(error)
    if not isinstance(error, OSError):
        return f"that was ended by {type(error).__name__}"
    where = f"{named(error)}: " if named(error) else ""
    return f"{where}{error.strerror or error}"


def _is_decided(record: Record, decided: Decided | None) -> bool:
    """Tell what became of a commit that was prepared when its process died."""
    if record.key is None:
        return False
    try:
        answer = None if decided is None else decided(record.key)
    except ToolstileError as error:
        reason = str(error).rstrip(".")
        raise UndecidedError(f"its decider cannot say: {reason}", record) from error
    except Exception as error:
        # Anybody's exception, which may tell secrets; its class has to do.
        reason = type(error).__name__
        raise UndecidedError(f"its decider has failed ({reason})", record) from error
    if answer is None:
        msg = f"the store that knows of {record.key} has not said what became of the call"
        raise UndecidedError(msg, record)
    return answer


def _stop_at(paths: list[str]) -> None:
    if paths:
        raise RecoveryError(f"{', '.join(paths)} changed since then")
