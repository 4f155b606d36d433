"""Change sets: the whole effect of a call, to be shown, stored, and applied without a new run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Protocol, runtime_checkable

from pydantic import TypeAdapter, ValidationError

from toolstile_hookspecs.codecs import first_fault
from toolstile_hookspecs.errors import SnapshotError

MOST_BYTES: Final = 64 * 1024 * 1024
"""The size above which a call has no change set, and runs again after an approval."""


@runtime_checkable
class Tellable(Protocol):
    """A participant, or a resource's branch, that writes its changes down, to repeat them later."""

    def told(self) -> str:
        """Return the changes and their base as text for `redo`; called before `prepare`."""
        ...

    def redo(self, text: str) -> None:
        """Make the changes on this branch, which belongs to another call.

        Raises:
            ConflictError: If their base has changed.
        """


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """The whole effect of a call before its commit.

    Its base is the state that the call read and wrote, except for unseen reads of programs.

    Args:
        tool: The tool.
        message: The message of the result.
        value: The value of the result, as JSON; None without a value.
        excluded: Whether the value is kept from the model.
        session: The changes of the session; see `Redoable`.
        slices: The digests of the slices that were read or written, as they were before.
        records: The records of policies that were changed, as JSON; None for a removed one.
        parts: The changes of resources, by the stored name of each type; see `Tellable`.
        diff: The changes for a person to read, without secrets.
        together: The ids of the calls that one decision keeps, if the call is one of several.
        is_read: Whether a model has read the result, so that no person may edit the arguments.
        version: Of this format; 2 for one of several calls, which no older Toolstile keeps alone.

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
    together: tuple[str, ...] = ()
    is_read: bool = False
    version: int = 1

    def to_json(self) -> str:
        """Return the change set as JSON. Secrets that the call changed are in clear."""
        return _adapter().dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> ChangeSet:
        """Return the change set that `to_json` wrote.

        Raises:
            SnapshotError: For other JSON, or another version.
        """
        try:
            read = _adapter().validate_json(text)
        except ValidationError as error:
            raise SnapshotError(
                f"This is not a change set ({first_fault(error)}). Pass the text of "
                "`to_json` unchanged."
            ) from error
        if read.version not in {1, 2}:
            raise SnapshotError(
                f"The change set is of version {read.version}, which this Toolstile does not know. "
                "Have the call run again."
            )
        return read


@lru_cache(maxsize=1)
def _adapter() -> TypeAdapter[ChangeSet]:
    return TypeAdapter(ChangeSet)
