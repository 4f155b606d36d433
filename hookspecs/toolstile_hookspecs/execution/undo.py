"""Undo: the note of a call's former state, and the resources that go back to theirs."""

# pyright: reportReturnType=false

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol

from toolstile_hookspecs.codecs import shorten
from toolstile_hookspecs.errors import ToolError
from toolstile_hookspecs.stored_names import stored_as

_SHOWN: Final = 20
_LONGEST: Final = 200  # characters of a value in a message
UNDO_TOOL: Final = "undo_calls"
UNDONE_CALLS: Final = "undo.calls"
"""The attribute of an undo's event with the ids of the calls that it has undone."""
KEPT_VALUES: Final = "undo.kept"  # likewise, with the names of the values that stay

UndoHandler = Callable[[Any, Any, str, Any], Any]
"""A function of an effect's params, the value of its result, its key and a `ToolContext`.

The value is None if the effect may not have happened. The key is the `effect_key` of the call. The
function is called again, perhaps after it has succeeded: a service must recognize the key.
"""


class SliceChange(NamedTuple):
    """The items of a slice that a call left; the former ones as JSON, None if it only appended."""

    kind: str
    at: int
    number: int
    digest: str  # of the items as JSON; that JSON itself, if it is short
    former: str | None


@stored_as("toolstile.UndoNote", of_policy=True)
@dataclass(frozen=True, slots=True)
class UndoNote:
    """The note of how to undo a call; a slice of the session holds one for each call.

    Args:
        turn: The number of the user's texts before the call.
        calls: The ids of the calls that were committed together with it.
        parts: The stored name of the type of each changed resource, and the text for its `undo`.
        stays: The names of changed parts that cannot be put back.
    """

    id: str
    tool: str
    at: datetime
    until: datetime
    session_id: str
    provider_id: str = ""
    turn: int = 0
    calls: tuple[str, ...] = ()
    undoes: tuple[str, ...] = ()
    slices: tuple[SliceChange, ...] = ()
    parts: tuple[tuple[str, str], ...] = ()
    stays: tuple[str, ...] = ()

    @property
    def goes_back(self) -> bool:
        """True if an undo can put something of the call back."""
        return bool(self.slices or self.parts)


class Difference(NamedTuple):
    """A file, a slice or another value that was changed after a call left it."""

    name: str
    left: str
    now: str


class UndoConflict(ToolError):
    """An undo would overwrite values that others have changed since; nothing is changed."""

    def __init__(self, differences: Iterable[Difference]) -> None:
        self.differences = tuple(differences)
        shown = ([shorten(text, _LONGEST) for text in each] for each in self.differences[:_SHOWN])
        told = "; ".join(f"{name}: {left}, now {now}" for name, left, now in shown)
        if (more := len(self.differences) - _SHOWN) > 0:
            told += f"; and {more} more"
        cause = "others have changed values after the call left them"
        remedy = 'Keep these values and undo the rest with others="keep"'
        super().__init__(f"Nothing was undone, because {cause}: {told}. {remedy}.")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.differences,)


class Reversible(Protocol):
    """A resource's branch, or an `Exclusive` resource, that can go back after its commit."""

    def reverse(self) -> str | Awaitable[str]:
        """Return how to undo the changes, as text; called after the handler, before `prepare`."""

    def undo(self, text: str) -> tuple[Sequence[str], Sequence[Difference]]:
        """Undo another call here; return the names that went back, and the values that differ."""
