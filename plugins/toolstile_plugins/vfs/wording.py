"""Sizes in words, for people and models."""

from __future__ import annotations

from toolstile_hookspecs.support.text import counted


def size_of(size: int) -> str:
    """Return a size for people and models.

    Example:
        >>> size_of(1), size_of(2048), size_of(52_428_800)
        ('1 byte', '2.0 KiB', '50.0 MiB')
    """
    if size < 1024:  # noqa: PLR2004 - a KiB
        return counted(size, "byte")
    amount, unit = size / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if amount < 1024:  # noqa: PLR2004 - one of the next unit
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.1f} {unit}"
