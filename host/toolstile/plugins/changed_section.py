"""Sections of which the host replaces some parts: names, tools, texts."""

from __future__ import annotations

from typing import Any, cast

from toolstile_hookspecs import Section


class ChangedSection:
    """A section with other attributes and methods; all else is the original's."""

    def __init__(self, original: Section, **parts: Any) -> None:
        self.original = original
        vars(self).update(parts)

    def __getattr__(self, name: str) -> Any:
        """Return what the original has; asked for what this one does not have itself."""
        if name == "original":  # not there yet, as in a copy that is being made
            raise AttributeError(name)
        return getattr(self.original, name)


def changed(section: Section, **parts: Any) -> Section:
    """Return the section with other parts; it stays as it is."""
    return cast("Section", ChangedSection(section, **parts))
