"""The reference of everything that can be configured, from the models that check it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

import griffe
from pydantic import TypeAdapter

from documenting.built_in import built_in
from documenting.pages import Page
from toolstile import Settings
from toolstile.plugins.contributions import HostKeys, class_of_kind
from toolstile.settings.model import HostTable
from toolstile.settings.sources import BLOCK, KEYS, OPTIONAL, TABLES

Schema = Mapping[str, Any]

_INTRO = """\
The keys of `toolstile.toml`, or of `[tool.toolstile]` in `pyproject.toml`. An unknown key or a bad
value is an error that names it. [Configure it](../how-to/command-line.md#configure-it) says where
Toolstile looks for the file, and has an example."""

_PLUGINS = """\
Each plugin reads its own table, `[plugins.NAME]`. Two keys are the host's, whatever the plugin:"""

_POLICIES = """\
Each `[[policies]]` table makes a policy of a `kind`, which a plugin offers; the other keys are
those of the kind. With `keep`, the name of a JSON file, what the policy remembers outlives the
session; it then needs a `name`. These kinds come with Toolstile:"""


def settings_page() -> Page:
    """Write the page."""
    page = Page("Settings")
    page.add(_INTRO)
    page.heading(2, "The host")
    variables = {key: name for name, key in KEYS.items()} | {
        "block": BLOCK,
        "optional_plugins": OPTIONAL,
    }
    schema = HostTable.model_json_schema()
    says = _arguments(Settings)
    page.table(
        ("key", "value", "default", "meaning", "variable"),
        (
            (*row, f"`{variables[key]}`" if key in variables else "")
            for key, row in _rows(page, "", schema, schema, says)
        ),
    )
    page.heading(2, "Plugins")
    page.add(_PLUGINS)
    keys = HostKeys.model_json_schema()
    _add_table(page, keys, keys, {"enabled": _ENABLED, "prefix": _PREFIX})
    page.add(
        f"A variable named `{TABLES}NAME__KEY` overrides the key of a plugin's table, and "
        f"`{TABLES}NAME__TABLE__KEY` that of a table within it."
    )
    for point in built_in():
        model = _hook(point, "toolstile_settings")
        if model is not None:
            _add_model(page, f"plugins.{point.name}", model.model_json_schema(), model)
    page.heading(2, "Policies")
    page.add(_POLICIES)
    for point in built_in():
        for kind, made in (_hook(point, "toolstile_policies") or {}).items():
            policy = class_of_kind(kind, made)
            page.heading(3, kind)
            page.says(f"the policy {kind}", _summary(policy))
            page.add(_summary(policy))
            schema = TypeAdapter(policy).json_schema()
            _add_table(page, schema, schema, _arguments(policy), prefix=f"{kind}.")
    return page


_ENABLED = "`false` switches the plugin off."
_PREFIX = "What goes before the names of its tools and the keys of its sections."


def _hook(point: EntryPoint, hook: str) -> Any:
    """Return what a plugin answers to a set-up hook, None where it does not implement it."""
    function = getattr(point.load(), hook, None)
    if function is None:
        return None
    return function(*(None for _ in inspect.signature(function).parameters))


def _add_model(page: Page, name: str, schema: dict[str, Any], model: Any) -> None:
    """Append a table of keys, and those of the tables within it."""
    page.heading(3, f"`[{name}]`")
    schema.get("properties", {}).pop("durability", None)  # the host sets it
    page.add(_said(schema.get("description", "")))
    _add_table(page, schema, schema, _arguments(model), prefix=f"{name}.")
    _add_inner(page, name, schema, schema.get("$defs", {}))


def _add_inner(page: Page, name: str, schema: Schema, defs: Schema) -> None:
    for key, value in schema.get("properties", {}).items():
        reference, below = _table_in(value)
        inner = defs.get(reference, {})
        if "properties" in inner:
            path = f"{name}.{key}{below}"
            brackets = f"[[{path}]]" if value.get("type") == "array" else f"[{path}]"
            page.heading(4, f"`{brackets}`")
            page.add(_said(inner.get("description", "")))
            says = _described(inner.get("description", ""))
            _add_table(page, {**inner, "$defs": defs}, {"$defs": defs}, says, prefix=f"{path}.")
            _add_inner(page, path, inner, defs)


def _table_in(value: Schema) -> tuple[str, str]:
    """Return the model that a value is, or holds, and what its name adds to the path."""
    for schema, below in (
        (value, ""),
        (value.get("items", {}), ""),
        (value.get("additionalProperties", {}), ".NAME"),
        *((each, "") for each in value.get("anyOf", ())),
    ):
        if isinstance(schema, Mapping) and "$ref" in schema:
            return str(schema["$ref"]).rpartition("/")[2], below
    return "", ""


def _add_table(
    page: Page, schema: Schema, root: Schema, says: Mapping[str, str], *, prefix: str = ""
) -> None:
    rows = (row for _, row in _rows(page, prefix, schema, root, says))
    page.table(("key", "value", "default", "meaning"), rows)


def _rows(
    page: Page, prefix: str, schema: Schema, root: Schema, says: Mapping[str, str]
) -> list[tuple[str, tuple[str, str, str, str]]]:
    rows: list[tuple[str, tuple[str, str, str, str]]] = []
    for key, value in schema.get("properties", {}).items():
        text = page.says(f"{prefix}{key}", value.get("description") or says.get(key))
        needed = key in schema.get("required", ())
        default = "needed" if needed else _default(value, root)
        rows.append((key, (f"`{key}`", _kind(value, root), default, text)))
    return rows


def _default(value: Schema, root: Schema) -> str:
    default = value.get("default")
    if default is None or default in ([], {}) or _table_in(value)[0] in _tables(root):
        return ""
    return f"`{json.dumps(default)}`"


def _tables(root: Schema) -> set[str]:
    return {name for name, each in root.get("$defs", {}).items() if "properties" in each}


def _kind(value: Schema, root: Schema) -> str:
    """Return in words what a value may be."""
    match value:
        case {"$ref": reference}:
            return _kind(root["$defs"][str(reference).rpartition("/")[2]], root)
        case {"anyOf": choices}:
            kinds = [_kind(each, root) for each in choices if each.get("type") != "null"]
            return " or ".join(dict.fromkeys(kinds))
        case {"type": "array", "items": items}:
            return f"list of {_plural(_kind(items, root))}"
        case {"type": "object", "additionalProperties": dict()}:
            return f"table of {_plural(_kind(value['additionalProperties'], root))}"
        case _:
            return _single(value)


def _single(value: Schema) -> str:
    """Return in words what a value may be that holds no others."""
    if choices := value.get("enum", [value["const"]] if "const" in value else []):
        return ", ".join(f"`{json.dumps(each)}`" for each in choices)
    if value.get("type") in {"number", "integer"}:
        return _number(value)
    by_format = {"path": "path", "password": "text, kept secret"}
    by_type = {"string": "text", "boolean": "true or false", "object": "table"}
    named = by_format.get(value.get("format", ""))
    return named or by_type.get(value.get("type", ""), "any value")


def _number(value: Schema) -> str:
    name = "whole number" if value["type"] == "integer" else "number"
    if "exclusiveMinimum" in value:
        return f"{name} above {value['exclusiveMinimum']}"
    return f"{name}, {value['minimum']} or more" if "minimum" in value else name


def _plural(kind: str) -> str:
    known = {"text": "texts", "path": "paths", "table": "tables", "whole number": "whole numbers"}
    return known.get(kind, kind)


def _arguments(kind: type) -> dict[str, str]:
    """Return what a class says of each of its arguments, also what those above it say."""
    said: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        said |= _described(inspect.cleandoc(each.__doc__ or ""))
    return said


def _described(docstring: str) -> dict[str, str]:
    parsed = griffe.Docstring(docstring).parse("google", warnings=False)
    return {
        each.name: " ".join(each.description.split())
        for section in parsed
        if isinstance(section, griffe.DocstringSectionParameters)
        for each in section.value
    }


def _summary(kind: type) -> str:
    return _said(inspect.cleandoc(kind.__doc__ or ""))


def _said(docstring: str) -> str:
    """Return the text of a docstring before its sections."""
    first, *_ = griffe.Docstring(docstring).parse("google", warnings=False) or (None,)
    return first.value if isinstance(first, griffe.DocstringSectionText) else ""
