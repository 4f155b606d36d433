"""The Model Context Protocol: a server for any client, a gateway for any server.

Settings, `[plugins.mcp]`: see `McpSettings`. What speaks the protocol is the official SDK (the
extra `mcp`); it is imported only where something is served, or a server is configured.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from contextlib import AbstractAsyncContextManager

from pydantic import BaseModel

from toolstile_hookspecs import (
    ApprovalAnswer,
    ApprovalRequest,
    Command,
    ConfigurationError,
    Finding,
    HostHandle,
    hookimpl,
)
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.mcp.options import offered_commands
from toolstile_plugins.mcp.settings import McpSettings

__all__ = ["McpSettings"]


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the settings."""
    return McpSettings


@hookimpl
def toolstile_diagnose(settings: McpSettings) -> Iterable[Finding]:
    """Find out whether the configured servers can be started."""
    from toolstile_plugins.mcp.doctor import diagnosed  # only `toolstile doctor` asks

    return diagnosed(settings)


@hookimpl
def toolstile_approve(
    request: ApprovalRequest, settings: McpSettings
) -> ApprovalAnswer | Awaitable[ApprovalAnswer]:
    """Ask the person at the client that has called the tool."""
    # The SDK is heavy, and where nothing is served nobody is asked.
    from toolstile_plugins.mcp.server.elicitation import ask

    return ask(request, settings.serve.elicitation_timeout)


@hookimpl
def toolstile_commands() -> list[Command]:
    """Add the command `mcp`."""
    return offered_commands()


@hookimpl
def toolstile_lifespan(
    host: HostHandle, settings: McpSettings
) -> AbstractAsyncContextManager[None] | None:
    """Keep the servers behind the gateway connected."""
    if not any(each.enabled for each in settings.servers.values()):
        return None
    try:
        # Late: most hosts have no such servers.
        from toolstile_plugins.mcp.gateway.gateway import running
    except ImportError as error:
        raise ConfigurationError(
            "plugins.mcp.servers needs the official SDK of the Model Context Protocol, which is "
            f"not installed. {extra_remedy('mcp')}."
        ) from error
    return running(host, settings)
