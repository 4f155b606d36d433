"""The two keys of every plugin's table that are the host's: `enabled` and `prefix`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, StrictBool

from toolstile.settings import Settings, validate_table

RESERVED: Final = ("enabled", "prefix")


class HostKeys(BaseModel):
    """What the host reads in a plugin's table.

    `enabled = false` switches the plugin off; `prefix` goes before the names of its tools
    and the keys of its sections.
    """

    enabled: StrictBool = True
    prefix: Annotated[str, Field(pattern=r"^[a-z0-9_-]{0,63}$")] = ""


def host_keys(settings: Settings, plugin: str) -> HostKeys:
    """Return the host's keys in a plugin's table.

    Raises:
        ConfigurationError: When a value is not what it should be.
    """
    table = {key: value for key, value in settings.table_of(plugin).items() if key in RESERVED}
    return validate_table(
        HostKeys,
        table,
        plugin=settings.table_name(plugin) or plugin,
        source=settings.source_of,
    )


def own_keys(settings: Settings, plugin: str) -> Mapping[str, Any]:
    """Return a plugin's table without the host's keys."""
    return {key: value for key, value in settings.table_of(plugin).items() if key not in RESERVED}
