"""What can be wrong with the fields of a section as they are written, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Final

from toolstile_hookspecs.calling import call_fault

TEXTS: Final = ("key", "title", "template")
FUNCTIONS: Final = ("enabled", "on_session")
SEVERAL: Final = ("tools", "policies", "resources", "children")


def kind_faults(fields: Mapping[str, Any], visibilities: type[Enum]) -> Iterator[str]:
    """Yield which of the fields hold something of another kind.

    Args:
        fields: The fields; a section of another make may lack some.
        visibilities: The visibilities there are.
    """
    summary = ("summary",) if fields.get("summary") is not None else ()
    for name in (*TEXTS, *summary):
        if not isinstance(fields.get(name, ""), str):
            yield f"{name} is {fields[name]!r}; give a text"
    for name in FUNCTIONS:
        if fields.get(name) is not None and not callable(fields[name]):
            yield f"{name} is {fields[name]!r}; give a function of the session"
        elif fields.get(name) is not None and call_fault(fields[name], None) is not None:
            yield f"{name} does not take the session; write def {name}(session)"
    if not isinstance(fields.get("accepts_overrides", True), bool):
        yield f"accepts_overrides is {fields['accepts_overrides']!r}; write True or False"
    known = [each.value for each in visibilities]
    visibility = fields.get("visibility", known[0])
    if visibility not in [*known, *visibilities]:
        yield f"visibility is {visibility!r}; give one of {', '.join(known)}"
    yield from several_faults({name: fields[name] for name in SEVERAL if name in fields})


def several_faults(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield which of the fields that hold several things hold something else."""
    for name, value in fields.items():
        if not isinstance(value, Iterable):
            yield f"{name} is not several; write a list, {name}=[...]"


def two_places(one: str, other: str) -> str:
    """Return where a tool stands that two sections have, or one has twice.

    Args:
        one: The key of the one section.
        other: That of the other, which may be the same.
    """
    return f"twice in section {one!r}" if one == other else f"in section {one!r} and in {other!r}"
