"""Design by contract for handlers: `require` before, `ensure` after.

A condition that does not hold is a failed result whose text is the author's description
of the condition, and nothing of the internals.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from toolstile_hookspecs.errors import ConditionError, DefinitionError
from toolstile_hookspecs.support.callables import is_async_callable
from toolstile_hookspecs.tools import Tool

F = TypeVar("F", bound=Callable[..., Any])
Condition = Callable[..., bool]
Check = Callable[[dict[str, Any]], None]


def require(condition: Condition, description: str) -> Callable[[F], F]:
    """Declare what must hold before a handler runs.

    Args:
        condition: A predicate over the handler's arguments; it names those it needs.
        description: What the model reads when it does not hold.

    Raises:
        DefinitionError: Where the predicate names an argument that the handler has not,
            is async, or is not described.

    Example:
        >>> @require(lambda params: params > 0, "params must be positive")
        ... def halve(params, *, context):
        ...     return params / 2
        >>> halve(-1, context=None)
        Traceback (most recent call last):
        ...
        toolstile_hookspecs.errors.ConditionError: Precondition failed: params must be positive
    """
    return _declaring("Precondition", condition, description)


def ensure(condition: Condition, description: str) -> Callable[[F], F]:
    """Declare what must hold of what a handler returns.

    Args:
        condition: A predicate over `result` and any of the handler's arguments.
        description: What the model reads when it does not hold.

    Raises:
        DefinitionError: Where the predicate names an argument that the handler has not,
            is async, or is not described.
    """
    return _declaring("Postcondition", condition, description)


def _declaring(what: str, condition: Condition, description: str) -> Callable[[F], F]:
    label = _label(condition)
    if is_async_callable(condition):
        raise DefinitionError(
            f"The condition {label} is async, and would always hold; check in a plain function, or "
            "within the handler."
        )
    if not isinstance(cast("object", description), str) or not description.strip():
        raise DefinitionError(
            f"The condition {label} has no description; say what must hold, as that is what the "
            "model reads."
        )
    names = tuple(inspect.signature(condition).parameters)

    def check(values: dict[str, Any]) -> None:
        try:
            holds = condition(**{name: values[name] for name in names})
        except Exception as error:
            raise ConditionError(f"{what} failed: {description}") from error
        if not holds:
            raise ConditionError(f"{what} failed: {description}")

    if what == "Precondition":
        return lambda handler: _wrap(handler, names, before=check)
    return lambda handler: _wrap(handler, names, after=check)


def _wrap(
    handler: F, names: tuple[str, ...], *, before: Check | None = None, after: Check | None = None
) -> F:
    if isinstance(handler, Tool):
        raise DefinitionError(
            f"Tool {handler.name!r}: conditions belong to the function; write @tool above "
            "@require and @ensure."
        )
    signature = inspect.signature(handler)
    known = {*signature.parameters} if after is None else {*signature.parameters, "result"}
    if unknown := [name for name in names if name not in known]:
        raise DefinitionError(
            f"A condition on {_label(handler)} asks for {', '.join(map(repr, unknown))}; "
            f"it can name {', '.join(sorted(known))}."
        )

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if before is not None:
            before(bound.arguments)
        return bound.arguments

    def end(values: dict[str, Any], result: Any) -> Any:
        if after is not None:
            after({**values, "result": result})
        return result

    if is_async_callable(handler):

        @functools.wraps(handler)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            return end(begin(args, kwargs), await handler(*args, **kwargs))

        return cast("F", awaited)

    @functools.wraps(handler)
    def called(*args: Any, **kwargs: Any) -> Any:
        return end(begin(args, kwargs), handler(*args, **kwargs))

    return cast("F", called)


def _label(function: object) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)
