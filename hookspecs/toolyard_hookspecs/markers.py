"""The two pluggy markers and the names they rest on."""

from __future__ import annotations

from typing import Final

import pluggy

PROJECT: Final = "toolyard"
ENTRY_POINT_GROUP: Final = "toolyard"
HOOK_PREFIX: Final = "toolyard_"

hookspec = pluggy.HookspecMarker(PROJECT)
"""Marks a specification in `toolyard_hookspecs.hooks`."""

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a plugin's implementation of a hook.

Example:
    >>> from toolyard_hookspecs import hookimpl
    >>> @hookimpl(tryfirst=True)
    ... def toolyard_check(tool, params, context):
    ...     return None
"""
