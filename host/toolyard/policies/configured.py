"""Policies that the configuration file asks for, made from the kinds that plugins offer."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from toolyard.policies.rules import named
from toolyard.settings import Settings
from toolyard_hookspecs import ConfigurationError, ToolPolicy


def make_policies(settings: Settings, kinds: Mapping[str, type[Any]]) -> list[ToolPolicy]:
    """Return the policies of the `[[policies]]` tables, in order.

    Raises:
        ConfigurationError: Naming the file, the table, the key and what was expected.
    """
    made: list[ToolPolicy] = []
    for position, table in enumerate(settings.policies, 1):
        place = f"{settings.path or 'settings'}, [[policies]] number {position}"
        kind = _kind(table, kinds, place)
        fields = {key: value for key, value in table.items() if key != "kind"}
        if "name" in _fields(kind):
            fields.setdefault("name", f"{table['kind']}@host#{position}")
        try:
            policy: ToolPolicy = TypeAdapter[Any](kind).validate_python(fields, extra="forbid")
            made.append(policy)
        except ValidationError as error:
            raise ConfigurationError(_faults(error, place)) from None
    return named(made, place="host")


def _kind(table: Mapping[str, Any], kinds: Mapping[str, type[Any]], place: str) -> type[Any]:
    name = table.get("kind")
    if isinstance(name, str) and name in kinds:
        return kinds[name]
    near = difflib.get_close_matches(str(name), list(kinds), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    known = ", ".join(sorted(kinds)) or "none; no loaded plugin offers any"
    msg = f"{place}: kind = {name!r} is not known.{hint} Known kinds: {known}."
    raise ConfigurationError(msg)


def _fields(kind: type[Any]) -> Mapping[str, Any]:
    return getattr(kind, "model_fields", None) or getattr(kind, "__dataclass_fields__", {})


def _faults(error: ValidationError, place: str) -> str:
    lines = [
        f"{place}: {'.'.join(str(part) for part in each['loc'])}: {each['msg']}"
        for each in error.errors(include_url=False, include_input=False)
    ]
    return "\n".join(lines)
