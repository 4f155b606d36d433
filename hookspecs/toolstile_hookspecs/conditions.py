"""Design by contract for handlers: `require` before, `ensure` after.

Conditions that do not hold are a failed result with the author's descriptions of them, all at
once, and nothing of the internals. A handler that returns a `ToolResult` returns that; any other
function raises `ConditionError`.
"""

from __future__ import annotations

import functools
import inspect
import logging
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, cast
from weakref import WeakKeyDictionary

from toolstile_hookspecs._schema.validation_errors import as_sentence
from toolstile_hookspecs.errors import ConditionError, DefinitionError
from toolstile_hookspecs.results import ToolResult
from toolstile_hookspecs.support.callables import is_async_callable
from toolstile_hookspecs.tools import Tool

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])
Condition = Callable[..., bool]
_BEFORE: Final = "Precondition"
_AFTER: Final = "Postcondition"


class _Declared(NamedTuple):
    """A condition as it was declared, with the names of the values that it asks for."""

    label: str
    holds: Condition
    names: tuple[str, ...]
    description: str


# By the function that checks them: the handler itself, and its conditions.
_known: Final[WeakKeyDictionary[Any, tuple[Any, tuple[_Declared, ...]]]] = WeakKeyDictionary()


def require(condition: Condition, description: str) -> Callable[[F], F]:
    """Declare a condition before a handler runs.

    Args:
        condition: A predicate over the handler's arguments; it names those it needs.
        description: The text for the model if the condition does not hold.

    Raises:
        DefinitionError: If the predicate names an unknown argument or is async, or the
            description is empty.

    Example:
        >>> @require(lambda params: params > 0, "params must be positive")
        ... def halve(params, *, context):
        ...     return ToolResult.ok(params / 2)
        >>> halve(-1, context=None).message
        'Precondition failed: params must be positive. Fix this, then retry.'
    """
    return _decorator(_BEFORE, condition, description)


def ensure(condition: Condition, description: str) -> Callable[[F], F]:
    """Declare a condition on the result of a handler.

    Args:
        condition: A predicate over `result` and any of the handler's arguments.
        description: The text for the model if the condition does not hold.

    Raises:
        DefinitionError: See `require`.
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
            f"The condition {name} has no description; give one, which the model reads if the "
            "condition does not hold."
        )
    names = tuple(inspect.signature(condition).parameters)
    return functools.partial(_wrap, _Declared(label, condition, names, description))


def _wrap(declared: _Declared, handler: F) -> F:
    if isinstance(handler, Tool):
        raise DefinitionError(
            f"Tool {handler.name!r}: conditions belong to the function; write @tool above "
            "@require and @ensure."
        )
    signature = inspect.signature(handler)
    known = {*signature.parameters, *(("result",) if declared.label == _AFTER else ())}
    if unknown := [name for name in declared.names if name not in known]:
        raise DefinitionError(
            f"A condition on {_name(handler)} asks for {', '.join(map(repr, unknown))}; "
            f"it can name {', '.join(sorted(known))}."
        )
    inner, others = _known.get(handler, (handler, ()))
    conditions = (declared, *others)
    returned = signature.return_annotation
    is_full_form = list(signature.parameters) == ["params", "context"]
    is_said = re.search(r"\bToolResult\b", str(returned)) is not None
    returns_results = is_full_form if returned is signature.empty else is_said

    def refused(label: str, values: dict[str, Any]) -> ToolResult[Any] | None:
        told = _told([each for each in conditions if each.label == label], values)
        if told and not returns_results:
            raise ConditionError(told)
        return ToolResult[Any].error(told) if told else None

    def begin(args: Any, kwargs: Any) -> tuple[dict[str, Any], ToolResult[Any] | None]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.arguments, refused(_BEFORE, bound.arguments)

    def end(values: dict[str, Any], result: Any) -> Any:
        return refused(_AFTER, {**values, "result": result}) or result

    @functools.wraps(inner)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        values, answer = begin(args, kwargs)
        return answer or end(values, await inner(*args, **kwargs))

    @functools.wraps(inner)
    def called(*args: Any, **kwargs: Any) -> Any:
        values, answer = begin(args, kwargs)
        return answer or end(values, inner(*args, **kwargs))

    made = awaited if is_async_callable(handler) else called
    _known[made] = inner, conditions
    return cast("F", made)


def _told(conditions: list[_Declared], values: dict[str, Any]) -> str:
    """Return the text for the model about the conditions that do not hold, or ""."""
    texts = [each.description for each in conditions if not _holds(each, values)]
    if not texts:
        return ""
    label = conditions[0].label
    remedy = "Fix this, then retry." if label == _BEFORE else "This requires human intervention."
    if len(texts) == 1:
        return f"{label} failed: {as_sentence(texts[0])} {remedy}"
    return "\n".join([f"{label}s failed:", *(f"  - {text}" for text in texts), remedy])


def _holds(declared: _Declared, values: dict[str, Any]) -> bool:
    try:
        return bool(declared.holds(**{name: values[name] for name in declared.names}))
    except Exception as error:  # noqa: BLE001 - code of the author, whose exceptions no model reads
        log.info("The condition %r raised %r.", declared.description, error)
        return False


def _name(function: object) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)
