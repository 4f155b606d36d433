"""Checks of policies made in Python, where no table was validated before."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from typing import Any, TypeVar, cast

from toolstile_hookspecs import DefinitionError, Tool


def present(**fields: object) -> dict[str, object]:
    """Return the fields that something is given for; None stands for nothing."""
    return {name: value for name, value in fields.items() if value is not None}


def refuse_other_than_names(owner: str, /, **fields: object) -> None:
    """Refuse what is not several names; a text would be taken for its letters.

    Args:
        owner: Whose fields they are.
        fields: The fields, each of which is a collection of names.

    Raises:
        DefinitionError: Naming the first field that is something else.
    """
    for name, value in fields.items():
        if not _are_names(value):
            is_text = isinstance(value, str)
            found, meant = ("the text ", f"{value!r}") if is_text else ("", "'name', ...")
            raise DefinitionError(
                f"{owner}: {name}: expected several names, found {found}{value!r}; "
                f"write {{{meant}}}."
            )


def refuse_other_than_names_by_tool(owner: str, field: str, given: object) -> None:
    """Refuse what is not a mapping from tools to several names each.

    Args:
        owner: Whose field it is.
        field: The field.
        given: What it holds.

    Raises:
        DefinitionError: Naming what is something else, and what to write.
    """
    place = f"{owner}, {field}"
    entries = _by_tool(place, given, "names by tool", "{'tool': {'name', ...}}")
    refuse_other_than_names(place, **entries)


def refuse_other_than_counts(owner: str, /, **fields: object) -> None:
    """Refuse what is no whole number where calls are counted.

    Args:
        owner: Whose fields they are.
        fields: The fields, each of which is a number of calls.

    Raises:
        DefinitionError: Naming the first field that is something else.
    """
    for name, value in fields.items():
        if not isinstance(value, int) or isinstance(value, bool):
            msg = f"{owner}: {name}: expected a whole number of calls, found {value!r}."
            raise DefinitionError(msg)


def refuse_other_than_counts_by_tool(owner: str, field: str, given: object) -> None:
    """Refuse what is not a mapping from tools to numbers of calls.

    Args:
        owner: Whose field it is.
        field: The field.
        given: What it holds.

    Raises:
        DefinitionError: Naming what is something else, and what to write.
    """
    place = f"{owner}, {field}"
    refuse_other_than_counts(place, **_by_tool(place, given, "calls by tool", "{'tool': 3}"))


def _by_tool(place: str, given: object, expected: str, form: str) -> Mapping[str, object]:
    if not isinstance(given, Mapping) or not _are_names(cast("object", given)):
        raise DefinitionError(f"{place}: expected {expected}, found {given!r}; write {form}.")
    return cast("Mapping[str, object]", given)


def _are_names(value: object) -> bool:
    if isinstance(value, str) or not isinstance(value, Collection):
        return False
    return all(isinstance(each, str) for each in cast("Collection[object]", value))


# --- Tool names in policies


T = TypeVar("T")


def is_among(tool: Tool[Any, Any], names: Container[str]) -> bool:
    """Tell whether a tool is named."""
    return any(map(names.__contains__, tool.policy_names))


def entry_for(tool: Tool[Any, Any], entries: Mapping[str, T]) -> T | None:
    """Return what stands under a tool's name, or else its wire name; None if nothing does."""
    return next((entries[name] for name in tool.policy_names if name in entries), None)
