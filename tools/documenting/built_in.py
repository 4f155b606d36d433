"""The installed plugins that come with Toolstile."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

DISTRIBUTION = "toolstile"


def built_in() -> list[EntryPoint]:
    """Return their entry points, by name."""
    found = entry_points(group="toolstile")
    ours = (each for each in found if each.dist and each.dist.name == DISTRIBUTION)
    return sorted(ours, key=lambda each: each.name)
