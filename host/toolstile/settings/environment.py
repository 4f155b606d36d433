"""What environment variables override."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from toolstile.settings.host_table import HostTable
from toolstile.settings.model import folded
from toolstile_hookspecs import ConfigurationError
from toolstile_hookspecs.support.text import nearest

BLOCK: Final = "TOOLSTILE_BLOCK"
TABLES: Final = "TOOLSTILE_PLUGINS__"

KEYS: Final = {
    "TOOLSTILE_TIMEOUT": "timeout",
    "TOOLSTILE_APPROVAL_EXPIRY": "approval_expiry",
    "TOOLSTILE_APPROVAL_KEY": "approval_key",
    "TOOLSTILE_APPROVAL_SPENT": "approval_spent",
    "TOOLSTILE_APPROVAL_TIMEOUT": "approval_timeout",
    "TOOLSTILE_APPROVE_DIFF": "approve_diff",
    "TOOLSTILE_APPROVER": "approver",
    "TOOLSTILE_MAX_ARGUMENTS": "max_arguments",
}
PREFIX: Final = "TOOLSTILE_"
_TABLES: Final = TABLES.removeprefix(PREFIX).rstrip("_")
_SPELT: Final = (*(each.removeprefix(PREFIX) for each in (*KEYS, BLOCK)), _TABLES)
_OF_FILES: Final = frozenset(HostTable.model_fields) - {*KEYS.values(), "block", "plugins"}
"""Keys that only a file can give."""
_ALIKE: Final = 0.8
"""How alike a variable must be to one of ours to be a slip of it; others are somebody else's."""
_TEXTS: Final = frozenset({"approval_key", "approval_spent", "approver"})


@dataclass(frozen=True, slots=True)
class Override:
    """A value from the environment.

    Args:
        variable: The variable.
        path: The keys that lead to the value.
        value: The value, as TOML would have it.
    """

    variable: str
    path: tuple[str, ...]
    value: Any


def blocked(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the plugins that TOOLSTILE_BLOCK switches off."""
    return tuple(name for part in environ.get(BLOCK, "").split(",") if (name := part.strip()))


def overrides(environ: Mapping[str, str], plugins: Mapping[str, object]) -> Iterator[Override]:
    """Yield what the environment overrides, in the order of the variables' names.

    Args:
        environ: The environment; empty variables count as unset.
        plugins: The tables there are, whose names are recognised in upper case.

    Raises:
        ConfigurationError: For a TOOLSTILE_PLUGINS__ variable that names no key, for one that is
            misspelt, and for one that stands for what only a file can give.
    """
    for variable in sorted(environ):
        text = environ[variable]
        if not text:
            continue
        if variable in KEYS:
            key = KEYS[variable]
            yield Override(variable, (key,), text if key in _TEXTS else as_toml(text))
        elif variable.startswith(TABLES):
            yield Override(variable, _path(variable, plugins), as_toml(text))
        elif variable.startswith(PREFIX) and variable != BLOCK:
            _refuse_slip(variable)


def as_toml(text: str) -> Any:
    """Return the TOML value that a text stands for, or the text when it is none.

    Example:
        >>> as_toml("5"), as_toml("[1, 2]"), as_toml("https://example.org")
        (5, [1, 2], 'https://example.org')
    """
    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return document["value"] if document.keys() == {"value"} else text


def apply(overrides_: Iterator[Override], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with the overrides in their places; the one given stays as it is."""
    result = dict(document)
    for override in overrides_:
        _put(result, override)
    return result


def _refuse_slip(variable: str) -> None:
    first, *keys = variable.removeprefix(PREFIX).split("__")
    if first.lower() in _OF_FILES:
        raise ConfigurationError(
            f"{variable} is no variable of Toolstile's; write {first.lower()} in the configuration "
            "file."
        )
    near = nearest(first, _SPELT, _ALIKE)
    if near is not None:
        meant = TABLES + ("__".join(keys) or "NAME__KEY") if near == _TABLES else PREFIX + near
        raise ConfigurationError(f"{variable} is no variable of Toolstile's; did you mean {meant}?")


def _path(variable: str, plugins: Mapping[str, object]) -> tuple[str, ...]:
    name, *keys = (part.lower() for part in variable.removeprefix(TABLES).split("__"))
    if not name or not keys or not all(keys):
        msg = (
            f"{variable}: write TOOLSTILE_PLUGINS__NAME__KEY, a plugin's name and one of its keys."
        )
        raise ConfigurationError(msg)
    table = next((each for each in plugins if folded(each) == name), name)
    return ("plugins", table, *keys)


def _put(document: dict[str, Any], override: Override) -> None:
    at = document
    for key in override.path[:-1]:
        below = at.get(key)
        copy: dict[str, Any] = (
            dict(cast("dict[str, Any]", below)) if isinstance(below, dict) else {}
        )
        at[key] = copy
        at = copy
    at[override.path[-1]] = override.value
