"""What a branch changed, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from toolyard.state.cells import Cell
from toolyard_hookspecs.policies import PolicyState

_SHOWN = 3
_WIDTH = 200


def described(cells: Iterable[Cell], overlay: Mapping[str, PolicyState | None]) -> list[str]:
    """Return one line for each slice that changed, in the order of their first use.

    Args:
        cells: The slices that were written.
        overlay: The policies' records that were updated; None for one that was removed.
    """
    lines = [_line(cell) for cell in cells]
    if overlay:
        lines.append(f"PolicyState: updated {', '.join(overlay)}")
    return lines


def _line(cell: Cell) -> str:
    before, after = len(cell.origin), len(cell.items)
    if not cell.rewritten:
        new = cell.items.after(before)
        return f"{cell.kind.__qualname__}: added {_counted(new)}"
    if not after:
        return f"{cell.kind.__qualname__}: emptied ({before} before)"
    new = cell.items.after(after - _SHOWN - 1 if after > _SHOWN else 0)
    return f"{cell.kind.__qualname__}: replaced, {before} before, now {after}: {_listed(new)}"


def _counted(items: list[object]) -> str:
    if not items:
        return "nothing"
    return _listed(items) if len(items) == 1 else f"{len(items)}: {_listed(items)}"


def _listed(items: list[object]) -> str:
    shown = [_short(each) for each in items[-_SHOWN:]]
    if len(items) > _SHOWN:
        shown.insert(0, "...")
    return ", ".join(shown)


def _short(item: object) -> str:
    text = " ".join(repr(item).split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
