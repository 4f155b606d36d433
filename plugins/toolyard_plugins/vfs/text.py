"""Text files: UTF-8, with everything kept that is not a letter, and binary ones told apart.

A byte order mark stays where it is, as the first character, and newlines are those of the file;
so what is read and written back is the same file.
"""

from __future__ import annotations

from typing import Final

_SNIFFED_BYTES: Final = 8192


def looks_binary(start: bytes) -> bool:
    """Tell whether a file that begins so is binary: NUL in its first 8 kB."""
    return b"\0" in start[:_SNIFFED_BYTES]


def decode(data: bytes, path: str) -> str:
    """Return a text file's text.

    Raises:
        ValueError: When it is binary.
    """
    if looks_binary(data):
        raise ValueError(_binary(path, "holds NUL bytes", len(data)))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8 at byte {error.start}"
        raise ValueError(_binary(path, reason, len(data))) from None


def encode(text: str, path: str) -> bytes:
    """Return a text as it is stored.

    Raises:
        ValueError: When it holds half of a surrogate pair, which no file can hold.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{path} cannot be written: character {error.start} of the text is half of a "
            "surrogate pair. Send the text without it, then retry."
        ) from None


def _binary(path: str, why: str, size: int) -> str:
    return (
        f"{path} is a binary file ({size} bytes; it {why}), so it cannot be read as text. Tools "
        "that take binary files can use it."
    )
