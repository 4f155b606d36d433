"""The list of commands, shown without loading plugins where only those of Toolstile are there."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Final

from toolstile_cli.options import main_parser

COMMANDS_OF_PLUGINS: Final = {
    "ledger": "show what calls have done once, and settle what is unknown",
    "mcp": "serve the tools to any MCP client, and look after the servers behind them",
    "record": "show a record of calls, or see whether it is as it was written",
    "replay": "make recorded calls again, answered from the record or executed",
}
"""The commands of the built-in plugins; a test holds them to what the plugins say."""

LOADING: Final = frozenset({"block", "plugin_files"})
"""Keys of the configuration by which it decides which plugins there are."""


def general_help() -> str | None:
    """Return the help of `toolstile`, None where plugins have to be asked for their commands."""
    if _is_configured() or _has_other_plugins():
        return None
    return main_parser(COMMANDS_OF_PLUGINS.items())[0].format_help()


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
