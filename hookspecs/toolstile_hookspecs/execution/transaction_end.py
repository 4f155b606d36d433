"""The end of a transaction: its event, and the error if it was not kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from toolstile_hookspecs.errors import StateError
from toolstile_hookspecs.execution.principal import Principal


class TransactionStatus(StrEnum):
    """The end of a transaction."""

    COMMITTED = "committed"
    """All its changes are kept."""
    ROLLED_BACK = "rolled_back"
    """Nothing of it remains: the application rolled it back, or a rule denied its end."""
    CONFLICT = "conflict"
    """Nothing of it remains, because data that it had read or replaced was changed meanwhile."""
    UNKNOWN = "unknown"
    """It is unknown which of its changes are kept."""


@dataclass(frozen=True)
class TransactionEnded:
    """The one event of a transaction, published when it is decided.

    Args:
        id: Its id, which `ToolInvoked.transaction` of each of its calls names.
        title: Its title.
        status: How it ended.
        calls: The ids of its calls whose changes were to be kept, in order.
        session_id: The session it ran in.
        timestamp: The moment it began; aware, UTC.
        duration: Seconds from then to its end.
        reason: The reason why it was not kept, "" if it was.
        parent_id: The id of the transaction around it, or None.
        reruns: The number of further runs of its calls: after a conflict, or a changed row.
        principal: The user or the program for whom it ran.
    """

    id: str
    title: str
    status: TransactionStatus
    calls: tuple[str, ...]
    session_id: str
    timestamp: datetime
    duration: float
    reason: str = ""
    parent_id: str | None = None
    reruns: int = 0
    principal: Principal | None = None


class TransactionFailed(StateError):
    """A transaction was not kept; says why, and the next step.

    Args:
        text: The reason and the remedy.
        ended: The event of its end.
    """

    def __init__(self, text: str, ended: TransactionEnded) -> None:
        super().__init__(text)
        self.ended = ended

    def __reduce__(self) -> tuple[type[TransactionFailed], tuple[object, ...]]:
        return type(self), (str(self), self.ended)
