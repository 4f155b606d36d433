"""Validates a table against a pydantic model and tells every fault: where, expected, found."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from datetime import date, time
from functools import lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    PydanticUndefinedAnnotation,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import ErrorDetails

from toolstile_hookspecs import ConfigurationError, DefinitionError
from toolstile_hookspecs.codecs import HIDING, MASK, as_sentence, hide, place
from toolstile_hookspecs.support.text import nearest, suggest

# --- Known keys


def keys_within(model: type[Any], path: Sequence[str | int]) -> list[str]:
    """Return the keys that a table within a model's table may have.

    Names in the path that are not fields, such as keys of a mapping, and positions are passed over.
    """
    *_, models = _along(model, path)
    return [key for type_ in dict.fromkeys(models) for key in fields(type_)]


def _along(model: type[Any], path: Iterable[str | int]) -> Iterator[list[type[Any]]]:
    """Yield the models at each step of a path, and at its end."""
    models = [model]
    for step in path:
        yield models
        inner = [found for type_ in models for found in _models(fields(type_).get(str(step)))]
        models = inner or models
    yield models


def fields(model: type[Any]) -> dict[str, Any]:
    """Return the types of the fields of a pydantic model or a dataclass, by the keys of a table.

    Of another class there are none.
    """
    if dataclasses.is_dataclass(model):
        hints = _hints(model)
        return {part.name: hints.get(part.name) for part in dataclasses.fields(model) if part.init}
    if not issubclass(model, BaseModel):
        return {}
    return {
        info.validation_alias if isinstance(info.validation_alias, str) else name: info.annotation
        for name, info in model.model_fields.items()
    }


@lru_cache(maxsize=512)
def _hints(model: type[Any]) -> dict[str, Any]:
    try:
        return get_type_hints(model)
    except (NameError, TypeError):
        # Faults of its types are reported when a table is validated.
        return {}


def _models(annotation: Any) -> Iterator[type[Any]]:
    is_dataclass = dataclasses.is_dataclass(annotation)
    if is_dataclass or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        yield cast("type[Any]", annotation)
    for part in get_args(annotation):
        yield from _models(part)


# --- Secrets in messages


# Shorter ones would be found in the middle of words; their values are not shown in any case.
MIN_MASKED: Final = 4

_SECRET_KEY: Final = re.compile(
    r"token|pass(word|wd|phrase)?$|password|secret|key|credential|auth|cookie|private|dsn",
    re.IGNORECASE,
)
_USERINFO: Final = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def holds_secret(path: Iterable[str | int], model: type[Any] | None = None) -> bool:
    """Tell whether the value at a path of keys is better not shown, by its name or its field."""
    names = [step for step in path if isinstance(step, str)]
    steps = zip(names, _along(model, names), strict=False) if model is not None else ()
    return any(_SECRET_KEY.search(name) for name in names) or any(
        _is_secret(fields(type_).get(name)) or name in _unprinted(type_)
        for name, models in steps
        for type_ in models
    )


def _unprinted(model: type[Any]) -> set[str]:
    """Return the fields that a pydantic model keeps out of its `repr`."""
    known = getattr(model, "model_fields", {})
    return {info.validation_alias or name for name, info in known.items() if not info.repr}


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return the text without the secrets, however quoted, and credentials in addresses."""
    return _USERINFO.sub(MASK, hide(text, secrets))


def secrets_in(table: Mapping[str, Any], model: type[Any] | None = None) -> set[str]:
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
        for key, item in cast("Mapping[str, object]", value).items():
            yield from _texts(item, (*path, key))
    elif isinstance(value, (list, tuple)):
        for position, item in enumerate(cast("list[object]", value)):
            yield from _texts(item, (*path, position))
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield path, str(value)


def _is_secret(annotation: Any) -> bool:
    kind = get_origin(annotation) or annotation
    if isinstance(kind, type) and issubclass(kind, HIDING):
        return True
    return any(_is_secret(part) for part in get_args(annotation))


# --- Validation of a table


M = TypeVar("M")
Keys = tuple[str | int, ...]

MAX_SHOWN: Final = 80
_TABLES: Final = "plugins"
_MEANT_POLICIES: Final = "; did you mean [[policies]]? ([policy] has only the key default)"


def validate_table(
    model: type[M],
    table: Mapping[str, Any],
    *,
    plugin: str | None,
    source: str | Callable[[str], str],
    others: Sequence[str] = (),
) -> M:
    """Return a table, as TOML gives it, as an instance of the model; unknown keys are refused.

    The table belongs to a plugin, None for the host's own. `source` is the file's name, or gives
    the source of a dotted key; `others` are keys that the host reads. The `ConfigurationError`
    names for every fault the source, the key, the expected and the found value, without secrets.
    """
    prefix: Keys = () if plugin is None else ("plugins", plugin)
    try:
        adapter: TypeAdapter[M] = _adapter(cast("Any", model))
        return adapter.validate_python(dict(table), extra="forbid")
    except ValidationError as error:
        faults = [
            _fault(fault, model, others, table, prefix) for fault in error.errors(include_url=False)
        ]
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        fault = f"no table can be made into {model.__name__}, which its author has to fix"
        # Without the advice for the author, which `toolstile check` has.
        cause = str(error).partition("\n")[0].partition(" Set `")[0].rstrip(".")
        faults = [(prefix, f"{fault}: {cause}")]
    except Exception as error:  # noqa: BLE001 - a model's own validator can raise anything
        told = f"{type(error).__name__}: {error}".rstrip(": .")
        faults = [(prefix, f"the check of {model.__name__} failed: {told}")]
    text = "\n".join(f"{_place(path, source)}: {as_sentence(fault)}" for path, fault in faults)
    secrets = secrets_in(table, model)
    raise ConfigurationError(without_secrets(text, secrets)) from None


@lru_cache(maxsize=512)
def _adapter(model: type[Any]) -> TypeAdapter[Any]:
    adapter = TypeAdapter(model)
    # Because pydantic's later error lacks the undefined name, it is raised here.
    adapter.rebuild()
    return adapter


def show(value: object) -> str:
    """Return a value in words, shortened if it is long.

    Example:
        >>> show("abc"), show(5), show({})
        ("the text 'abc'", 'the number 5', 'a table')
    """
    if value is None:
        return "nothing"
    if not isinstance(value, (str, int, float, date, time, Mapping, list, tuple)):
        return kind_of(value)
    text = repr(value) if isinstance(value, str) else str(cast("object", value))
    text = text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."
    words: list[tuple[type | tuple[type, ...], str]] = [
        (bool, text.lower()),
        (Mapping, "a table"),
        ((list, tuple), "an array"),
        (str, f"the text {text}"),
        ((int, float), f"the number {text}"),
    ]
    return next((told for type_, told in words if isinstance(value, type_)), text)


def kind_of(value: object) -> str:
    """Return the kind of a value, without showing it.

    Example:
        >>> kind_of(5), kind_of(int)
        ('an instance of int', 'the class int')
    """
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    return f"an instance of {type(value).__qualname__}"


def _place(path: Keys, source: str | Callable[[str], str]) -> str:
    key = place(path) if path else ""
    where = source if isinstance(source, str) else source(key)
    return f"{where}: {key}" if key else where


def _fault(
    error: ErrorDetails,
    model: type[Any],
    others: Sequence[str],
    table: Mapping[str, Any],
    prefix: Keys,
) -> tuple[Keys, str]:
    path, at = _follow(error, table)
    place = (*prefix, *path)
    cause = error.get("ctx", {}).get("error")
    # The message of a model's own check names the fault; its input is the whole table.
    if isinstance(cause, DefinitionError) or (cause and isinstance(error["input"], Mapping)):
        return place, str(cause).rstrip(".")
    if error["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
        return place, _unknown(model, path, others, at)
    if error["type"] == "missing":
        return place, "is missing"
    hidden = holds_secret(path, model)
    found = "a value that is not shown" if hidden else show(error["input"])
    is_table = isinstance(error["input"], (Mapping, list))
    is_policies = is_table and not prefix and path in {("policy",), ("policies",)}
    hint = _MEANT_POLICIES if is_policies else ""
    return place, f"expected {_expected(error)}, found {found}{hint}"


# pydantic speaks of Python's types, the configuration's reader knows TOML's.
_WORDS: Final = (
    ("text", "string_type"),
    ("a whole number", "int_type int_parsing int_from_float"),
    ("a number", "float_type float_parsing"),
    ("true or false", "bool_type bool_parsing"),
    ("an array", "list_type tuple_type set_type frozen_set_type"),
    ("a table", "dict_type model_type dataclass_type"),
    ("a path, as text", "path_type"),
    ("a function", "callable_type"),
)
_IN_TOML: Final = {kind: told for told, kinds in _WORDS for kind in kinds.split()}


_BEGINNINGS: Final = {
    "Input should be ": "",
    "expected ": "",
    "Expected ": "",
    "String should match ": "text that matches ",
    "String should have ": "text that has ",
}


def _expected(error: ErrorDetails) -> str:
    if error["type"] in _IN_TOML:
        return _IN_TOML[error["type"]]
    text = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    for beginning, told in _BEGINNINGS.items():
        if text.startswith(beginning):
            text = told + text.removeprefix(beginning)
    return text.rstrip(".")


def _follow(error: ErrorDetails, table: Mapping[str, Any]) -> tuple[Keys, object]:
    """Return the path to the fault, and the value at it or, if it is missing, around it."""
    # pydantic puts the names of a union's members into the path; only keys of the table stay.
    path: list[str | int] = []
    at: object = table
    for step in error["loc"]:
        inside = _children(at)
        if step in inside:
            path.append(step)
            at = inside[step]
    if error["type"] == "missing":
        path.append(error["loc"][-1])
    return tuple(path), at


def _children(value: object) -> Mapping[str | int, object]:
    if isinstance(value, Mapping):
        return cast("Mapping[str | int, object]", value)
    several = isinstance(value, (list, tuple))
    return dict(enumerate(cast("list[object]", value))) if several else {}


def _unknown(model: type[Any], path: Keys, others: Sequence[str], found: object) -> str:
    # Of a plugin the host sets the durability, which is none of its keys.
    own = [key for key in fields(model) if not others or key != "durability"]
    known = keys_within(model, path[:-1]) if path[1:] else [*own, *others]
    if not known:
        return "is not a known key; remove it, there are none"
    near, listed = suggest(str(path[-1]), known), ", ".join(known)
    # Both names are alike; a misspelt table of a policy must lead to `policies`.
    alike = _TABLES in fields(model) and nearest(str(path[0]), ("policies", "policy"))
    if alike and (not near or not path[1:]):
        return f"is not a known key{_MEANT_POLICIES}"
    if not near and _TABLES in known and isinstance(found, Mapping):
        near = f"; did you mean [{_TABLES}.{path[-1]}], the table of a plugin?"
    return f"is not a known key{near or f'; remove it (known: {listed})'}"


# --- Paths: relative to the file that names them


LISTS: Final = frozenset({list, tuple, set, frozenset, Sequence, Iterable, AbstractSet})
"""The collections that a list in a file may become."""


def beside(directory: Path, table: Mapping[str, Any], model: type[Any]) -> dict[str, Any]:
    """Return a table with absolute paths in the model's fields of paths, or of lists of paths.

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
