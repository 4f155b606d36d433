"""Messages about tools that cannot be called, and what to do instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from toolstile_hookspecs import Prompt, Section, SessionProtocol
from toolstile_hookspecs.support.text import near

ALIKE: Final = 0.7
"""The similarity for a suggestion, higher than elsewhere: a model calls what it reads."""
SUGGESTED: Final = 3
LISTED: Final = 10
SHOWN: Final = 80
"""Characters shown of a name that the model made up."""
_TEXT: Final[Any] = str


@dataclass(frozen=True, slots=True)
class UnknownTools:
    """Tells of tools that cannot be called.

    Args:
        names: The tools that can be.
        behind: The section that has to be opened first, by tool.
        switched_off: The plugins that are not loaded because somebody wanted it so.
        left_out: Why tools that there are cannot be called, by their names.
        withheld: How a person asks for tools of plugins, by their names.
    """

    names: tuple[str, ...]
    behind: Mapping[str, str]
    switched_off: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    withheld: Mapping[str, str] = field(default_factory=dict[str, str])

    def explain(self, name: str) -> str:
        """Return why there is no such tool, and what to do instead."""
        if not isinstance(name, _TEXT):
            return f"Unknown tool {name!r}: a tool's name is a text. Give one, then retry."
        if (why := self.left_out.get(name)) is not None:
            return why
        if name in self.withheld:
            return f"{name} is not offered here. Use another tool."
        section = self.behind.get(name)
        if section is not None:
            return (
                f"{name} cannot be called yet: its section {section!r} is shown as a summary. Call "
                f"open_sections with {section!r}, then retry."
            )
        shown = name if len(name) <= SHOWN else f"{name[:SHOWN]}..."
        return f"Unknown tool {shown!r}{self._remedy(name[:SHOWN].lower())}{self._aside()}"

    def _remedy(self, name: str) -> str:
        offered = list(_nearest(name, self.names))
        if offered:
            return f". Did you mean {' or '.join(offered)}? Use that, then retry."
        hidden = list(_nearest(name, tuple(self.behind)))
        if hidden:
            section = self.behind[hidden[0]]
            return (
                f". Did you mean {hidden[0]}? It belongs to the section {section!r}: call "
                f"open_sections with {section!r}, then retry with that."
            )
        if not self.names:
            return "; no tools can be called here."
        listed = ", ".join(self.names[:LISTED])
        more = len(self.names) - LISTED
        rest = f" and {more} more" if more > 0 else ""
        return f". The tools are: {listed}{rest}. Use one of these, then retry."

    def _aside(self) -> str:
        names = ", ".join(self.switched_off)
        if not names:
            return ""
        what = "a plugin that is" if len(self.switched_off) == 1 else "plugins that are"
        return f" It may be one of {what} switched off here: {names}."


def behind_summaries(prompt: Prompt, session: SessionProtocol) -> dict[str, str]:
    """Return by name the tools in sections shown as summaries, and the section to open."""
    return {
        name: place.path
        for place in prompt.places(session)
        if not place.open
        for name in _names_within(place.section)
    }


def _names_within(section: Section) -> Iterator[str]:
    for tool in section.tools:
        yield tool.name
        if tool.wire_name is not None:
            yield tool.wire_name
    for child in section.children:
        yield from _names_within(child)


def _nearest(name: str, known: tuple[str, ...]) -> Iterable[str]:
    """Return the names that are one slip away, or that a word begins which was left unfinished."""
    slips = near(name, known, SUGGESTED, ALIKE)
    begun = [each for each in known if name and each.startswith(f"{name}_")]
    return dict.fromkeys([*slips, *begun][:SUGGESTED])
