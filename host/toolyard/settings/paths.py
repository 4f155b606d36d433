"""Paths in a configuration file are relative to that file, in whoever's table they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel


def beside(directory: Path, table: Mapping[str, Any], model: type[Any]) -> dict[str, Any]:
    """Return a table in which those values are absolute that the model takes as paths.

    Args:
        directory: That of the file.
        table: The table, as TOML gives it.
        model: A pydantic model or a dataclass; its fields of the type `Path` are paths.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Log:
        ...     file: Path
        ...     title: str
        >>> beside(Path("/etc"), {"file": "a.log", "title": "b"}, Log)
        {'file': '/etc/a.log', 'title': 'b'}
    """
    paths = _path_keys(model)
    return {
        key: str(directory / Path(value).expanduser())
        # An empty text is no path; the model may say so.
        if key in paths and isinstance(value, (str, Path)) and value != ""
        else value
        for key, value in table.items()
    }


def _path_keys(model: type[Any]) -> set[str]:
    if not issubclass(model, BaseModel):
        return {key for key, hint in _hints(model).items() if _is_path(hint)}
    keys: set[str] = set()
    for name, info in model.model_fields.items():
        if _is_path(info.annotation):
            keys.add(info.validation_alias if isinstance(info.validation_alias, str) else name)
    return keys


def _hints(kind: type[Any]) -> Mapping[str, Any]:
    try:
        return get_type_hints(kind)
    except (NameError, TypeError):
        # What is wrong with its types is told when the table is validated.
        return {}


def _is_path(hint: Any) -> bool:
    hint = _bare(hint)
    members = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    return {_bare(each) for each in members} - {NoneType} == {Path}


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint
