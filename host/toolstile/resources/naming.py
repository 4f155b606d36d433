"""How types are named to people, and what to say of one that is not bound."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolstile_hookspecs.errors import UnboundResourceError
from toolstile_hookspecs.support.text import nearest


def name_of(kind: Any) -> str:
    """Return the name of a type without the functions it was defined in."""
    name = getattr(kind, "__qualname__", None)
    if not isinstance(name, str):
        return str(kind)
    return name.rpartition("<locals>.")[2]


def unbound(kind: Any, bound: Iterable[Any]) -> UnboundResourceError:
    """Return the error for a type that nothing is bound for; names what is bound."""
    wanted = name_of(kind)
    names = sorted({name_of(each) for each in bound})
    if isinstance(kind, str):
        return UnboundResourceError(
            f"No resource is bound for the text {kind!r}: resources are asked for by their type. "
            f"Bound are: {', '.join(names) or 'none'}."
        )
    near = nearest(wanted, names)
    hint = f" Did you mean {near}?" if near else ""
    there = f".{hint} Bound are: {', '.join(names)}" if names else "; none is bound at all"
    return UnboundResourceError(
        f"No resource is bound for {wanted}{there}. Bind it, or ask with get({wanted}, default)."
    )
