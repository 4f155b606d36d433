"""A moment of a session's state, and its JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, cast

from pydantic import TypeAdapter, ValidationError

from toolyard.state.applied import AppliedEffect
from toolyard.state.items import Items
from toolyard.state.records import Records
from toolyard.state.store import Head, Store, check_kind
from toolyard_hookspecs.errors import SnapshotError
from toolyard_hookspecs.faults import place
from toolyard_hookspecs.policies import PolicyState

FORMAT = "toolyard.session"
VERSION = 1


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A moment of a session's state: its STATE slices and its policies' records.

    Args:
        session_id: The session it is of.
        tag: What its maker called it.
        head: The state.
        lineage: What the session shares with its clones; None where it was read from JSON.
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
    """Return the state of a snapshot, if it may be restored in a session.

    Args:
        snapshot: The snapshot.
        store: The session's.

    Raises:
        SnapshotError: It is of another session, no snapshot at all, or holds a slice that is a
            LOG by now.
    """
    if not isinstance(snapshot, Snapshot):
        raise SnapshotError(
            f"A {type(snapshot).__qualname__} is no snapshot of a session. Pass what "
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


class Saved(NamedTuple):
    """What the JSON of a session or a snapshot says."""

    id: str
    tag: str | None
    slices: Mapping[type[Any], Sequence[Any]]
    logs: Mapping[type[Any], Sequence[Any]]
    records: Records


def write(saved: Saved) -> str:
    """Return versioned JSON.

    Raises:
        SnapshotError: An item cannot be written as JSON, or two types have one name.
    """
    _refuse_namesakes([*saved.slices, *saved.logs])
    slices = [
        *(_written(kind, items, "state") for kind, items in saved.slices.items()),
        *(_written(kind, items, "log") for kind, items in saved.logs.items()),
    ]
    document = {
        "format": FORMAT,
        "version": VERSION,
        "id": saved.id,
        "tag": saved.tag,
        "slices": slices,
        "policies": dumped(PolicyState, saved.records.values()),
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def read(text: str, kinds: Iterable[type[Any]]) -> Saved:
    """Return what JSON says. Types are looked up among those given, never imported.

    Raises:
        SnapshotError: It is no JSON, of another format or version, or does not fit the types,
            or two of these have one name.
    """
    document = _document(text)
    known: set[type[Any]] = {AppliedEffect}
    for kind in kinds:
        check_kind(kind)
        known.add(kind)
    slices: dict[type[Any], Sequence[Any]] = {}
    logs: dict[type[Any], Sequence[Any]] = {}
    for number, entry in enumerate(_list(document, "slices"), 1):
        if not isinstance(entry, dict):
            raise _malformed(f"slice number {number} is no object")
        fields = cast("dict[str, Any]", entry)
        kind = _kind(fields.get("type"), known)
        if kind in slices or kind in logs:
            raise _malformed(f"it has two slices of {type_name(kind)}")
        target = logs if _is_log(fields) else slices
        target[kind] = loaded(kind, _list(fields, "items"))
    records = loaded(PolicyState, _list(document, "policies"))
    session_id, tag = document.get("id"), document.get("tag")
    if not isinstance(session_id, str):
        raise _malformed('it has no "id"')
    return Saved(
        session_id,
        None if tag is None else str(tag),
        slices,
        logs,
        {each.policy_name: each for each in records},
    )


def type_name(kind: type[Any]) -> str:
    """Return how JSON names a type."""
    return f"{kind.__module__}:{kind.__qualname__}"


def as_items(items: Sequence[Any], *, mutable: bool) -> Items:
    """Return items that were read as a version that nobody may add to in place."""
    return Items.of(list(items), None, mutable=mutable)


def _written(kind: type[Any], items: Iterable[Any], policy: str) -> dict[str, Any]:
    items = list(items)
    written = dumped(kind, items)
    _refuse_lossy(kind, items, written)
    return {"type": type_name(kind), "policy": policy, "items": written}


def _refuse_lossy(kind: type[Any], items: list[Any], written: list[Any]) -> None:
    """Raise if what was written could not be read, or JSON would hold something else of it."""
    try:
        again = _read(kind, written)
    except Exception as error:
        raise SnapshotError(
            f"Items of {type_name(kind)} cannot be written as JSON, since they could not be read "
            f"again: {_misfit(error)} It must be possible to make {kind.__qualname__} of its "
            "fields again."
        ) from error
    for number, (item, other) in enumerate(zip(items, again, strict=True), 1):
        if item != other and _whole(kind, item) != _whole(kind, other):
            raise SnapshotError(
                f"Items of {type_name(kind)} cannot be written as JSON: item number {number} "
                "would be read as another. A field of it holds a subclass of the type that it "
                "names, or reading changes it; make the field name what it holds."
            )


def _whole(kind: Any, item: Any) -> str | None:
    """Return what JSON can have of an item, also beyond the types of its fields."""
    try:
        whole = _adapter(kind).dump_python([item], mode="json", serialize_as_any=True)
    except Exception:  # noqa: BLE001 - only the types of its fields know how to write it
        return None
    return repr(_unordered(whole))


def _unordered(value: Any) -> Any:
    """Return JSON with its lists sorted: sets come in any order."""
    if isinstance(value, dict):
        return {key: _unordered(each) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return sorted(map(_unordered, cast("Sequence[Any]", value)), key=repr)
    return value


@lru_cache(maxsize=256)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    items: Any = list[kind]
    return TypeAdapter(items)


def dumped(kind: Any, items: Iterable[Any]) -> Any:
    """Return items of a type as JSON values.

    Raises:
        SnapshotError: One cannot be written as JSON.
    """
    items = list(items)
    try:
        # Not `dump_json`: it writes infinities as null, which cannot be read back.
        written = _spelt(_adapter(kind).dump_python(items, mode="json"))
    except UnicodeEncodeError as error:
        raise SnapshotError(
            f"Items of {type_name(kind)} cannot be written as JSON: one holds a lone surrogate, "
            "which is no character and could not be read again. Escape it before it is stored."
        ) from error
    except Exception as error:
        raise SnapshotError(
            f"Items of {type_name(kind)} cannot be written as JSON: {_first_line(error)} Make "
            "it a dataclass, a pydantic model or a named tuple of JSON-like fields."
        ) from error
    for item, said in zip(items, written, strict=True):
        if type(item) is not kind and loaded(kind, [said]) != [item]:
            raise SnapshotError(
                f"Items of {type_name(kind)} cannot be written as JSON: one is a "
                f"{type(item).__qualname__}, and would be read as a {kind.__qualname__}. Keep it "
                "in the slice of its own type."
            )
    return written


def loaded(kind: Any, items: list[Any]) -> list[Any]:
    """Return the items of a type that JSON values stand for.

    Raises:
        SnapshotError: They do not fit the type.
    """
    try:
        return _read(kind, items)
    except Exception as error:
        raise SnapshotError(
            f"The items of {type_name(kind)} do not fit that type: {_misfit(error)} The type may "
            "have changed since they were written; bring the JSON up to date first."
        ) from error


def _read(kind: Any, items: list[Any]) -> list[Any]:
    # They are written by the names of their fields, whatever else these are called.
    read = _adapter(kind).validate_json(json.dumps(items), by_name=True, by_alias=True)
    return cast("list[Any]", read)


def _misfit(error: Exception) -> str:
    """Return what does not fit, and where; of several faults the first."""
    if not isinstance(error, ValidationError):
        return _first_line(error)
    first = error.errors(include_url=False, include_context=False)[0]
    rest = f" ({error.error_count()} faults in all)" if error.error_count() > 1 else ""
    return f"{place(first['loc'])}: {first['msg'][:1].lower()}{first['msg'][1:]}{rest}."


def _spelt(value: Any) -> Any:
    """Return the value with the floats that JSON lacks as words, which pydantic reads.

    Raises:
        UnicodeEncodeError: A text of it is none, and could not be read.
    """
    if isinstance(value, str):
        value.encode()
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {_spelt(key): _spelt(each) for key, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_spelt(each) for each in cast("Sequence[Any]", value)]
    return value


def _first_line(error: Exception) -> str:
    line = str(error).partition("\n")[0].rstrip(".")
    return f"{line or type(error).__qualname__}."


def _document(text: str) -> dict[str, Any]:
    try:
        document: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"it is no JSON ({error})") from error
    if not isinstance(document, dict) or cast("dict[str, Any]", document).get("format") != FORMAT:
        raise _malformed(f'its "format" is not "{FORMAT}"')
    fields = cast("dict[str, Any]", document)
    version = fields.get("version")
    if version != VERSION:
        raise SnapshotError(
            f"The session's JSON is of version {version!r}; this Toolyard reads version {VERSION}. "
            "Read it with the Toolyard that wrote it."
        )
    return fields


def _kind(name: object, known: Collection[type[Any]]) -> type[Any]:
    if not isinstance(name, str):
        raise _malformed('a slice has no "type"')
    found = [kind for kind in known if type_name(kind) == name]
    if not found:
        there = ", ".join(sorted(map(type_name, known)))
        raise SnapshotError(
            f"The session's JSON has a slice of {name}, a type that is not known here (known: "
            f"{there}). Types are never imported from a file: pass the class in kinds=[...], or "
            "register a reducer for its slice first."
        )
    if len(found) > 1:
        raise _namesakes(name)
    return found[0]


def _refuse_namesakes(kinds: Iterable[type[Any]]) -> None:
    named: dict[str, type[Any]] = {}
    for kind in kinds:
        name = type_name(kind)
        if named.setdefault(name, kind) is not kind:
            raise _namesakes(name)


def _namesakes(name: str) -> SnapshotError:
    return SnapshotError(
        f"Two types are called {name}, and JSON could not tell their items apart. Give one of "
        "them another name; where its module was loaded anew, go on with a new session."
    )


def _is_log(fields: Mapping[str, Any]) -> bool:
    policy = fields.get("policy")
    if policy not in ("state", "log"):
        raise _malformed(f'a slice has the "policy" {policy!r}')
    return bool(policy == "log")


def _list(fields: Mapping[str, Any], name: str) -> list[Any]:
    found = fields.get(name)
    if not isinstance(found, list):
        raise _malformed(f'"{name}" is no list')
    return cast("list[Any]", found)  # type: ignore[redundant-cast] # pyright disagrees


def _malformed(what: str) -> SnapshotError:
    return SnapshotError(
        f"This is not a session's JSON: {what}. Pass what `to_json` returned, unchanged."
    )
