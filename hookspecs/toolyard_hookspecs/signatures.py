"""What a handler's signature says: its types, its form, whether it waits."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, is_dataclass, make_dataclass
from typing import Any, Final, cast, get_args, get_origin

from pydantic import BaseModel

from toolyard_hookspecs.errors import DefinitionError
from toolyard_hookspecs.results import ToolResult

ANYTHING: Final = Any
Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Signature:
    """A handler, taken apart.

    Args:
        invoke: The handler in its full form, `invoke(params, context=...)`.
        params: The type of its params, None where it takes none.
        result: The type of its result's value, `Any` where it does not say.
        is_async: Whether calling it gives a coroutine.
        wraps: Whether plain return values are to be wrapped in `ToolResult.ok`.
    """

    invoke: Handler
    params: Any
    result: Any
    is_async: bool
    wraps: bool


def is_async_callable(function: Handler) -> bool:
    """Tell whether calling the function gives a coroutine, through partials and `__call__`."""
    inner = inspect.unwrap(function)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    return inspect.iscoroutinefunction(inner) or (
        not inspect.isroutine(inner)
        and inspect.iscoroutinefunction(getattr(type(inner), "__call__", None))  # noqa: B004
    )


def read_full_form(handler: Handler, *, owner: str, params: Any, result: Any) -> Signature:  # noqa: ANN401
    """Read a handler of the form `handler(params, *, context) -> ToolResult[R]`.

    Args:
        handler: The function.
        owner: The tool, for error messages.
        params: The type declared for the params, or `Any` to take the handler's.
        result: The type declared for the result, or `Any` to take the handler's.

    Raises:
        DefinitionError: When the signature does not have this form or these types.
    """
    form = "write it as handler(params, *, context) -> ToolResult[...]"
    if not callable(handler):
        msg = f"{owner}: its handler {handler!r} cannot be called; {form}."
        raise DefinitionError(msg)
    try:
        signature = inspect.signature(handler)
        signature.bind(object(), context=object())
    except ValueError:
        signature = inspect.Signature()
    except TypeError as error:
        msg = f"{owner}: its handler does not fit ({error}); {form}."
        raise DefinitionError(msg) from None
    hints = _hints(handler, None)
    first = next(iter(signature.parameters.values()), None)
    declared = hints.get(first.name, ANYTHING) if first is not None else ANYTHING
    params = _agree(owner, "params", params, _none(declared))
    result = _agree(owner, "result", result, _result_of(hints.get("return", ANYTHING))[0])
    return Signature(handler, params, result, is_async_callable(handler), wraps=False)


def read_function(
    function: Handler, *, owner: str, name: str, localns: Mapping[str, Any] | None = None
) -> Signature:
    """Read a plain function: its arguments are the params, its return value the result.

    A single argument called `params` that is a dataclass, model or TypedDict is taken as
    the params themselves; one called `context` gets the `ToolContext`.

    Raises:
        DefinitionError: When an argument has no type, or a kind no JSON object can fill.
    """
    signature = inspect.signature(function)
    hints = _hints(function, localns)
    wants_context = "context" in signature.parameters
    arguments = [each for each in signature.parameters.values() if each.name != "context"]
    result, wraps = _result_of(hints.get("return", ANYTHING))
    is_async = is_async_callable(function)
    if len(arguments) == 1 and arguments[0].name == "params":
        kind = hints.get("params", ANYTHING)
        if _is_record(kind):
            return Signature(_pass_params(function, wants_context), kind, result, is_async, wraps)
    if not arguments:
        invoke = _pass_nothing(function, wants_context)
        return Signature(invoke, None, result, is_async, wraps)
    kind = _record(arguments, hints, owner=owner, name=name)
    return Signature(_spread_params(function, wants_context), kind, result, is_async, wraps)


def _record(
    arguments: list[inspect.Parameter], hints: dict[str, Any], *, owner: str, name: str
) -> type:
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    faults: list[str] = []
    for each in arguments:
        if each.kind in {each.POSITIONAL_ONLY, each.VAR_POSITIONAL, each.VAR_KEYWORD}:
            faults.append(f"argument {each} cannot be given by name in a JSON object")
        elif each.name not in hints:
            faults.append(f"argument {each.name!r} has no type; annotate it")
        elif each.default is each.empty:
            fields.append((each.name, hints[each.name]))
        else:
            default = each.default
            settled = field(default=default) if _hashable(default) else _copied(default)
            fields.append((each.name, hints[each.name], settled))
    if faults:
        msg = f"{owner}: {'; '.join(faults)}."
        raise DefinitionError(msg)
    title = "".join(part.capitalize() for part in name.replace("-", "_").split("_"))
    return make_dataclass(f"{title}Params", fields, frozen=True, kw_only=True)


def _copied(default: Any) -> Any:  # noqa: ANN401
    import copy  # noqa: PLC0415 - only for the rare mutable default

    return field(default_factory=lambda: copy.deepcopy(default))


def _hashable(value: object) -> bool:
    return value is MISSING or type(value).__hash__ is not None


def _spread_params(function: Handler, wants_context: bool) -> Handler:  # noqa: FBT001
    if wants_context:
        return lambda params, *, context: function(**params.__dict__, context=context)
    return lambda params, *, context: function(**params.__dict__)  # noqa: ARG005


def _pass_params(function: Handler, wants_context: bool) -> Handler:  # noqa: FBT001
    if wants_context:
        return lambda params, *, context: function(params, context=context)
    return lambda params, *, context: function(params)  # noqa: ARG005


def _pass_nothing(function: Handler, wants_context: bool) -> Handler:  # noqa: FBT001
    if wants_context:
        return lambda params, *, context: function(context=context)  # noqa: ARG005
    return lambda params, *, context: function()  # noqa: ARG005


def _hints(function: Handler, localns: Mapping[str, Any] | None) -> dict[str, Any]:
    target: Any = function
    while isinstance(target, functools.partial):
        target = cast("Any", target.func)
    if not inspect.isroutine(target) and not isinstance(target, type):
        target = type(target).__call__
    try:
        return typing.get_type_hints(
            target, localns=dict(localns) if localns else None, include_extras=True
        )
    except Exception:  # noqa: BLE001 - a name that only the author's scope knows
        raw: dict[str, Any] = dict(getattr(target, "__annotations__", {}))
        return {name: hint for name, hint in raw.items() if not isinstance(hint, str)}


def _result_of(hint: Any) -> tuple[Any, bool]:  # noqa: ANN401
    if hint is ToolResult:
        return ANYTHING, False
    if get_origin(hint) is ToolResult:
        return _none(get_args(hint)[0]), False
    return _none(hint), True


def _agree(owner: str, what: str, declared: Any, annotated: Any) -> Any:  # noqa: ANN401
    if isinstance(annotated, typing.TypeVar):
        annotated = ANYTHING
    if declared is ANYTHING:
        return annotated
    if annotated is ANYTHING or declared == annotated:
        return declared
    if what == "params" and isinstance(declared, type) and isinstance(annotated, type):
        if issubclass(declared, annotated):
            return declared
    elif what == "result":
        return _agree_result(owner, declared, annotated)
    msg = (
        f"{owner}: its handler takes params of {_name(annotated)}, but the tool declares "
        f"{_name(declared)}; make them the same."
    )
    raise DefinitionError(msg)


def _agree_result(owner: str, declared: Any, annotated: Any) -> Any:  # noqa: ANN401
    both = isinstance(declared, type) and isinstance(annotated, type)
    if both and issubclass(annotated, declared):
        return declared
    if not both and (declared is not None and annotated is not None):
        return declared
    msg = (
        f"{owner}: its handler returns ToolResult[{_name(annotated)}], but the tool declares "
        f"{_name(declared)}; make them the same."
    )
    raise DefinitionError(msg)


def _name(kind: Any) -> str:  # noqa: ANN401
    return kind.__qualname__ if isinstance(kind, type) else str(kind)


def _none(hint: Any) -> Any:  # noqa: ANN401
    return None if hint is type(None) else hint


def _is_record(kind: Any) -> bool:  # noqa: ANN401
    if not isinstance(kind, type):
        return False
    return is_dataclass(kind) or issubclass(kind, BaseModel) or hasattr(kind, "__total__")
