"""Paths in the arguments of a call, found by the properties that the tool's schema declares."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

from pydantic import PydanticUserError
from pydantic_core import from_json

from toolstile_hookspecs import Tool
from toolstile_hookspecs.codecs import pointed, schemas_among

Schema = Mapping[str, Any]

FORMATS: Final = frozenset({"path", "file-path", "directory-path"})
"""The formats of a property that is a path; pydantic writes them for types of `pathlib`."""

NAMES: Final = (
    *("path", "paths", "pathname", "filepath", "filepaths", "file", "files", "filename"),
    *("filenames", "target", "targets", "destination", "dest", "dst", "source", "sources", "src"),
)
"""The names of properties that are paths, alone or at the end, as in `file_path`, `outputFile`."""

_USES: Final = (
    (
        "url",
        frozenset({"uri", "uri-reference", "iri", "iri-reference", "url"}),
        ("url", "urls", "uri", "uris", "href", "hrefs", "link", "links", "endpoint"),
    ),
    ("path", FORMATS, (*NAMES, "directory", "dir", "folder", "cwd")),
    (
        "command",
        frozenset[str](),
        ("command", "commands", "cmd", "cmds", "commandline", "command_line", "shell", "script"),
    ),
)
"""By the use, the formats and the names of its properties; a format counts before a name."""

_COMPOSED: Final = ("anyOf", "oneOf", "allOf", "if", "then", "else")
_BY_NAME: Final = ("dependentSchemas", "dependencies")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor", "$id")
_OTHERS: Final = ("additionalProperties", "unevaluatedProperties")
_ITEMS: Final = ("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains")
_CHOICES: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SHAPES: Final = frozenset({"type", "$ref", "enum", "const", *_CHOICES})
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class PathArgument:
    """A path in the arguments of a call."""

    place: tuple[str, ...]  # the names of the properties that lead to it
    path: str | None  # None for another value that may hold paths
    is_declared: bool  # by the tool's schema

    @property
    def name(self) -> str:
        """The name of the property."""
        return self.place[-1]


@dataclass(frozen=True, slots=True)
class PathNames:
    """The names of properties that hold paths."""

    listed: tuple[str, ...]  # alone, or at the end of a name
    own: tuple[str, ...]  # the only ones of a tool; empty to go by format and name
    sources: tuple[str, ...]  # of paths that a tool moves or copies from

    def is_path(self, name: str, schemas: Iterable[Schema], *, is_declared: bool) -> bool:
        """Tell whether a property holds a path, by its name and its schemas."""
        if name in self.own:
            return True
        if self.own and is_declared:
            return self.is_source(name)
        return has_format(schemas) or ends_with(name, self.listed)

    def is_source(self, name: str, *, is_declared: bool = True) -> bool:
        """Tell whether a tool only moves or copies from the path in a property."""
        return is_declared and name not in self.own and ends_with(name, self.sources)


def has_format(schemas: Iterable[Schema]) -> bool:
    """Tell whether the format in a schema says that a value is a path."""
    return any(schema.get("format") in FORMATS for schema in schemas)


def use_of(name: str, schemas: Iterable[Schema]) -> str:
    """Return how a tool uses the value of a property: `path`, `url`, `command`, or empty.

    Example:
        >>> use_of("targetUrl", []), use_of("cmd", []), use_of("branch", [])
        ('url', 'command', '')
    """
    formats = {schema.get("format") for schema in schemas}
    found = [use for use, known, _ in _USES if not known.isdisjoint(formats)]
    found += [use for use, _, names in _USES if ends_with(name, names)]
    return found[0] if found else ""


def ends_with(name: str, listed: Iterable[str]) -> bool:
    """Tell whether a property's name is a listed one, or ends with it as a separate word.

    Example:
        >>> [ends_with(name, ["path"]) for name in ("path", "newPath", "path_2", "xpath")]
        [True, True, True, False]
    """
    words = f"_{_as_words(name)}"
    ends = (words, words.rstrip("_0123456789"))
    return any(end.endswith(f"_{_as_words(other)}") for other in listed for end in ends)


@lru_cache(maxsize=4096)
def _as_words(name: str) -> str:
    return _WORDS.sub("_", name).lower()


@lru_cache(maxsize=512)
def schema_of(tool: Tool[Any, Any]) -> Schema | None:
    """Return the JSON Schema of a tool's params, None if its types have none."""
    try:
        return tool.params_codec.schema()
    except PydanticUserError:
        return None


@lru_cache(maxsize=512)
def names_declared_by(tool: Tool[Any, Any]) -> frozenset[str]:
    """Return the names of all properties that a tool declares, at any depth."""
    return _names_in(schema_of(tool) or {})


def names_in(schema: Schema) -> frozenset[str]:
    """Return the names of all properties in a schema, at any depth; none if others may come."""
    return frozenset() if _is_open(schema) else _names_in(schema)


def _names_in(schema: Schema) -> frozenset[str]:
    parts = _within(schema)
    return frozenset(
        name for part in parts for each in schemas_among([part.get("properties")]) for name in each
    )


def paths_in(tool: Tool[Any, Any], params: Any, names: PathNames) -> list[PathArgument] | None:
    """Return the paths in the arguments of a call, None if they cannot be searched."""
    schema = schema_of(tool)
    if schema is None:
        return None
    if tool.params_schema is None:
        try:
            params = from_json(tool.params_codec.encode(params))
        except (ValueError, TypeError):
            return None
    if not isinstance(params, Mapping):
        return None
    arguments = cast("Mapping[str, Any]", params)
    return list(_PathSearch(schema, names).within((), arguments, [schema]))


class _PathSearch:
    """Searches a value and its schema for paths, side by side."""

    def __init__(self, root: Schema, names: PathNames) -> None:
        self._root = root
        self._names = names

    def within(
        self, place: tuple[str, ...], value: Mapping[str, Any], schemas: Iterable[Schema]
    ) -> Iterator[PathArgument]:
        """Yield the paths in an object, including the schema's defaults."""
        declared: dict[str, list[Schema]] = {}
        parts = self._parts(schemas)
        for part in parts:
            for name, inner in part.get("properties", {}).items():
                declared.setdefault(name, []).extend(schemas_among([inner]))
        others = schemas_among(part.get(key) for part in parts for key in _OTHERS)
        others += schemas_among(
            each for part in parts for each in _values(part, "patternProperties")
        )
        defaults = {
            name: inner["default"]
            for name, several in declared.items()
            for inner in several
            if "default" in inner
        }
        for name, inner in {**defaults, **value}.items():
            # A property that only a format describes counts as declared: its author gave that.
            is_declared = name in declared or has_format(self._parts(others))
            known = declared.get(name, others)
            yield from self._at((*place, name), inner, known, is_declared=is_declared)
        if has_format(self._parts(schemas_among(part.get("propertyNames") for part in parts))):
            # The name itself is a path.
            yield from (PathArgument((*place, ""), name, is_declared=True) for name in value)

    def _at(
        self, place: tuple[str, ...], value: Any, schemas: list[Schema], *, is_declared: bool
    ) -> Iterator[PathArgument]:
        parts = self._parts(schemas)
        is_path = self._names.is_path(place[-1], parts, is_declared=is_declared)
        if isinstance(value, (str, os.PathLike, int, float)) and not isinstance(value, bool):
            if is_path:
                path = str(cast("object", value))
                # Some servers parse such a text, and find paths in it.
                yield PathArgument(place, None if _is_json(path) else path, is_declared)
        elif isinstance(value, (list, tuple)):
            items = [*parts] if is_path else []
            inner = (part.get(key) for part in parts for key in _ITEMS)
            items += schemas_among(
                each
                for found in inner
                for each in (cast("list[object]", found) if isinstance(found, list) else [found])
            )
            for item in cast("list[object]", value):
                yield from self._at(place, item, items, is_declared=is_declared)
        elif isinstance(value, Mapping):
            members = cast("Mapping[str, Any]", value)
            known = {name for part in parts for name in part.get("properties", ())}
            if is_path and not known.issuperset(members):
                yield PathArgument(place, None, is_declared)
            yield from self.within(place, members, parts)

    def _parts(self, schemas: Iterable[Schema]) -> list[Schema]:
        """Return schemas with their parts: references and alternatives."""
        found: list[Schema] = []
        waiting, seen = list(schemas), set[str]()
        while waiting:
            schema = waiting.pop()
            found.append(schema)
            for target in (schema.get(key) for key in _REFERENCES):
                if isinstance(target, str) and target not in seen:
                    seen.add(target)
                    # A reference is a pointer, or names an anchor.
                    if target == "#" or target.startswith("#/"):
                        waiting += schemas_among([pointed(self._root, target)])
                        continue
                    names = {target, target.rpartition("#")[2]}
                    waiting += (
                        part
                        for part in _within(self._root)
                        if any(part.get(anchor) in names for anchor in _ANCHORS)
                    )
            for key in _COMPOSED:
                inner: Any = schema.get(key, ())
                parts: list[Any] = [inner] if isinstance(inner, Mapping) else inner
                waiting += schemas_among(parts)
            waiting += schemas_among(each for key in _BY_NAME for each in _values(schema, key))
        return found


def _within(schema: Schema) -> Iterator[Schema]:
    waiting: list[object] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            inner = cast("Schema", part)
            yield inner
            waiting += inner.values()
        elif isinstance(part, list):
            waiting += cast("list[object]", part)


def _is_open(schema: Schema) -> bool:
    """Tell whether a value of a schema may have undeclared properties."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        is_any_object = part.get("type") == "object" and "properties" not in part
        if part.get("additionalProperties", is_any_object) or _SHAPES.isdisjoint(part):
            return True
        inner = [*_values(part, "properties"), *_values(part, "$defs"), part.get("items")]
        inner += [choice for key in _CHOICES for choice in part.get(key, ())]
        waiting += schemas_among({} if each is True else each for each in inner)
    return False


def _values(schema: Schema, key: str) -> Iterable[object]:
    found: object = schema.get(key)
    return cast("Schema", found).values() if isinstance(found, Mapping) else ()


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("[", "{")):
        return False
    try:
        from_json(text)
    except ValueError:
        return False
    return True
