"""Whether an item came back from its JSON as it was."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final, cast

from pydantic import BaseModel, TypeAdapter
from pydantic_core import to_jsonable_python

Schema = Mapping[str, Any]

Known = Mapping[str, Schema]
"""The definitions that a schema may refer to, by their names."""

_PLAIN: Final = (str, int, float, bool, type(None), list, dict)
_CLASSES: Final = ("model", "dataclass", "named-tuple", "call")
_HOLDERS: Final = ("model-fields", "dataclass-args", "named-tuple", "arguments")
_UNWRITTEN: Final = ("serialization_exclude", "serialization_exclude_if", "init_only")
# Values, and how something is written or is read from Python.
_ASIDE: Final = ("cls", "config", "default", "metadata", "python_schema", "serialization")


def is_same(item: object, read: object) -> bool:
    """Tell whether what was read from an item's JSON is that item again.

    What equals it is, and so is what differs only where it has to: in private attributes and
    excluded fields, which are not written; in NaN and in objects of classes without equality,
    which equal none; and where a field of type `Any` holds what JSON made of a value, or one of
    type `Sequence` a list.

    Args:
        item: What was written.
        read: What was read from that.

    Example:
        >>> is_same([float("nan"), (1, 2)], [float("nan"), [1, 2]]), is_same([1], [2])
        (True, False)
    """
    return _is_same(item, read, loose=True)


def _is_same(one: Any, other: Any, *, loose: bool) -> bool:
    """Compare two values.

    Args:
        one: A value of what was written.
        other: What was read in its place.
        loose: Whether the type of their field leaves it to JSON, somewhere, what is read.
    """
    if one == other:
        return True
    kind = cast("Any", type(one))
    is_of_type = kind is type(other)
    if is_of_type and (fields := _fields(kind)) is not None:
        return _have_same_fields(one, other, fields)
    for container, compare in _CONTAINERS:
        both = isinstance(one, container) and isinstance(other, container)
        if both and (is_of_type or loose):
            return compare(one, other, loose=loose)
    if loose and type(other) in _PLAIN and _as_json(one) == other:
        return True
    has_no_equality = is_of_type and kind.__eq__ is object.__eq__
    return _are_nan(one, other) or (has_no_equality and _as_json(one) == _as_json(other))


def _have_same_fields(one: Any, other: Any, fields: Mapping[str, bool]) -> bool:
    if isinstance(one, BaseModel) and not _is_same(one.model_extra, other.model_extra, loose=True):
        return False
    return all(
        _is_same(getattr(one, name), getattr(other, name), loose=loose)
        for name, loose in fields.items()
    )


def _are_same_lists(one: Sequence[Any], other: Sequence[Any], *, loose: bool) -> bool:
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(_is_same(*pair, loose=loose) for pair in pairs)


def _are_same_mappings(one: Mapping[Any, Any], other: Mapping[Any, Any], *, loose: bool) -> bool:
    # JSON keeps the order, so the keys that it writes alike are all that could be lost.
    keys = zip(one, other, strict=False)
    return (
        len(one) == len(other)
        and all(key == read or (loose and _as_json({key: 0}) == {read: 0}) for key, read in keys)
        and _are_same_lists([*one.values()], [*other.values()], loose=loose)
    )


def _are_same_sets(one: AbstractSet[Any], other: AbstractSet[Any], *, loose: bool) -> bool:
    # Sets come in any order, and what is in them may equal nothing.
    return _are_same_lists(sorted(one, key=_written), sorted(other, key=_written), loose=loose)


_CONTAINERS: Final[tuple[tuple[Any, Callable[..., bool]], ...]] = (
    ((list, tuple), _are_same_lists),
    (Mapping, _are_same_mappings),
    (AbstractSet, _are_same_sets),
)


def _are_nan(one: object, other: object) -> bool:
    return all(isinstance(each, float) and math.isnan(each) for each in (one, other))


def _as_json(value: object) -> Any:
    """Return what JSON makes of a value whose type is not said, None where that is unknown."""
    try:
        return to_jsonable_python(value, by_alias=False)
    except ValueError:
        return None


def _written(value: object) -> str:
    return repr(_as_json(value))


@lru_cache(maxsize=256)
def _fields(kind: Any) -> Mapping[str, bool] | None:
    """Return the fields of a class that are written, and whether what each holds is loose.

    None for what has none, or none that pydantic knows.
    """
    try:
        schema: Schema = TypeAdapter(kind).core_schema
    except Exception:  # noqa: BLE001 - whatever a stranger's class raises, it has none
        return None
    nodes = list(_nodes(schema))
    known = {each["ref"]: each for each in nodes if "ref" in each}
    own = next((each for each in nodes if _is_of(each, kind)), None)
    if own is None:
        return None
    if own.get("root_model"):
        return {"root": _is_loose(own["schema"], known)}
    holder = next(each for each in _nodes(own) if each["type"] in _HOLDERS)
    return {
        name: _is_loose(field["schema"], known)
        for name, field in _named(holder)
        if not any(field.get(each) for each in _UNWRITTEN)
    }


def _is_of(node: Schema, kind: type[Any]) -> bool:
    return node["type"] in _CLASSES and kind in (node.get("cls"), node.get("function"))


def _named(holder: Schema) -> list[tuple[str, Schema]]:
    fields: Any = holder.get("fields", holder.get("arguments_schema"))
    if isinstance(fields, Mapping):
        return list(cast("Mapping[str, Schema]", fields).items())
    return [(each["name"], each) for each in cast("Sequence[Schema]", fields)]


def _is_loose(schema: Schema, known: Known, within: Collection[str] = ()) -> bool:
    """Tell whether a type leaves it to JSON, somewhere, what is read.

    What is in classes of its own is compared by their own fields.
    """
    kind = schema["type"]
    if kind == "definition-ref":
        ref = schema["schema_ref"]
        return ref not in within and _is_loose(known[ref], known, (*within, ref))
    if kind in _CLASSES:
        return False
    is_sequence = kind == "json-or-python" and schema["json_schema"]["type"] == "list"
    if kind == "any" or is_sequence:
        return True
    return any(_is_loose(each, known, within) for each in _parts(schema))


def _nodes(schema: Schema) -> Iterator[Schema]:
    yield schema
    for each in _parts(schema):
        yield from _nodes(each)


def _parts(part: Any) -> Iterator[Schema]:
    """Yield the schemas right within one, or within what it consists of."""
    if isinstance(part, Mapping):
        node = cast("Schema", part)
        aside = _ASIDE if isinstance(node.get("type"), str) else ()
        inside: Any = [each for name, each in node.items() if name not in aside]
    else:
        inside = part
    for each in inside:
        if isinstance(each, Mapping) and isinstance(cast("Schema", each).get("type"), str):
            yield cast("Schema", each)
        elif isinstance(each, (Mapping, list, tuple)):
            yield from _parts(each)
