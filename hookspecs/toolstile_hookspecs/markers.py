"""The two pluggy markers and the names they rest on."""

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


def applies_to(predicate: Callable[[Tool[Any, Any]], bool]) -> Callable[[F], F]:
    """Leave an implementation out of the calls of tools that it does not concern.

    For `toolstile_snapshot` and `toolstile_execute`: it is not asked for other tools, whose
    calls then cost and wait for nothing.

    Args:
        predicate: Tells of a tool whether it is to be asked; evaluated once for each tool.

    Example:
        >>> from toolstile_hookspecs import hookimpl
        >>> @hookimpl
        ... @applies_to(lambda tool: "remote" in tool.tags)
        ... def toolstile_execute(tool, params, context):
        ...     return None
    """

    def marked(function: F) -> F:
        setattr(function, CONCERNS, predicate)
        return function

    return marked
