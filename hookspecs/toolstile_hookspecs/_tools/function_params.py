"""The params type of a plain function: a dataclass made of its arguments."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic.fields import FieldInfo

from toolstile_hookspecs._schema.codec import codec_of
from toolstile_hookspecs.errors import DefinitionError
from toolstile_hookspecs.support.docstrings import argument_texts, docstring_of

_RECEIVERS = frozenset({"self", "cls"})


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
    faults = [
        fault for argument in arguments if (fault := _fault(argument, hints, function, owner))
    ]
    if faults:
        raise DefinitionError(f"{owner}: {'; '.join(faults)}.")
    # A text that the author wrote into the annotation comes first, and is the one that counts.
    texts = argument_texts(docstring_of(function))
    fields: list[tuple[str, Any, Any]] = []
    for argument in arguments:
        hint, text = hints[argument.name], texts.get(argument.name)
        type_ = hint if text is None else Annotated[hint, text]
        fields.append((argument.name, type_, _field(argument.default)))
    title = "".join(part.capitalize() for part in name.replace("-", "_").split("_"))
    return dataclasses.make_dataclass(f"{title}Params", fields, frozen=True, kw_only=True)


def _fault(
    argument: inspect.Parameter, hints: Mapping[str, Any], function: Callable[..., Any], owner: str
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
    return _default_fault(argument, hints[name], owner)


def _default_fault(argument: inspect.Parameter, type_: Any, owner: str) -> str | None:
    """Return why a default is not one: calls pass params on as JSON."""
    name, default = argument.name, argument.default
    if default is argument.empty:
        return None
    codec = codec_of(type_, owner=f"{owner}, argument {name!r}", reveals=True)
    try:
        codec.copy(codec.encode(default))
    except ValueError:
        return (
            f"argument {name!r} is of type {inspect.formatannotation(type_)}, and its default "
            f"{default!r} is not; give another, or widen the type"
        )
    return None


def _field(default: Any) -> Any:
    if default is inspect.Parameter.empty:
        return dataclasses.field()
    if type(default).__hash__ is not None:
        return dataclasses.field(default=default)
    return dataclasses.field(default_factory=lambda: copy.deepcopy(default))
