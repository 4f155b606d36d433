"""Watches over a workspace, and resources that are held while a call runs once more."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol, runtime_checkable

from toolstile_hookspecs.transactions import Branchable


class Watch(Protocol):
    """A watch over the commits to a workspace; it ends with its call."""

    @property
    def marked(self) -> bool:
        """True once another call has committed; this one ends in `conflict`, then."""
        ...


@runtime_checkable
class SupportsWatch(Protocol):
    """A call's `Filesystem` from which a program may read what nobody sees."""

    def watch(self) -> Watch:
        """Begin to watch, before anything is laid out; may wait, so never on an event loop."""
        ...


class HeldResource(Branchable, Protocol):
    """A `Branchable` to which nobody else commits; the rerun takes its branch from here."""

    def acquire(self) -> Awaitable[None] | None:
        """Keep all others from committing; may wait."""

    def release(self) -> None:
        """Let others commit, also while `acquire` waits; called on each end of the call."""


@runtime_checkable
class SupportsHold(Protocol):
    """A resource's branch whose rerun after a conflict can keep others from committing."""

    def hold_for_rerun(self) -> HeldResource | None:
        """Return what to hold, after the rollback; None where the conflict was elsewhere."""
