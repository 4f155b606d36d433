"""Which of the installed plugins come with Toolyard."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

DISTRIBUTION = "toolyard"


def built_in() -> list[EntryPoint]:
    """Return their entry points, by name."""
    found = entry_points(group="toolyard")
    ours = (each for each in found if each.dist and each.dist.name == DISTRIBUTION)
    return sorted(ours, key=lambda each: each.name)
