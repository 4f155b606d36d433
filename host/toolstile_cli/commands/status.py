"""`toolstile status`: the stops, the rules, and the state that plugins report."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

from toolstile.host import Host
from toolstile.plugins.plugin_errors import one_line
from toolstile_cli.commands.stop import show_stops, wire_of_stops
from toolstile_cli.errors import say
from toolstile_cli.exit_codes import Exit
from toolstile_hookspecs import StatusPart, ToolSelector, ToolstileError
from toolstile_hookspecs.support.text import printable
from toolstile_plugins.policies.checks import rules_over
from toolstile_plugins.screen import show_line

HOOK: Final = "toolstile_status"
_SELECTED: Final = ("tools", "tags", "servers", "category", "consequence")


def status(host: Host, args: argparse.Namespace) -> int:
    """Show the stops that are in force, the rules, and the state that plugins report."""
    wire: dict[str, Any] = {"stops": wire_of_stops(host.stops())}
    if args.out is None:
        show_stops(host.stops(), "Stopped: ")
    host.purpose = "look"
    try:
        with host:
            for part in (*_governed(host), *_reported(host)):
                wire.setdefault(part.name, []).extend(part.items)
                for line in () if args.out else part.lines:
                    show_line(printable(line))
    except ToolstileError as error:
        # The stops are shown all the same.
        say("warning", f"the rest is unknown, because the host does not open: {error}")
    if args.out is not None:
        args.out.write(wire)
    return Exit.OK


def _governed(host: Host) -> Iterator[StatusPart]:
    """Yield the tools of the host, and its rules."""
    selectors: dict[str, ToolSelector | None] = {
        policy.name: getattr(policy, "selector", None) for policy in host.policies
    }
    tools = [{"tool": tool.name, "rules": rules_over(host, tool)} for tool in host.catalog]
    told = f"Tools: {len(tools)}; `toolstile tools` lists them."
    yield StatusPart("tools", tools, [told] if tools else [])
    rules, lines = list[dict[str, Any]](), list[str]()
    for name, selector in selectors.items():
        given = {key: getattr(selector, key, None) for key in _SELECTED}
        fields = {key: sorted(values) for key, values in given.items() if values is not None}
        rules.append({"rule": name, **fields})
        shown = "; ".join(
            f"{'' if key == 'tools' else f'{key} '}{', '.join(values)}"
            for key, values in fields.items()
        )
        lines.append(f"Rule: {name}, for {shown or 'all tools'}.")
    yield StatusPart("rules", rules, lines)


def _reported(host: Host) -> Iterator[StatusPart]:
    """Yield the parts that plugins report; an exception of one of them hides no other part."""
    for implementation in reversed(host.plugins.implementations(HOOK)):
        try:
            yield from implementation.call(host) or ()
        except Exception as error:  # noqa: BLE001 - see above
            say("warning", f"{HOOK} of plugin {implementation.plugin} failed: {one_line(error)}")
