"""Checks of the fields of a tool: each fault names its remedy."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, cast

NAME: Final = re.compile(r"[a-z0-9_-]{1,64}")
MAX_DESCRIPTION: Final = 200

TEXTS: Final = ("wire_name", "origin", "long_description", "version")
SWITCHES: Final = (
    "accepts_overrides",
    "requires_confirmation",
    "exclude_value_from_context",
    "contained",
)
NAME_LISTS: Final = ("tags", "depends_on")
_SCHEMA: Final = (Mapping, type(None))


def name_faults(name: object) -> list[str]:
    """Return why it is no name for a tool."""
    if isinstance(name, str) and NAME.fullmatch(name) is not None:
        return []
    return ["its name must be 1 to 64 of a-z, 0-9, _ and -; keep another in wire_name"]


def description_faults(text: object) -> list[str]:
    """Return why it is no description for a tool."""
    if not isinstance(text, str) or not text.strip():
        return ["it has no description; say in 1 to 200 characters what it does"]
    if len(text) > MAX_DESCRIPTION:
        fault = f"its description has {len(text)} characters, {MAX_DESCRIPTION} are allowed"
        return [f"{fault}; shorten it and keep the rest in long_description"]
    return []


def timeout_faults(seconds: object) -> list[str]:
    """Return why it is no time that a call may take."""
    number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if seconds is None or (number and cast("float", seconds) > 0):
        return []
    return [f"timeout {seconds!r} is no positive number of seconds; use None for never"]


def text_faults(fields: Mapping[str, object]) -> list[str]:
    """Return which of the fields that may hold a text hold something else, or nothing."""
    return [
        f"{name} {value!r} is no text; give one, or leave it out"
        for name in TEXTS
        if (value := fields[name]) is not None and not (isinstance(value, str) and value.strip())
    ]


def switch_faults(fields: Mapping[str, object]) -> list[str]:
    """Return which of the fields that are true or false are neither."""
    return [
        f"{name} is {fields[name]!r}; write True or False"
        for name in SWITCHES
        if not isinstance(fields[name], bool)
    ]


def sequence_faults(fields: Mapping[str, object]) -> list[str]:
    """Return which of the fields that hold several names hold something else."""
    return [
        fault for name in NAME_LISTS for fault in _names_faults(name, cast("Any", fields[name]))
    ]


def schema_faults(fields: Mapping[str, object]) -> list[str]:
    """Return why the JSON Schemas are none, or no arguments could fit them."""
    schemas = {name: cast("Any", fields[name]) for name in ("params_schema", "result_schema")}
    strangers = [name for name, given in schemas.items() if not isinstance(given, _SCHEMA)]
    if strangers:
        return [f"{name} is no JSON Schema; give a mapping" for name in strangers]
    kinds: Any = cast("Mapping[str, Any]", schemas["params_schema"] or {}).get("type", "object")
    if "object" in ([kinds] if isinstance(kinds, str) else kinds):
        return []
    return [f"params_schema allows type {kinds!r} only, but arguments are an object"]


def _names_faults(field: str, given: Any) -> list[str]:
    if isinstance(given, str):
        return [f"{field} is one string; write a tuple, {field}=({given!r},)"]
    if not isinstance(given, Collection):
        return [f"{field} is {given!r}; write a tuple of strings, or leave it out"]
    return [
        f"{field} holds {each!r}, which is no string; write its name"
        for each in cast("Collection[object]", given)
        if not isinstance(each, str)
    ]
