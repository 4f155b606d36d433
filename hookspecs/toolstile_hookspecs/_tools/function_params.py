"""The params type of a plain function: a dataclass made of its arguments."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import re
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

from pydantic.fields import FieldInfo

from toolstile_hookspecs.errors import DefinitionError

# --- Docstrings


_SECTIONS: Final = frozenset({"args:", "arguments:", "parameters:", "params:", "attributes:"})
_ENTRY: Final = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?:\s*(?P<text>.*)")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s")


def docstring_of(function: Callable[..., Any]) -> str:
    """Return a function's own docstring, also through `functools.partial`."""
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = cast("Any", inner.func)
    return inspect.getdoc(inner) or ""


def first_paragraph(text: str) -> str:
    r"""Return a docstring's first paragraph on one line.

    Example:
        >>> first_paragraph("Add two\nnumbers.\n\nSlowly.")
        'Add two numbers.'
    """
    return " ".join(text.split("\n\n", 1)[0].split())


def first_sentence(text: str, limit: int) -> str:
    """Return the first sentence, cut at a word where it is longer than the limit.

    Example:
        >>> first_sentence("Add numbers. They may be many.", 50)
        'Add numbers.'
    """
    sentence = _SENTENCE_END.split(text, maxsplit=1)[0]
    if len(sentence) <= limit:
        return sentence
    head = sentence[: limit - 3]
    return f"{head.rsplit(' ', 1)[0]}..."


def argument_texts(text: str) -> dict[str, str]:
    r"""Return what the `Args:` (or `Attributes:`) section says, by name.

    Example:
        >>> argument_texts("Add.\n\nArgs:\n    a: The first.\n    b (int): The second.")
        {'a': 'The first.', 'b': 'The second.'}
    """
    found: dict[str, str] = {}
    for section in _sections(inspect.cleandoc(text).splitlines()):
        margin = _indent(section[0])
        name = ""
        for line in section:
            entry = _ENTRY.fullmatch(line.strip()) if _indent(line) == margin else None
            if entry is not None:
                name = entry["name"]
                found[name] = entry["text"]
            elif name:
                found[name] = f"{found[name]} {line.strip()}".strip()
    return {name: text for name, text in found.items() if text}


def _sections(lines: list[str]) -> list[list[str]]:
    """Return the indented lines below each heading that lists arguments."""
    found: list[list[str]] = []
    inside = False
    for line in lines:
        if not line.strip():
            continue
        if _indent(line) == 0:
            inside = line.strip().lower() in _SECTIONS
            if inside:
                found.append([])
        elif inside:
            found[-1].append(line)
    return [section for section in found if section]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


# --- Params of plain functions


_RECEIVERS = frozenset({"self", "cls"})
_PLAIN: Final[dict[type, type | tuple[type, ...]]] = {
    bool: bool,
    int: int,
    float: (int, float),
    str: str,
    bytes: bytes,
    types.NoneType: types.NoneType,
}
"""The classes that a default of a type may have; a bool is not a number."""
_DATA: Final = frozenset({*_PLAIN, list, dict, tuple})


def make_record(
    function: Callable[..., Any],
    arguments: list[inspect.Parameter],
    hints: Mapping[str, Any],
    *,
    owner: str,
    name: str,
) -> type:
    """Return a frozen dataclass whose fields are a function's arguments.

    Args:
        function: The function; the `Args:` section of its docstring describes the fields.
        arguments: Those of its arguments that are params.
        hints: The types of its arguments.
        owner: The tool, for error messages.
        name: The tool's name, which the dataclass is named after.

    Raises:
        DefinitionError: Naming every argument that no JSON object can give.
    """
    faults = [fault for each in arguments if (fault := _fault(each, hints, function))]
    if faults:
        raise DefinitionError(f"{owner}: {'; '.join(faults)}.")
    texts = {
        name: text
        for name, text in argument_texts(docstring_of(function)).items()
        if not _says_itself(hints.get(name))
    }
    fields = [(each.name, hints[each.name], _field(each, texts)) for each in arguments]
    title = "".join(part.capitalize() for part in name.replace("-", "_").split("_"))
    return dataclasses.make_dataclass(f"{title}Params", fields, frozen=True, kw_only=True)


def _fault(
    argument: inspect.Parameter, hints: Mapping[str, Any], function: Callable[..., Any]
) -> str | None:
    name = argument.name
    if argument.kind in {argument.VAR_POSITIONAL, argument.VAR_KEYWORD}:
        return f"argument {argument} has no fixed name; give each param a name of its own"
    if argument.kind is argument.POSITIONAL_ONLY:
        return f"argument {name!r} cannot be given by name; remove the / after it"
    if name in _RECEIVERS and name not in hints:
        return (
            f"it looks like a method, as its first argument is {name!r}; decorate a function, "
            "or make the tool of the bound method: tool(instance.method)"
        )
    if name not in hints:
        remedy = "; annotate it"
        if getattr(function, "__name__", "") == "<lambda>":
            remedy = ", and a lambda can give it none; write a def"
        known = "its type cannot be found where the tool is defined; define or import it there"
        return (
            f"argument {name!r} has no type{remedy}"
            if argument.annotation is argument.empty
            else f"argument {name!r} is a {argument.annotation!s}, but {known}"
        )
    if isinstance(argument.default, FieldInfo):
        return (
            f"argument {name!r} has a pydantic Field in place of its default; write "
            f"{name}: Annotated[..., Field(...)] = default"
        )
    return _default_fault(name, hints[name], argument.default)


def _default_fault(name: str, kind: Any, default: object) -> str | None:
    """Return why plain data are not a default for a type; other objects may stand for none."""
    if type(default) not in _DATA or _may_hold(kind, default):
        return None
    return (
        f"argument {name!r} is of type {inspect.formatannotation(kind)}, and its default "
        f"{default!r} is not; give another, or widen the type"
    )


def _may_hold(kind: Any, value: object) -> bool:
    """Tell whether a type may hold a value; of types that are not plain, it is not told."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _may_hold(get_args(kind)[0], value)
    if origin in {Union, types.UnionType}:
        return any(_may_hold(each, value) for each in get_args(kind))
    if origin is Literal:
        return value in get_args(kind)
    if not isinstance(kind, type) or kind not in _PLAIN:
        return True
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, _PLAIN[kind])


def _says_itself(hint: Any) -> bool:
    """Tell whether an annotation has a description, which is nearer than the docstring's."""
    return any(
        isinstance(each, str) or getattr(each, "description", getattr(each, "documentation", None))
        for each in getattr(hint, "__metadata__", ())
    )


def _field(argument: inspect.Parameter, texts: Mapping[str, str]) -> Any:
    metadata = {"description": texts[argument.name]} if argument.name in texts else None
    default = argument.default
    if default is argument.empty:
        return dataclasses.field(metadata=metadata)
    if type(default).__hash__ is not None:
        return dataclasses.field(default=default, metadata=metadata)
    return dataclasses.field(default_factory=lambda: copy.deepcopy(default), metadata=metadata)
