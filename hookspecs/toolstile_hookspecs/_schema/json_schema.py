"""JSON Schemas: their parts for properties, items, names and secrets, and their validators.

The validators, of jsonschema-rs, are made here alone, because its defaults fetch. Sources of the
rules: JSON Schema, draft 2020-12, and ECMA-262, section 22.2.1, for patterns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import Any, Final, cast
from urllib.parse import quote, unquote

from pydantic_core import from_json

Schema = Mapping[str, Any]

ALL_SECRET: Final[Schema] = {
    "additionalProperties": {"writeOnly": True},
    "items": {"writeOnly": True},
}
"""Stands in for the schema of a type without one, in which anything may be secret."""
_SECRET: Final = re.compile('"writeOnly": true|"format": "password"')
_COMPOSED: Final = ("anyOf", "oneOf", "allOf")
_BY_NAME: Final = frozenset(
    ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
)
"""Keywords beneath which are schemas by their names."""
VALUES: Final = frozenset(("const", "default", "enum", "examples"))
"""Keywords beneath which are values."""
_INDEX: Final = re.compile("[0-9]{1,9}")


def holds_secret(schema: Schema) -> bool:
    """Tell whether a JSON Schema has a field that is to be written but never shown."""
    return _SECRET.search(json.dumps(schema, default=str)) is not None


def alternatives(schemas: Iterable[Schema], root: Schema) -> Iterator[Schema]:
    """Yield schemas with all that they refer to or combine."""
    waiting, seen = list(schemas), set[str]()
    while waiting:
        schema = waiting.pop()
        yield schema
        target = schema.get("$ref")
        if isinstance(target, str) and target not in seen:
            seen.add(target)
            waiting += schemas_among([pointed(root, target)])
        for key in _COMPOSED:
            waiting += schemas_among(schema.get(key, ()))


def of_property(schemas: Iterable[Schema], name: str) -> list[Schema]:
    """Return the schemas that may apply to a property of objects."""
    found: list[object] = []
    for schema in schemas:
        named = schema.get("properties", {})
        found.append(named[name] if name in named else schema.get("additionalProperties"))
        # Only a validator knows which patterns match the name.
        found += schema.get("patternProperties", {}).values()
    return schemas_among(found)


def of_item(schemas: Iterable[Schema], index: int) -> list[Schema]:
    """Return the schemas that apply to an item of arrays."""
    first = [(schema, schema.get("prefixItems", ())) for schema in schemas]
    return schemas_among(
        items[index] if index < len(items) else schema.get("items") for schema, items in first
    )


def schemas_among(found: Iterable[object]) -> list[Schema]:
    """Return the schemas among some values, without true and false."""
    return [cast("Schema", part) for part in found if isinstance(part, Mapping)]


def known_names(schema: Schema, path: Iterable[object] = ()) -> list[str]:
    """Return all property names of an object, here or at a path within."""
    found = list(alternatives([schema], schema))
    for part in path:
        inside = of_item(found, part) if isinstance(part, int) else of_property(found, str(part))
        found = list(alternatives(inside, schema))
    return [name for part in found for name in part.get("properties", ())]


def pointed(root: Schema, target: str) -> object:
    """Return the part of a schema that a reference within it (`#`, `#/...`) leads to, or None.

    Source of the rules: RFC 6901, where a pointer is the fragment of an address.
    """
    here: Any = root
    for part in unquote(target.removeprefix("#")).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, (dict, Mapping)):
            here = cast("Mapping[str, object]", here).get(name)
        elif isinstance(here, Sequence) and not isinstance(here, str):
            items = cast("Sequence[object]", here)
            here = items[int(name)] if _INDEX.fullmatch(name) and int(name) < len(items) else None
        else:
            return None
    return here


def subschemas(value: object) -> Iterator[Schema]:
    """Yield every schema within a schema, itself first."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, (dict, Mapping)):
            schema = cast("Schema", part)
            yield schema
            for key, inner in schema.items():
                if key in _BY_NAME and isinstance(inner, Mapping):
                    waiting += cast("Schema", inner).values()
                elif key not in VALUES:
                    waiting.append(inner)
        elif isinstance(part, list):
            waiting += cast("list[object]", part)


_LATEST: Final = "https://json-schema.org/draft/2020-12/schema"
_DRAFTS: Final = [f"http://json-schema.org/draft-0{number}/schema" for number in (7, 6, 4, 3)]
_KNOWN: Final = frozenset((_LATEST, "https://json-schema.org/draft/2019-09/schema", *_DRAFTS))


def check_schema(schema: Schema) -> None:
    """Check that a JSON Schema is valid in its draft.

    Raises:
        ValueError: When it is not; the text says where and why.
    """
    metaschema, plain = _metaschema(_draft_of(schema)), dict(schema)
    if not metaschema.is_valid(plain):
        raise ValueError(_why(next(iter(metaschema.iter_errors(plain)))))


def bounded_validator(schema: Schema) -> Any:
    """Return a validator that fetches nothing, and searches for patterns in bounded time.

    Raises:
        ValueError: When the schema is wrong, refers to a schema that is not in it, or has a pattern
            with look-around; the text says so.
    """
    import jsonschema_rs  # a compiled library, and most tools are typed

    try:
        return jsonschema_rs.validator_for(
            _readable(schema),
            offline=True,
            validate_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except jsonschema_rs.ValidationError as error:
        raise ValueError(_why(error)) from error


@lru_cache(maxsize=1024)
def is_bounded(pattern: str) -> bool:
    """Tell whether a pattern of ECMA-262 can be searched for in bounded time."""
    try:
        bounded_validator({"pattern": pattern})
    except ValueError:
        return False
    return True


def path_of(steps: list[int | str]) -> str:
    """Return the way to a part of a value, such as `$.lines[2].price`."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


@lru_cache
def _metaschema(draft: str) -> Any:
    return bounded_validator({"$schema": draft, "$ref": draft})


def _draft_of(schema: Schema) -> str:
    named = schema.get("$schema")
    draft = named.rstrip("#") if isinstance(named, str) else _LATEST
    if draft == _DRAFTS[-1]:
        raise ValueError("is written in draft 3, which is not supported; use draft 2020-12")
    return draft if draft in _KNOWN else _LATEST


def _why(error: Any) -> str:
    if error.kind.name == "$ref":
        reason = error.message.partition(" and retrieving")[0]
        return (
            f"refers to a schema which is not in it; copy that part into $defs and refer to it as "
            f"'#/$defs/...' ({reason})"
        )
    if error.kind.as_dict() == {"format": "regex"}:
        return _unsearchable(error.instance)
    return f"is not valid at {path_of(error.instance_path)}: {error.message}; correct it there"


def _unsearchable(pattern: str) -> str:
    return (
        f"has the pattern {pattern!r}, which cannot be searched for in bounded time; write it "
        "without look-around, back-references and large counts, or leave it out"
    )


# --- Schemas as jsonschema-rs reads them


def _readable(schema: Schema) -> dict[str, Any]:
    """Return a copy of a schema that jsonschema-rs reads as the schema is meant.

    An unknown `$schema` stands for the latest draft. The content of texts is not checked. Patterns
    and references are written without the liberties that most readers take for granted.
    """
    changed: dict[str, Any] = from_json(json.dumps(schema))
    for part in cast("list[dict[str, Any]]", _parts(changed)):
        if isinstance(part.get("$schema"), str):
            _name_draft(part, is_root=part is changed)
        for name in ("contentEncoding", "contentMediaType"):
            if isinstance(part.get(name), str):
                del part[name]
        if isinstance(pattern := part.get("pattern"), str):
            part["pattern"] = strict_pattern(pattern)
        if isinstance(by_pattern := part.get("patternProperties"), dict):
            merged: dict[str, Any] = {}
            for pattern, inner in cast("dict[str, Any]", by_pattern).items():
                strict = strict_pattern(pattern)
                merged[strict] = {"allOf": [merged[strict], inner]} if strict in merged else inner
            part["patternProperties"] = merged
        for name in _REFERENCES:
            if isinstance(target := part.get(name), str) and target.startswith("#/"):
                part[name] = "#" + quote(unquote(target[1:]), safe="/~!$&'()*+,;=:@?")
    return changed


def _name_draft(part: dict[str, Any], *, is_root: bool) -> None:
    is_known = part["$schema"].rstrip("#") in _KNOWN
    part["$schema"] = _draft_of(part)
    # Because programs put schemas with their heads into others, only a part with an id has a draft.
    if is_known and not is_root and not {"$id", "id"} & part.keys():
        del part["$schema"]


_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


def _references_of(part: Schema) -> list[str]:
    return [target for name in _REFERENCES if isinstance(target := part.get(name), str)]


def _parts(schema: Schema) -> list[Schema]:
    """Return every schema within a schema, found by place or by reference."""
    parts = list(subschemas(schema))
    known = set(map(id, parts))
    for part in parts:
        for target in _references_of(part):
            inner = pointed(schema, target) if target.startswith("#/") else None
            found = [each for each in subschemas(inner) if id(each) not in known]
            known.update(map(id, found))
            parts += found
    return parts


def chain_of(schema: Schema) -> float:
    """Return the longest chain of schemas for one value, infinity if a schema refers to itself.

    A validator needs that much of the stack for each level of a value.
    """
    parts = _parts(schema)
    named = ("$anchor", "$dynamicAnchor")
    anchors = {f"#{part[name]}": part for part in parts for name in named if name in part}
    known: dict[int, float] = {}

    def leads_to(target: str) -> object:
        return pointed(schema, target) if target[:2] in ("#", "#/") else anchors.get(target)

    def length(part: Schema) -> float:
        if id(part) not in known:
            known[id(part)] = inf  # if a reference leads back here, there is a circle
            found: list[Any] = [*map(part.get, _FOR_SAME), *map(leads_to, _references_of(part))]
            for name in _SEVERAL_FOR_SAME:
                inner: Any = part.get(name)
                found += inner if isinstance(inner, list) else []
                found += inner.values() if isinstance(inner, dict) else []
            known[id(part)] = 1 + max(map(length, schemas_among(found)), default=0)
        return known[id(part)]

    # References to a name are not followed here; each is followed once at most for one value.
    ids = (part.get(name) for part in parts if part is not schema for name in ("$id", "id"))
    has_names = any(isinstance(name, str) for name in ids)
    targets = [target for part in parts for target in _references_of(part)]
    by_name = sum(has_names or leads_to(target) is None for target in targets)
    try:
        return max(map(length, parts)) * (1 + by_name)
    except RecursionError:
        return inf


_FOR_SAME: Final = ("not", "if", "then", "else")
_SEVERAL_FOR_SAME: Final = ("allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies")


# --- Patterns


_PAIR: Final = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE: Final = rf"{_PAIR}|\\[upP]\{{[^}}]*\}}|\\."
_TOKEN: Final = re.compile(
    rf"\[\^?(?:\\.|[^\]\\])*\]|{_ESCAPE}|\{{(?![0-9]+(?:,[0-9]*)?\}})", re.DOTALL
)
_IN_CLASS: Final = re.compile(rf"\\[dDwWsS]-(?!\])|-(?=\\[dDwWsS])|{_ESCAPE}", re.DOTALL)
_WHOLE: Final = {"[]": r"[^\s\S]", "[^]": r"[\s\S]", "{": r"\{", r"\0": r"\x00"}
_COUNT: Final = re.compile(
    rf"{_ESCAPE}|\[(?:\\.|[^\]\\])*\]|\{{([0-9]+)(?:,([0-9]*))?\}}|.", re.DOTALL
)
_MOST_COUNTED: Final = 2_000
"""Characters that the counts of a pattern may stand for: the time of a search is proportional to
them."""


def strict_pattern(pattern: str) -> str:
    r"""Return a pattern of ECMA-262 without the liberties for old scripts.

    Raises:
        ValueError: When its counts make every search long.

    Example:
        >>> strict_pattern(r"^{[\w-.]+\u{1F600}[^]{2}$")
        '^\\{[\\w\\-.]+\\u{1F600}[\\s\\S]{2}$'
    """
    strict = _TOKEN.sub(_strict, pattern)
    if _counted(strict) >= _MOST_COUNTED:
        raise ValueError(_unsearchable(pattern))
    return strict


def _counted(pattern: str) -> int:
    """Return the number of characters that the counts of a pattern, such as `{3}`, stand for."""
    total, last, size, outer = 0, 0, 0, list[int]()  # size: of the group that is read
    for token in _COUNT.finditer(pattern):
        if token[0] == "(":
            outer.append(size)
            size = last = 0
        elif token[0] == ")" and outer:
            last, size = size, size + outer.pop()
        elif token[1]:
            number = max(int(token[1]), int(token[2] or 0))
            total += last * number
            size += last * (number - 1)
            last *= number
        elif token[0] not in "*+?":
            last = 1
            size += 1
    return total


def _strict(found: re.Match[str]) -> str:
    text = found[0]
    if text in _WHOLE:
        return _WHOLE[text]
    if text.startswith("["):
        return _IN_CLASS.sub(_strict, text)
    if re.fullmatch(_PAIR, text):
        first, second = (int(half, 16) for half in text[2:].split("\\u"))
        return f"\\u{{{(first << 10) + second - 0x35FDC00:X}}}"
    if text.endswith("-") and text != r"\-":
        return rf"{text[:-1]}\-"
    return text if text.isascii() else text.removeprefix("\\")
