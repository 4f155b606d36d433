"""Whether arguments are those of a recorded call, in which secrets are masked."""

from __future__ import annotations

import json
from typing import Any, cast

from toolstile_hookspecs._schema.secrets import MASK
from toolstile_plugins.record.lines import RecordedCall


def key_of(params: Any) -> str:
    """Return params as canonical JSON."""
    return json.dumps(params, sort_keys=True, separators=(",", ":"))


def hides_some(call: RecordedCall, recorded: object) -> bool:
    """Tell whether the arguments or params of a call, as they are recorded, lack a secret."""
    return call.masked and MASK in json.dumps(recorded)


def is_of(call: RecordedCall, params: Any, recorded: Any = None) -> bool:
    """Tell whether params may be those of a recorded call.

    What its value, or the user's credentials, say is secret is masked in its params too, and
    whoever makes the call again knows neither.

    Args:
        call: The recorded call.
        params: Params as JSON values, with the secrets masked that they have themselves.
        recorded: Those of the call, where they are others than went on.
    """
    recorded = call.params if recorded is None else recorded
    if key_of(recorded) == key_of(params):
        return True
    return hides_some(call, recorded) and may_be(recorded, params)


def may_be(recorded: object, given: object) -> bool:
    """Tell whether a JSON value may be what was recorded, before it was masked.

    Example:
        >>> may_be({"note": "call ***"}, {"note": "call Ada"}), may_be([1, "***"], [2, "a"])
        (True, False)
    """
    if recorded == MASK:
        return isinstance(given, (str, int, float))
    if isinstance(recorded, str):
        return isinstance(given, str) and _text_may_be(recorded, given)
    if isinstance(recorded, dict) and isinstance(given, dict):
        return _object_may_be(cast("dict[str, object]", recorded), cast("dict[str, object]", given))
    if isinstance(recorded, list) and isinstance(given, list):
        return _array_may_be(cast("list[object]", recorded), cast("list[object]", given))
    # As JSON: Python takes true for 1.
    return key_of(recorded) == key_of(given)


def _object_may_be(recorded: dict[str, object], given: dict[str, object]) -> bool:
    if recorded.keys() != given.keys():
        return False
    return all(may_be(each, given[name]) for name, each in recorded.items())


def _array_may_be(recorded: list[object], given: list[object]) -> bool:
    if len(recorded) != len(given):
        return False
    return all(may_be(each, other) for each, other in zip(recorded, given, strict=True))


def _text_may_be(recorded: str, given: str) -> bool:
    first, *parts = recorded.split(MASK)
    if not parts:
        return recorded == given
    *parts, last = parts
    end = len(given) - len(last)
    if not given.startswith(first) or not given.endswith(last) or end < len(first):
        return False
    start = len(first)
    for part in parts:
        found = given.find(part, start, end)
        if found < 0:
            return False
        start = found + len(part)
    return True
