"""What is given from Python as a plugin, refused where it can be none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import PurePath
from typing import Final

from toolstile_hookspecs import MarkdownSection, PluginError, Prompt, Tool
from toolstile_hookspecs.markers import HOOK_PREFIX
from toolstile_hookspecs.policies import POLICY_METHODS

_OFFERED: Final = (Tool, MarkdownSection, Prompt)
_PLAIN: Final = (str, bytes, int, float, type(None), PurePath, Mapping, Sequence, AbstractSet)


def refuse_hookless(plugin: object) -> None:
    """Refuse what has no hook and belongs elsewhere, such as a name, a tool or a policy.

    A host that took a policy for a plugin would do without it.

    Raises:
        PluginError: Naming the value and what to give.
    """
    remedy = _remedy(plugin)
    if remedy is not None and not _has_hooks(plugin):
        raise PluginError(f"{_told(plugin)} is no plugin: it has no hooks. {remedy}")


def _told(plugin: object) -> str:
    if plugin is None or isinstance(plugin, (str, PurePath)):
        return repr(plugin)
    if isinstance(plugin, Tool):
        return f"The tool {plugin.name!r}"
    if isinstance(plugin, type):
        return f"The class {plugin.__qualname__}"
    return f"A value of type {type(plugin).__name__}"


def _is_plain(plugin: object) -> bool:
    return isinstance(plugin, _PLAIN)


def _has_hooks(plugin: object) -> bool:
    return any(name.startswith(HOOK_PREFIX) for name in dir(_class_of(plugin)))


def _class_of(plugin: object) -> type:
    return plugin if isinstance(plugin, type) else type(plugin)


def _remedy(plugin: object) -> str | None:
    """Return what to write instead, None for what may be a plugin that has no hook yet."""
    if _is_plain(plugin):
        return _remedy_for_plain(plugin)
    if isinstance(plugin, _OFFERED):
        return (
            "Offer tools in sections: return these from the hook toolstile_sections of a plugin, "
            "or write host.executor(prompt=Prompt.of(ns, key, sections))."
        )
    if all(callable(getattr(_class_of(plugin), each, None)) for each in POLICY_METHODS):
        return "It is a policy: write Host(policies=[...])."
    return None


def _remedy_for_plain(plugin: object) -> str:
    if isinstance(plugin, PurePath) or (isinstance(plugin, str) and plugin.endswith(".py")):
        return f"For a plugin in a file, write Host(plugin_files=[{str(plugin)!r}])."
    if isinstance(plugin, str):
        return (
            f"For an installed plugin, write Host(discover=[{plugin!r}]); for one in a file, "
            "Host(plugin_files=[path])."
        )
    return "Give a module, or an object with methods marked with @hookimpl."
