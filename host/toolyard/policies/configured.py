"""Policies that the configuration file asks for, made from the kinds that plugins offer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from toolyard.settings import Settings, validate_table
from toolyard.settings.model import NO_FILE
from toolyard.settings.tables import nearest, show
from toolyard_hookspecs import ConfigurationError, KeptPolicy, ToolPolicy

OWN_KEYS: Final = frozenset({"kind", "keep"})
"""The keys of a table that are the host's; all others are the kind's fields."""


def make_policies(settings: Settings, kinds: Mapping[str, type[Any]]) -> list[ToolPolicy]:
    """Return the policies of the `[[policies]]` tables, in order.

    Raises:
        ConfigurationError: Naming the file, the table, the key and what was expected.
    """
    beside = Path.cwd() if settings.path is None else settings.path.parent
    made: list[ToolPolicy] = []
    for position, table in enumerate(settings.policies, 1):
        place = f"{settings.path or NO_FILE}, [[policies]] number {position}"
        kind = _kind(table, kinds, place)
        fields = {key: value for key, value in table.items() if key not in OWN_KEYS}
        if "name" in _fields(kind):
            fields.setdefault("name", f"{table['kind']}@host#{position}")
        policy = _beside(validate_table(kind, fields, plugin=None, source=place), beside)
        made.append(_kept(policy, table, beside, place) if "keep" in table else policy)
    return made


def _kind(table: Mapping[str, Any], kinds: Mapping[str, type[Any]], place: str) -> type[Any]:
    name = table.get("kind")
    if isinstance(name, str) and name in kinds:
        return kinds[name]
    known = ", ".join(sorted(kinds)) or "none; no loaded plugin offers any"
    hint = nearest(str(name), list(kinds))
    msg = f"{place}: kind: {name!r} is not a known kind of policy{hint} (known: {known})."
    raise ConfigurationError(msg)


def _kept(policy: ToolPolicy, table: Mapping[str, Any], beside: Path, place: str) -> ToolPolicy:
    file = table["keep"]
    if not isinstance(file, str) or not file:
        msg = f"{place}: keep: expected text, the name of a JSON file, found {show(file)}."
        raise ConfigurationError(msg)
    if "name" in _fields(policy.__class__) and "name" not in table:
        msg = (
            f"{place}: keep: a policy that is kept needs a name, under which the file knows it; "
            "add name = '...'."
        )
        raise ConfigurationError(msg)
    return KeptPolicy(policy, beside / Path(file).expanduser())


def _fields(kind: Any) -> Mapping[str, Any]:
    fields: Mapping[str, Any] | None = getattr(kind, "model_fields", None)
    return fields or getattr(kind, "__dataclass_fields__", {})


def _beside(policy: Any, directory: Path) -> Any:
    """Return the policy with its paths made absolute: they are relative to the file."""
    paths = {
        name: directory / value.expanduser()
        for name in _fields(policy.__class__)
        if isinstance(value := getattr(policy, name), Path)
    }
    if not paths:
        return policy
    if isinstance(policy, BaseModel):
        return policy.model_copy(update=paths)
    return dataclasses.replace(policy, **paths)
