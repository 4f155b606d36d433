"""`toolstile mcp check`: it connects to each server, and shows the result."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any, Final

from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.mcp.gateway.errors import ServerFault, one_line
from toolstile_plugins.mcp.gateway.gateway import MORE, Gateway, Upstream
from toolstile_plugins.screen import Cell, Screen

FAULTY: Final = 1
"""The exit status if a server cannot be reached, or a tool needs attention."""


def check(gateway: Gateway | None, args: argparse.Namespace) -> int:
    """Connect to servers, show a table, and return the exit status."""
    upstreams = gateway.upstreams if gateway is not None else ()
    known = {upstream.name: upstream for upstream in upstreams}
    for name in args.server:
        if name not in known:
            there = ", ".join(known) or "none"
            raise ConfigurationError(f"The MCP server {name!r} is unknown. Configured: {there}.")
    chosen = [known[name] for name in args.server] if args.server else list(upstreams)
    found: list[dict[str, Any]] = []
    if gateway is not None:
        loop, accepts = gateway.loop, args.accept
        looks = (_look_at(upstream, accepts=accepts) for upstream in chosen)
        looking = [asyncio.run_coroutine_threadsafe(look, loop) for look in looks]
        found = [future.result() for future in looking]
    points = [points_of(result) for result in found]
    if args.out is not None:
        for result in found:
            args.out.write(result)
    elif found:
        rows: list[list[Cell]] = [
            [
                one_line(result["server"]),
                result["protocol"] or "-",
                f"{len(result['tools']) if result['protocol'] else '-':>5}",
                ("\n".join(said), "yellow") if said else "nothing",
            ]
            for result, said in zip(found, points, strict=True)
        ]
        Screen("").table(("server", "protocol", "tools", "needs attention"), rows)
    else:
        sys.stdout.write("No MCP servers are configured: write [plugins.mcp.servers.NAME].\n")
    return FAULTY if any(points) else 0


async def _look_at(upstream: Upstream, *, accepts: bool) -> dict[str, Any]:
    fault: str | None = None
    try:
        await upstream.connection.client()
    except ServerFault as error:
        fault = upstream.connection.account or str(error)
    if accepts and fault is None:
        await upstream.accept()
    return found_of(upstream, fault)


def found_of(upstream: Upstream, fault: str | None) -> dict[str, Any]:
    """Return the present state of a server as JSON values; `fault` is why it cannot be reached."""
    known, settings = upstream.standing, upstream.settings
    return {
        "server": upstream.name,
        "protocol": upstream.connection.protocol,
        "tools": [tool.name for tool in upstream.tools],
        "error": fault,
        "changed": {
            one_line(doubt.found.name, 80): ", ".join(doubt.changes) or "new"
            for doubt in known.doubts()
        },
        "leftOut": {one_line(name, 80): why for name, why in upstream.faults.items()},
        "misnamed": {
            one_line(name, 80): one_line(why)
            for name, why in known.misnamed(settings.named).items()
        },
        "cut": MORE.format(settings.max_tools) if upstream.is_cut else None,
    }


def points_of(found: dict[str, Any]) -> list[str]:
    """Return the points of a server's state that need attention, a clause each."""
    points = [f"cannot be reached: {found['error']}"] if found["error"] is not None else []
    points += [found["cut"]] if found["cut"] is not None else []
    points += [f"{name}: {what}; a person is asked" for name, what in found["changed"].items()]
    points += [f"{name} is left out: {why}" for name, why in found["leftOut"].items()]
    return points + [f"{name} is configured, but {why}" for name, why in found["misnamed"].items()]
