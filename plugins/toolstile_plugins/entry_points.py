"""Objects by name, among the entry points of a group; ours are found as a stranger's are."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from toolstile_hookspecs import ConfigurationError
from toolstile_hookspecs.support.text import suggest


def loaded(group: str, name: str, setting: str) -> Any:
    """Return the object of an entry point, or raise `ConfigurationError` that names the setting."""
    known = _known(group, tuple(sys.path))
    if name not in known:
        near = suggest(name, known) or "."
        raise ConfigurationError(
            f"{setting}: {name!r} is not known{near} Known: {', '.join(sorted(known))}."
        )
    try:
        return known[name].load()
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{setting}: {name!r} cannot be imported: {error}") from error


@lru_cache(maxsize=8)
def _known(group: str, _: tuple[str, ...]) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}
