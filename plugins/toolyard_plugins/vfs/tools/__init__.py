"""The file tools, over any `Filesystem`."""

from __future__ import annotations

from typing import Any

from toolyard_hookspecs import Tool
from toolyard_plugins.vfs.settings import VfsConfig
from toolyard_plugins.vfs.tools.finding import finding_tools
from toolyard_plugins.vfs.tools.reading import reading_tools
from toolyard_plugins.vfs.tools.transferring import transferring_tools
from toolyard_plugins.vfs.tools.writing import writing_tools


def file_tools(config: VfsConfig) -> tuple[Tool[Any, Any], ...]:
    """Return the file tools, which keep to the limits of a configuration."""
    return (
        *reading_tools(config),
        *writing_tools(config),
        *transferring_tools(config),
        *finding_tools(config),
    )
