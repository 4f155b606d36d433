"""`toolstile plugins`: the plugins that are loaded, and the faults of others."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

from rich.text import Text

from toolstile.host import Host
from toolstile.lifespan import enter_lifespan, fault_of
from toolstile.plugins.plugin_errors import PluginFault
from toolstile.plugins.reports import PluginReport, Status
from toolstile_cli.console import Column, Table, Terminal, widest
from toolstile_cli.errors import say
from toolstile_cli.exit_codes import Exit
from toolstile_cli.lint.contributions import deprecated_uses
from toolstile_hookspecs.support.text import counted, printable

STATUS: Final[dict[Status, tuple[str, str, str, str]]] = {
    "loaded": ("✓", "+", "loaded", "green"),
    "blocked": ("⊘", "-", "blocked", "yellow"),
    "failed": ("✗", "x", "failed", "red"),
    "absent": ("?", "?", "absent", "red"),
}


def plugins(host: Host, args: argparse.Namespace) -> int:
    """List the plugins; a plugin that failed or cannot be started with cause and remedy."""
    with ExitStack() as running:
        faults = enter_possible_lifespans(host, running)
        reports = tuple(
            with_fault(report, faults.get(report.name)) for report in host.plugins.reports
        )
        wrong = host.wrong_rules()
    if args.out is None:
        terminal = Terminal()
        rows = [
            (report, terminal.sign(*STATUS[report.status]), _texts(report)) for report in reports
        ]
        print_reports(terminal, rows, "status", "what it brings")
        terminal.print(_summary(reports))
    else:
        for report in reports:
            args.out.write(_described(host, report))
    unmet, shown = host.unmet(), {str(report) for report in host.plugins.reports}
    say("error", *wrong, *(fault for fault in unmet if fault not in shown))
    return Exit.USAGE if wrong or unmet or any(each.misconfigured for each in reports) else Exit.OK


def enter_possible_lifespans(
    host: Host, stack: ExitStack, *, only_late: bool = False
) -> dict[str, PluginFault]:
    """Enter the lifespans that can be; return the faults of the other plugins by their names.

    With `only_late`, only the plugins whose tools come late are started.
    """
    faults: dict[str, PluginFault] = {}
    for implementation in host.plugins.implementations("toolstile_lifespan"):
        plugin = implementation.plugin
        if only_late and not getattr(host.settings(plugin), "awaited_tools", ()):
            continue
        try:
            host.plugins.states[plugin] = enter_lifespan(host, stack, implementation)
        except Exception as error:  # noqa: BLE001 - returned as a fault
            faults[plugin] = fault_of(error, plugin, host)
    return faults


def with_fault(report: PluginReport, fault: PluginFault | None) -> PluginReport:
    """Return a report with the fault of a plugin's start, if it had one."""
    if fault is None:
        return report
    return replace(
        report,
        status="failed",
        fault=fault.cause,
        remedy=fault.remedy,
        misconfigured=fault.misconfigured,
    )


def print_reports(
    terminal: Terminal, rows: Sequence[tuple[PluginReport, Text, Sequence[Text]]], *headings: str
) -> None:
    """Print a table of plugins: the report of each, its status, and the texts beside it."""
    names = [printable(report.name) for report, _, _ in rows]
    origins = [printable(_origin(report)) for report, _, _ in rows]
    columns = [
        Column("plugin", widest(names, 24)),
        Column(headings[0], 9),
        Column("from", widest(origins, 32), keep="end"),
    ]
    table = Table(terminal, columns, headings[1])
    table.head()
    for name, origin, (_, status, texts) in zip(names, origins, rows, strict=True):
        table.row([Text(name, "bold"), status, Text(origin, "dim")], texts)
    terminal.print()


def _texts(report: PluginReport) -> list[Text]:
    texts = [Text(printable(line)) for line in (report.fault, report.remedy) if line]
    if report.tools:
        texts.append(Text(printable(f"tools: {', '.join(report.tools)}")))
    if report.hooks:
        hooks = ", ".join(name.removeprefix("toolstile_") for name in report.hooks)
        texts.append(Text(printable(f"hooks: {hooks}"), "dim"))
    return texts or [Text(printable(report.summary), "dim")]


def _origin(report: PluginReport) -> str:
    """Return where a plugin comes from: its distribution, or else its location or source."""
    named = " ".join(filter(None, (report.distribution, report.version)))
    return named or report.location or report.source


def _summary(reports: tuple[PluginReport, ...]) -> Text:
    line = Text(" ").append(counted(len(reports), "plugin"), "bold")
    counts: Counter[Status] = Counter(report.status for report in reports)
    found: list[Status] = [status for status in STATUS if counts[status]]
    for index, status in enumerate(found):
        line.append(", " if index else ": ").append(f"{counts[status]} {status}", STATUS[status][3])
    return line


def _described(host: Host, report: PluginReport) -> dict[str, Any]:
    return {
        "name": report.name,
        "status": report.status,
        "distribution": report.distribution,
        "version": report.version,
        "source": report.source,
        "location": report.location,
        "tools": list(report.tools),
        "hooks": list(report.hooks),
        "cause": report.fault,
        "remedy": report.remedy,
        "deprecations": list(deprecated_uses(host.plugins, report.name)),
    }
