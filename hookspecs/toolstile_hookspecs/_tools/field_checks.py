"""Checks of what authors give to declarations, by the types that their fields have."""

from __future__ import annotations

import importlib
import inspect
import sys
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from toolstile_hookspecs._schema.codec import ValueCodec
from toolstile_hookspecs._schema.navigation import known_names
from toolstile_hookspecs._schema.validation_errors import MAX_REASON, RETRY, shorten
from toolstile_hookspecs.support.patterns import TOOL_NAME
from toolstile_hookspecs.support.text import suggest

MAX_DESCRIPTION: Final = 200


def type_faults(declared: object, of: Any, names: Iterable[str]) -> list[str]:
    """Return the fields of a dataclass that hold something else than their types say.

    Args:
        declared: The instance.
        of: The class that declares the fields.
        names: The names of the fields to check; lists and sets pass for tuples.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Size:
        ...     units: tuple[str, ...]
        >>> type_faults(Size(["m", 2]), Size, ["units"])
        ['units[1] is 2: input should be a valid string']
    """
    values = {name: getattr(declared, name) for name in names}
    for name, value in values.items():
        if isinstance(value, (list, set, frozenset)):
            values[name] = tuple(cast("Iterable[Any]", value))
    try:
        _adapter(of, tuple(values)).validate_python(values)
    except ValidationError as error:
        found: dict[str, list[str]] = {}
        for fault in error.errors(include_url=False):
            field, *inside = fault["loc"]
            place = f"{field}{''.join(f'[{part}]' for part in inside if isinstance(part, int))}"
            reasons = found.setdefault(f"{place} is {shorten(repr(fault['input']))}", [])
            reasons.append(fault["msg"][0].lower() + fault["msg"][1:])
        return [f"{given}: {shorten(' or '.join(why), MAX_REASON)}" for given, why in found.items()]
    return []


@lru_cache(maxsize=64)
def _adapter(of: Any, names: tuple[str, ...]) -> TypeAdapter[Any]:
    hints = typing.get_type_hints(of, include_extras=True)
    fields = cast("Any", TypedDict)("Fields", {name: hints[name] for name in names})
    fields.__pydantic_config__ = ConfigDict(strict=True, arbitrary_types_allowed=True)
    return TypeAdapter(fields)


def name_faults(name: object) -> list[str]:
    """Return why it is not a name for a tool."""
    if isinstance(name, str) and TOOL_NAME.fullmatch(name) is not None:
        return []
    return ["its name must be 1 to 64 of a-z, 0-9, _ and -; keep another in wire_name"]


def description_faults(text: object) -> list[str]:
    """Return why it is not a description for a tool."""
    if not isinstance(text, str) or not text.strip():
        return ["it has no description; say in 1 to 200 characters what it does"]
    if len(text) > MAX_DESCRIPTION:
        fault = f"its description has {len(text)} characters, {MAX_DESCRIPTION} are allowed"
        return [f"{fault}; shorten it and keep the rest in long_description"]
    return []


def params_schema_faults(schema: object) -> list[str]:
    """Return why no arguments could fit a JSON Schema, which may be None."""
    if not isinstance(schema, Mapping):
        return []
    types: Any = cast("Mapping[str, Any]", schema).get("type", "object")
    if "object" in ([types] if isinstance(types, str) else types):
        return []
    return [f"params_schema allows type {types!r} only, but arguments are an object"]


def call_fault(function: Callable[..., Any], *arguments: object) -> str | None:
    """Return why a function cannot be called with these arguments, where it says what it takes.

    Example:
        >>> call_fault(lambda resources: {}, None)
        >>> call_fault(lambda: {}, None)
        'too many positional arguments'
    """
    try:
        # What a decorator returns may take other arguments than the function that it wraps.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return None  # it does not say: it is not written in Python, or stands in for what is
    try:
        signature.bind(*arguments)
    except TypeError as error:
        return str(error)
    return None


def example_faults(examples: Iterable[Any], params: ValueCodec, result: ValueCodec) -> list[str]:
    """Return the examples of a tool that do not fit the types of its params and result."""
    codecs = (("input", params), ("output", result))
    return [
        example_fault(example, what, reason)
        for example in examples
        for what, codec in codecs
        if (reason := codec.fits(getattr(example, what))) is not None
    ]


def example_fault(example: Any, what: str, reason: str) -> str:
    """Return the fault of an example from the reason for which its input or output is refused."""
    told = " ".join(reason.removesuffix(RETRY).split())
    for beginning in ("Invalid arguments: ", "- ", "arguments: "):
        told = told.removeprefix(beginning)
    return f"example {example.description!r}: its {what} does not fit: {told}"


def key_faults(keys: Collection[str], params: ValueCodec) -> list[str]:
    """Return the params that make a key of idempotency and that a tool does not have."""
    known = known_names(params.schema()) if keys else ()
    unknown = [key for key in keys if key not in known]
    there = f"; it has {', '.join(known) or 'none'}"
    fault = "idempotency names the param {!r}, which it does not have{}"
    return [fault.format(key, suggest(key, known) or there) for key in unknown]


def import_faults(handler: Any) -> list[str]:
    """Return why another process does not find a handler by its name."""
    if _is_importable(handler):
        return []
    name = getattr(handler, "__qualname__", handler)
    fault = f"isolation='process' needs a handler that can be imported, and {name!s} cannot"
    return [f"{fault}; define it at the top level of a module, or use isolation='thread'"]


def _is_importable(handler: Any) -> bool:
    # While a decorator runs, the name does not exist yet; then its form decides.
    module, path = getattr(handler, "__module__", None), getattr(handler, "__qualname__", "<")
    if not module or "<" in path:
        return False
    try:
        found: Any = sys.modules.get(module) or importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, ValueError):
        return False
    except AttributeError:
        return "." not in path
    return found is handler or hasattr(found, "params_codec")  # the tool that is made of it
