"""`toolstile mcp check`: it connects to each server, and shows the result."""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import dataclass
from typing import Any, Final

from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.mcp.gateway.errors import ServerFault, one_line
from toolstile_plugins.mcp.gateway.gateway import MORE, Gateway, Upstream
from toolstile_plugins.screen import Cell, Screen

FAULTY: Final = 1
"""The exit status if a server cannot be reached, or a tool needs attention."""


@dataclass(frozen=True, slots=True)
class Found:
    """The result of connecting to a server."""

    name: str
    protocol: str | None  # the spoken version, None if it cannot be reached
    tools: tuple[str, ...]  # their names here
    fault: str | None  # why it cannot be reached
    changed: dict[str, str]  # tools about which a person is asked: their changes
    left_out: dict[str, str]  # tools that are not offered: why
    misnamed: dict[str, str]  # names in its settings that none of its tools has: why
    cut: str | None  # says that it has more tools than are offered

    @property
    def is_well(self) -> bool:
        """True if nothing needs attention."""
        return not (self.fault or self.changed or self.left_out or self.misnamed or self.cut)

    def told(self) -> list[str]:
        """Return the points that need attention, a clause each."""
        told = [] if self.fault is None else [f"cannot be reached: {self.fault}"]
        told += [] if self.cut is None else [self.cut]
        told += [f"{name}: {what}; a person is asked" for name, what in self.changed.items()]
        told += [f"{name} is left out: {why}" for name, why in self.left_out.items()]
        return told + [f"{name} is configured, but {why}" for name, why in self.misnamed.items()]

    def wire(self) -> dict[str, Any]:
        return {
            "server": self.name,
            "protocol": self.protocol,
            "tools": list(self.tools),
            "error": self.fault,
            "changed": self.changed,
            "leftOut": self.left_out,
            "misnamed": self.misnamed,
            "cut": self.cut,
        }


def check(gateway: Gateway | None, args: argparse.Namespace) -> int:
    """Connect to servers, show a table, and return the exit status."""
    upstreams = gateway.upstreams if gateway is not None else ()
    known = {upstream.name: upstream for upstream in upstreams}
    for name in args.server:
        if name not in known:
            there = ", ".join(known) or "none"
            raise ConfigurationError(f"The MCP server {name!r} is unknown. Configured: {there}.")
    chosen = [known[name] for name in args.server] if args.server else list(upstreams)
    found: list[Found] = []
    if gateway is not None:
        loop, accepts = gateway.loop, args.accept
        looks = (_look_at(upstream, accepts=accepts) for upstream in chosen)
        looking = [asyncio.run_coroutine_threadsafe(look, loop) for look in looks]
        found = [future.result() for future in looking]
    if args.out is not None:
        for result in found:
            args.out.write(result.wire())
    elif found:
        rows: list[list[Cell]] = [
            [
                one_line(result.name),
                result.protocol or "-",
                f"{len(result.tools) if result.protocol else '-':>5}",
                ("\n".join(result.told()) or "nothing", "" if result.is_well else "yellow"),
            ]
            for result in found
        ]
        Screen("").table(("server", "protocol", "tools", "needs attention"), rows)
    else:
        sys.stdout.write("No MCP servers are configured: write [plugins.mcp.servers.NAME].\n")
    return 0 if all(result.is_well for result in found) else FAULTY


async def _look_at(upstream: Upstream, *, accepts: bool) -> Found:
    fault: str | None = None
    try:
        await upstream.connection.client()
    except ServerFault as error:
        fault = upstream.connection.account or str(error)
    if accepts and fault is None:
        await upstream.accept()
    return found_of(upstream, fault)


def found_of(upstream: Upstream, fault: str | None) -> Found:
    """Return the present state of a server, with the reason why it cannot be reached."""
    return Found(
        name=upstream.name,
        protocol=upstream.connection.protocol,
        tools=tuple(tool.name for tool in upstream.tools),
        fault=fault,
        changed={
            one_line(doubt.found.name, 80): ", ".join(doubt.changes) or "new"
            for doubt in upstream.standing.doubts()
        },
        left_out={one_line(name, 80): fault for name, fault in upstream.faults.items()},
        misnamed={
            one_line(name, 80): one_line(why)
            for name, why in upstream.standing.misnamed(upstream.settings.named).items()
        },
        cut=MORE.format(upstream.settings.max_tools) if upstream.is_cut else None,
    )
