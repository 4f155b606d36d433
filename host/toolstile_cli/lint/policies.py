"""Checks of the policies that a plugin offers, and of the policies of its sections."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any, Final

from pydantic import TypeAdapter

from toolstile.plugins.plugin_errors import one_line
from toolstile.plugins.reports import LoadedPlugin
from toolstile.policies.rules import named
from toolstile.settings.table_validation import fields, to_define, undefined_name
from toolstile_cli.lint.diagnostic import Finding
from toolstile_hookspecs import DefinitionError, Section

_NEEDED: Final = {
    "check": "check(self, tool, params, *, context)",
    "on_result": "on_result(self, tool, params, result, *, context)",
}
_OPTIONAL: Final = {
    "reserve": "reserve(self, tool, params, *, context)",
    "on_rollback": "on_rollback(self, tool, params, *, context)",
}
_GIVEN: Final = {"on_result": 3}
"""The number of positional arguments of a method that takes more than tool and params."""


def policy_findings(record: LoadedPlugin) -> Iterator[Finding]:
    """Yield what an author should fix in the policies of a plugin."""
    for kind, made in record.contribution.policies.items():
        where = f"policy {kind}"
        faults = [*_methods(made, where), *_name(made, where)]
        yield from faults or _from_a_table(made, where)
    yield from _of_sections(record.contribution.sections)


def _methods(made: type[Any], where: str) -> Iterator[Finding]:
    for name, wanted in {**_NEEDED, **_OPTIONAL}.items():
        method = getattr(made, name, None)
        if not callable(method):
            if name in _NEEDED:
                yield Finding(
                    where,
                    f"{made.__qualname__} has no method {name}, which every policy has.",
                    f"Write def {wanted}, as in ToolPolicy.",
                )
        elif not _takes(made, name):
            yield Finding(
                where,
                f"The method {name} of {made.__qualname__} cannot be called as policies are.",
                f"Write def {wanted}, as in ToolPolicy.",
            )


def _name(made: type[Any], where: str) -> Iterator[Finding]:
    if "name" not in fields(made) and not hasattr(made, "name"):
        yield Finding(
            where,
            f"{made.__qualname__} has no name, by which its decisions and its memory are known.",
            'Give it a field, name: str = ""; the host fills it in.',
        )


def _takes(made: type[Any], name: str) -> bool:
    """Tell whether a method takes what the host gives it."""
    is_bound = isinstance(inspect.getattr_static(made, name), (staticmethod, classmethod))
    places = _GIVEN.get(name, 2) + (not is_bound)
    try:
        signature = inspect.signature(getattr(made, name))
    except (TypeError, ValueError):
        return True  # it is not written in Python, and does not say
    try:
        signature.bind(*[None] * places, context=None)
    except TypeError:
        return False
    return True


def _from_a_table(made: type[Any], where: str) -> Iterator[Finding]:
    name = undefined_name(made)
    if name is not None:
        yield Finding(
            where,
            f"No table of the configuration can be made into {made.__qualname__}: {name} is not "
            "defined.",
            to_define(name, made),
        )
        return
    try:
        TypeAdapter(made)
    except Exception as error:  # noqa: BLE001 - a class can take part in this, and raise anything
        cause = one_line(error).partition(" Set `arbitrary_types_allowed")[0].rstrip(".")
        yield Finding(
            where,
            f"No table of the configuration can be made into {made.__qualname__}: {cause}.",
            "Make it a dataclass or a pydantic model, with a field for each key of the table.",
        )


def _of_sections(sections: Iterable[Section]) -> Iterator[Finding]:
    for section in sections:
        try:
            named(section.policies, place=f"section {section.key!r}")
        except DefinitionError as error:
            yield Finding("policies", str(error), "Fix the policies of the section.")
        yield from _of_sections(section.children)
