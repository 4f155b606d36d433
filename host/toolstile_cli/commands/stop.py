"""`toolstile stop`, `go` and `status`: halt calls, let them run again, and list the stops."""

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
from toolstile_hookspecs.services.ledger import LedgerEntry
from toolstile_hookspecs.stops import Stop
from toolstile_hookspecs.support.text import printable, suggest
from toolstile_plugins.approval.beside import person
from toolstile_plugins.ledger.entries import owed_in, wire_of
from toolstile_plugins.screen import show_line, shown_time


def stop(host: Host, args: argparse.Namespace) -> int:
    """Stop calls; the exit status is 1 if a decision that is under way does not end."""
    tools = list(host.catalog)
    if args.tool is not None and not any(fits(tool, args.tool) for tool in tools):
        near = suggest(args.tool, [tool.name for tool in tools])
        say("warning", f"the stop holds, but no tool has the name {args.tool!r} now{near or ''}")
    given = {name: getattr(args, name) for name in ("tool", "principal", "session", "server")}
    scope = {name: value for name, value in given.items() if value is not None}
    try:
        host.stop(args.reason, by=person().id, seconds=args.seconds, **scope)
    except StateError as error:
        say("error", str(error))
        return Exit.FAILED
    _list(args, host.stops(), "Stopped: ")
    return Exit.OK


def go(host: Host, args: argparse.Namespace) -> int:
    """End all stops."""
    ended = host.stops()
    host.go()
    _list(args, ended, "Ended: ")
    return Exit.OK


def status(host: Host, args: argparse.Namespace) -> int:
    """List the stops that are in force, and the effects that are to be undone."""
    owed: list[LedgerEntry] = []
    if any(tool.undo for tool in host.catalog):
        host.purpose = "look"
        with host:
            owed = owed_in(host)
    _list(args, host.stops(), "Stopped: ", owed=[*map(wire_of, owed)])
    for each in () if args.out else owed:
        since = shown_time(each.claim.created_at)
        show_line(printable(f"Owed: the undo of {each.claim.tool_name}, {since}: {each.claim.key}"))
    if owed and not args.out:
        show_line("Open hosts try again. Try at once with `toolstile ledger reconcile`.")
    return Exit.OK


def _list(args: argparse.Namespace, stops: Iterable[Stop], before: str, **more: Any) -> None:
    if args.out is not None:
        listed = TypeAdapter(tuple[Stop, ...]).dump_python((*stops,), mode="json")
        args.out.write({"stops": listed, **more})
        return
    for each in stops:
        show_line(printable(f"{before}{each}"))
    if not stops:
        show_line("Nothing is stopped.")
