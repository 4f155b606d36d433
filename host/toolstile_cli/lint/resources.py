"""Checks of the instances that a plugin binds: each has all members of its protocol."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Protocol

from toolstile.plugins.plugin_errors import kind_of
from toolstile.plugins.reports import LoadedPlugin
from toolstile_cli.lint.diagnostic import Finding
from toolstile_hookspecs import Binding
from toolstile_hookspecs.resources import is_borrowed


def resource_findings(record: LoadedPlugin) -> Iterator[Finding]:
    """Yield the instances that a plugin binds and that lack some of what they are bound as.

    What a provider makes is not looked at: making it may open something.
    """
    for binding in record.contribution.bindings:
        if is_borrowed(binding) and _is_protocol(binding.kind):
            yield from _lacking(binding)


def _lacking(binding: Binding[Any]) -> Iterator[Finding]:
    kind = binding.kind.__qualname__
    value: object = binding.provider(_NOTHING)
    missing = [each for each in _members(binding.kind) if not _has(value, each)]
    if isinstance(value, type):
        yield Finding(f"resource {kind}", f"It is {kind_of(value)}.", "Give an instance of it.")
    elif missing:
        yield Finding(
            f"resource {kind}",
            f"What is bound as {kind}, {kind_of(value)}, has no {', no '.join(missing)}.",
            f"Write {'it' if len(missing) == 1 else 'them'}, as {kind} says.",
        )


# An instance needs no resolver.
_NOTHING: Any = None


def _is_protocol(kind: type[Any]) -> bool:
    return bool(getattr(kind, "_is_protocol", False))


def _members(kind: type[Any]) -> list[str]:
    """Return what a protocol and those that it is made of declare."""
    protocols = [each for each in kind.__mro__ if _is_protocol(each) and each is not Protocol]
    declared = [
        name for each in protocols for name in (*inspect.get_annotations(each), *vars(each))
    ]
    return [name for name in dict.fromkeys(declared) if not name.startswith("_")]


def _has(value: object, name: str) -> bool:
    try:
        return hasattr(value, name)
    except Exception:  # noqa: BLE001 - a property of the plugin's that raises is there
        return True
