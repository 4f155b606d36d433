"""Values, words and links in texts, and an index of the phrases that stand in many of them."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

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
    """Return a value as it is compared: in small letters, with single spaces.

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
    """Return a value as it is looked up; a number stands for every way to write it."""
    return plain(value) if isinstance(value, str) else f"={plain(value)}"


def words(text: str) -> list[str]:
    """Return the words of four letters or more in a plain text."""
    return _WORD.findall(text)


def links(text: str) -> list[str]:
    """Return the addresses and URLs in a text, also those that are encoded as HTML or in URLs.

    Example:
        >>> links("See https://a.example/x, or write to bob@example.com.")
        ['https://a.example/x', 'bob@example.com']
    """
    found, rest = _links(plain(text))
    for _ in range(_ROUNDS):
        # What is part of a link stays as it is: the link is looked up as a whole.
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
    """Return the links in a plain text as it is, and the text without them."""
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
    """Yield the phrases of so many words in a plain text, also without what is around them."""
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
    """Tells at which time a phrase, or a word, first stood in texts that come one by one.

    Looking up costs the same however many texts there are, once the first phrase of a length was.
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
        """Return the time at which a phrase first stood in a text, or was all of a long one."""
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
            # A full stop ends an address also where the next sentence follows at once.
            address, _, word = token.rpartition(".")
            if word[:1].isupper() and links(address):
                index.add(0, plain(address))
    return index
