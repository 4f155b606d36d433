"""Dispatchers by name, among the entry points of the group `toolstile.dispatchers`."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any, Final

from toolstile_hookspecs import ConfigurationError, HostHandle
from toolstile_hookspecs.services.dispatcher import Dispatcher
from toolstile_hookspecs.support.text import suggest
from toolstile_plugins.workers.settings import WorkersSettings

GROUP: Final = "toolstile.dispatchers"
"""The entry points of dispatchers; ours are found exactly as anyone else's are."""


@lru_cache(maxsize=1)
def _known() -> dict[str, Any]:
    return {point.name: point for point in entry_points(group=GROUP)}


def dispatcher_of(settings: WorkersSettings, host: HostHandle) -> Dispatcher:
    """Return a new dispatcher, the one that the settings name.

    Raises:
        ConfigurationError: When there is none of that name, or it cannot be made.
    """
    known, name = _known(), settings.dispatcher
    if name not in known:
        near = suggest(name, known) or "."
        raise ConfigurationError(
            f"plugins.workers.dispatcher: {name!r} is not known{near} "
            f"Known: {', '.join(sorted(known))}."
        )
    try:
        maker: Callable[[WorkersSettings, HostHandle], Dispatcher] = known[name].load()
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"plugins.workers.dispatcher: {name!r} cannot be imported: {error}"
        ) from error
    return maker(settings, host)
