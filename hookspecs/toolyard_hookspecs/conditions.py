"""Design by contract for handlers: `require` before, `ensure` after.

A condition that does not hold is a failed result whose text is the author's description
of the condition, and nothing of the internals.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from toolyard_hookspecs.errors import ConditionError, DefinitionError
from toolyard_hookspecs.signatures import is_async_callable

F = TypeVar("F", bound=Callable[..., Any])
Condition = Callable[..., bool]


def require(condition: Condition, description: str) -> Callable[[F], F]:
    """Declare what must hold before a handler runs.

    Args:
        condition: A predicate over the handler's arguments; it names those it needs.
        description: What the model reads when it does not hold.

    Raises:
        DefinitionError: Where the predicate names an argument that the handler has not.

    Example:
        >>> @require(lambda params: params > 0, "params must be positive")
        ... def halve(params, *, context):
        ...     return params / 2
        >>> halve(-1, context=None)
        Traceback (most recent call last):
        ...
        toolyard_hookspecs.errors.ConditionError: Precondition failed: params must be positive
    """
    return lambda handler: _wrap(handler, _names(condition), before=(condition, description))


def ensure(condition: Condition, description: str) -> Callable[[F], F]:
    """Declare what must hold of the result (argument `result`), besides the arguments.

    Args:
        condition: A predicate over `result` and any of the handler's arguments.
        description: What the model reads when it does not hold.

    Raises:
        DefinitionError: Where the predicate names an argument that the handler has not.
    """
    return lambda handler: _wrap(handler, _names(condition), after=(condition, description))


def _wrap(
    handler: F,
    names: tuple[str, ...],
    before: tuple[Condition, str] | None = None,
    after: tuple[Condition, str] | None = None,
) -> F:
    signature = inspect.signature(handler)
    _refuse_unknown(handler, signature, names, extra={"result"} if after else set())

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments

    def check_before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if before is not None:
            _check("Precondition", *before, names, bind(args, kwargs))

    def check_after(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:  # noqa: ANN401
        if after is not None:
            _check("Postcondition", *after, names, {**bind(args, kwargs), "result": result})

    if is_async_callable(handler):

        @functools.wraps(handler)
        async def awaited(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            check_before(args, kwargs)
            result = await handler(*args, **kwargs)
            check_after(args, kwargs, result)
            return result

        return cast("F", awaited)

    @functools.wraps(handler)
    def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        check_before(args, kwargs)
        result = handler(*args, **kwargs)
        check_after(args, kwargs, result)
        return result

    return cast("F", called)


def _check(
    what: str,
    condition: Condition,
    description: str,
    names: tuple[str, ...],
    values: dict[str, Any],
) -> None:
    try:
        holds = condition(**{name: values[name] for name in names})
    except Exception as error:
        msg = f"{what} failed: {description}"
        raise ConditionError(msg) from error
    if not holds:
        msg = f"{what} failed: {description}"
        raise ConditionError(msg)


def _names(condition: Condition) -> tuple[str, ...]:
    return tuple(inspect.signature(condition).parameters)


def _refuse_unknown(
    handler: Callable[..., Any],
    signature: inspect.Signature,
    names: tuple[str, ...],
    extra: set[str],
) -> None:
    known = {*signature.parameters, *extra}
    unknown = [name for name in names if name not in known]
    if unknown:
        msg = (
            f"A condition on {handler.__qualname__} asks for {', '.join(map(repr, unknown))}; "
            f"it can name {', '.join(sorted(known))}."
        )
        raise DefinitionError(msg)
