"""The official SDK of the protocol, which only those have who installed the extra `mcp`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from toolstile_hookspecs import ConfigurationError
from toolstile_hookspecs.support.text import extra_remedy

_MODULES: Final = frozenset({"mcp", "mcp_types"})


@contextmanager
def needed_by(command: str) -> Generator[None]:
    """Say how to install the SDK where an import within the block finds that it is missing.

    Args:
        command: What needs it, as it is called.

    Raises:
        ConfigurationError: The SDK is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _MODULES:
            raise
        raise ConfigurationError(f"`{command}` needs the MCP SDK. {extra_remedy('mcp')}.") from None
