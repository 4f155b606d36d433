"""Records of calls, to answer a later call in place of the handler, and the host's record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

from toolstile_hookspecs.results import ToolResult


class HandlerState(StrEnum):
    """The progress of a call's handler."""

    NOT_BEGUN = "not_begun"
    """The handler did not run."""
    BEGUN = "begun"
    """The handler runs, or was timed out, cancelled or killed. Its effect is unknown."""
    RETURNED = "returned"
    """The handler returned a success."""
    FAILED = "failed"
    """The handler returned a failure, raised `ToolError`, or could not connect."""
    RAISED = "raised"
    """The handler raised an `Exception` that does not show whether it had an effect."""
    LOST = "lost"
    """The handler raised because the answer of a service was lost."""

    @classmethod
    def after(cls, sent: bool | None) -> HandlerState:  # noqa: FBT001 - as `was_sent` returns it
        """Return the state after an exception, by the answer of `was_sent`."""
        return {True: cls.LOST, False: cls.FAILED, None: cls.RAISED}[sent]


class CallRecord(NamedTuple):
    """The storable record of a successful call.

    Args:
        result: The result.
        value: The value as compact JSON, None without a value.
        changes: The changes of the session, as JSON for `Replay`; None without changes.
        unportable: Why the changes cannot be written as JSON; None if they can.
        secret: Whether message, value or changes hold a secret, so that none of them is shown.
    """

    result: ToolResult[Any]
    value: bytes | None = None
    changes: str | None = None
    unportable: str | None = None
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Replay:
    """The recorded result of an earlier call, as an answer to `toolstile_execute`.

    The host dispatches a plain `ToolResult` to the reducers of its value's type, as a handler's
    result. For a `Replay` it repeats the recorded changes instead, unless the session has them.

    Args:
        result: The recorded result.
        effect_id: The id of the recorded effect. None if this call is the earlier one itself: the
            host then repeats the changes in any case, and the envelope does not say `replayed`.
        changes: The changes of the earlier session; see `CallRecord`.
        unportable: Why the changes cannot be repeated in another session.
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
            SnapshotError: If an event or item cannot be written as JSON.
        """
        ...

    def redo(self, changes: str, *, kinds: Iterable[type[Any]] = ()) -> None:
        """Repeat the changes of another call.

        Args:
            changes: The result of the other call's `changes`.
            kinds: Types of events and items beyond those that the session knows.

        Raises:
            SnapshotError: If they are malformed, or a type is unknown or has changed.
        """


@dataclass(frozen=True, slots=True)
class Recorder:
    """Writes lines into the record of a host; a resource, bound if the host records.

    Args:
        note: Writes a line of a kind, `approval` or `check`, with JSON fields. Raises `OSError` or
            `ToolstileError` if the line cannot be written.

    Example:
        >>> lines = []
        >>> Recorder(lambda kind, fields: lines.append((kind, fields))).note("check", {"by": "Ann"})
        >>> lines
        [('check', {'by': 'Ann'})]
    """

    note: Callable[[str, dict[str, Any]], None]
