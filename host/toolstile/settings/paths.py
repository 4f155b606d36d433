"""Paths in tables: relative to the file that names them, with `~` for the home directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin

from toolstile.settings.table_validation import fields
from toolstile_hookspecs import ConfigurationError

LISTS: Final = frozenset({list, tuple, set, frozenset, Sequence, Iterable, AbstractSet})
"""The collections that a list in a file may become."""


def beside(directory: Path, table: Mapping[str, Any], model: type[Any]) -> dict[str, Any]:
    """Return a table in which the values of the model's fields of paths, or lists, are absolute.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Log:
        ...     file: Path
        ...     old: list[Path]
        ...     title: str
        >>> beside(Path("/etc"), {"file": "a.log", "old": ["b.log"], "title": "b"}, Log)
        {'file': '/etc/a.log', 'old': ['/etc/b.log'], 'title': 'b'}
    """
    kinds = {key: {*_leaves(hint)} - {NoneType, Ellipsis} for key, hint in fields(model).items()}
    return {
        key: _absolute(directory, value) if kinds.get(key) == {Path} else value
        for key, value in table.items()
    }


def expanded(path: Path) -> Path:
    """Return a path with the home directory in the place of a leading `~`."""
    try:
        return path.expanduser()
    except RuntimeError:
        msg = f"{path}: the home directory of this user is not known. Set HOME, or write it out."
        raise ConfigurationError(msg) from None


def _absolute(directory: Path, value: object) -> object:
    if isinstance(value, list):
        return [_absolute(directory, item) for item in cast("list[object]", value)]
    # An empty text is not a path; the model may say so.
    if isinstance(value, (str, Path)) and value != "":
        return str(directory / expanded(Path(value)))
    return value


def _leaves(hint: Any) -> Iterator[Any]:
    """Yield the types that a value, or an element of a list, may have."""
    origin = get_origin(hint)
    if origin is Annotated:
        yield from _leaves(get_args(hint)[0])
    elif origin in {Union, UnionType, *LISTS}:
        for member in get_args(hint):
            yield from _leaves(member)
    else:
        yield hint
