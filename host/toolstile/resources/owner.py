"""What the pipeline provides to the resources of a call."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.limits import Cancellation, Deadline


class Turn(Protocol):
    """Something that comes one day, and that can be waited for."""

    @property
    def granted(self) -> bool:
        """Whether it has come."""
        ...

    def on_grant(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when it comes, at once if it has.

        The callback runs on whichever thread makes it come, and neither raises nor waits.
        """
        ...


class CallOwner(Protocol):
    """The call that resources are for, as the pipeline knows it.

    Its `str()` is how messages name it.
    """

    @property
    def context(self) -> ToolContext:
        """The context of the call; there from the first `get` on."""
        ...

    @property
    def deadline(self) -> Deadline | None:
        """What bounds waiting."""
        ...

    @property
    def cancellation(self) -> Cancellation | None:
        """What ends waiting from outside."""
        ...

    @property
    def parent(self) -> CallOwner | None:
        """The call that made this one, or None."""
        ...

    @property
    def root_id(self) -> Hashable:
        """The identity of the call tree; no other one in the process may be equal to it."""
        ...

    def check_open(self) -> None:
        """Raise `CallClosed` once the call is over or abandoned."""
        ...

    def before_exclusive(self, kind: type[Any]) -> Turn | None:
        """Refuse an exclusive resource by raising, or say what has to come first."""
        ...

    def pause_timeout(self) -> None:
        """Stop counting against the tool's timeout: the call begins to wait."""
        ...

    def resume_timeout(self) -> None:
        """Count again."""
        ...
