"""The pluggy markers, and their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pluggy

if TYPE_CHECKING:
    from toolstile_hookspecs.tools import Tool

F = TypeVar("F", bound=Callable[..., Any])

PROJECT: Final = "toolstile"
ENTRY_POINT_GROUP: Final = "toolstile"
HOOK_PREFIX: Final = "toolstile_"

hookspec = pluggy.HookspecMarker(PROJECT)
"""Marks a specification in `toolstile_hookspecs.hooks`."""

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a plugin's implementation of a hook.

Example:
    >>> from toolstile_hookspecs import hookimpl
    >>> @hookimpl(tryfirst=True)
    ... def toolstile_check(tool, params, context):
    ...     return None
"""

CONCERNS: Final = "toolstile_concerns"


def applies_to(
    predicate: Callable[[Tool[Any, Any]], bool], *, recalls: Callable[..., Any] | None = None
) -> Callable[[F], F]:
    """Ask an implementation of `toolstile_snapshot` or `toolstile_execute` for some tools only.

    Args:
        predicate: Tells whether a tool is one of them; evaluated once for each tool.
        recalls: Tells for `(tool, params, context)` whether `toolstile_execute` will answer with
            an earlier result, so that no person is asked; may return an awaitable.

    Example:
        >>> from toolstile_hookspecs import hookimpl
        >>> @hookimpl
        ... @applies_to(lambda tool: "remote" in tool.tags)
        ... def toolstile_execute(tool, params, context):
        ...     return None
    """

    def marked(function: F) -> F:
        setattr(function, CONCERNS, (predicate, recalls))
        return function

    return marked
