"""A commit to a directory: decided in one step, carried out, or put back."""

from __future__ import annotations

import logging

from toolstile_plugins.vfs import journal
from toolstile_plugins.vfs.conflicts import conflict
from toolstile_plugins.vfs.explaining import explained
from toolstile_plugins.vfs.journal import RecoveryError
from toolstile_plugins.vfs.locks import Hold
from toolstile_plugins.vfs.operations import BlockedError, Operations, Steps
from toolstile_plugins.vfs.paths import RESERVED
from toolstile_plugins.vfs.slots import Slots

log = logging.getLogger("toolstile.vfs")


class DiskTransaction:
    """A commit that is prepared.

    Args:
        root: The workspace's path, for messages.
        hold: The lock, released at the end.
        slots: Its directory.
        work: Its operations.
        fsync: Whether it is to survive a loss of power.
        steps: Is told of each step.
    """

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

    def rollback(self) -> None:
        """Drop it."""
        try:
            self._slots.remove(fsync=self._fsync)
        finally:
            self._hold.release()

    def _decide_and_apply(self) -> None:
        slots = self._slots.descriptor
        try:
            self._steps("deciding")
            journal.change_state(slots, "prepared", "decided", fsync=self._fsync)
        except OSError:
            self._slots.remove(fsync=self._fsync)
            raise
        self._steps("decided")
        try:
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
            self._slots.remove(fsync=self._fsync, steps=self._steps)
        except OSError:
            # All is done; the next one to come finds that, too.
            log.exception("The record of a commit could not be removed.")

    def _revoke(self) -> None:
        journal.change_state(self._slots.descriptor, "decided", "revoked", fsync=self._fsync)
        stuck = self._work.undo()
        if stuck:
            self._slots.close()
            raise RecoveryError(
                f"{', '.join(stuck)} changed from outside while a commit was made, and could "
                f"not be put back; the former contents are in {RESERVED}. This requires human "
                "intervention."
            )
        self._slots.remove(fsync=self._fsync)


class NoChanges:
    """A transaction without changes."""

    def commit(self) -> None:
        """Do nothing."""

    def rollback(self) -> None:
        """Do nothing."""
