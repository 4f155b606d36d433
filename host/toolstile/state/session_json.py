"""Snapshots, and the versioned JSON of sessions and snapshots; `SnapshotError` for misfits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, NotRequired

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from toolstile.state.policy_records import Records
from toolstile.state.replay import AppliedEffect, by_name, json_of, name_of, named
from toolstile.state.store import Head, Store
from toolstile_hookspecs.codecs import dumped, first_fault, loaded, type_name
from toolstile_hookspecs.errors import SnapshotError
from toolstile_hookspecs.execution.approvals import WaitingCall
from toolstile_hookspecs.execution.principal import RequestTurn
from toolstile_hookspecs.execution.undo import UndoNote
from toolstile_hookspecs.policies import PolicyState
from toolstile_hookspecs.sections import OpenedSections


class Saved(NamedTuple):
    """The shape of the JSON of a session or a snapshot."""

    id: str
    tag: str | None
    slices: Mapping[Any, Iterable[Any]]
    logs: Mapping[type[Any], Iterable[Any]]
    records: Records


def write(saved: Saved) -> str:
    """Return versioned JSON."""
    names: dict[str, Any] = {}
    slices: list[Any] = []
    for policy, several in (("state", saved.slices), ("log", saved.logs)):
        for kind, items in several.items():
            name = name_of(kind)
            if names.setdefault(name, kind) is not kind:
                raise SnapshotError(
                    f"Two types are called {name}, and JSON could not tell their items apart. Give "
                    "one of them another name; where its module was loaded again, go on with a new "
                    "session."
                )
            slices.append({"type": name, "policy": policy, "items": json_of(kind, items)})
    document: _Document = {
        "format": "toolstile.session",
        "version": 1,
        "id": saved.id,
        "tag": saved.tag,
        "slices": slices,
        "policies": dumped(PolicyState, saved.records.values()),
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def read(text: str, kinds: Iterable[type[Any]]) -> Saved:
    """Return the state in JSON. Types are looked up among those given, never imported."""
    try:
        document = _documents().validate_json(text)
    except ValidationError as error:
        raise _malformed(first_fault(error)) from error
    known = by_name([AppliedEffect, OpenedSections, RequestTurn, UndoNote, WaitingCall, *kinds])
    slices: dict[type[Any], Iterable[Any]] = {}
    logs: dict[type[Any], Iterable[Any]] = {}
    for entry in document["slices"]:
        kind = named(entry["type"], known)
        if kind in slices or kind in logs:
            raise _malformed(f"it has two slices of {type_name(kind)}")
        target = logs if entry["policy"] == "log" else slices
        target[kind] = loaded(kind, entry["items"])
    records = {record.policy_name: record for record in loaded(PolicyState, document["policies"])}
    return Saved(document["id"], document.get("tag"), slices, logs, records)


class _Slice(TypedDict):
    type: str
    policy: Literal["state", "log"]
    items: list[Any]


class _Document(TypedDict):
    format: Literal["toolstile.session"]
    version: Literal[1]
    id: str
    tag: NotRequired[str | None]
    slices: list[_Slice]
    policies: list[Any]


@lru_cache(maxsize=1)
def _documents() -> TypeAdapter[_Document]:
    return TypeAdapter(_Document)


def _malformed(what: str) -> SnapshotError:
    return SnapshotError(
        f"This is not a session's JSON: {what}. Pass what `to_json` of this version returned, "
        "unchanged."
    )


# --- Snapshots


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A moment of a session's state: its STATE slices and its policies' records, with a tag.

    The session and its clones share `lineage`; it is None for a snapshot that was read from JSON.
    """

    session_id: str
    tag: str | None
    head: Head
    lineage: object

    def to_json(self) -> str:
        return write(Saved(self.session_id, self.tag, self.head.slices, {}, self.head.records))


def fitting(snapshot: object, store: Store) -> Head:
    """Return the state of a snapshot; `SnapshotError` if it does not fit the session."""
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
