"""Says why there is no plugin of a name: what its distribution lacks, or that none is installed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from toolstile.plugins.reports import PluginReport
from toolstile.scaffolding.naming import PREFIX
from toolstile_hookspecs.markers import ENTRY_POINT_GROUP
from toolstile_hookspecs.support.text import suggest

_TO_INSTALL: Final = (
    "A package that is being written is found after `python -m pip install -e .` in its folder."
)


def brought_by(distribution: str, reports: Iterable[PluginReport]) -> list[str]:
    """Return the names of the plugins that a distribution brings.

    Args:
        distribution: Its name, however it is spelt.
        reports: Those of all plugins there are.
    """
    wanted = _normalised(distribution)
    return [each.name for each in reports if _normalised(each.distribution or "") == wanted]


def why_unknown(name: str, reports: Iterable[PluginReport]) -> str:
    """Return that there is no plugin of a name, with the cause and the remedy.

    Args:
        name: What was taken for a plugin's name, or that of its distribution.
        reports: Those of all plugins there are.
    """
    reports = list(reports)
    for distribution, version in _installed(name):
        brought = brought_by(distribution, reports)
        what = f"{distribution} {version} is installed"
        if brought:
            listed = ", ".join(map(repr, brought))
            return f"there is no plugin {name!r}; {what} and brings {listed}."
        return f"there is no plugin {name!r}: {what}, but {_lacking(name, distribution)}"
    known = {each.name for each in reports}
    hint = suggest(name, known) or f". There are {', '.join(sorted(known))}."
    return f"there is no plugin {name!r}{hint} {_TO_INSTALL}"


def _lacking(name: str, distribution: str) -> str:
    plugin = _normalised(name).removeprefix(PREFIX)
    package = _normalised(distribution).replace("-", "_")
    return (
        f"has no entry point in the group {ENTRY_POINT_GROUP!r}. "
        f"Write `[project.entry-points.{ENTRY_POINT_GROUP}]` and below it "
        f'`{plugin} = "{package}"`, the module that has the hooks, into its pyproject.toml; then '
        "install it again."
    )


def _installed(name: str) -> Iterator[tuple[str, str]]:
    """Yield the distributions of a name, or of that name as packages of plugins have it."""
    import importlib_metadata

    metadata: Any = importlib_metadata
    for each in (name, PREFIX + name):
        try:
            found = metadata.distribution(each)
        except (metadata.PackageNotFoundError, ValueError):
            continue
        yield found.metadata["Name"], found.version


def _normalised(name: str) -> str:
    """Return a distribution's name in the one spelling that all others come to."""
    return re.sub(r"[-_.]+", "-", name).lower()
