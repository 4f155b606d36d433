"""The mask that stands for a secret in an edit, and the secrets put back in its places."""

from __future__ import annotations

from typing import Any, Final, cast

MASK: Final = "*** (unchanged)"
"""Stands for a secret; left as it is in an edit, the secret stays."""


def unmasked(edited: object, value: object) -> Any:
    """Return edited arguments with the secrets back in their places.

    Raises:
        ValueError: When a mask stands where there was no secret.
    """
    if edited == MASK:
        if value is None:
            raise ValueError(f"{MASK!r} stands where there was no secret; write the value there.")
        return value
    if isinstance(edited, dict):
        inside = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        return {
            name: unmasked(each, inside.get(name))
            for name, each in cast("dict[str, object]", edited).items()
        }
    if isinstance(edited, list):
        items = cast("list[object]", value) if isinstance(value, list) else []
        return [
            unmasked(each, items[index] if index < len(items) else None)
            for index, each in enumerate(cast("list[object]", edited))
        ]
    return edited
