"""The decorator that makes a tool of a plain function."""

from __future__ import annotations

import functools
import inspect
import pickle
import pkgutil
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from toolstile_hookspecs._schema.validation_errors import as_sentence
from toolstile_hookspecs._tools.field_checks import MAX_DESCRIPTION, function_fault, option_faults
from toolstile_hookspecs._tools.signatures import Signature, read_full_form, read_function
from toolstile_hookspecs.errors import DefinitionError
from toolstile_hookspecs.execution.undo import UndoHandler
from toolstile_hookspecs.idempotency import IdempotencyConfig
from toolstile_hookspecs.support.callables import docstring_of, first_paragraph, first_sentence
from toolstile_hookspecs.tools import (
    Category,
    Concurrency,
    Consequence,
    HostDefault,
    Isolation,
    Tool,
    ToolExample,
)

Q = ParamSpec("Q")
T = TypeVar("T")


class ToolOptions(TypedDict, total=False):
    """The options of `tool(...)`; `Tool` explains each."""

    name: str
    description: str
    accepts_overrides: bool
    examples: tuple[ToolExample[Any, Any], ...]
    idempotency: IdempotencyConfig | None
    undo: UndoHandler | None
    category: Category
    consequence: Consequence
    requires_confirmation: bool
    exclude_value_from_context: bool
    contained: bool | None
    concurrency: Concurrency
    timeout: float | HostDefault | None
    isolation: Isolation
    tags: tuple[str, ...]
    version: str | None
    depends_on: tuple[str, ...]
    wire_name: str | None
    long_description: str | None


@dataclass(frozen=True, kw_only=True, eq=False)
class FunctionTool(Tool[Any, Any], Generic[Q, T]):
    """A tool made of a function; it can still be called as the function.

    Args:
        function: The function.
        reading: The facts of its signature; read from the function unless given.
    """

    function: Callable[Q, T]
    reading: Signature | None = field(default=None, repr=False)

    if not TYPE_CHECKING:

        def __class_getitem__(cls, pair: object) -> types.GenericAlias:
            """Return an alias, because the types are the function's, not a subclass's."""
            return types.GenericAlias(cls, pair)

    def __post_init__(self) -> None:
        """Check the tool, and look like the function for documentation tools."""
        super().__post_init__()
        for name in functools.WRAPPER_ASSIGNMENTS:
            if hasattr(self.function, name):
                vars(self)[name] = getattr(self.function, name)
        vars(self)["__wrapped__"] = self.function

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> T:
        """Call the function itself, outside any host."""
        return self.function(*args, **kwargs)

    def _read_handler(self) -> Signature:
        reading = self.reading or read_function(self.function, owner=self._owner, name=self.name)
        object.__setattr__(self, "reading", reading)
        if self.handler is None or self.handler is self.function:
            object.__setattr__(self, "handler", self.function)
            return reading
        return read_full_form(
            self.handler, owner=self._owner, params=reading.params, result=reading.result
        )

    def __reduce__(self) -> Any:
        """Pickle the place of the function, and the options that differ from the tool there."""
        function: Any = self.function
        place = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
        try:
            home = _find(place)
        except (ImportError, AttributeError, ValueError) as error:
            raise pickle.PicklingError(
                f"{self._owner} cannot be pickled: {place} is not a tool that can be imported; "
                "define it at the top level of a module."
            ) from error
        names = [option.name for option in fields(self) if option.init]
        changed = {
            name: value for name in names if (value := getattr(self, name)) is not vars(home)[name]
        }
        return _restore, (place, changed)


def _find(place: str) -> FunctionTool[..., Any]:
    found = pkgutil.resolve_name(place)
    if not isinstance(found, FunctionTool):
        raise DefinitionError(f"{place} is not a tool.")
    return cast("FunctionTool[..., Any]", found)


def _restore(place: str, changed: dict[str, Any]) -> FunctionTool[..., Any]:
    home = _find(place)
    return replace(home, **changed) if changed else home


@overload
def tool(function: Callable[Q, T], /) -> FunctionTool[Q, T]: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[Q, T]], FunctionTool[Q, T]]: ...


def tool(function: Any = None, /, **options: Unpack[ToolOptions]) -> Any:
    r"""Make a tool of a function; bare, or with options, which `help(Tool)` explains.

    The name is the function's, the params are its arguments, described by the docstring's
    `Args:`. The description is the docstring's first paragraph. Of one with over 200
    characters it is the first sentence, and the paragraph is the `long_description`. An
    argument called `context` gets the `ToolContext`. The function may be async, and may
    return a `ToolResult` or a plain value.

    Raises:
        DefinitionError: Naming the tool, every fault and the remedies.

    Example:
        >>> from toolstile_hookspecs import tool
        >>> @tool(category="read")
        ... def add(a: int, b: int) -> int:
        ...     '''Add two integers.'''
        ...     return a + b
        >>> add.name, add.description, add(1, 2)
        ('add', 'Add two integers.', 3)
    """
    # Annotations may use names of the author's scope, which only the frame knows.
    names = dict(sys._getframe(1).f_locals)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    make = functools.partial(_make, options=options, localns=names)
    return make if function is None else make(function)


# `help(tool)` shows its options by this, since it shows nothing of a `TypedDict`.
_keyword = functools.partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
cast("Any", tool).__signature__ = inspect.Signature(
    [
        inspect.Parameter("function", inspect.Parameter.POSITIONAL_ONLY, default=None),
        *(_keyword(name, default=vars(Tool).get(name)) for name in ToolOptions.__annotations__),
    ]
)


def _make(
    function: Callable[..., Any], *, options: ToolOptions, localns: dict[str, Any]
) -> FunctionTool[..., Any]:
    if fault := function_fault(function):
        raise DefinitionError(f"@tool: {fault}.")
    name = options.get("name") or getattr(function, "__name__", None)
    if name is None:
        raise DefinitionError(f"@tool: {function!r} has no name; give name='...'.")
    if faults := option_faults(options, Tool, ToolOptions.__optional_keys__):
        raise DefinitionError(f"Tool {name!r}: {as_sentence('; '.join(faults))}")
    reading = read_function(function, owner=f"Tool {name!r}", name=name, localns=localns)
    text = first_paragraph(docstring_of(function))
    described = {"description": text}
    if len(text) > MAX_DESCRIPTION:
        described = {"description": first_sentence(text, MAX_DESCRIPTION), "long_description": text}
    given: dict[str, Any] = {**described, **options, "name": name}
    return FunctionTool[..., Any](function=function, reading=reading, **given)
