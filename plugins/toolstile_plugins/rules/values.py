"""Values in arguments, results and texts, as the policies on provenance compare them."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set as AbstractSet,
)
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, cast
from urllib.parse import unquote

from pydantic_core import from_json

from toolstile_hookspecs import Contents, Tool, ToolResult, masked
from toolstile_hookspecs.codecs import alternatives
from toolstile_hookspecs.selectors import fits
from toolstile_hookspecs.support.text import suggest
from toolstile_plugins.policies.path_arguments import names_declared_by, names_in, schema_of

LONGEST: Final = 8
"""The most words of a phrase that `PhraseIndex` finds within texts that it is not the whole of."""

_SEPARATORS: Final = re.compile(
    r"""(?:(?<!\d),|,(?!\d)|[;|<>()\[\]{}"`\u201c\u201d\u00ab\u00bb])+"""
)
_OPENING: Final = "'\"`*_\u2018\u201c\u00ab([{<\u00bf\u00a1"
_CLOSING: Final = ".,;:!?\u2026'\"`*_\u2019\u201d\u00bb)]}>"
_POSSESSIVE: Final = ("'s", "\u2019s")
_NUMBER: Final = re.compile(r"[+-]?(?:0|[1-9]\d*|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d+)?", re.ASCII)
_CURRENCY: Final = "$€£¥₹%"
_WORD: Final = re.compile(r"[^\W\d_]{4,}")
# Each begins where a word does, and takes it as a whole: they search in linear time.
_URL: Final = re.compile(
    r"(?<![a-z0-9+.-])(?:[a-z0-9+.-]++:\s*+[/\\]{2}|(?:javascript|data|tel|sms):"
    # Four numbers alone may be a version.
    r"|\d{1,3}(?:\.\d{1,3}){3}[:/?#])[^\s<>\"'`]+"
)
_ADDRESS: Final = re.compile(r"[^\s<>()\[\],;:\"'`]+")
_DOMAIN: Final = re.compile(r"(?<![\w-])([\w-]++(?:\.[\w-]++)+)(?:[:/?#][^\s<>\"'`]*+)?")
_LABEL: Final = re.compile(r"[^\W\d_]{2,}")
_ENDS: Final = ".,;:!?\u2026)]}*_"
_ROUNDS: Final = 3
"""The most times a text may be encoded one in the other for its links to be found."""


def plain(value: str | float) -> str:
    """Return a value in the form of comparison: in small letters, with single spaces.

    Example:
        >>> plain("  Bob  SMITH "), plain(12.50)
        ('bob smith', '12.5')
    """
    if not isinstance(value, str):
        if isinstance(value, int):
            return str(value)
        return _canonical(Decimal(repr(value)))
    text = value if value.isascii() else unicodedata.normalize("NFC", value)
    return " ".join(text.lower().split())


def phrase(value: str | float) -> str:
    """Return a value in the form of a lookup; a number stands for every way to write it."""
    return plain(value) if isinstance(value, str) else f"={plain(value)}"


def words(text: str) -> list[str]:
    """Return the words of four letters or more in a plain text."""
    return _WORD.findall(text)


def links(text: str) -> list[str]:
    """Return the addresses and URLs in a text, also if encoded as HTML or in URLs.

    Example:
        >>> links("See https://a.example/x, or write to bob@example.com.")
        ['https://a.example/x', 'bob@example.com']
    """
    found, rest = _links(plain(text))
    for _ in range(_ROUNDS):
        # A part of a link is not decoded: the link is looked up as a whole.
        readable = decoded(rest)
        if readable == rest:
            break
        more, rest = _links(readable)
        found += more
    return list(dict.fromkeys(found))


def decoded(text: str) -> str:
    """Return a plain text as other programs may read it, which decode HTML and URLs.

    Example:
        >>> decoded("bob%40example.com"), decoded("bob\uff20example.com")
        ('bob@example.com', 'bob@example.com')
    """
    if text.isascii() and "%" not in text and "&" not in text:
        return text
    text = unquote(html.unescape(text)).replace("\u3002", ".")
    seen = "".join(char for char in text if unicodedata.category(char) != "Cf")
    return plain(unicodedata.normalize("NFKC", seen))


def _links(text: str) -> tuple[list[str], str]:
    """Return the links in a plain text, and the text without them."""
    found: list[str] = []

    def take(link: re.Match[str]) -> str:
        if link.re is _ADDRESS and "@" not in link[0].strip("@"):
            return link[0]
        if link.re is _DOMAIN and not _LABEL.fullmatch(link[1].rstrip("_-").rpartition(".")[2]):
            return link[0]
        found.append(link[0].rstrip(_ENDS))
        return " "

    for pattern in (_URL, _ADDRESS, _DOMAIN):
        text = pattern.sub(take, text)
    return found, text


def _canonical(number: Decimal) -> str:
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _phrases(text: str, length: int) -> Iterator[str]:
    """Yield the phrases of so many words in a plain text, also without surrounding punctuation."""
    for form in dict.fromkeys((text, _SEPARATORS.sub(" ", text))):
        parts = form.split()
        for start in range(len(parts) - length + 1):
            found = " ".join(parts[start : start + length])
            yield found
            bare = found.lstrip(_OPENING).rstrip(_CLOSING)
            if bare and bare != found:
                yield bare
            if bare.endswith(_POSSESSIVE):
                yield bare[:-2]
            if length == 1 and _NUMBER.fullmatch(number := bare.strip(_CURRENCY)):
                yield f"={_canonical(Decimal(number.replace(',', '')))}"


class PhraseIndex:
    """Finds the time at which a phrase, or a word, first stood in a growing list of texts.

    A lookup costs the same for any number of texts, except the first one of a length.
    """

    def __init__(self) -> None:
        self._texts: list[tuple[int, str]] = []
        self._wholes: dict[str, int] = {}
        self._firsts: dict[int, dict[str, int]] = {}

    def add(self, time: int, text: str) -> None:
        """Add a plain text."""
        self._texts.append((time, text))
        _put(self._wholes, text, time)
        for length, known in self._firsts.items():
            _index(known, length, time, text)

    def first(self, wanted: str) -> int | None:
        """Return the time at which a phrase first stood in a text, or was a whole long one."""
        length = wanted.count(" ") + 1
        return self.whole(wanted) if length > LONGEST else self._known(length).get(wanted)

    def first_word(self, wanted: str) -> int | None:
        """Return the time at which a word first stood in a text, at any place."""
        return self._known(0).get(wanted)

    def whole(self, text: str) -> int | None:
        """Return the time at which a text was first added."""
        return self._wholes.get(text)

    def within(self, wanted: str) -> int | None:
        """Return the time at which a text first held another; looks at each of them."""
        return min((time for time, text in self._texts if wanted in text), default=None)

    def _known(self, length: int) -> dict[str, int]:
        known = self._firsts.get(length)
        if known is None:
            known = dict[str, int]()
            for time, text in self._texts:
                _index(known, length, time, text)
            self._firsts[length] = known
        return known


def _index(known: dict[str, int], length: int, time: int, text: str) -> None:
    for found in _phrases(text, length) if length else words(text):
        _put(known, found, time)


def _put(known: dict[str, int], found: str, time: int) -> None:
    if known.setdefault(found, time) > time:
        known[found] = time


@lru_cache(maxsize=64)
def index_of(texts: tuple[str, ...]) -> PhraseIndex:
    """Return the index of a few texts."""
    index = PhraseIndex()
    for text in texts:
        index.add(0, plain(text))
        for token in text.split():
            # A full stop ends an address also if the next sentence follows at once.
            address, _, word = token.rpartition(".")
            if word[:1].isupper() and links(address):
                index.add(0, plain(address))
    return index


Value = str | int | float

WHOLE: Final = "*"
"""The name that trusts the whole text of a result without fields."""
SHORTEST: Final = 3
"""The fewest characters of a value that is ruled by `value`, and remembered."""


def arguments_of(tool: Tool[Any, Any], params: Any) -> Mapping[str, Any]:
    """Return the arguments of a call as JSON values, defaults among them, secrets masked."""
    if tool.params_schema is None:
        params = from_json(tool.params_codec.encode(params))
    if secrecy := tool.params_codec.secret_schema():
        params = masked(params, secrecy)
    return cast("Mapping[str, Any]", params) if isinstance(params, Mapping) else {}


def is_default(properties: Mapping[str, Any], argument: str, value: object) -> bool:
    """Tell whether a value is the default of an argument."""
    declared = properties.get(argument)
    if not isinstance(declared, Mapping):
        return False
    schema = cast("Mapping[str, Any]", declared)
    return "default" in schema and schema["default"] == value


def values_in(value: object, declared: Collection[str] | None) -> list[Value]:
    """Return the texts and numbers within a JSON value, and the undeclared names; None for none."""
    found: list[Value] = []
    _collect(value, declared, found)
    return found


def _collect(value: object, declared: Collection[str] | None, found: list[Value]) -> None:
    # The commonest case comes first, because every call passes here.
    if isinstance(value, (str, int, float)):
        if not isinstance(value, bool):
            found.append(value)
    elif isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            if declared is not None and name not in declared:
                found.append(name)
            _collect(inner, declared, found)
    elif isinstance(value, (list, tuple)):
        for inner in cast("list[object]", value):
            _collect(inner, declared, found)


def texts_of(values: Iterable[Value], *, is_given: bool = False) -> tuple[str, ...]:
    """Return values in the form of memory: each once, as a plain text, without short ones.

    Values of calls (`is_given`) are also remembered as other programs decode them.
    """
    found: dict[str, None] = {}
    for value in values:
        text = plain(value)
        if len(text) >= SHORTEST:
            found[text] = None
            if is_given:
                found[decoded(text)] = None
    return tuple(found)


def values_of_result(
    tool: Tool[Any, Any], result: ToolResult[Any], fields: Collection[str], *, is_all: bool = False
) -> Iterator[Value]:
    """Yield the values of a result in named fields, at any depth, and names there.

    `WHOLE` among the fields stands for a result without fields, and for a mapping whose names the
    tool does not declare; with `is_all` for any result.
    """
    value: Any = result.message if result.value is None else result.value
    if is_all and isinstance(value, Contents):
        value = [*(part.render() for part in value.parts), value.structured]
    elif not isinstance(value, str):
        value = from_json(tool.result_codec.encode(result.value))
        if secrecy := tool.result_codec.secret_schema():
            value = masked(value, secrecy)
    # Some servers write their fields as a text. A text within a field has any author.
    value = _with_fields(value, deep=is_all)
    is_open = False
    if issubclass(type(value), Mapping):
        schema = tool.result_codec.schema()
        parts = [*alternatives([schema], schema)]
        is_mapping = any(part.get("additionalProperties") for part in parts)
        is_open = is_mapping and not any("properties" in part for part in parts)
    if WHOLE in fields and (is_all or is_open or not _has_fields(value)):
        yield from values_in(value, () if is_open else None)
    else:
        yield from _in_fields(value, fields)


def _with_fields(value: Any, *, deep: bool) -> Any:
    """Return a value with the fields that a text has as JSON, also within others if `deep`."""
    if isinstance(value, str):
        if value.lstrip().startswith(("{", "[")):
            with suppress(ValueError):
                return _with_fields(from_json(value), deep=deep)
    elif deep and isinstance(value, dict):
        inside = cast("dict[str, object]", value)
        return {name: _with_fields(inner, deep=True) for name, inner in inside.items()}
    elif deep and isinstance(value, list):
        return [_with_fields(inner, deep=True) for inner in cast("list[object]", value)]
    return value


def _in_fields(value: object, fields: Collection[str]) -> Iterator[Value]:
    if isinstance(value, Mapping):
        for name, inner in cast("Mapping[str, object]", value).items():
            if name in fields:
                yield from values_in(inner, ())
            else:
                yield from _in_fields(inner, fields)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _in_fields(inner, fields)


def _has_fields(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_has_fields, cast("list[object]", value)))
    return isinstance(value, Mapping)


def properties_of(tool: Tool[Any, Any]) -> Mapping[str, Any]:
    """Return the arguments that the schema of a tool declares, each with its schema."""
    schema = schema_of(tool) or {}
    found = schema.get("properties")
    if isinstance(found, Mapping):
        return cast("Mapping[str, Any]", found)
    return dict.fromkeys(names_declared_by(tool))


def names_of_result(tool: Tool[Any, Any]) -> AbstractSet[str] | None:
    """Return the names that a tool declares in its results, None if others may come."""
    return names_in(tool.result_codec.schema()) or None


def unknown_names(
    key: str,
    entries: Mapping[str, Iterable[str]],
    tools: Sequence[Tool[Any, Any]],
    names_of: Callable[[Tool[Any, Any]], AbstractSet[str] | None],
) -> list[str]:
    """Return clauses about the names of a policy that none of the tools has."""
    found: list[str] = []
    for pattern, names in entries.items():
        known = [names_of(tool) for tool in tools if fits(tool, pattern)]
        there = frozenset[str]().union(*(each or () for each in known))
        found += [
            f"names {name!r} in {key}, which {pattern!r} does not have{suggest(name, there)}"
            for name in sorted(set(names) - there - {WHOLE} if None not in known else ())
        ]
    return found
