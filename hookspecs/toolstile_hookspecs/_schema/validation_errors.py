"""Validation errors as a model reads them: all at once, with little of the input."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from os.path import commonprefix
from typing import Final, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

from toolstile_hookspecs._schema.core_schema import (
    NOT_ISO_8601,
    OTHER_TAG,
    Path,
    steps_of,
    union_of,
)
from toolstile_hookspecs._schema.json_schema import (
    Schema,
    holds_secret,
    known_names,
    schemas_among,
    subschemas,
)
from toolstile_hookspecs._schema.secrets import MASK
from toolstile_hookspecs.support.text import suggest

MAX_FAULTS: Final = 20
MAX_SHOWN: Final = 80
"""Characters shown of anything that the model wrote."""
MAX_REASON: Final = 200
"""Characters shown of a reason, which may hold the choices there are."""

MISSING: Final = "required, but missing"
NOT_KNOWN: Final = "not known"
REFUSED: Final = "is not accepted"
"""Replaces the message of an author's validator, which may repeat a secret."""
RETRY: Final = "\nFix these, then retry."
"""The end of every listing."""

FAULT, OTHER = "schema", "schema_type"
"""The kinds of faults that JSON Schema tells in words; values of another type are the second."""

_NOT_TEXT: Final = "the text holds a lone surrogate, which is not a character"
_BY_AUTHORS: Final = frozenset({"value_error", "assertion_error"})
_NOT_BY_AUTHORS: Final = {*get_args(ErrorType), NOT_ISO_8601, OTHER_TAG, FAULT, OTHER} - _BY_AUTHORS
_NEAR: Final = 3
"""The maximum of alternatives in the message for a value that fits none."""
# Words of pydantic, and words for a model.
_TOO_DEEP: Final = ("recursion limit exceeded", "nested too deeply")


def explain(error: ValidationError, read_schema: Callable[[], Schema]) -> str:
    """Return the message for all faults; the JSON Schema is for suggestions and secrets."""
    found = error.errors(include_url=False)
    if found[0]["type"] == "json_invalid":
        return not_json(found[0]["msg"].removeprefix("Invalid JSON: "))
    if found[0]["type"] == "string_unicode" and not found[0]["loc"]:
        return not_json(_NOT_TEXT)
    return listing([*dict.fromkeys(Lines(read_schema()).of(found))])


class Lines:
    """The lines about pydantic's faults, for a schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.shows = not holds_secret(schema)
        objects = schemas_among(part.get("properties") for part in subschemas(schema))
        self.declared = {name for properties in objects for name in properties}

    def of(self, faults: Iterable[ErrorDetails], start: int = 0) -> Iterator[str]:
        """Yield a line for each fault, with the faults of a union's alternatives together."""
        for union, group in groupby(faults, lambda fault: union_of(fault["loc"], start)):
            found = [*group]
            if union is None:
                yield from map(self._line, found)
                continue
            end = len(union) + 1
            tried: dict[Path, list[ErrorDetails]] = {}
            for fault in found:
                tried.setdefault(fault["loc"][:end], []).append(fault)
            ranked = [
                (max(_rank(fault, end) for fault in some), [*self.of(some, end)])
                for some in tried.values()
            ]
            yield from _by_likelihood(place(self._told(union)), ranked, self._misfit(found))

    def _misfit(self, faults: Sequence[ErrorDetails]) -> str:
        """Return the fault of a value that no alternative is for: the beginning once, then all."""
        reasons = [*dict.fromkeys(_reason(fault["msg"]) for fault in faults)]
        start = commonprefix(reasons).rfind(" ") + 1  # noqa: RUF071 - of texts
        told = reasons[0][:start] + " or ".join(reason[start:] for reason in reasons)
        return f"{shorten(told, MAX_REASON)}{_given(faults[0]['input']) if self.shows else ''}"

    def _told(self, path: Path) -> list[int | str]:
        # About secrets, a name that no schema declares may be one.
        return [
            part if self.shows or isinstance(part, int) or part in self.declared else MASK
            for part in steps_of(path)
        ]

    def _line(self, fault: ErrorDetails) -> str:
        type_, path = fault["type"], fault["loc"]
        if type_ in {"missing", "missing_argument"}:
            what = MISSING
        elif type_ in {"extra_forbidden", "unexpected_keyword_argument"}:
            known = known_names(self._schema, steps_of(path)[:-1])
            # Another alternative may have the name.
            others = [name for name in known if name != path[-1]]
            return stranger([*self._told(path[:-1]), path[-1]], others, shows=self.shows)
        elif self.shows:
            what = f"{_reason(fault['msg'])}{_given(fault['input'])}"
        else:
            what = _reason(fault["msg"]) if type_ in _NOT_BY_AUTHORS else REFUSED
        return f"{place(self._told(path))}: {what}"


_LIKELY, _OTHER_CHOICE, _OTHER_VALUE, _OTHER_TYPE = range(4)
"""Ranks of alternatives: for a value with another tag, for another value, or another type."""


def _by_likelihood(
    where: str, ranked: Iterable[tuple[int, Sequence[str]]], misfit: str
) -> Iterator[str]:
    """Yield the lines about each alternative of a value, those about the likeliest first."""
    found = sorted((rank, len(lines), lines) for rank, lines in ranked)
    near = [lines for rank, _, lines in found if rank != _OTHER_TYPE]
    if found[0][0] >= _OTHER_VALUE:
        yield f"{where}: {misfit}"
    elif len(near) == 1:
        yield from near[0]
    else:
        yield f"{where}: fits none of its {len(found)} alternatives; the likeliest are"
        for number, lines in enumerate(near[:_NEAR], 1):
            yield f"({number}) {'; '.join(dict.fromkeys(lines))}"


def _rank(fault: ErrorDetails, end: int) -> int:
    is_listed = fault["type"] in {"literal_error", "enum"}
    if len(fault["loc"]) > end:
        return _OTHER_CHOICE if is_listed else _LIKELY
    if is_listed:
        return _OTHER_VALUE
    return _OTHER_TYPE if fault["type"].endswith(("_type", "none_required")) else _LIKELY


def stranger(path: Sequence[object], known: Sequence[str], *, shows: bool) -> str:
    """Return the line for an unknown name, which may be a misplaced secret."""
    near = suggest(str(path[-1]), known)
    if not shows:
        path, near = [*path[:-1], MASK], near or f"; there are {', '.join(known)}"
    return f"{place(path)}: {NOT_KNOWN}{near}"


def first_fault(error: ValidationError) -> str:
    """Return pydantic's first fault and its place, without the input.

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
    """Return the faults of a listing without the request to the model.

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
        text += f"[{part}]" if isinstance(part, int) else f".{shorten(str(part))}"
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
