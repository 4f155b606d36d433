"""Configuration given on the command line: over that of the file, or where it says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, cast

from toolstile.settings.environment import Override, apply
from toolstile.settings.host_table import HostTable
from toolstile.settings.model import Settings
from toolstile.settings.tables import validate_table
from toolstile_hookspecs import ConfigurationError

SOURCE: Final = "the command line"
TOO_LATE: Final = frozenset({"block", "plugin_files"})
"""What decides which plugins are loaded, and thereby which options there are."""


def overridden(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Return the settings with some values in place of theirs.

    Args:
        settings: Those there are.
        values: Values by dotted key, such as `plugins.vfs.root`.

    Raises:
        ConfigurationError: When one of the host's own keys is unknown, comes too late, or has a
            value that does not fit. A plugin's keys are checked with the rest of its table.
    """
    paths = {key: _path(settings, key) for key in values}
    tables = {name: dict(table) for name, table in settings.plugins.items()}
    document = apply(
        (Override(SOURCE, paths[key], value) for key, value in values.items()),
        {"plugins": tables},
    )
    host = validate_table(HostTable, document, plugin=None, source=SOURCE)
    fields: dict[str, Any] = {name: getattr(host, name) for name in document if name != "plugins"}
    fields["plugins"] = MappingProxyType(
        {name: MappingProxyType(table) for name, table in host.plugins.items()}
    )
    origins = dict.fromkeys((".".join(path) for path in paths.values()), SOURCE)
    fields["variables"] = MappingProxyType({**settings.variables, **origins})
    return replace(settings, **fields)


def without_configured(settings: Settings, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the values, by dotted key, about which the settings say nothing."""
    return {key: value for key, value in values.items() if not _is_configured(settings, key)}


def _is_configured(settings: Settings, key: str) -> bool:
    first, *rest = key.split(".")
    if first != "plugins":
        return bool(getattr(settings, first, None) != getattr(Settings(), first, None))
    at: object = settings.table_of(rest[0]) if rest else {}
    for part in rest[1:]:
        table = cast("Mapping[str, object]", at if isinstance(at, Mapping) else {})
        if part not in table:
            return False
        at = table[part]
    return True


def _path(settings: Settings, key: str) -> tuple[str, ...]:
    first, *rest = key.split(".")
    if first in TOO_LATE or (rest and first == "plugins" and rest[1:] == ["enabled"]):
        msg = (
            f"{SOURCE}: {key} decides which plugins are loaded, which they are already. Give it "
            "in the configuration file, or with --block or --plugin."
        )
        raise ConfigurationError(msg)
    if first != "plugins" or not rest:
        return (first, *rest)
    return (first, settings.table_name(rest[0]) or rest[0], *rest[1:])
