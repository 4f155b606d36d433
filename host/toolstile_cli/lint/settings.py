"""Checks of a plugin's settings: declared, and documented for those who set them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any, cast

from pydantic import BaseModel

from toolstile.plugins.contributions import undefined_in
from toolstile.plugins.reports import LoadedPlugin
from toolstile_cli.lint.diagnostic import Finding, of_fault
from toolstile_hookspecs.markers import HOOK_PREFIX


def settings_findings(record: LoadedPlugin) -> Iterator[Finding]:
    """Yield the settings that are documented nowhere."""
    settings = record.contribution.settings
    if not isinstance(settings, BaseModel):
        yield from undeclared(record.plugin)
        return
    model = type(settings)
    if not model.__doc__:
        yield Finding(
            "settings",
            f"{model.__qualname__} has no docstring.",
            f"Say in one what the table [plugins.{record.origin.name}] is for, and what each key "
            "means.",
        )
        return
    texts = _texts(model, record.plugin)
    bare = [
        name
        for name, field in model.model_fields.items()
        if not field.description and not any(name in text for text in texts)
    ]
    if bare:
        one = len(bare) == 1
        yield Finding(
            "settings",
            f"The key{'' if one else 's'} {', '.join(bare)} of {model.__qualname__} "
            f"{'is' if one else 'are'} documented nowhere.",
            "Describe each under `Args:` in the model's docstring, or with Field(description=...).",
        )


def undeclared(plugin: object) -> Iterator[Finding]:
    """Yield the hooks that take settings, where the plugin declares none."""
    if hasattr(plugin, "toolstile_settings"):
        return
    named = {each: getattr(plugin, each) for each in dir(plugin) if each.startswith(HOOK_PREFIX)}
    wanting = [
        name
        for name, function in named.items()
        if inspect.isroutine(function) and "settings" in inspect.signature(function).parameters
    ]
    if wanting:
        yield Finding(
            "settings",
            f"{', '.join(wanting)} {'takes' if len(wanting) == 1 else 'take'} settings, which are "
            "always None: the plugin declares none.",
            "Declare a model of them with toolstile_settings, or leave the argument out.",
        )


def undefined(plugin: object) -> Iterator[Finding]:
    """Yield what the annotations of the settings' model name, and nothing defines."""
    try:
        model = cast("Any", plugin).toolstile_settings()
    except Exception:  # noqa: BLE001 - it is the plugin's, and what it raises is told elsewhere
        return
    if isinstance(model, type) and issubclass(model, BaseModel):
        fault = undefined_in(model)
        if fault is not None:
            yield of_fault("settings", fault)


def _texts(model: type[BaseModel], plugin: object) -> list[str]:
    module: Any = sys.modules.get(model.__module__)
    found = (model.__doc__, inspect.getdoc(plugin), getattr(module, "__doc__", None))
    return [text for text in found if text]
