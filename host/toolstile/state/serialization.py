"""Items of one type as JSON values, which come back as they were or are refused."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any, Final, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from toolstile_hookspecs._schema.validation_errors import place
from toolstile_hookspecs.errors import SnapshotError

# --- Comparison of items read back


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


# --- Items as JSON


def type_name(kind: type[Any]) -> str:
    """Return the name of a type in JSON: the outermost package that exports it, and its path.

    So a stored class keeps its name while it moves between the modules of that package.

    Example:
        >>> type_name(Path), type_name(Plan)
        ('pathlib:Path', 'toolstile_plugins.planning:Plan')
    """
    module, path = kind.__module__, kind.__qualname__
    parts = module.split(".")
    for depth in range(1, len(parts)):
        package = sys.modules.get(".".join(parts[:depth]))
        if getattr(package, path, None) is kind:
            return f"{'.'.join(parts[:depth])}:{path}"
    return f"{module}:{path}"


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


def refuse_lossy(kind: type[Any], items: list[Any], written: list[Any]) -> None:
    """Refuse items that could not be read again as they were.

    Args:
        kind: Their type.
        items: The items.
        written: What they were written as.

    Raises:
        SnapshotError: Reading that fails, or comes to something else.
    """
    try:
        again = _read(kind, written)
    except Exception as error:
        raise SnapshotError(
            f"Items of {type_name(kind)} cannot be written as JSON, since they could not be read "
            f"again: {_misfit(error)} It must be possible to make {kind.__qualname__} of its "
            "fields again."
        ) from error
    for number, (item, other) in enumerate(zip(items, again, strict=True), 1):
        if not is_same(item, other):
            raise SnapshotError(
                f"Items of {type_name(kind)} cannot be written as JSON: item number {number} "
                "would be read as another. A field of it holds a secret, of which its mask is "
                "written, or a subclass of the type that it names, or reading changes it; keep "
                "secrets elsewhere, and make the field name what it holds."
            )


@lru_cache(maxsize=256)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    items: Any = list[kind]
    return TypeAdapter(items)


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
