"""The work of a handler's author that a peer does not do."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any

from pydantic import BaseModel, validate_call


def checked_by_hand(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that validates its params, and whose result is JSON where it is a model."""
    checked = validate_call(function)

    def written(result: object) -> object:
        return result.model_dump_json() if isinstance(result, BaseModel) else result

    if iscoroutinefunction(function):

        @wraps(function)
        async def awaited(**params: Any) -> object:
            return written(await checked(**params))

        return awaited

    @wraps(function)
    def called(**params: Any) -> object:
        return written(checked(**params))

    return called
