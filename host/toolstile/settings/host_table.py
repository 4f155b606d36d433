"""The host's own keys in the configuration."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, Field, WithJsonSchema

from toolstile.settings.given import KEY_REMEDY, key_fault
from toolstile.settings.model import DEFAULT_APPROVAL_EXPIRY, DEFAULT_MAX_ARGUMENTS, DEFAULT_TIMEOUT
from toolstile_hookspecs import DefinitionError

NEVER = "none"


def _seconds(value: object) -> float | None:
    if value is None or value == NEVER:
        return None
    return _positive(value, otherwise=f', or "{NEVER}" for never')


def _positive(value: object, *, otherwise: str = "") -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf:
        return float(value)
    msg = f"expected a positive number of seconds{otherwise}"
    raise ValueError(msg)


def _key(value: object) -> str | None:
    if value is None or (isinstance(value, str) and key_fault("approval_key", value) is None):
        return value
    raise ValueError(f"expected a key that nobody guesses; {KEY_REMEDY}")


def _policy(value: object) -> dict[str, Any]:
    table = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    kind, name = table.get("kind"), table.get("name", "-")
    if isinstance(kind, str) and kind and isinstance(name, str) and name:
        return table
    if isinstance(value, dict) and kind is None:
        raise DefinitionError('has no kind; name one, such as kind = "quota"')
    msg = "expected a table with a `kind`, the text that names a policy kind, and maybe a `name`"
    raise ValueError(msg)


def _policies(value: object) -> object:
    if isinstance(value, dict):
        raise DefinitionError("is one table; write [[policies]] above each, in two brackets")
    return value


def _plugin(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    msg = "a table, [plugins.NAME]"
    raise ValueError(msg)


Seconds = Annotated[
    float | None,
    BeforeValidator(_seconds),
    WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"const": NEVER}]}),
]


class HostTable(BaseModel):
    """What may stand in `toolstile.toml` or `[tool.toolstile]`; see `Settings`."""

    block: tuple[str, ...] = ()
    timeout: Seconds = DEFAULT_TIMEOUT
    approver: str | None = None
    approval_timeout: Seconds = None
    approval_expiry: Annotated[float, BeforeValidator(_positive)] = DEFAULT_APPROVAL_EXPIRY
    approval_key: Annotated[str | None, BeforeValidator(_key)] = None
    approval_spent: Path | None = None
    approve_diff: bool | tuple[str, ...] = False
    max_arguments: Annotated[int, Field(gt=0, strict=True)] = DEFAULT_MAX_ARGUMENTS
    policies: Annotated[
        tuple[Annotated[dict[str, Any], BeforeValidator(_policy)], ...], BeforeValidator(_policies)
    ] = ()
    plugins: dict[str, Annotated[dict[str, Any], BeforeValidator(_plugin)]] = {}
    plugin_files: tuple[Path, ...] = ()
    prompt_overrides: Path | None = None
