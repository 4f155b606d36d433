"""Design by contract for handlers: `require` before, `ensure` after.

A condition that does not hold is a failed result whose text is the author's description
of the condition, and nothing of the internals.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, TypeVar, cast

from toolstile_hookspecs.errors import ConditionError, DefinitionError
from toolstile_hookspecs.support.callables import is_async_callable
from toolstile_hookspecs.tools import Tool

F = TypeVar("F", bound=Callable[..., Any])
Condition = Callable[..., bool]
Check = Callable[[dict[str, Any]], None]
_BEFORE: Final = "Precondition"
_AFTER: Final = "Postcondition"


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
    return _decorator(_BEFORE, condition, description)


def ensure(condition: Condition, description: str) -> Callable[[F], F]:
    """Declare what must hold of what a handler returns.

    Args:
        condition: A predicate over `result` and any of the handler's arguments.
        description: What the model reads when it does not hold.

    Raises:
        DefinitionError: Where the predicate names an argument that the handler has not,
            is async, or is not described.
    """
    return _decorator(_AFTER, condition, description)


def _decorator(label: str, condition: Condition, description: str) -> Callable[[F], F]:
    name = _name(condition)
    if is_async_callable(condition):
        raise DefinitionError(
            f"The condition {name} is async, and would always hold; check in a plain function, or "
            "within the handler."
        )
    if not isinstance(cast("object", description), str) or not description.strip():
        raise DefinitionError(
            f"The condition {name} has no description; say what must hold, as that is what the "
            "model reads."
        )
    names = tuple(inspect.signature(condition).parameters)

    def check(values: dict[str, Any]) -> None:
        try:
            holds = condition(**{name: values[name] for name in names})
        except Exception as error:
            raise ConditionError(f"{label} failed: {description}") from error
        if not holds:
            raise ConditionError(f"{label} failed: {description}")

    return functools.partial(_wrap, names, check, after=label == _AFTER)


def _wrap(names: tuple[str, ...], check: Check, handler: F, *, after: bool) -> F:
    if isinstance(handler, Tool):
        raise DefinitionError(
            f"Tool {handler.name!r}: conditions belong to the function; write @tool above "
            "@require and @ensure."
        )
    signature = inspect.signature(handler)
    known = {*signature.parameters, "result"} if after else {*signature.parameters}
    if unknown := [name for name in names if name not in known]:
        raise DefinitionError(
            f"A condition on {_name(handler)} asks for {', '.join(map(repr, unknown))}; "
            f"it can name {', '.join(sorted(known))}."
        )

    @contextmanager
    def checked(args: Any, kwargs: Any) -> Generator[dict[str, Any]]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if not after:
            check(bound.arguments)
        yield bound.arguments
        if after:
            check(bound.arguments)

    if is_async_callable(handler):

        @functools.wraps(handler)
        async def awaited(*args: Any, **kwargs: Any) -> Any:
            with checked(args, kwargs) as values:
                values["result"] = await handler(*args, **kwargs)
            return values["result"]

        return cast("F", awaited)

    @functools.wraps(handler)
    def called(*args: Any, **kwargs: Any) -> Any:
        with checked(args, kwargs) as values:
            values["result"] = handler(*args, **kwargs)
        return values["result"]

    return cast("F", called)


def _name(function: object) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)
