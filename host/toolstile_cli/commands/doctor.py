"""`toolstile doctor`: faults of an installation, and their remedies."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from rich.text import Text

from toolstile.host import Host
from toolstile.settings import Settings
from toolstile_cli.commands.run import named_plugins
from toolstile_cli.console import Terminal
from toolstile_cli.doctor.environment import surroundings
from toolstile_cli.doctor.setup import of_configuration, of_plugins, of_what_they_rely_on
from toolstile_cli.exit_codes import Exit
from toolstile_hookspecs import Finding, Severity, ToolstileError
from toolstile_hookspecs.support.text import counted, printable

SIGNS: Final = {
    Severity.OK: ("✓", "+", "green"),
    Severity.NOTE: ("·", "-", "dim"),
    Severity.WARNING: ("!", "!", "yellow"),
    Severity.ERROR: ("✗", "x", "red"),
}

_NOT_STARTED: Final = (
    "Nothing was started: `toolstile plugins` starts the plugins, and tells which cannot be."
)

Area = tuple[str, Iterable[Finding]]
Show = Callable[[str, Iterable[Finding]], None]


def doctor(args: argparse.Namespace) -> int:
    """Look at everything that can be looked at without changing it; 1 when something is wrong."""
    severities: Counter[Severity] = Counter()
    show = _on_terminal() if args.out is None else _as_json(args)
    for area, findings in _areas(args):
        # What plugins print meanwhile is no finding.
        with contextlib.redirect_stdout(sys.stderr):
            found = list(findings)
        show(area, found)
        severities.update(each.severity for each in found)
    if args.out is None:
        Terminal().print(_summary(severities))
        Terminal().print(Text(f" {_NOT_STARTED}", "dim"), whole=True)
    return Exit.FAILED if severities[Severity.ERROR] else Exit.OK


def _areas(args: argparse.Namespace) -> Iterator[Area]:
    yield "surroundings", surroundings()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            host = _make_host(args)
    except ToolstileError as error:
        remedy = "When it is fixed, run this again."
        faults = str(error).splitlines()
        yield "configuration", [Finding.error("configuration", each, remedy) for each in faults]
        # The plugins can be looked at all the same.
        yield "plugins", of_plugins(Host(settings=Settings(), block=args.block))
        return
    yield "configuration", of_configuration(host)
    yield "plugins", of_plugins(host)
    yield "what they rely on", of_what_they_rely_on(host)


def _make_host(args: argparse.Namespace) -> Host:
    files = named_plugins(args)
    return Host(config=args.config, block=args.block, plugin_files=files)


def _on_terminal() -> Show:
    terminal = Terminal()

    def show(area: str, findings: Iterable[Finding]) -> None:
        terminal.print(Text(f" {area}", "bold"))
        for each in findings:
            _print(terminal, each)

    return show


def _as_json(args: argparse.Namespace) -> Show:
    def show(area: str, findings: Iterable[Finding]) -> None:
        for each in findings:
            args.out.write(_described(area, each))

    return show


def _print(terminal: Terminal, finding: Finding) -> None:
    symbol, plain, style = SIGNS[finding.severity]
    line = Text("   ").append(symbol if terminal.has_symbols else plain, style)
    line.append(f" {printable(finding.subject)}: ", "bold").append(printable(finding.text))
    terminal.print(line, whole=True)
    if finding.severity is not Severity.OK and finding.remedy:
        terminal.print(Text(f"     {printable(finding.remedy)}"), whole=True)


def _summary(severities: Counter[Severity]) -> Text:
    wrong, doubtful = severities[Severity.ERROR], severities[Severity.WARNING]
    told = [counted(wrong, "error")] if wrong else []
    told += [counted(doubtful, "warning")] if doubtful else []
    return Text("\n ").append(", ".join(told) or "Nothing is wrong.", "bold")


def _described(area: str, finding: Finding) -> dict[str, str | None]:
    return {
        "area": area,
        "subject": finding.subject,
        "severity": finding.severity.value,
        "text": finding.text,
        "remedy": finding.remedy,
    }
