"""Keeps secrets out of messages: which keys hold them, and how they are masked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast, get_args, get_origin

from pydantic import BaseModel

from toolstile_hookspecs._schema.secrets import HIDING, MASK, hide

# Shorter ones would be found in the middle of words; their values are not shown in any case.
MIN_MASKED: Final = 4

_SECRET_KEY: Final = re.compile(
    r"token|pass(word|wd|phrase)?$|password|secret|key|credential|auth|cookie|private|dsn",
    re.IGNORECASE,
)
_USERINFO: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def holds_secret(path: Iterable[str | int], model: type[BaseModel] | None = None) -> bool:
    """Tell whether the value at a path of keys is better not shown."""
    keys = [each for each in path if isinstance(each, str)]
    if any(_SECRET_KEY.search(key) for key in keys):
        return True
    return model is not None and bool(keys) and _declares_secret(model, keys[0])


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return the text without the secrets, however quoted, and credentials in addresses."""
    return _USERINFO.sub(MASK, hide(text, secrets))


def secrets_in(table: Mapping[str, Any], model: type[BaseModel] | None = None) -> set[str]:
    """Return the texts in a table that stand where secrets do."""
    return {
        text
        for path, text in _texts(table, ())
        if len(text) >= MIN_MASKED and holds_secret(path, model)
    }


def _texts(
    value: object, path: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, Mapping):
        for key, each in cast("Mapping[str, object]", value).items():
            yield from _texts(each, (*path, key))
    elif isinstance(value, (list, tuple)):
        for position, each in enumerate(cast("list[object]", value)):
            yield from _texts(each, (*path, position))
    elif not isinstance(value, bool):
        yield path, str(value)


def _declares_secret(model: type[BaseModel], key: str) -> bool:
    for name, info in model.model_fields.items():
        if key in (name, info.alias, info.validation_alias):
            return _is_secret(info.annotation)
    return False


def _is_secret(annotation: Any) -> bool:
    kind = get_origin(annotation) or annotation
    if isinstance(kind, type) and issubclass(kind, HIDING):
        return True
    return any(_is_secret(each) for each in get_args(annotation))
