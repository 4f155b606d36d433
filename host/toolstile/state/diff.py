"""The changes of a branch, in words."""

from __future__ import annotations

from toolstile.state.slice_branch import Cell

_SHOWN = 3
_WIDTH = 200


def described(cell: Cell) -> str:
    """Return one line about a slice that was written."""
    before, after = len(cell.origin), len(cell.items)
    if not cell.rewritten:
        new = cell.items.after(before)
        return f"{cell.name}: added {_counted(new)}"
    if not after:
        return f"{cell.name}: emptied ({before} before)"
    new = cell.items.after(after - _SHOWN - 1)
    return f"{cell.name}: replaced, {before} before, now {after}: {_listed(new)}"


def _counted(items: list[object]) -> str:
    if not items:
        return "nothing"
    return _listed(items) if len(items) == 1 else f"{len(items)}: {_listed(items)}"


def _listed(items: list[object]) -> str:
    shown = [_short(item) for item in items[-_SHOWN:]]
    if len(items) > _SHOWN:
        shown.insert(0, "...")
    return ", ".join(shown)


def _short(item: object) -> str:
    text = " ".join(repr(item).split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
