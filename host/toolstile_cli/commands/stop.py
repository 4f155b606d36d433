"""`toolstile stop` and `go`: halt calls, and let them run again."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter

from toolstile.host import Host
from toolstile_cli.errors import say
from toolstile_cli.exit_codes import Exit
from toolstile_hookspecs import StateError
from toolstile_hookspecs.selectors import fits
from toolstile_hookspecs.stops import Stop
from toolstile_hookspecs.support.text import printable, suggest
from toolstile_plugins.approval.beside import person
from toolstile_plugins.screen import show_line


def stop(host: Host, args: argparse.Namespace) -> int:
    """Stop calls; the exit status is 1 if a decision that is under way does not end."""
    _refuse_alone(host)
    tools = list(host.catalog)
    if args.tool is not None and not any(fits(tool, args.tool) for tool in tools):
        near = suggest(args.tool, [tool.name for tool in tools])
        say("warning", f"the stop holds, but no tool has the name {args.tool!r} now{near or ''}")
    given = {name: getattr(args, name) for name in ("tool", "principal", "session", "server")}
    scope = {name: value for name, value in given.items() if value is not None}
    by = person().id
    reason = args.reason or f"{by} stopped these calls, and gave no reason."
    try:
        host.stop(reason, by=by, seconds=args.seconds, **scope)
    except StateError as error:
        say("error", str(error))
        return Exit.FAILED
    _list(args, host.stops(), "Stopped: ")
    return Exit.OK


def go(host: Host, args: argparse.Namespace) -> int:
    """End all stops."""
    _refuse_alone(host)
    ended = host.stops()
    host.go()
    _list(args, ended, "Ended: ")
    return Exit.OK


def _refuse_alone(host: Host) -> None:
    if host.is_alone:
        told = "There is no configuration here, so no host hears of it. Run the command in the "
        raise StateError(f"{told}folder of the configuration, or name its file with --config.")


def wire_of_stops(stops: Iterable[Stop]) -> list[dict[str, Any]]:
    """Return stops as JSON data."""
    wire: list[dict[str, Any]] = TypeAdapter(list[Stop]).dump_python([*stops], mode="json")
    return wire


def _list(args: argparse.Namespace, stops: Iterable[Stop], before: str) -> None:
    if args.out is not None:
        args.out.write({"stops": wire_of_stops(stops)})
        return
    show_stops(stops, before)


def show_stops(stops: Iterable[Stop], before: str) -> None:
    """Show a line for each stop."""
    for each in stops:
        show_line(printable(f"{before}{each}"))
    if not stops:
        show_line("Nothing is stopped.")
