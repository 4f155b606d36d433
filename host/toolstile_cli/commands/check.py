"""`toolstile check`: faults that the author of a plugin should fix."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from rich.text import Text

from toolstile.host import Host
from toolstile.plugins.contributions import extensions
from toolstile.plugins.reports import PluginReport
from toolstile_cli.commands.plugins import print_reports
from toolstile_cli.console import Terminal
from toolstile_cli.errors import UsageError
from toolstile_cli.exit_codes import Exit
from toolstile_cli.lint.plugin import brought_by, findings_in, why_unknown
from toolstile_cli.options import COMMANDS
from toolstile_cli.plugin_commands import with_extensions
from toolstile_hookspecs import Command, Diagnostic
from toolstile_hookspecs.support.text import counted, printable

SIGNS: Final = {
    "clean": ("✓", "+", "clean", "green"),
    "to fix": ("✗", "x", "to fix", "red"),
    "blocked": ("⊘", "-", "blocked", "yellow"),
}


@dataclass(frozen=True, slots=True)
class Checked:
    """The findings on one plugin."""

    report: PluginReport
    findings: list[Diagnostic]

    @property
    def status(self) -> str:
        """The outcome in a word."""
        if self.report.status == "blocked":
            return "blocked"
        return "to fix" if self.findings else "clean"


def check(host: Host, args: argparse.Namespace) -> int:
    """Check plugins, and print their faults; nothing is started and no tool is called."""
    # Because plugins are imported again, their output is not a part of the answer.
    with contextlib.redirect_stdout(sys.stderr):
        host.dialects()  # the reports then have their faults
        checked = [
            Checked(
                report,
                []
                if report.status == "blocked"
                else [*findings_in(host, report), *_of_commands(host, report.name)],
            )
            for report in _chosen(host, args.names)
        ]
    if args.out is None:
        terminal = Terminal()
        rows = [
            (plugin.report, terminal.sign(*SIGNS[plugin.status]), _texts(plugin))
            for plugin in checked
        ]
        print_reports(terminal, rows, "check", "what to fix")
        terminal.print(_summary(checked))
    else:
        for plugin in checked:
            args.out.write(_described(plugin))
    return Exit.FAILED if any(plugin.findings for plugin in checked) else Exit.OK


def _of_commands(host: Host, plugin: str) -> Iterator[Diagnostic]:
    """Yield the commands of a plugin that the command line has to leave out.

    Clashes with another plugin's commands are reported with the plugin's offers.
    """
    offered, _ = extensions("command", host.plugins.implementations("toolstile_commands"))
    own = [command for owner, command in offered if owner == plugin]
    left_out: list[tuple[Command, str]] = []

    def note(command: Command, why: str) -> None:
        left_out.append((command, why))

    everything = [command for _, command in offered]
    with_extensions(everything, dict.fromkeys(COMMANDS, check), note)
    for command, why in left_out:
        if command in own:
            cause = f"The command {command.name!r} is left out: {why}."
            yield Diagnostic.error("commands", cause, "Fix it, or give it another name.")


def _chosen(host: Host, names: list[str]) -> list[PluginReport]:
    reports = list(host.plugins.reports)
    known = {report.name for report in reports}
    asked: set[str] = set()
    strangers: list[str] = []
    for name in names:
        # A package and its plugin have names so alike that one is written for the other.
        found = [name] if name in known else brought_by(name, reports)
        asked.update(found)
        strangers += [] if found else [name]
    if strangers:
        raise UsageError(*(why_unknown(name, reports) for name in strangers))
    return [report for report in reports if not names or report.name in asked]


def _texts(checked: Checked) -> list[Text]:
    if checked.status == "blocked":
        return [Text(printable(checked.report.fault or "It is switched off."), "dim")]
    texts: list[Text] = []
    for finding in checked.findings:
        line = Text().append(printable(f"{finding.subject}: "), "bold")
        texts.append(line.append(printable(finding.text)))
        texts.append(Text(printable(finding.remedy or ""), "dim"))
    return texts


def _summary(checked: list[Checked]) -> Text:
    line = Text(" ").append(counted(len(checked), "plugin"), "bold")
    found = sum(len(plugin.findings) for plugin in checked)
    faulty = sum(bool(plugin.findings) for plugin in checked)
    if not found:
        return line.append(": ").append("nothing to fix", "green")
    where = f" in {faulty} of them" if len(checked) > 1 else ""
    return line.append(": ").append(f"{counted(found, 'thing')} to fix{where}", "red")


def _described(checked: Checked) -> dict[str, Any]:
    report = checked.report
    return {
        "name": report.name,
        "status": checked.status,
        "distribution": report.distribution,
        "version": report.version,
        "location": report.location,
        "findings": [
            {"where": finding.subject, "cause": finding.text, "remedy": finding.remedy}
            for finding in checked.findings
        ],
    }
