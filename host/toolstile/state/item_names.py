"""The names of types in a session's JSON, and digests of items."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

from toolstile_hookspecs.codecs import dumped_exactly, type_name
from toolstile_hookspecs.errors import SnapshotError
from toolstile_hookspecs.stored_names import stored_names


def by_name(kinds: Iterable[type[Any]]) -> dict[str, type[Any]]:
    """Return types by their names in JSON, stable ones too; of two with one name, the last."""
    return {name: kind for kind in kinds for name in (type_name(kind), *stored_names(kind))}


def named(name: str, known: Mapping[str, type[Any]]) -> type[Any]:
    """Return the known type of a name in JSON; `SnapshotError` where there is none."""
    found = known.get(name)
    if found is None:
        raise SnapshotError(
            f"A session's JSON names {name}, a type that is not known here. Types are never "
            "imported from a text: define it in a module and import that, register a reducer for "
            "it, or pass the class in kinds=[...]."
        )
    return found


def digest_of(kind: type[Any], items: Iterable[Any]) -> str:
    """Return the digest of items of a type."""
    text = json.dumps(dumped_exactly(kind, items), ensure_ascii=False, sort_keys=True)
    return sha256(text.encode()).hexdigest()


NO_ITEMS: Final = sha256(b"[]").hexdigest()
