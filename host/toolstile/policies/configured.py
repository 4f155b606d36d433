"""Policies that the configuration file asks for, made from the kinds that plugins offer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from toolstile.settings import Settings, validate_table
from toolstile.settings.known import fields
from toolstile.settings.model import NO_FILE
from toolstile.settings.paths import beside, expanded
from toolstile.settings.tables import show
from toolstile_hookspecs import ConfigurationError, KeptPolicy, ToolPolicy
from toolstile_hookspecs.support.text import suggest

OWN_KEYS: Final = ("kind", "keep")
"""The keys of a table that are the host's; all others are the kind's fields."""


def make_policies(settings: Settings, kinds: Mapping[str, type[Any]]) -> list[ToolPolicy]:
    """Return the policies of the `[[policies]]` tables, in order.

    Raises:
        ConfigurationError: Naming for every fault of every table the file, the table, the key
            and what was expected.
    """
    if not settings.policies:
        # There is no path to complete, so it may as well be gone where one would begin.
        return []
    directory = Path.cwd() if settings.path is None else settings.path.parent
    made: list[ToolPolicy] = []
    faults: list[str] = []
    for position, table in enumerate(settings.policies, 1):
        place = f"{settings.path or NO_FILE}, [[policies]] number {position}"
        try:
            made.append(_policy(table, kinds, position, place, directory))
        except ConfigurationError as error:
            faults.append(str(error))
    if faults:
        raise ConfigurationError("\n".join(faults))
    return made


def _policy(
    table: Mapping[str, Any],
    kinds: Mapping[str, type[Any]],
    position: int,
    place: str,
    directory: Path,
) -> ToolPolicy:
    kind = _kind(table, kinds, place)
    given = {key: value for key, value in table.items() if key not in OWN_KEYS}
    if "name" in fields(kind):
        given.setdefault("name", f"{table['kind']}@host#{position}")
    policy: ToolPolicy = validate_table(
        kind, beside(directory, given, kind), plugin=None, source=place, others=OWN_KEYS
    )
    return _kept(policy, table, directory, place) if "keep" in table else policy


def _kind(table: Mapping[str, Any], kinds: Mapping[str, type[Any]], place: str) -> type[Any]:
    name = table.get("kind")
    if isinstance(name, str) and name in kinds:
        return kinds[name]
    known = ", ".join(sorted(kinds)) or "none; no loaded plugin offers any"
    hint = suggest(str(name), kinds)
    msg = f"{place}: kind: {name!r} is not a known kind of policy{hint} (known: {known})."
    raise ConfigurationError(msg)


def _kept(policy: ToolPolicy, table: Mapping[str, Any], directory: Path, place: str) -> ToolPolicy:
    file = table["keep"]
    if not isinstance(file, str) or not file:
        msg = f"{place}: keep: expected text, the name of a JSON file, found {show(file)}."
        raise ConfigurationError(msg)
    if "name" in fields(policy.__class__) and "name" not in table:
        msg = (
            f"{place}: keep: a policy that is kept needs a name, under which the file knows it; "
            "add name = '...'."
        )
        raise ConfigurationError(msg)
    return KeptPolicy(policy, directory / expanded(Path(file)))
