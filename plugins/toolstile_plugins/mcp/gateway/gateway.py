"""The gateway of a host: all its servers, and the names of their tools."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from functools import partial

from toolstile_hookspecs import HostHandle, PluginError
from toolstile_plugins.mcp.gateway.trust import Pins
from toolstile_plugins.mcp.gateway.upstream import Upstream
from toolstile_plugins.mcp.settings import McpSettings

log = logging.getLogger("toolstile.mcp")


class Gateway:
    """The servers of a host, each a plugin that offers its tools.

    Args:
        host: The host.
        settings: Which servers there are.
    """

    def __init__(self, host: HostHandle, settings: McpSettings) -> None:
        self._host = host
        self._wait = settings.wait
        pins = Pins(settings.pins)
        self.upstreams = tuple(
            Upstream(name, each, pins, self._changed)
            for name, each in settings.servers.items()
            if each.enabled
        )
        self.loop = asyncio.get_running_loop()
        self._publishing = asyncio.Lock()

    async def open(self) -> None:
        """Offer the known tools, and wait a while for servers of which none are known."""
        for each in self.upstreams:
            each.begin()
            await asyncio.to_thread(self._host.register, each, each.plugin)
        await self._publish(self.upstreams)
        unknown = [asyncio.create_task(each.met()) for each in self.upstreams]
        if unknown:
            await asyncio.wait(unknown, timeout=self._wait)
        for task in unknown:
            task.cancel()

    async def close(self) -> None:
        """End all connections, and take the tools away."""
        await asyncio.gather(*(each.close() for each in self.upstreams), return_exceptions=True)
        for each in self.upstreams:
            # One that is switched off was never there.
            with contextlib.suppress(PluginError):
                await asyncio.to_thread(self._host.unregister, each.plugin)

    async def _changed(self, upstream: Upstream) -> None:
        # Whoever comes later may have to give a name back, or may get one.
        at = self.upstreams.index(upstream)
        await self._publish(self.upstreams[at:])

    async def _publish(self, upstreams: Iterable[Upstream]) -> None:
        async with self._publishing:
            await asyncio.to_thread(self._renew, tuple(upstreams))

    def _renew(self, upstreams: tuple[Upstream, ...]) -> None:
        """Make the tools of servers again; an earlier server is the first to choose names."""
        before = {each.name: each.tools for each in upstreams}
        for each in upstreams:
            each.make_tools(partial(self._owner, each))
        # A name that is given back is free only once who had it has been asked.
        for each in reversed(upstreams):
            if each.tools != before[each.name]:
                try:
                    self._host.catalog.invalidate(each.plugin)
                except PluginError as error:
                    log.warning(
                        "The tools of MCP server %s stay as they were: %s", each.name, error
                    )

    def _owner(self, upstream: Upstream, name: str) -> str | None:
        """Return the owner of a name that a server cannot have, None where it can."""
        for each in self.upstreams:
            if each is upstream:
                break
            if any(tool.name == name for tool in each.tools):
                return f"the MCP server {each.name}"
        plugin = self._host.catalog.plugin_of(name)
        found = self._host.catalog.get(name)
        if plugin is None or found is None or found.name != name:
            return None
        ours = {each.plugin for each in self.upstreams}
        return None if plugin in ours else f"the plugin {plugin}"


@asynccontextmanager
async def running(host: HostHandle, settings: McpSettings) -> AsyncGenerator[None]:
    """Keep the servers connected while the host is open."""
    gateway = Gateway(host, settings)
    settings.runs(gateway)
    try:
        await gateway.open()
        yield
    finally:
        settings.runs(None)
        await gateway.close()
