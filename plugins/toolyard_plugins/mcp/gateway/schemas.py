"""JSON Schemas of servers, so that checking arguments against them takes bounded time."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from toolyard_hookspecs import DefinitionError
from toolyard_hookspecs.faults import pointed

Schema = Mapping[str, Any]

MOST: Final = 20_000
"""Parts of a schema, each as often as it is referred to."""
_NAMED: Final = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
"""Keywords beneath which are names, and not keywords."""
_BY_PATTERN: Final = ("patternProperties", "additionalProperties", "unevaluatedProperties")


def enforceable(schema: Schema) -> dict[str, Any]:
    """Return what is enforced of a schema before a call leaves.

    What cannot be searched for in bounded time is left to the server: patterns that RE2 does not
    take, and properties that are told apart by patterns.

    Raises:
        DefinitionError: When the schema is too large once all it refers to is in its place.
    """
    if _Weighing(schema).weigh(schema) > MOST:
        raise DefinitionError(f"its schema has more than {MOST:,} parts")
    return _kept(schema)


def _kept(schema: Schema) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if "patternProperties" in schema and key in _BY_PATTERN:
            continue
        if key == "pattern" and isinstance(value, str) and not _is_bounded(value):
            continue
        if key in _NAMED and isinstance(value, Mapping):
            named = cast("Mapping[str, object]", value)
            kept[key] = {name: _kept_in(each) for name, each in named.items()}
        else:
            kept[key] = _kept_in(value)
    return kept


def _kept_in(value: object) -> Any:
    if isinstance(value, Mapping):
        return _kept(cast("Schema", value))
    if isinstance(value, list):
        return [_kept_in(each) for each in cast("list[object]", value)]
    return value


def _is_bounded(pattern: str) -> bool:
    re2: Any = importlib.import_module("re2")
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError):
        return False
    return True


class _Weighing:
    """Counts the parts of a schema, of what it refers to each time anew."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._known: dict[str, int] = {}

    def weigh(self, value: object) -> int:
        if isinstance(value, Mapping):
            table = cast("Schema", value)
            target = table.get("$ref")
            inside = sum(map(self.weigh, table.values()))
            return 1 + inside + (self._target(target) if isinstance(target, str) else 0)
        if isinstance(value, Sequence) and not isinstance(value, str):
            return sum(map(self.weigh, cast("Sequence[object]", value)))
        return 0

    def _target(self, target: str) -> int:
        if target not in self._known:
            # What refers to itself ends with the arguments.
            self._known[target] = 0
            self._known[target] = self.weigh(pointed(self._root, target))
        return self._known[target]
