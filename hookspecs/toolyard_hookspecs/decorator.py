"""The decorator that makes a tool of a plain function."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypedDict, TypeVar, Unpack, overload

from toolyard_hookspecs.idempotency import IdempotencyConfig
from toolyard_hookspecs.signatures import Signature, read_function
from toolyard_hookspecs.tools import (
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
    """What `tool(...)` takes beside the function; see `Tool` for the meanings."""

    name: str
    description: str
    accepts_overrides: bool
    examples: tuple[ToolExample[Any, Any], ...]
    idempotency: IdempotencyConfig | None
    category: Category
    consequence: Consequence
    requires_confirmation: bool
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
    """A tool made of a function, which it still can be called as."""

    function: Callable[Q, T]
    localns: dict[str, Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Check the tool, and look like the function for documentation tools."""
        super().__post_init__()
        for name in (*functools.WRAPPER_ASSIGNMENTS, "__name__"):
            if hasattr(self.function, name):
                object.__setattr__(self, name, getattr(self.function, name))
        object.__setattr__(self, "__wrapped__", self.function)

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> T:
        """Call the function itself, outside any host."""
        return self.function(*args, **kwargs)

    def _read_handler(self) -> Signature:
        signature = read_function(
            self.function, owner=self._owner, name=self.name, localns=self.localns
        )
        object.__setattr__(self, "handler", self.function)
        object.__setattr__(self, "localns", None)
        return signature


@overload
def tool(function: Callable[Q, T], /) -> FunctionTool[Q, T]: ...


@overload
def tool(
    **options: Unpack[ToolOptions],
) -> Callable[[Callable[Q, T]], FunctionTool[Q, T]]: ...


def tool(function: Any = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Make a tool of a function; bare, or with options as `Tool` takes them.

    The name is the function's, the description its docstring's first paragraph, the
    params its arguments. An argument called `context` gets the `ToolContext`. It may
    return a `ToolResult` or a plain value, and may be async.

    Raises:
        DefinitionError: Naming the tool, every fault and the remedies.

    Example:
        >>> from toolyard_hookspecs import tool
        >>> @tool(category="read")
        ... def add(a: int, b: int) -> int:
        ...     \"\"\"Add two integers.\"\"\"
        ...     return a + b
        >>> add.name, add.description, add(1, 2)
        ('add', 'Add two integers.', 3)
    """
    localns = dict(sys._getframe(1).f_locals)  # noqa: SLF001 - names of the author's scope
    if function is None:
        return lambda inner: _make(inner, options, localns)
    return _make(function, options, localns)


def _make(
    function: Callable[Q, T], options: ToolOptions, localns: dict[str, Any]
) -> FunctionTool[Q, T]:
    options = {**options}
    name = options.pop("name", None) or function.__name__
    description = options.pop("description", None) or _first_paragraph(function)
    return FunctionTool(
        name=name, description=description, function=function, localns=localns, **options
    )


def _first_paragraph(function: Callable[..., Any]) -> str:
    text = inspect.getdoc(function) or ""
    return " ".join(text.split("\n\n", 1)[0].split())
