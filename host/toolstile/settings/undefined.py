"""Finds the name in a class's annotations that nothing defines, as a misspelt one."""

from __future__ import annotations

import sys
from typing import Any

from pydantic import PydanticUndefinedAnnotation, TypeAdapter


def undefined_name(model: type[Any]) -> str | None:
    """Return a name that a model's or a dataclass's annotations need and nothing defines.

    pydantic lets them be until the first table is read, as they may be defined later; then it
    only says that something is missing.
    """
    if getattr(model, "__pydantic_complete__", False):
        return None
    try:
        TypeAdapter(model).rebuild(force=True, raise_errors=True)
    except PydanticUndefinedAnnotation as error:
        return error.name
    except Exception:  # noqa: BLE001 - a class can take part in this; what else it lacks is told elsewhere
        return None
    return None


def to_define(name: str, model: type[Any]) -> str:
    """Return what to do about a name that is not defined, a sentence."""
    module = sys.modules.get(model.__module__)
    # The module of a single file has a name that nobody has written.
    place = getattr(module, "__file__", None) or model.__module__
    return f"Define or import {name} in {place}."
