"""Keeping secrets out of every text: messages, logs, events."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, SecretBytes, SecretStr

from toolyard_hookspecs import Secret

MASK = "***"
MIN_LENGTH = 3


def mask(text: str, *sources: object) -> str:
    """Return the text with every secret that the sources hold masked.

    Args:
        text: What is about to be written.
        sources: Params and credentials; their `Secret`, `SecretStr` and `SecretBytes`
            fields are looked for, also within dataclasses, models, mappings and lists.
    """
    for secret in {found for source in sources for found in _secrets(source, 0)}:
        if len(secret) >= MIN_LENGTH and secret in text:
            text = text.replace(secret, MASK)
    return text


def _secrets(value: Any, depth: int) -> Iterator[str]:
    if depth > 8 or value is None or isinstance(value, (str, bytes, int, float)):  # noqa: PLR2004
        return
    if isinstance(value, Secret):
        yield from _texts(value.reveal())
    elif isinstance(value, (SecretStr, SecretBytes)):
        yield from _texts(value.get_secret_value())
    else:
        for each in _parts(value):
            yield from _secrets(each, depth + 1)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode(errors="replace")
    else:
        for each in _parts(value):
            yield from _texts(each)


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, BaseModel) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    ):
        yield from (
            vars(value).values()
            if hasattr(value, "__dict__")
            else (getattr(value, each.name) for each in dataclasses.fields(value))
        )
    elif isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from value
