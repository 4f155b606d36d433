"""Lookup of an approver or a dialect by its name; a missing one is explained."""

from __future__ import annotations

from typing import Final

from toolstile.plugins.registry import Plugins
from toolstile_hookspecs import Approver, ConfigurationError, Dialect
from toolstile_hookspecs.support.text import suggest

_WITHOUT_DIALECTS: Final = (
    "Plugins bring them, and none that is loaded does. Write Host(discover=['dialects']) for those "
    "that are built in, or leave discover out."
)


def approver_named(name: str, plugins: Plugins) -> Approver:
    """Return the approver of a plugin.

    Raises:
        ConfigurationError: When no loaded plugin of that name is one.
    """
    implementations = plugins.implementations("toolstile_approve")
    found = next((each for each in implementations if each.plugin == name), None)
    if found is not None:
        return found.call
    there = sorted(implementation.plugin for implementation in implementations)
    raise ConfigurationError(
        f"approver = {name!r}: no loaded plugin of that name implements toolstile_approve "
        f"(there are: {', '.join(there) or 'none'}){_why_none(name, there, plugins)}"
    )


def _why_none(name: str, there: list[str], plugins: Plugins) -> str:
    """Return why a plugin is not an approver, or what to do about it."""
    met = next((report for report in plugins.reports if report.name == name), None)
    if met is None:
        return suggest(name, there) or "; install it, or name another."
    if met.status == "loaded":
        return "; name another."
    return f". {met.fault} {met.remedy}"


def dialect_named(name: str, plugins: Plugins) -> Dialect:
    """Return a provider's dialect.

    Raises:
        ConfigurationError: When there is none of that name; lists those there are.
    """
    dialects = plugins.dialects()
    if name in dialects:
        return dialects[name]
    known = sorted(dialects)
    near = suggest(name, known) or f". Known: {', '.join(known) or 'none'}."
    blocked = ", ".join(repr(each.name) for each in plugins.reports if each.status == "blocked")
    switched_off = f"Switched off: {blocked}." if blocked else ""
    causes = (switched_off, *plugins.faults_in("toolstile_dialects"))
    text = " ".join(filter(None, causes)) or ("" if known else _WITHOUT_DIALECTS)
    raise ConfigurationError(f"There is no dialect {name!r}{near} {text}".rstrip())
