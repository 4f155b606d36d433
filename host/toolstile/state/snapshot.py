"""A moment of a session's state."""

from __future__ import annotations

from dataclasses import dataclass

from toolstile.state.session_json import Saved, write
from toolstile.state.store import Head, Store
from toolstile_hookspecs.errors import SnapshotError


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A moment of a session's state: its STATE slices and its policies' records.

    Args:
        session_id: The session it is of.
        tag: The name that its maker gave it.
        head: The state.
        lineage: An object that the session and its clones share; None where it was read from JSON.
    """

    session_id: str
    tag: str | None
    head: Head
    lineage: object

    def to_json(self) -> str:
        """Return it as versioned JSON.

        Raises:
            SnapshotError: An item cannot be written as JSON.
        """
        return write(
            Saved(self.session_id, self.tag, self.head.slices, {}, self.head.records),
        )


def fitting(snapshot: object, store: Store) -> Head:
    """Return the state of a snapshot; `SnapshotError` where it does not fit the session."""
    if not isinstance(snapshot, Snapshot):
        raise SnapshotError(
            f"A {type(snapshot).__qualname__} is not a snapshot of a session. Pass one that "
            "`session.snapshot()` or `session.read_snapshot(text)` returned."
        )
    if snapshot.lineage is not None and snapshot.lineage is not store.lineage:
        raise SnapshotError(
            f"The snapshot is of the session {snapshot.session_id}, which is not this one nor a "
            "clone of it. To carry state over all the same, read its JSON with "
            "`session.read_snapshot(snapshot.to_json())`."
        )
    for kind in snapshot.head.slices:
        if kind in store.logs:
            name = kind.__qualname__
            raise SnapshotError(
                f"The snapshot holds {name} as STATE, and the slice of {name} is LOG in this "
                "session: its items are never put back. Register it as SlicePolicy.STATE, or take "
                "a new snapshot."
            )
    return snapshot.head
