"""Results and states in JSON form.

Numbers of `decimal` and `mpmath` become floats, sets sorted arrays, tuples arrays, keys
strings; files and directories become objects. A form shares nothing with the backend, so
later calls do not change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from typing import Any

from bfcl_eval.eval_checker.multi_turn_eval.func_source_code.gorilla_file_system import (
    Directory,
    File,
)


def json_form(value: Any) -> Any:
    """Return a value in JSON form.

    Raises:
        TypeError: When a value has none; names its type.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): json_form(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_form(each) for each in value]
    if isinstance(value, (set, frozenset)):
        return sorted(json_form(each) for each in value)
    return _special_form(value)


def _special_form(value: Any) -> Any:
    if isinstance(value, (Decimal, Real)):
        return float(value)
    if isinstance(value, File):
        return {"type": "file", "name": value.name, "content": value.content}
    if isinstance(value, Directory):
        return {"type": "directory", "name": value.name, "contents": json_form(value.contents)}
    msg = f"A {type(value).__qualname__} has no JSON form."
    raise TypeError(msg)


def state_form(backend: object) -> dict[str, Any]:
    """Return a backend's public attributes in JSON form."""
    attributes = vars(backend).items()
    return {name: json_form(value) for name, value in attributes if not name.startswith("_")}
