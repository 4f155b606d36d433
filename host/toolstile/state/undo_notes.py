"""The notes in a session of how to undo calls: made at the commit, and slices put back by them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from pydantic_core import to_json

from toolstile.state.persistent_list import Items
from toolstile.state.replay import AppliedEffect, by_name, digest_of, json_of
from toolstile.state.slices import Cell
from toolstile.state.store import Store
from toolstile_hookspecs.codecs import loaded, type_name
from toolstile_hookspecs.errors import SnapshotError
from toolstile_hookspecs.execution.undo import Difference, SliceChange, UndoNote
from toolstile_hookspecs.stored_names import is_of_policy, stored_names
from toolstile_hookspecs.support.text import counted

SHORT: Final = 200  # most characters of JSON that stand for a digest, which takes longer
MANY: Final = 64  # notes from which on the oldest are dropped, once they are too old


def noted_in(fields: dict[str, Any], store: Store, changed: Iterable[Cell]) -> dict[Any, Items]:
    """Return the slice of the notes with a further one, unless there is nothing to undo."""
    slices: list[SliceChange] = []
    stays = [*fields["stays"]]
    for cell in changed:
        # Counts of policies and marks of effects stay.
        if not is_of_policy(cell.kind) and cell.kind is not AppliedEffect:
            kind: Any = cell.kind
            name = kind if isinstance(kind, str) else (*stored_names(kind), type_name(kind))[0]
            at = 0 if cell.rewritten else cell.origin.length
            left = cell.items.after(at)
            try:
                former = json.dumps(json_of(kind, cell.origin)) if cell.rewritten else None
                text = to_json(values := json_of(kind, left)).decode()
                digest = text if len(text) <= SHORT else digest_of(name, values)
                slices.append(SliceChange(name, at, len(left), digest, former))
            except SnapshotError:
                stays.append(cell.name)
    if not (slices or stays or fields["parts"]):
        return {}
    before = store.found(store.newest.slices, UndoNote)
    if before.length >= MANY and before.at(0).until < (now := fields["at"]):
        before = Items.of([each for each in before if each.until >= now], store)
    fields = {**fields, "slices": tuple(slices), "stays": tuple(stays)}
    return {UndoNote: before.extended(store, [UndoNote(**fields)])}


def put_back(branch: Any, changes: Iterable[SliceChange]) -> tuple[list[str], list[Difference]]:
    """Put back the slices that a call has changed, but no slice that others have changed since."""
    back: list[str] = []
    differences: list[Difference] = []
    with branch.lock:
        branch.check(to_write=True)
        for change in changes:
            known = by_name(kind for kind in branch.all_now() if not isinstance(kind, str))
            cell = branch.cell(known.get(change.kind, change.kind))
            cell.read = True
            if (items := _former(cell, change)) is None:
                left = f"the call left {counted(change.number, 'item')}"
                now = f"{counted(len(cell.items), 'item')} without these"
                differences.append(Difference(cell.name, left, now))
            else:
                cell.put_back(items)
                back.append(cell.name)
    return back, differences


def _former(cell: Cell, change: SliceChange) -> Items | None:
    """Return the items before a change, if the items that the call left are still there."""
    kind: Any = cell.kind
    present, count, digest = [*cell.items], change.number, change.digest
    if digest.startswith("["):
        digest = digest_of(change.kind, json.loads(digest))
    # Downwards, because items before these may have been taken back meanwhile.
    for at in range(min(change.at, len(present) - count), -1, -1):
        if change.former is not None and count != len(present):
            break
        if digest_of(kind, present[at : at + count]) == digest:
            former = [*present[:at], *present[at + count :]]
            if (text := change.former) is not None:
                former = json.loads(text) if isinstance(kind, str) else loaded(kind, text)
            return Items.of(former, cell.token)
    return None
