"""The JSON of a session or a snapshot, versioned."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from toolstile.state.policy_records import Records
from toolstile.state.replay import AppliedEffect
from toolstile.state.serialization import dumped, loaded, refuse_lossy, type_name
from toolstile_hookspecs.errors import SnapshotError
from toolstile_hookspecs.policies import PolicyState

FORMAT = "toolstile.session"
VERSION = 1


class Saved(NamedTuple):
    """The shape of the JSON of a session or a snapshot."""

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
    known: set[type[Any]] = {AppliedEffect, *kinds}
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


def _written(kind: type[Any], items: Iterable[Any], policy: str) -> dict[str, Any]:
    items = list(items)
    written = dumped(kind, items)
    refuse_lossy(kind, items, written)
    return {"type": type_name(kind), "policy": policy, "items": written}


def _document(text: str) -> dict[str, Any]:
    try:
        document: Any = json.loads(text)
    except TypeError as error:
        raise _malformed(f"it is of type {type(text).__qualname__}, no text") from error
    except (ValueError, RecursionError) as error:
        raise _malformed(f"it is no JSON ({error})") from error
    if not isinstance(document, dict) or cast("dict[str, Any]", document).get("format") != FORMAT:
        raise _malformed(f'its "format" is not "{FORMAT}"')
    fields = cast("dict[str, Any]", document)
    version = fields.get("version")
    if version != VERSION:
        raise SnapshotError(
            f"The session's JSON is of version {version!r}; this Toolstile reads version {VERSION}."
            " Read it with the Toolstile that wrote it."
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
