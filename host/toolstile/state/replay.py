"""Replay: a call's changes to its session as JSON, and their repetition in another call.

A branch notes each change when it is made. Repeated in their order, the changes give the same
state again, even if it has moved: an event is reduced again. Changes of a nested call
whose effect is recorded by itself name that effect, and are left out where the session holds it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, NotRequired, cast

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from toolstile_hookspecs.codecs import OF_FILE, dumped_exactly, first_fault, loaded, type_name
from toolstile_hookspecs.errors import SnapshotError
from toolstile_hookspecs.execution.undo import UndoNote
from toolstile_hookspecs.stored_names import stored_names

Doing = Literal["dispatch", "publish", "append", "seed"]

NOTHING: Final = "[]"


class Change(NamedTuple):
    """One thing that a call did to the state.

    Args:
        doing: The deed: dispatched or published an event, appended to a slice, replaced its items.
        kind: The type of the event, or of the slice.
        items: The event, or the items.
        effect_id: The id of the recorded effect that it belongs to, of a nested call.
    """

    doing: Doing
    kind: type[Any]
    items: Sequence[Any]
    effect_id: str | None = None


def written(changes: Iterable[Change]) -> str:
    """Return changes as JSON; `SnapshotError` where an event or item cannot be written."""
    entries: list[_Entry] = []
    for doing, kind, items, effect_id in changes:
        entry: _Entry = {"do": doing, "type": name_of(kind), "items": json_of(kind, items)}
        entries.append(entry if effect_id is None else {**entry, "effect": effect_id})
    return json.dumps(entries, ensure_ascii=False, allow_nan=False)


def read(text: str, kinds: Iterable[type[Any]]) -> list[Change]:
    """Return the changes that JSON describes. Types are looked up among those given.

    `SnapshotError`: it is other JSON, names an unknown type, or does not fit the types.
    """
    try:
        entries = _entries().validate_json(text)
    except ValidationError as error:
        raise SnapshotError(
            f"This does not tell what a call did to a session ({first_fault(error)}). Pass what "
            "`changes()` returned, unchanged."
        ) from error
    known = by_name(kinds)
    kinds = [named(entry["type"], known) for entry in entries]
    return [
        Change(entry["do"], kind, loaded(kind, entry["items"]), entry.get("effect"))
        for entry, kind in zip(entries, kinds, strict=True)
    ]


def named_in(text: str) -> list[type[Any]]:
    """Return the types that changes as JSON name and that this process has imported."""
    names = [entry["type"] for entry in _entries().validate_json(text)]
    return [kind for kind in map(_imported, names) if kind is not None]


def _imported(name: str) -> type[Any] | None:
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module) or _loaded_file(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return cast("type[Any]", found) if isinstance(found, type) else None


def _loaded_file(name: str) -> object:
    """Return the module of a plugin in a file of that name, wherever the file is."""
    for module in list(sys.modules):
        if module.endswith(name) and OF_FILE.sub("", module) == name:
            return sys.modules.get(module)
    return None


class _Entry(TypedDict):
    do: Doing
    type: str
    items: list[Any]
    effect: NotRequired[str]


@lru_cache(maxsize=1)
def _entries() -> TypeAdapter[list[_Entry]]:
    return TypeAdapter(list[_Entry])


# --- Changes already applied


@dataclass(frozen=True, slots=True)
class AppliedEffect:
    """A mark in the session: it holds the changes of the call recorded under this id.

    It is in a STATE slice, so that going back to a snapshot takes the marks along.
    """

    effect_id: str


# --- The names of types in JSON, and digests of items


def by_name(kinds: Iterable[type[Any]]) -> dict[str, type[Any]]:
    """Return types by their names in JSON, stable ones too; of two with one name, the last."""
    return {name: kind for kind in kinds for name in (type_name(kind), *stored_names(kind))}


def named(name: str, known: Mapping[str, type[Any]]) -> type[Any]:
    """Return the known type of a name in JSON; `SnapshotError` if there is none."""
    found = known.get(name)
    if found is None:
        raise SnapshotError(
            f"A session's JSON names {name}, a type that is not known here. Types are never "
            "imported from a text: define it in a module and import that, register a reducer for "
            "it, or pass the class in kinds=[...]."
        )
    return found


def name_of(kind: Any) -> str:
    """Return the name of a slice's type in JSON; in a stored session, it may be all there is."""
    return kind if isinstance(kind, str) else type_name(kind)


def json_of(kind: Any, items: Iterable[Any]) -> list[Any]:
    """Return the items of a slice as JSON values from which they are read again."""
    if kind is not UndoNote:
        # In a stored session, a slice whose type is not known yet is JSON.
        return [*items] if isinstance(kind, str) else dumped_exactly(kind, items)
    # Not by its codec, because most calls make a note, and that takes several times as long.
    given = [{name: it for name in each.__slots__ if (it := getattr(each, name))} for each in items]
    return [{**it, "at": it["at"].isoformat(), "until": it["until"].isoformat()} for it in given]


def digest_of(kind: Any, items: Iterable[Any]) -> str:
    """Return the digest of items of a type."""
    text = json.dumps(json_of(kind, items), ensure_ascii=False, sort_keys=True)
    return sha256(text.encode()).hexdigest()


NO_ITEMS: Final = sha256(b"[]").hexdigest()
