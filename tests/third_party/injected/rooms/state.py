"""The state of all rooms, as a resource that calls change and the host can put back."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeVar

from toolstile_hookspecs import ToolContext, ToolValidationError

from .records import (
    Channel,
    Contact,
    Event,
    Hotel,
    Mail,
    Message,
    Payee,
    Payment,
    Reservation,
    Share,
    StandingOrder,
    Transaction,
)

T = TypeVar("T")


@dataclass
class Rooms:
    """Mail, calendar, bank, files and chat of one user, and the web outside.

    The containers change, what lies in them does not: a shallow copy is a snapshot.
    """

    inbox: list[Mail] = field(default_factory=list)
    sent: list[Mail] = field(default_factory=list)
    contacts: list[Contact] = field(default_factory=list)
    forwarding: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    calendar_shares: list[Share] = field(default_factory=list)
    balance: float = 0.0
    transactions: list[Transaction] = field(default_factory=list)
    payments: list[Payment] = field(default_factory=list)
    payees: list[Payee] = field(default_factory=list)
    standing_orders: list[StandingOrder] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    file_shares: list[Share] = field(default_factory=list)
    channels: dict[str, Channel] = field(default_factory=dict)
    direct: dict[str, tuple[Message, ...]] = field(default_factory=dict)
    pages: dict[str, str] = field(default_factory=dict)
    hotels: list[Hotel] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    made: int = 0
    """The number of things that got an id from `new_id`."""
    requests: list[str] = field(default_factory=list)
    """The queries and addresses that strangers' servers have seen."""
    looked_at: list[str] = field(default_factory=list)
    """The names of what the user has been shown."""

    def new_id(self, letter: str) -> str:
        """Return an id that nothing has had so far."""
        self.made += 1
        return f"{letter}{100 + self.made}"

    def snapshot(self) -> dict[str, Any]:
        """Return what `restore` puts back."""
        return {name: copy(value) for name, value in vars(self).items()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Put a snapshot back."""
        vars(self).update({name: copy(value) for name, value in snapshot.items()})


def rooms_of(context: ToolContext) -> Rooms:
    """Return the rooms that a call works in."""
    return context.resources.get(Rooms)


def position(items: Iterable[Any], key: str, *, of: str = "id") -> int:
    """Return the index of the item with a key; refuse the arguments where there is none."""
    keys = [getattr(item, of) for item in items]
    if key not in keys:
        raise ToolValidationError(f"There is no {key!r}. Search for it first, then retry.")
    return keys.index(key)


def found(items: dict[str, T], key: str) -> T:
    """Return the value of a key; refuse the arguments where there is none."""
    if key not in items:
        raise ToolValidationError(f"There is no {key!r}. List what there is, then retry.")
    return items[key]
