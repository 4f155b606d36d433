"""Signatures of handlers: the form, the types and their codecs, and params made of arguments."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from typing import Annotated, Any, Final, NoReturn, Union, cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typing_extensions import is_typeddict

from toolstile_hookspecs._schema.codec import (
    NOT_READ_BACK,
    NoParams,
    ValueCodec,
    codec_of,
    describe,
)
from toolstile_hookspecs._schema.schema_codec import SchemaCodec
from toolstile_hookspecs.context import ToolContext
from toolstile_hookspecs.errors import DefinitionError
from toolstile_hookspecs.results import ToolResult
from toolstile_hookspecs.support.callables import (
    argument_texts,
    docstring_of,
    innermost,
    is_async_callable,
)

ANYTHING: Final = Any
_UNIONS: Final = (Union, types.UnionType)
Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Signature:
    """A handler, taken apart.

    Args:
        invoke: The handler in its full form, `invoke(params, context=...)`.
        params: The type of its params, None without params.
        result: The type of its result's value, `Any` if undeclared.
        is_async: Whether calling it gives a coroutine.
        wraps: Whether plain return values are to be wrapped in `ToolResult.ok`.
    """

    invoke: Handler
    params: Any
    result: Any
    is_async: bool
    wraps: bool


def read_full_form(handler: Handler, *, owner: str, params: Any, result: Any) -> Signature:
    """Read a handler of the form `handler(params, *, context) -> ToolResult[R]`.

    `Any` as the declared type of params or result stands for the handler's own.

    Raises:
        DefinitionError: If the signature does not have this form or these types.
    """
    form = "write it as handler(params, *, context) -> ToolResult[...]"
    if isinstance(handler, type) or not callable(cast("object", handler)):
        raise DefinitionError(f"{owner}: its handler {handler!r} is not a function; {form}.")
    _refuse_generator(handler, owner)
    method = getattr(handler, "__func__", None)
    read = _form_of(handler) if method is None else _form_of_method(method)
    if read.misfit is not None:
        raise DefinitionError(f"{owner}: its handler does not fit ({read.misfit}); {form}.")
    hints = read.hints
    first = next(iter(read.signature.parameters.values()), None)
    annotated = hints.get(first.name, ANYTHING) if first is not None else ANYTHING
    if result is ANYTHING:
        _refuse_lost_return(read.signature, hints, owner)
    hint = inner = hints.get("return", ANYTHING)
    while get_origin(inner) in {Awaitable, Coroutine}:
        inner = get_args(inner)[-1]
    plain = isinstance(inner, type) and not issubclass(inner, ToolResult)
    if plain and get_origin(inner) is None and inner not in {ANYTHING, object}:
        type_ = describe(_none(inner))
        raise DefinitionError(
            f"{owner}: its handler returns {type_}, not a ToolResult; let it return "
            f"ToolResult[{type_}], as ToolResult.ok(...), or make a tool of it with @tool."
        )
    returned = _result_of(hint)[0]
    return Signature(
        invoke=handler,
        params=_agreed(owner, params, _none(annotated), of_params=True),
        result=_agreed(owner, result, returned, of_params=False),
        is_async=read.is_async,
        wraps=False,
    )


@dataclass(frozen=True, slots=True)
class _Form:
    signature: inspect.Signature
    hints: Mapping[str, Any]
    is_async: bool
    misfit: str | None = None
    """Why it cannot be called as `handler(params, context=...)`."""


def _form_of(handler: Handler) -> _Form:
    signature, misfit = inspect.Signature(), None
    with suppress(ValueError):  # built-in functions may not tell their signature
        signature = inspect.signature(handler)
        try:
            signature.bind(object(), context=object())
        except TypeError as error:
            misfit = str(error)
    return _Form(signature, _hints(handler, None), is_async_callable(handler), misfit)


# Because the handlers of an MCP server's thousands of tools are one method of several objects.
@functools.lru_cache(maxsize=256)
def _form_of_method(method: Handler) -> _Form:
    return _form_of(types.MethodType(method, object()))


def read_function(
    function: Handler, *, owner: str, name: str, localns: Mapping[str, Any] | None = None
) -> Signature:
    """Read a plain function: its arguments are the params, its return value the result.

    A single argument `params` that is a dataclass, model or TypedDict is the params themselves;
    an argument `context` gets the `ToolContext`. Annotations may use the names of `localns`.

    Raises:
        DefinitionError: If an argument has no type, or a form that no JSON object can fill, or if
            the type of the result cannot be found.
    """
    _refuse_generator(function, owner)
    signature = inspect.signature(function)
    hints = _hints(function, localns)
    for given, hint in hints.items():
        if given not in {"context", "return"} and hint is ToolContext:
            raise DefinitionError(
                f"{owner}: its argument {given} is a ToolContext; call it context."
            )
    if not _may_be_context(kept := hints.get("context", ANYTHING)):
        raise DefinitionError(
            f"{owner}: its argument context is of type {describe(kept)}; that name is kept for the "
            "ToolContext: rename it."
        )
    arguments = [
        argument for argument in signature.parameters.values() if argument.name != "context"
    ]
    _refuse_lost_return(signature, hints, owner)
    result, wraps = _result_of(hints.get("return", ANYTHING))
    take: Callable[[Any], dict[str, Any]] = vars
    type_: Any = None
    if len(arguments) == 1 and arguments[0].name == "params" and _is_record(hints.get("params")):
        take = lambda params: {"params": params}  # noqa: E731 - of its declared type
        type_ = hints["params"]
    elif not arguments:
        take = lambda _: {}  # noqa: E731 - of its declared type
    else:
        type_ = make_record(function, arguments, hints, owner=owner, name=name)

    def invoke(params: object, *, context: object) -> Any:
        return function(**take(params), context=context)

    def invoke_alone(params: object, *, context: object) -> Any:  # noqa: ARG001 - the full form
        return function(**take(params))

    full_form = invoke if "context" in signature.parameters else invoke_alone
    return Signature(full_form, type_, result, is_async_callable(function), wraps)


def _refuse_lost_return(signature: inspect.Signature, hints: Mapping[str, Any], owner: str) -> None:
    """Refuse a result whose written type cannot be found, because it would pass for any type."""
    written = signature.return_annotation
    if written is not inspect.Signature.empty and "return" not in hints:
        raise DefinitionError(
            f"{owner}: it returns {written!s}, but its type cannot be found where the tool is "
            "defined; define or import it there."
        )


def _may_be_context(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in _UNIONS:
        return any(map(_may_be_context, get_args(hint)))
    return not _clash(get_origin(hint) or hint, ToolContext)


def _refuse_generator(handler: Handler, owner: str) -> None:
    inner = innermost(handler)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise DefinitionError(
            f"{owner}: its handler is a generator, and a call has one result; return a list, "
            "and report on the way with context.progress(...)."
        )


def _hints(function: Handler, localns: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the annotations that can be resolved, each read by itself.

    A missing one is reported if needed, unlike that of a context, say.
    """
    target: Any = function
    while isinstance(target, functools.partial):
        target = cast("Any", target.func)
    if not inspect.isroutine(target):
        target = type(target).__call__
    inner = inspect.unwrap(target)
    names, known = getattr(inner, "__globals__", {}), dict(localns or {})
    found: dict[str, Any] = {}
    for name, hint in getattr(inner, "__annotations__", {}).items():
        alone = types.SimpleNamespace(__annotations__={name: hint})
        with suppress(Exception):  # a name that only the author's scope knows
            found |= typing.get_type_hints(alone, names, known, include_extras=True)
    return found


def _result_of(hint: Any) -> tuple[Any, bool]:
    origin = get_origin(hint)
    if hint is ToolResult:
        return ANYTHING, False
    if origin is ToolResult:
        return _none(get_args(hint)[0]), False
    if origin in {Awaitable, Coroutine}:
        return _result_of(get_args(hint)[-1])
    if origin in _UNIONS:
        values = [_result_of(member)[0] for member in get_args(hint)]
        return Union[tuple(values)], True  # noqa: UP007 - the members are known at run time only
    return (None, True) if hint is NoReturn else (_none(hint), True)


def _agreed(owner: str, declared: Any, annotated: Any, *, of_params: bool) -> Any:
    """Return the type of params or results, unless the handler clearly has another."""
    if declared is ANYTHING:
        return ANYTHING if isinstance(annotated, typing.TypeVar) else annotated
    if _clash(annotated, declared) if of_params else _clash(declared, annotated):
        name = describe(annotated)
        said = f"takes params of {name}" if of_params else f"returns ToolResult[{name}]"
        raise DefinitionError(
            f"{owner}: its handler {said}, but the tool declares {describe(declared)}; make them "
            "the same."
        )
    return declared


def _clash(wanted: Any, given: Any) -> bool:
    """Tell whether both are classes that do not fit; type checkers know the other types."""
    wanted, given = (type(None) if type_ is None else type_ for type_ in (wanted, given))
    if not all(isinstance(type_, type) and not is_typeddict(type_) for type_ in (wanted, given)):
        return False
    if ANYTHING in {wanted, given} or getattr(wanted, "_is_protocol", False):
        return False
    return not issubclass(given, wanted)


def _none(hint: Any) -> Any:
    return None if hint is type(None) else hint


def _is_record(type_: Any) -> bool:
    plain = get_origin(type_) or type_
    if not isinstance(plain, type):
        return False
    known = cast("type[object]", plain)
    return is_dataclass(known) or issubclass(known, BaseModel) or is_typeddict(known)


# --- Codecs

_NO_OBJECTS: Final = (str, bytes, int, float, bool, list, tuple, set, frozenset)


def params_codec(tool: Any, owner: str) -> ValueCodec:
    """Return the codec of a tool's params, by its schema or its signature.

    Raises:
        DefinitionError: When no JSON object can be read as its params.
    """
    if tool.params_schema is not None:
        return SchemaCodec(tool.params_schema, owner=f"{owner}, params")
    type_ = tool.signature.params
    if type_ is None:
        return NoParams()
    if type_ is ANYTHING:
        fault = "the type of its params is not known; write Tool[Params, Result](...)"
        raise DefinitionError(f"{owner}: {fault}.")
    if (get_origin(type_) or type_) in _NO_OBJECTS:
        fault = f"its params are {describe(type_)}, but arguments are an object; use a dataclass"
        raise DefinitionError(f"{owner}: {fault}.")
    return codec_of(type_, owner=f"{owner}, params", reveals=True)


def result_codec(tool: Any, owner: str) -> ValueCodec:
    """Return the codec of the value of a tool's result, by its schema or its signature.

    Raises:
        DefinitionError: When the tool is idempotent, and its value cannot be read back.
    """
    if tool.result_schema is not None:
        return SchemaCodec(tool.result_schema, owner=f"{owner}, result")
    codec = codec_of(tool.signature.result, owner=f"{owner}, result")
    records = tool.idempotency is not None and tool.idempotency.strategy != "none"
    if records and (reason := codec.why_not_read_back()):
        raise DefinitionError(f"{owner}: its result {NOT_READ_BACK}, to be recorded: {reason}.")
    return codec


_RECEIVERS = frozenset({"self", "cls"})


def make_record(
    function: Callable[..., Any],
    arguments: list[inspect.Parameter],
    hints: Mapping[str, Any],
    *,
    owner: str,
    name: str,
) -> type:
    """Return a frozen dataclass, named after a tool, whose fields are a function's arguments.

    The `Args:` section of the function's docstring describes the fields.

    Raises:
        DefinitionError: Naming every argument that no JSON object can give.
    """
    faults = [
        fault for argument in arguments if (fault := _fault(argument, hints, function, owner))
    ]
    if faults:
        raise DefinitionError(f"{owner}: {'; '.join(faults)}.")
    # A text in the annotation comes first, and counts.
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
        return f"argument {argument} has no fixed name; give each param a name"
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
