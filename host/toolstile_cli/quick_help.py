"""The help of commands, shown without loading plugins if only Toolstile's are installed."""

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Sequence
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import toolstile_plugins
from toolstile_cli.options import Parser, beneath, main_parser, restore_common_options

LOADING: Final = frozenset({"block", "plugin_files"})
"""Keys of the configuration that choose plugins."""

HELP: Final = frozenset({"-h", "--help"})


def quick_help(arguments: Sequence[str]) -> str | None:
    """Return the help of `toolstile` or of a command, or None if plugins must be asked.

    They are asked if other plugins than Toolstile's are installed or configured, and if more is
    typed than commands.
    """
    *words, last = arguments or ("--help",)
    if last not in HELP:
        return None
    parser: argparse.ArgumentParser = _parser()
    for word in words:
        found = next((commands.get(word) for _, commands in beneath(parser)), None)
        if found is None:
            return None
        parser = found
    return None if _is_configured() or _has_other_plugins() else parser.format_help()


_offered = partial(SimpleNamespace, help="", configure=None, extends=False)
"""Makes a command of a plugin in place of the contract's `Command`, whose import takes longer."""


def _parser() -> Parser:
    """Return the parser of everything that comes with Toolstile, in the order of the plugins."""
    offered: list[Any] = []
    for file in sorted(Path(toolstile_plugins.__path__[0]).glob("*/cli.py")):
        # Because the package above imports libraries, the module is loaded without the package.
        loader = SourceFileLoader(f"toolstile_plugins.{file.parent.name}.cli", str(file))
        module = ModuleType(loader.name)
        loader.exec_module(module)
        offered += module.commands(_offered)
    parser, parsers = main_parser((of.name, of.help) for of in offered if not of.extends)
    for of in sorted(offered, key=lambda of: of.extends):
        if of.configure is not None:
            of.configure(parsers[of.name])
        restore_common_options(parsers[of.name])
    return parser


def _is_configured() -> bool:
    """Tell whether variables or a configuration may load other plugins, or have faults to tell."""
    if any(name.startswith("TOOLSTILE_") for name in os.environ):
        return True
    here = Path.cwd()
    for folder in (here, *here.parents):
        for name in ("toolstile.toml", "pyproject.toml"):
            try:
                found = tomllib.loads((folder / name).read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue
            except (OSError, ValueError):
                return True
            own = found if name == "toolstile.toml" else found.get("tool", {}).get("toolstile")
            if own is not None:
                return not own.keys().isdisjoint(LOADING) or "plugins" in own
    return False


def _has_other_plugins() -> bool:
    from importlib.metadata import entry_points  # slower than all the rest

    found = {entry.value for entry in entry_points(group="toolstile")}
    return not found or any(not value.startswith("toolstile_plugins.") for value in found)
