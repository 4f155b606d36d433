"""The file tools, over any `Filesystem`."""

from __future__ import annotations

import dataclasses
from typing import Any

from toolstile_hookspecs import Tool
from toolstile_plugins.vfs.settings import VfsConfig
from toolstile_plugins.vfs.tools.read import finding_tools, reading_tools
from toolstile_plugins.vfs.tools.write import transferring_tools, writing_tools


def file_tools(config: VfsConfig, *, accepts_overrides: bool = True) -> tuple[Tool[Any, Any], ...]:
    """Return the file tools."""
    tools = (
        *reading_tools(config),
        *writing_tools(config),
        *transferring_tools(config),
        *finding_tools(config),
    )
    if accepts_overrides:
        return tools
    return tuple(dataclasses.replace(tool, accepts_overrides=False) for tool in tools)
