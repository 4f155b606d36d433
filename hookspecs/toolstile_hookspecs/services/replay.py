"""Records of calls that ran, for answering a later call in the handler's place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

from toolstile_hookspecs.results import ToolResult


class HandlerState(StrEnum):
    """The progress of a call's handler."""

    NOT_BEGUN = "not_begun"
    """It did not run."""
    BEGUN = "begun"
    """It runs, or was given up: timed out, cancelled, killed. Nobody knows what it has done."""
    RETURNED = "returned"
    """It returned a success."""
    FAILED = "failed"
    """It returned a failure, raised `ToolError`, or raised because it could not connect."""
    RAISED = "raised"
    """It raised an `Exception` that says nothing of its effect."""
    LOST = "lost"
    """It raised because the answer of a service was lost."""

    @classmethod
    def after(cls, sent: bool | None) -> HandlerState:  # noqa: FBT001 - as `was_sent` returns it
        """Return the state after an exception, by the answer of `was_sent`."""
        return {True: cls.LOST, False: cls.FAILED, None: cls.RAISED}[sent]


class CallRecord(NamedTuple):
    """The storable record of a successful call.

    Args:
        result: What it returned.
        value: The value as compact JSON, None where there is none.
        changes: What it changed in the session, as JSON for `Replay`; None for nothing.
        unportable: Why the changes cannot be written down; None where they can.
        secret: Whether message, value or changes hold a secret, and so are shown to nobody.
    """

    result: ToolResult[Any]
    value: bytes | None = None
    changes: str | None = None
    unportable: str | None = None
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Replay:
    """The recorded result of an earlier call, as an answer to `toolstile_execute`.

    A plain `ToolResult` is dispatched to the reducers of its value's type, as the handler's
    would be. This one is not: where the session does not hold yet what the earlier call
    changed, it is told of the recorded changes, once.

    Args:
        result: The recorded result.
        effect_id: What the earlier call was recorded under. None where this one stands for
            the earlier one itself: the session is told of the changes whatever it holds, and
            the envelope does not say `replayed`.
        changes: What it changed in its session; see `CallRecord`.
        unportable: Why the changes cannot be told to another session.
    """

    result: ToolResult[Any]
    effect_id: str | None
    changes: str | None = None
    unportable: str | None = None


@runtime_checkable
class Redoable(Protocol):
    """The branch of a call: a session that also reports the call's changes.

    For plugins that answer with a recorded result and repeat the changes of its handler.
    """

    def changes(self) -> str:
        """Return the call's changes to the state as JSON for `redo`, which reduces events again.

        Logs and the policies' records are left out.

        Raises:
            SnapshotError: An event or item cannot be written as JSON.
        """
        ...

    def redo(self, changes: str, *, kinds: Iterable[type[Any]] = ()) -> None:
        """Repeat the changes of another call.

        Args:
            changes: The answer of the other call's `changes`.
            kinds: Types of events and items beyond those that the session knows.

        Raises:
            SnapshotError: It is malformed, or a type is unknown or has changed.
        """
