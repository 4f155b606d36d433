"""What a branch did, with the effects of calls within it kept apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from toolstile.state.applied import AppliedEffect
from toolstile.state.cells import Cell
from toolstile.state.redoing import NO_WRITES, Effect, Told, told

Cells = Mapping[type[Any], Cell]


@dataclass(frozen=True, slots=True)
class Story:
    """What is told already of a branch that is an effect, or that such branches have joined.

    Args:
        told: What is told.
        writes: How many writes of each slice that are.
        events: How many events.
        effect_id: What the effect of the branch itself is recorded under, if it is.
    """

    told: Sequence[Told]
    writes: Mapping[type[Any], int]
    events: int
    effect_id: str | None

    def whole(self, cells: Cells, events: Sequence[object] | None) -> list[Told]:
        """Return all that was done, also since the last of it was told."""
        return [*self.told, *told(cells.values(), (events or ())[self.events :], self.writes)]

    def to_caller(self, cells: Cells, events: Sequence[object] | None) -> list[Told]:
        """Return all that was done, as the branch is to tell of it that takes it over."""
        whole = self.whole(cells, events)
        if self.effect_id is None:
            return whole
        return [Effect(self.effect_id, [each for each in whole if not _is_mark(each)])]

    def upto(self, whole: Sequence[Told], cells: Cells, events: Sequence[object] | None) -> Story:
        """Return the story once all that was done so far is told."""
        writes = {kind: len(cell.ops) for kind, cell in cells.items()}
        return replace(self, told=whole, writes=writes, events=len(events or ()))

    def marked(self, effect_id: str) -> Story:
        """Return the story of an effect."""
        return replace(self, effect_id=effect_id)


NO_STORY: Final = Story((), NO_WRITES, 0, None)


def _is_mark(change: Told) -> bool:
    """Tell whether a change is the mark that redoing an effect makes anew."""
    if isinstance(change, Effect):
        return False
    return change.kind is AppliedEffect and change.doing == "append"
