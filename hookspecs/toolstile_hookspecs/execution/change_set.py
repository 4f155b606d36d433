"""Change sets: all that a call did, to be shown, stored, and applied later without running it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Protocol, runtime_checkable

from pydantic import TypeAdapter, ValidationError

from toolstile_hookspecs.codecs import first_fault
from toolstile_hookspecs.errors import SnapshotError

MOST_BYTES: Final = 64 * 1024 * 1024
"""The size from which on a call has no change set, and runs again when it is approved later."""


@runtime_checkable
class Tellable(Protocol):
    """A participant, or a resource's branch, that tells its changes, to be made again later."""

    def told(self) -> str:
        """Return the changes, and all they stand on, as text for `redo`; before `prepare`."""
        ...

    def redo(self, text: str) -> None:
        """Make the changes on this branch, which belongs to another call.

        Raises:
            ConflictError: When what they stand on has changed.
        """


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """All that a call did and has not committed.

    Its base is what the call read and wrote, as far as resources see that: what a program read
    unseen is not in it.

    Args:
        tool: The tool.
        message: The message of the result.
        value: The value of the result, as JSON; None where there is none.
        excluded: Whether the value is kept from the model.
        session: The changes of the session; see `Redoable`.
        slices: The digests of the slices that were read or written, as they were before.
        records: The records of policies that were changed, as JSON; None for a removed one.
        parts: What the resources told, by the stored name of each type; see `Tellable`.
        diff: The changes for a person to read, without secrets.
        version: Of this format.

    Example:
        >>> ChangeSet.from_json(ChangeSet("note", "Noted.").to_json()).message
        'Noted.'
    """

    tool: str
    message: str
    value: str | None = None
    excluded: bool = False
    session: str = "[]"
    slices: Mapping[str, str] = field(default_factory=dict[str, str])
    records: Mapping[str, Any] = field(default_factory=dict[str, Any])
    parts: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    diff: str = field(default="", repr=False)
    version: int = 1

    def to_json(self) -> str:
        """Return it as JSON. Secrets that the call changed are in clear."""
        return _adapter().dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> ChangeSet:
        """Return the change set that `to_json` wrote.

        Raises:
            SnapshotError: It is other JSON, or of another version.
        """
        try:
            read = _adapter().validate_json(text)
        except ValidationError as error:
            raise SnapshotError(
                f"This is not a change set ({first_fault(error)}). Pass what `to_json` returned, "
                "unchanged."
            ) from error
        if read.version != 1:
            raise SnapshotError(
                f"The change set is of version {read.version}, which this Toolstile does not know. "
                "Have the call run again."
            )
        return read


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[ChangeSet]:
    return TypeAdapter(ChangeSet)
