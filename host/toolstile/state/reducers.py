"""Reducers: which there are, and what applying one to a slice gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from toolstile.state.persistent_list import Items, ItemsView, private
from toolstile_hookspecs.errors import StateError
from toolstile_hookspecs.sessions import Append, Reducer

ReducerTable = Mapping[type[Any], Mapping[type[Any], Reducer]]
"""The reducers for each type of event, by the type of their slice, in order; never changed."""


def keep(kind: type[Any], items: Iterable[Any]) -> list[Any]:
    """Return items as a slice keeps them: of its type, and copies of those that can change."""
    kept: list[Any] = []
    for item in items:
        if not isinstance(item, kind):
            several = isinstance(item, (list, tuple))
            remedy = "Give them as seed(*items)" if several else "Use the slice of that type"
            raise StateError(
                f"The slice of {kind.__qualname__} holds {kind.__qualname__} items and cannot "
                f"take one of {type(item).__qualname__}. {remedy} instead."
            )
        kept.append(private(item))
    return kept


def seeded(items: Sequence[Any], event: Sequence[Any]) -> Sequence[Any]:  # noqa: ARG001 - a reducer
    """Reduce by replacing everything by the items given."""
    return event


def cleared(items: Sequence[Any], event: Any) -> Sequence[Any]:
    """Reduce by removing the items for which a predicate holds, or all without one."""
    return [] if event is None else [item for item in items if not event(item)]


def reduced(
    kind: type[Any], items: Items, reducer: Reducer, event: Any, owner: object
) -> tuple[Items, bool]:
    """Apply a reducer to the items of a slice; the owner will hold what comes out.

    Returns:
        The items after, and whether they are more than those before with some added.
    """
    view = ItemsView(items)
    result = reducer(view, event)
    if isinstance(result, Append):
        return items.extended(owner, keep(kind, result)), False
    if result is view and not view.copies.made:
        return items, False
    if not _is_items(result):
        raise StateError(
            f"The reducer {name_of(reducer)} of the slice of {kind.__qualname__} returned "
            f"{type(result).__qualname__} for an event of {type(event).__qualname__}. It must "
            "return the new items as a sequence, or Append([...]) of those to add."
        )
    return Items.of(keep(kind, result), owner), True


def impure(kind: type[Any], event: object) -> StateError:
    """Return the error for a reducer that has changed a slice instead of returning items."""
    return StateError(
        f"While reducers applied an event of {type(event).__qualname__} to the slice of "
        f"{kind.__qualname__}, one of them changed that slice itself, and one of the two changes "
        "would be lost. A reducer is pure: it only returns the new items. Dispatch what follows "
        "from an event after it."
    )


def _is_items(result: object) -> bool:
    return isinstance(result, Sequence) and not isinstance(result, (str, bytes))


def name_of(reducer: Reducer) -> str:
    """Return what to call a reducer in a message."""
    return getattr(reducer, "__qualname__", type(reducer).__qualname__)
