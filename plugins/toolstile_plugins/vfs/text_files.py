"""Text files: their encodings, which they keep.

Text is UTF-8, UTF-16 with a byte order mark, or else Windows-1252, unless the file is binary.
Latin-1 is read as Windows-1252. Text that is read and written back is unchanged, byte for byte.
Newlines stay, and so does the byte order mark of UTF-8, as the first character. The mark of UTF-16
belongs to the encoding, not to the text.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, Literal

from toolstile_hookspecs import FileMatch
from toolstile_hookspecs.support.patterns import NoSearchError, bounded
from toolstile_plugins.vfs.nodes import Content

Encoding = Literal["utf-8", "utf-16-le", "utf-16-be", "cp1252"]

TITLES: Final[dict[Encoding, str]] = {
    "utf-8": "UTF-8",
    "utf-16-le": "UTF-16 (little-endian)",
    "utf-16-be": "UTF-16 (big-endian)",
    "cp1252": "Windows-1252",
}

BYTE_ORDER_MARK: Final = "\ufeff"
SNIFFED_BYTES: Final = 8192
"""The beginning of a file that decides whether it is binary."""

#: A longer line is not searched, because it would have to be in memory as a whole.
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
_BLOCK_BYTES: Final = 1 << 20
_FIRST_BLOCK_BYTES: Final = 1 << 16
_MARKS: Final[dict[bytes, Encoding]] = {
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_MARK_BYTES: Final = 2
# Bytes that no text in a single-byte encoding holds: control characters, and undefined bytes.
_NOT_CP1252: Final = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f\x81\x8d\x8f\x90\x9d]")


def encoding_of(data: bytes) -> Encoding | None:
    r"""Return the encoding of a file's content; None if it is binary.

    Example:
        >>> encoding_of("Käse".encode()), encoding_of(b"K\xe4se"), encoding_of(b"K\0se")
        ('utf-8', 'cp1252', None)
    """
    if (marked := _mark_of(data)) is not None:
        try:
            return None if "\0" in data.decode(marked) else marked
        except UnicodeDecodeError:
            return None
    if looks_binary(data):
        return None
    if _is_utf8(data):
        return "utf-8"
    return None if _NOT_CP1252.search(data) else "cp1252"


def lines_of(text: str) -> list[str]:
    r"""Return the lines of a text with their newlines, which are `\n` or `\r\n`.

    Example:
        >>> lines_of("a\r\nb")
        ['a\r\n', 'b']
    """
    *whole, rest = text.split("\n")
    lines = [f"{line}\n" for line in whole]
    return [*lines, rest] if rest else lines


def newlines_of(text: str) -> frozenset[str]:
    r"""Return the newlines of a text: `\n`, `\r\n`, both or none.

    Example:
        >>> newlines_of("a\r\nb"), newlines_of("a")
        (frozenset({'\r\n'}), frozenset())
    """
    windows = text.count("\r\n")
    found = {"\r\n": windows, "\n": text.count("\n") - windows}
    return frozenset(newline for newline, count in found.items() if count)


def with_newlines(text: str, newline: str) -> str:
    """Return a text with each of its newlines as this one."""
    return text.replace("\r\n", "\n").replace("\n", newline)


def stored_in(content: Content | None) -> Encoding:
    """Return the encoding for text that replaces this content."""
    if content is not None:
        with contextlib.suppress(PermissionError), content.open() as stream:
            start = stream.read(_BLOCK_BYTES)
            if not looks_binary(start):
                return encoding_of(start + stream.read()) or "utf-8"
    return "utf-8"


def marked_like(start: bytes, content: str) -> str:
    r"""Return a text with the byte order mark of UTF-8 if a file that starts so has one.

    Example:
        >>> marked_like(b"\xef\xbb\xbfold", "new"), marked_like(b"old", "new")
        ('\ufeffnew', 'new')
    """
    is_marked = start.startswith(codecs.BOM_UTF8) and not looks_binary(start)
    return BYTE_ORDER_MARK + content.removeprefix(BYTE_ORDER_MARK) if is_marked else content


def text_of(data: bytes, encoding: Encoding) -> str:
    """Return the text of content in this encoding."""
    return data[_MARK_BYTES if _is_marked(encoding) else 0 :].decode(encoding)


def decode(data: bytes, path: str) -> tuple[str, Encoding]:
    """Return a text file's text and encoding; raises `ValueError` for a binary one."""
    encoding = encoding_of(data)
    if encoding is None:
        why = "it is not UTF-8, and holds bytes that no text in another encoding known here does"
        if _mark_of(data) is not None:
            why = "it begins like UTF-16 and is not"
        elif looks_binary(data):
            why = "it holds NUL bytes"
        raise ValueError(
            f"{path} is a binary file ({len(data)} bytes; {why}), so it cannot be "
            "read as text. Tools that take binary files can use it."
        )
    return text_of(data, encoding), encoding


def encode(text: str, path: str, encoding: Encoding = "utf-8") -> bytes:
    """Return the stored form of a text; raises `ValueError` if the encoding cannot hold it."""
    try:
        data = text.encode(encoding)
    except UnicodeEncodeError as error:
        character = text[error.start]
        if "\ud800" <= character <= "\udfff":
            raise ValueError(
                f"{path} cannot be written: character {error.start} of the text is half of a "
                "surrogate pair. Send the text without it, then retry."
            ) from None
        why = f"has no {character!a} (character {error.start} of the text)"
        raise ValueError(_no_place(path, encoding, why)) from None
    if _is_marked(encoding):
        mark = next(mark for mark, marked in _MARKS.items() if marked == encoding)
        return _recognised(mark + data, text, path, encoding)
    return data if encoding == "utf-8" else _recognised(data, text, path, encoding)


def looks_binary(start: bytes) -> bool:
    """Return whether the beginning of a file is binary: NUL in its first 8 kB, but no UTF-16."""
    return b"\0" in start[:SNIFFED_BYTES] and _mark_of(start) is None


def line_blocks(stream: BinaryIO, path: str) -> Iterator[bytes]:
    """Yield a text file as UTF-8, in blocks of whole lines without a byte order mark.

    It ends where the content turns out to be binary. `ValueError`: a line exceeds the memory.
    """
    mark = codecs.BOM_UTF8
    for block in _blocks_of_lines(_blocks(stream), path):
        if _is_utf8(block):
            readable = block
        elif _NOT_CP1252.search(block):
            return
        else:
            readable = block.decode("cp1252").encode()
        yield readable.removeprefix(mark)
        mark = b""


def _blocks_of_lines(blocks: Iterator[bytes], path: str) -> Iterator[bytes]:
    begun: list[bytes] = []
    held = 0
    for block in blocks:
        head, newline, tail = block.rpartition(b"\n")
        if newline:
            yield b"".join((*begun, head, newline))
            begun, held = [], 0
        begun.append(tail)
        held += len(tail)
        if held > MAX_LINE_BYTES:
            raise ValueError(
                f"{path} has a line of more than {MAX_LINE_BYTES >> 20} MiB, which cannot be "
                "searched."
            )
    if held:
        yield b"".join(begun)


def _blocks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield a file's content, from UTF-16 as UTF-8; nothing of a binary file."""
    # First a small block, because each read allocates the whole of its block.
    size = _FIRST_BLOCK_BYTES
    block = stream.read(size)
    marked = _mark_of(block)
    if marked is not None:
        yield from _from_utf16(block[_MARK_BYTES:], stream, marked)
    elif not looks_binary(block):
        while block:
            yield block
            size = _BLOCK_BYTES if len(block) == size else _FIRST_BLOCK_BYTES
            block = stream.read(size)


def _from_utf16(block: bytes, stream: BinaryIO, encoding: Encoding) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    while True:
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError:
            return
        if "\0" in text:
            return
        yield text.encode()
        if not block:
            return
        block = stream.read(_BLOCK_BYTES)


def _mark_of(data: bytes) -> Encoding | None:
    return _MARKS.get(data[:_MARK_BYTES])


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_marked(encoding: Encoding) -> bool:
    return encoding in _MARKS.values()


def _recognised(data: bytes, text: str, path: str, encoding: Encoding) -> bytes:
    """Return content, or raise `ValueError` if it would be read as another text."""
    found = encoding_of(data)
    if found is None or text_of(data, found) != text:
        why = "would make this text look like another encoding"
        raise ValueError(_no_place(path, encoding, why))
    return data


def _no_place(path: str, encoding: Encoding, why: str) -> str:
    return (
        f"{path} cannot be written: it is stored as {TITLES[encoding]}, which {why}. Write other "
        "text; or delete the file and write it again, which stores it as UTF-8."
    )


# --- Searching


_MAX_PATTERN_CHARACTERS: Final = 10_000
# Expressions with another meaning in a block of lines than in a single line.
_BY_LINE_ONLY: Final = re.compile(r"\\[AzQC]|\(\?[a-zA-Z]*-")
MAX_LINE_CHARACTERS: Final = 2_000
"""The characters that are shown of a longer line."""


class Search:
    """A compiled expression.

    RE2 reads each byte once, so no expression can take forever, and releases the interpreter's
    lock meanwhile. It knows no look-around and no back-references.

    Raises:
        ValueError: It is not such an expression.
    """

    __slots__ = ("_pattern", "_prefilter")

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _MAX_PATTERN_CHARACTERS:
            raise ValueError(
                f"The regular expression has {len(pattern)} characters; "
                f"{_MAX_PATTERN_CHARACTERS} at most."
            )
        self._pattern = _compile(pattern, pattern)
        # Because one search of a whole block is faster than one for each line.
        by_line = _BY_LINE_ONLY.search(pattern) is not None
        self._prefilter = None if by_line else _compile(f"(?m:{pattern})", pattern)

    def lines(self, path: str, content: Content) -> Iterator[FileMatch]:
        """Yield the matching lines of a text file; raises `ValueError` for a line too long."""
        number = 1
        with content.open() as stream:
            for block in line_blocks(stream, path):
                # Not in a block with \r: the end of a line is before its \r.
                can_match = (
                    self._prefilter is None or b"\r" in block or self._prefilter.search(block)
                )
                if can_match:
                    for offset, line in enumerate(block.removesuffix(b"\n").split(b"\n")):
                        text = line.removesuffix(b"\r")
                        if self._pattern.search(text):
                            yield FileMatch(path, number + offset, _shown(text))
                number += block.count(b"\n")


def _compile(pattern: str, shown: str) -> Any:
    try:
        return bounded(pattern.encode())
    except NoSearchError:
        raise
    except ValueError as error:
        raise ValueError(
            f"{shown[:200]!r} is not a regular expression that can be searched for: {error}. "
            "The syntax is RE2's, without look-around and back-references; put a backslash "
            "before characters meant as they are."
        ) from None


def _shown(line: bytes) -> str:
    text = line.decode(errors="replace")
    if len(text) <= MAX_LINE_CHARACTERS:
        return text
    return f"{text[:MAX_LINE_CHARACTERS]}... ({len(text) - MAX_LINE_CHARACTERS} more characters)"
