"""Validation errors as a model reads them: all at once, with little of the input."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, get_args

from pydantic import ValidationError
from pydantic_core.core_schema import ErrorType

from toolstile_hookspecs._schema.navigation import (
    Schema,
    holds_secret,
    known_names,
    schemas_among,
    subschemas,
)
from toolstile_hookspecs._schema.secrets import MASK
from toolstile_hookspecs._schema.strict_dates import NOT_ISO_8601, without_guards
from toolstile_hookspecs.support.text import suggest

MAX_FAULTS: Final = 20
MAX_SHOWN: Final = 80
"""Characters shown of anything that the model wrote."""
MAX_REASON: Final = 200
"""Characters shown of a reason, which may hold the choices there are."""

MISSING: Final = "required, but missing"
NOT_KNOWN: Final = "not known"
REFUSED: Final = "is not accepted"
"""Stands for what an author's validator says, which may tell a secret that it was given."""
RETRY: Final = "\nFix these, then retry."
"""The end of every listing."""

_NOT_TEXT: Final = "the text holds a lone surrogate, which is not a character"
_BY_AUTHORS: Final = frozenset({"value_error", "assertion_error"})
_NOT_BY_AUTHORS: Final = {*get_args(ErrorType), NOT_ISO_8601} - _BY_AUTHORS
# What pydantic says, and what a model understands.
_TOO_DEEP: Final = ("recursion limit exceeded", "nested too deeply")


def explain(error: ValidationError, read_schema: Callable[[], Schema]) -> str:
    """Return the message for everything pydantic found.

    Args:
        error: What it found.
        read_schema: Gives the JSON Schema, for suggestions and to know of secrets.
    """
    schema = read_schema()
    shows = not holds_secret(schema)
    objects = schemas_among(part.get("properties") for part in subschemas(schema))
    declared = {name for properties in objects for name in properties}

    def told(part: int | str) -> int | str:
        # About secrets, a name that no schema declares may be one.
        return part if shows or isinstance(part, int) or part in declared else MASK

    lines: list[str] = []
    for fault in error.errors(include_url=False, include_context=False):
        type_, path = fault["type"], fault["loc"]
        if type_ == "json_invalid":
            return not_json(fault["msg"].removeprefix("Invalid JSON: "))
        if type_ == "string_unicode" and not path:
            return not_json(_NOT_TEXT)
        if type_ in {"missing", "missing_argument"}:
            what = MISSING
        elif type_ in {"extra_forbidden", "unexpected_keyword_argument"}:
            known = known_names(schema, path[:-1])
            lines.append(stranger([*map(told, path[:-1]), path[-1]], known, shows=shows))
            continue
        elif shows:
            what = f"{_reason(fault['msg'])}{_given(fault['input'])}"
        else:
            what = _reason(fault["msg"]) if type_ in _NOT_BY_AUTHORS else REFUSED
        lines.append(f"{place([*map(told, path)])}: {what}")
    return listing([*dict.fromkeys(lines)])


def stranger(path: Sequence[object], known: Sequence[str], *, shows: bool) -> str:
    """Return the line for a name that nobody knows; it may be a secret out of its place."""
    near = suggest(str(path[-1]), known)
    if not shows:
        path, near = [*path[:-1], MASK], near or f"; there are {', '.join(known)}"
    return f"{place(path)}: {NOT_KNOWN}{near}"


def first_fault(error: ValidationError) -> str:
    """Return the first thing that pydantic found, and where, without what was given.

    Example:
        >>> from pydantic import TypeAdapter
        >>> try:
        ...     TypeAdapter(dict[str, list[int]]).validate_python({"a": [1, "x"]}, strict=True)
        ... except ValidationError as error:
        ...     print(first_fault(error))
        a[1]: input should be a valid integer
    """
    first = error.errors(include_url=False, include_input=False)[0]
    where = f"{place(first['loc'])}: " if first["loc"] else ""
    return f"{where}{_reason(first['msg'])}"


def not_json(reason: str) -> str:
    """Return the message for text that is not JSON."""
    told = shorten(reason.replace(*_TOO_DEEP))
    return f"Invalid arguments: not valid JSON ({told}). Fix it, then retry."


def listing(faults: list[str]) -> str:
    """Return the message that names all faults of one call's arguments."""
    shown = [f"  - {fault}" for fault in faults[:MAX_FAULTS]]
    if len(faults) > MAX_FAULTS:
        shown.append(f"  - and {len(faults) - MAX_FAULTS} more")
    return "\n".join(["Invalid arguments:", *shown]) + RETRY


def in_one_line(error: Exception) -> str:
    """Return the faults of a listing without what it asks of a model.

    Example:
        >>> in_one_line(ValueError(listing(["a: required, but missing", "b: not known"])))
        'a: required, but missing; b: not known'
    """
    lines = str(error).removesuffix(RETRY).splitlines()[1:]
    return "; ".join(line.removeprefix("  - ").removeprefix("arguments: ") for line in lines)


def as_sentence(text: str) -> str:
    """Return a text with a full stop, unless it ends as sentences do.

    Example:
        >>> as_sentence("not known"), as_sentence("Did you mean 'add'?")
        ('not known.', "Did you mean 'add'?")
    """
    return text if text.endswith((".", "!", "?")) else f"{text}."


def place(path: Iterable[object]) -> str:
    """Return where in the arguments a fault is, `lines[2].price` say."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{shorten(without_guards(str(part)))}"
    return shorten(text.removeprefix(".") or "arguments", MAX_REASON)


def shorten(text: str, limit: int = MAX_SHOWN) -> str:
    """Return the beginning of a long text, and how long it is."""
    return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"


def in_json(value: object) -> str:
    """Return a value as models write it, shortened."""
    return shorten(json.dumps(value, ensure_ascii=False, default=str))


def _reason(text: str) -> str:
    return shorten(text[0].lower() + text[1:] if text else text, MAX_REASON)


def _given(value: object) -> str:
    if isinstance(value, str):
        rest = f"... ({len(value)} characters)" if len(value) > MAX_SHOWN else ""
        return f", got {json.dumps(value[:MAX_SHOWN])}{rest}"
    if value is None or isinstance(value, (bool, int, float)):
        return f", got {shorten(json.dumps(value))}"
    if isinstance(value, (Mapping, list, tuple)):
        return f", got an {'object' if isinstance(value, Mapping) else 'array'}"
    return ""
