"""What is given from Python as a plugin, refused where it can be none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import PurePath
from typing import Final

from toolyard_hookspecs import PluginError
from toolyard_hookspecs.markers import HOOK_PREFIX

_PLAIN: Final = (str, bytes, int, float, type(None), PurePath, Mapping, Sequence, AbstractSet)


def refuse_plain(plugin: object) -> None:
    """Refuse a plain value, such as a name, which would be registered with no hook.

    Raises:
        PluginError: Naming the value and what to give.
    """
    if _is_plain(plugin) and not _has_hooks(plugin):
        raise PluginError(f"{_told(plugin)} is no plugin: it can have no hooks. {_remedy(plugin)}")


def _is_plain(plugin: object) -> bool:
    return isinstance(plugin, _PLAIN)


def _told(plugin: object) -> str:
    if plugin is None or isinstance(plugin, (str, PurePath)):
        return repr(plugin)
    return f"A value of type {type(plugin).__name__}"


def _has_hooks(plugin: object) -> bool:
    return any(name.startswith(HOOK_PREFIX) for name in dir(type(plugin)))


def _remedy(plugin: object) -> str:
    if isinstance(plugin, PurePath) or (isinstance(plugin, str) and plugin.endswith(".py")):
        return f"For a plugin in a file, write Host(plugin_files=[{str(plugin)!r}])."
    if isinstance(plugin, str):
        return (
            f"For an installed plugin, write Host(discover=[{plugin!r}]); for one in a file, "
            "Host(plugin_files=[path])."
        )
    return "Give a module, or an object with methods marked with @hookimpl."
