"""Which keys a table may have, also one within another."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, cast, get_args, get_type_hints

from pydantic import BaseModel


def keys(model: type[Any]) -> list[str]:
    """Return the keys of a pydantic model or a dataclass, as they are written."""
    return list(fields(model))


def keys_within(model: type[Any], path: Sequence[str | int]) -> list[str]:
    """Return the keys that a table within a model's table may have.

    Args:
        model: What the outer table must fit.
        path: The way to the inner table; names that are no fields, as those of a mapping, and
            positions lead nowhere else.
    """
    models = [model]
    for step in path:
        taken = [fields(each) for each in models]
        inner = [found for each in taken for found in _models(each.get(str(step)))]
        models = inner or models
    return [key for each in dict.fromkeys(models) for key in fields(each)]


def fields(model: type[Any]) -> dict[str, Any]:
    """Return the types of what a pydantic model or a dataclass takes, by the keys of a table.

    Of another class there are none.
    """
    if dataclasses.is_dataclass(model):
        hints = _hints(model)
        return {each.name: hints.get(each.name) for each in dataclasses.fields(model) if each.init}
    if not issubclass(model, BaseModel):
        return {}
    return {
        info.validation_alias if isinstance(info.validation_alias, str) else name: info.annotation
        for name, info in model.model_fields.items()
    }


@lru_cache(maxsize=512)
def _hints(model: type[Any]) -> dict[str, Any]:
    try:
        return get_type_hints(model)
    except (NameError, TypeError):
        # What is wrong with its types is told when a table is validated.
        return {}


def _models(annotation: Any) -> Iterator[type[Any]]:
    if dataclasses.is_dataclass(annotation) or _is_model(annotation):
        yield cast("type[Any]", annotation)
    for each in get_args(annotation):
        yield from _models(each)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
