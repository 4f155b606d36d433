"""The gateway of a host: its servers, each a plugin that offers tools."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

from toolstile_hookspecs import (
    NOTICE,
    CallRefused,
    Catalog,
    Contents,
    DefinitionError,
    HostHandle,
    MarkdownSection,
    PluginError,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    ToolValidationError,
    hookimpl,
)
from toolstile_hookspecs.codecs import SchemaCodec
from toolstile_hookspecs.support.text import for_model
from toolstile_plugins.mcp.gateway.call import Calling, reporter
from toolstile_plugins.mcp.gateway.connection import Connection
from toolstile_plugins.mcp.gateway.errors import ServerFault, is_plain, one_line
from toolstile_plugins.mcp.gateway.tools import Definition, Listing, enforceable, make_tool
from toolstile_plugins.mcp.gateway.trust import DoubtPolicy, Pins, Standing, call_key
from toolstile_plugins.mcp.settings import McpSettings, ServerSettings, names_tool, prefix_of

# --- One server


log = logging.getLogger("toolstile.mcp")

T = TypeVar("T")

PLUGIN: Final = "mcp-"
"""The prefix of a server's name in the name of its plugin."""
MORE: Final = "has more than {0} tools, and the first {0} are offered; raise max_tools"
SHORT_WAIT: Final = 3.0
"""Seconds for which a host that opens waits for a server whose tools it knows."""
LONGEST_NAME: Final = 256
"""Characters of a server's own name for a tool; the protocol has servers keep to half of that."""


class Upstream:
    """A server, and the plugin with its tools; `changed` is called when they have changed."""

    def __init__(
        self,
        name: str,
        settings: ServerSettings,
        pins: Pins,
        changed: Callable[[Upstream], Awaitable[None]],
    ) -> None:
        self.name = name
        self.settings = settings
        self.plugin = f"{PLUGIN}{prefix_of(name).rstrip('_')}"
        self.prefix = prefix_of(name) if settings.prefix is None else settings.prefix
        self.standing = Standing(name, settings.trust, pins)
        self.connection = Connection(name, settings, self._meet)
        self.faults: Mapping[str, str] = {}
        """Why tools of the server are not offered, by the server's names for them."""
        self.is_cut = False  # true if the server has more tools than are offered
        self.missing: str | None = None  # the last connection error, or None
        self.tools: tuple[Tool[Any, Any], ...] = ()
        self.offered: tuple[tuple[Tool[Any, Any], ...], str | None] = (), None
        """The tools and the connection error that the host knows."""
        self._calling = Calling(name, settings, self.connection)
        self._changed = changed
        self._doubted: set[str] = set()
        self._made: dict[tuple[str, str], Tool[Any, Any] | str] = {}
        self._unlisted: Mapping[str, str] = {}
        self._slips: Mapping[str, str] = {}
        self.loop: asyncio.AbstractEventLoop | None = None
        self._searching: asyncio.Task[None] | None = None

    # --- on the gateway's loop ---

    def begin(self) -> None:
        """Search for the server's tools, until they are known."""
        self.loop = asyncio.get_running_loop()
        if not self.standing.is_known:
            self._searching = asyncio.create_task(self._search())

    async def met(self, wait: float) -> None:
        """Connect to the server within `wait` seconds, or note the error.

        A shorter wait is enough if its tools are known.
        """
        is_known = self.standing.is_known
        try:
            async with asyncio.timeout(min(wait, SHORT_WAIT) if is_known else wait):
                await self.connection.client()
        except ServerFault as fault:
            await self._is_missing(self.connection.fault or str(fault))
        except TimeoutError:
            # A server with known tools continues to start; the tools are offered meanwhile.
            if not is_known:
                await self._is_missing(f"it was not ready within {wait:g} s")

    async def answers(self) -> None:
        """Ask the server for its tools, on any loop; raise its error if it does not answer."""

        async def ask() -> None:
            await (await self.connection.client()).list_tools()

        await self._on_loop(ask())

    async def _is_missing(self, why: str) -> None:
        self.missing = f"The MCP server {self.name} cannot be reached: {why.rstrip('.')}"
        log.warning("%s. `toolstile mcp check` tries again.", self.missing, extra=NOTICE)
        await self._changed(self)

    async def accept(self) -> None:
        self.standing.accept()
        await self._changed(self)

    async def close(self) -> None:
        if self._searching is not None:
            self._searching.cancel()
        await self.connection.close()

    async def _search(self) -> None:
        while not self.standing.is_known:
            try:
                await self.connection.client()
            except ServerFault:
                await asyncio.sleep(self.connection.waits)

    async def _meet(self, listing: Listing) -> None:
        before = self.standing.shown(), self._unlisted, self.missing
        most = self.settings.max_tools
        was_cut, self.is_cut = self.is_cut, len(listing.tools) > most
        if self.is_cut and not was_cut:
            log.warning("The MCP server %s %s.", self.name, MORE.format(most), extra=NOTICE)
        self.standing.meet(listing.tools[:most])
        self._unlisted, self.missing = listing.left_out, None
        # Warn once about names in the server's table that none of its tools has. Names that would
        # take a tool away, or ask about it, keep the host from opening.
        slips, wrong = self.standing.misnamed(self.settings.named), self.misnamed()
        for name in [each for each in slips if each not in {*wrong, *self._slips}]:
            shown = one_line(name, 80), self.name, one_line(slips[name])
            log.warning("%s is configured for MCP server %s, but %s.", *shown, extra=NOTICE)
        self._slips = slips
        # Warn about new doubts only, because a server may announce changes without end.
        warned, doubts = self._doubted, self.standing.doubts()
        self._doubted = {doubt.found.digest for doubt in doubts}
        for doubt in doubts:
            if doubt.found.digest in warned:
                continue
            log.warning(
                "The tool %s of MCP server %s %s; a person is asked when it is called.",
                one_line(doubt.found.name, 80),
                self.name,
                f"has changed ({', '.join(doubt.changes)})" if doubt.changes else "is new",
            )
        if (self.standing.shown(), self._unlisted, self.missing) != before:
            await self._changed(self)

    # --- on any thread ---

    def make_tools(self, taken: Callable[[str], str | None]) -> None:
        """Make the tools that are offered now, and note why the others are not.

        `taken` returns the other owner of a name, if it has one.
        """
        made: dict[str, Tool[Any, Any]] = {}
        faults = {**self._unlisted}
        # Drop tools that are no longer offered: a server may change its tools without end.
        before, self._made = self._made, {}
        for definition in self.standing.shown():
            if not self.settings.offers(definition.name):
                continue
            name = self.settings.name_here(self.name, definition.name)
            owner = taken(name)
            if not is_plain(definition.name):
                fault = "its name holds characters that cannot be seen"
            elif len(definition.name) > LONGEST_NAME:
                fault = f"its name has more than {LONGEST_NAME} characters"
            elif name in made:
                fault = f"another of its tools is called {name}, too; give one a name in tools"
            elif owner is not None:
                fault = f"{owner} has a tool {name} already; give this one a prefix or a name"
            else:
                # The tool object stays the same while its definition does.
                key = (name, definition.digest)
                tool = self._made[key] = before.get(key) or self._make(name, definition)
                if not isinstance(tool, str):
                    made[name] = tool
                    continue
                fault = tool
            faults[definition.name] = fault
        for name, fault in faults.items():
            if self.faults.get(name) != fault:
                log.warning(
                    "The tool %s of MCP server %s is not offered: %s.",
                    one_line(name, 80),
                    self.name,
                    fault,
                )
        self.tools, self.faults = tuple(made.values()), faults

    def left_out(self) -> list[str]:
        """Return the names here of the server's tools that are not offered."""
        offered = {tool.wire_name for tool in self.tools}
        known = [*(definition.name for definition in self.standing.shown()), *self._unlisted]
        # If the server has more tools than are offered, the names of the others are unknown.
        further = self.settings.names_here(self.name) if self.is_cut else []
        missing = [name for name in known if name not in offered]
        return [self.settings.name_here(self.name, name) for name in missing] + further

    def misnamed(self) -> list[str]:
        """Return the names of tools to take away or ask about that the server lacks."""
        known = [*(definition.name for definition in self.standing.shown()), *self._unlisted]
        tables = self.settings.tools.items()
        asked = (name for name, tool in tables if tool.requires_confirmation or not tool.enabled)
        ruled = (
            () if self.is_cut or not self.standing.is_known else (*self.settings.without, *asked)
        )
        return [name for name in ruled if not any(names_tool(name, tool) for tool in known)]

    def _make(self, name: str, definition: Definition) -> Tool[Any, Any] | str:
        try:
            return make_tool(name, self.name, self.settings, definition, self._call)
        except DefinitionError as error:
            return one_line(str(error), 300).rstrip(".")
        except Exception as error:  # noqa: BLE001 - a schema may hold anything
            return f"its schema cannot be used ({type(error).__name__})"

    async def _call(
        self, definition: Definition, params: Any, context: ToolContext
    ) -> ToolResult[Contents]:
        home = asyncio.get_running_loop()
        return await self._on_loop(self._send(definition, params, context, home))

    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        if self.loop is None or self.loop is asyncio.get_running_loop():
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    async def _send(
        self,
        definition: Definition,
        params: Any,
        context: ToolContext,
        home: asyncio.AbstractEventLoop,
    ) -> ToolResult[Contents]:
        try:
            # Its present tools are known once it is connected.
            await self.connection.client()
        except ServerFault as fault:
            raise self._calling.unreachable(str(fault)) from fault
        refused = refusal_of(self.name, self.standing, definition, params, context)
        now = self.standing.found(definition.name)
        if now is not None and now.digest != definition.digest:
            await self._changed(self)
        if refused is not None or now is None:
            return ToolResult.error(refused or "")
        return await self._calling.send(now, params, context, reporter(context, home))

    # --- as a plugin ---

    @hookimpl
    def toolstile_sections(self) -> list[MarkdownSection[Any]]:
        if self.missing is not None:
            # The offered tools stay; the plugin's report has the error.
            raise PluginError(f"{self.missing}.")
        if not self.tools:
            return []
        return [
            MarkdownSection(
                key=self.plugin,
                title=f"Tools of {one_line(self.name, 60)}",
                tools=self.tools,
                policies=[DoubtPolicy(f"{self.plugin}/changed", self.standing)],
            )
        ]

    @hookimpl
    def toolstile_lookup(
        self, call: ToolCall, catalog: Catalog
    ) -> Awaitable[Tool[Any, Any] | None] | None:
        """Connect the server before one of its tools is called, or say why that fails."""
        tool = catalog.get(call.name)
        if self.connection.protocol is not None:
            return None
        name = str(call.name)
        named = (known.name for known in self.settings.tools.values())
        may_have = name in named or (bool(self.prefix) and name.startswith(self.prefix))
        if tool in self.tools or (tool is None and may_have):
            return self._look_up(call.name, catalog)
        return None

    async def _look_up(self, name: str, catalog: Catalog) -> Tool[Any, Any] | None:
        try:
            await self._on_loop(self.connection.client())
        except ServerFault as fault:
            # A known tool fails with this error when it is called.
            if catalog.get(name) is None:
                raise CallRefused(
                    f"{one_line(name, 80)} cannot be called now: the MCP server {self.name} "
                    f"cannot be reached: {for_model(str(fault))}. Do without it, or retry later.",
                    for_operator=str(fault),
                ) from fault
        return catalog.get(name)


def refusal_of(
    server: str, standing: Standing, definition: Definition, params: Any, context: ToolContext
) -> str | None:
    """Return why a call must not be sent to a server whose tool has changed, or None."""
    shown = one_line(definition.name, 80)
    if not standing.settles(call_key(context), definition.name):
        return (
            f"{shown} has changed since it was approved, so nothing was sent to the MCP server "
            f"{server}. Retry: a person is then asked about it."
        )
    now = standing.found(definition.name)
    if now is None:
        return (
            f"The MCP server {server} has no tool {shown} any more. It cannot be called; do "
            "without it."
        )
    if now.digest != definition.digest and (told := misfit(now, params)):
        return f"{shown} takes other arguments since it has changed; nothing was sent. {told}"
    return None


def misfit(definition: Definition, params: Any) -> str | None:
    """Return why arguments do not fit a tool's schema, or None."""
    try:
        codec = SchemaCodec(enforceable(definition.input_schema), owner=definition.name)
        codec.decode(codec.encode(params))
    except (ToolValidationError, DefinitionError) as error:
        return str(error)
    return None


# --- All servers


class Gateway:
    """The servers of a host, each a plugin that offers its tools."""

    def __init__(self, host: HostHandle, settings: McpSettings) -> None:
        self._host = host
        self._settings = settings
        pins = Pins(settings.pins)
        self.upstreams = tuple(
            Upstream(name, server, pins, self._changed)
            for name, server in settings.servers.items()
            if server.enabled
        )
        self.loop = asyncio.get_running_loop()
        self._publishing = asyncio.Lock()

    async def open(self) -> None:
        """Offer the known tools, and wait a while for all servers at once."""
        for upstream in self.upstreams:
            upstream.begin()
            await asyncio.to_thread(self._host.register, upstream, upstream.plugin)
        await self._publish(self.upstreams)
        await asyncio.gather(*(upstream.met(self._settings.wait) for upstream in self.upstreams))

    @property
    def awaited_tools(self) -> list[str]:
        """The names, also as globs, of tools of servers that are not offered now."""
        known = {each.name: each.left_out() for each in self.upstreams if each.standing.is_known}
        tables = self._settings.servers.items()
        return [name for key, own in tables for name in known.get(key, own.names_here(key))]

    @property
    def governed_tools(self) -> list[str]:
        """The names of tools that servers do not have, and that are taken away or asked about."""
        return [f"{each.prefix}{name}" for each in self.upstreams for name in each.misnamed()]

    async def close(self) -> None:
        """End all connections, and take the tools away."""
        await asyncio.gather(
            *(upstream.close() for upstream in self.upstreams), return_exceptions=True
        )
        for upstream in self.upstreams:
            # The plugin of a disabled server was never registered.
            with contextlib.suppress(PluginError):
                await asyncio.to_thread(self._host.unregister, upstream.plugin)

    async def _changed(self, upstream: Upstream) -> None:
        # A later server may lose a name, or get one.
        at = self.upstreams.index(upstream)
        await self._publish(self.upstreams[at:])

    async def _publish(self, upstreams: Iterable[Upstream]) -> None:
        async with self._publishing:
            await asyncio.to_thread(self._renew, tuple(upstreams))

    def _renew(self, upstreams: tuple[Upstream, ...]) -> None:
        """Make the tools of servers again; earlier servers choose their names first."""
        for upstream in upstreams:
            upstream.make_tools(partial(self._owner, upstream))
        # A name is free only once its former owner has been asked for its tools again.
        for upstream in reversed(upstreams):
            offer = upstream.tools, upstream.missing
            if offer != upstream.offered:
                upstream.offered = offer
                try:
                    self._host.catalog.invalidate(upstream.plugin)
                except PluginError as error:
                    if upstream.missing is None:
                        log.warning("The tools of MCP server %s stay: %s", upstream.name, error)

    def _owner(self, upstream: Upstream, name: str) -> str | None:
        """Return the owner of a name that a server cannot have, None if it can."""
        for other in self.upstreams:
            if other is upstream:
                break
            if any(tool.name == name for tool in other.tools):
                return f"the MCP server {other.name}"
        plugin = self._host.catalog.plugin_of(name)
        found = self._host.catalog.get(name)
        if plugin is None or found is None or found.name != name:
            return None
        ours = {upstream.plugin for upstream in self.upstreams}
        return None if plugin in ours else f"the plugin {plugin}"


@asynccontextmanager
async def running(host: HostHandle, settings: McpSettings) -> AsyncGenerator[Gateway]:
    """Keep the servers connected while the host is open."""
    gateway = Gateway(host, settings)
    try:
        await gateway.open()
        yield gateway
    finally:
        await gateway.close()
