"""Results of handlers, and their rendering as text for the model."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from collections.abc import Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar, cast, runtime_checkable

import pydantic_core
from pydantic import BaseModel

from toolstile_hookspecs._schema.serialize import as_plain
from toolstile_hookspecs.support.callables import filled_at_once

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@runtime_checkable
class ToolRenderableResult(Protocol):
    """A value that renders its own text for the model."""

    def render(self) -> str:
        """Return the text for the model."""
        ...


@filled_at_once
@dataclass(frozen=True)
class ToolResult(Generic[R_co]):
    """The result of a call.

    Args:
        message: The text that the model reads first; for a failure the fault, cause and next step.
        value: The typed payload, or None. The model reads it rendered, after the message.
        success: False for a failure; everything the call changed is then rolled back.
        exclude_value_from_context: Keep the value from the model and from every wire. This saves
            context; it is not a security boundary.

    Example:
        >>> ToolResult.ok(42, message="Computed.").value
        42
        >>> ToolResult.error("No such ticket. Use list_tickets, then retry.").success
        False
    """

    message: str
    value: R_co | None = None
    success: bool = True
    exclude_value_from_context: bool = False

    @classmethod
    def ok(
        cls, value: R | None = None, message: str = "", *, exclude_value_from_context: bool = False
    ) -> ToolResult[R]:
        """Return a success."""
        return cls(message, value, True, exclude_value_from_context)  # type: ignore[arg-type, return-value]  # noqa: FBT003

    @classmethod
    def error(cls, message: str) -> ToolResult[Any]:
        """Return a failure that the model can act on."""
        return ToolResult(message, success=False)

    def render(self) -> str:
        """Return the text that the model reads: the message, then the rendered value, if any."""
        return render_result(self)


_AS_JSON: tuple[Any, ...] = (BaseModel, Mapping)


def render_result(result: ToolResult[Any], encoded: bytes | None = None) -> str:
    """Return the text of a result; `encoded` is its value as JSON, if it was written already."""
    value = result.value
    if value is None or not result.success or result.exclude_value_from_context:
        return result.message
    is_json = encoded is not None and _renders_as_json(value.__class__)
    text = encoded.decode() if encoded is not None and is_json else render_value(value)
    told = result.message and (not text or (text == "[]" and not isinstance(value, str)))
    return result.message if told else f"{result.message}\n{text}" if result.message else text


def reads_as_json(result: ToolResult[Any]) -> bool:
    """Tell whether the model reads no more of a result than its value's JSON."""
    plain = result.success and not result.message and not result.exclude_value_from_context
    return plain and _renders_as_json(result.value.__class__)  # type: ignore[arg-type]


@lru_cache(maxsize=1024)
def _renders_as_json(type_: type[Any]) -> bool:
    if type_ in {int, float, bool}:
        return True
    return issubclass(type_, _AS_JSON) and not hasattr(type_, "render")


def render_value(value: object) -> str:
    """Return the text of a value, by the first rule that fits.

    None is empty; a string stays unchanged; a value with `render()` renders itself. A dataclass
    without one becomes JSON, with one warning per type; so do numbers, mappings and pydantic
    models. A sequence or set is rendered line by line, empty as `[]`. NaN becomes `"NaN"`.

    Raises:
        TypeError: When `render()` gives no text.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        strange = isinstance(value, float) and not math.isfinite(value)
        return _json(value) if strange else json.dumps(value)
    if callable(getattr(type(value), "render", None)):
        text = cast("Any", value).render()
        if not isinstance(text, str):
            given = type(text).__qualname__
            raise TypeError(f"{type(value).__qualname__}.render() gave {given}, not text")
        return text
    if dataclasses.is_dataclass(value):
        _warn_once(cast("Any", type(value)))
    elif isinstance(value, (Sequence, AbstractSet)) and not isinstance(value, (bytes, bytearray)):
        return "\n".join(map(render_value, cast("Sequence[object]", value))) if value else "[]"
    return _json(value)


def _json(value: object) -> str:
    return pydantic_core.to_json(value, inf_nan_mode="strings", fallback=as_plain).decode()


@lru_cache(maxsize=1024)
def _warn_once(type_: type) -> None:
    warnings.warn(
        f"{type_.__module__}.{type_.__qualname__} has no render(), so the model reads it as JSON; "
        "define render() to choose the text.",
        stacklevel=3,
    )
