"""`toolstile doctor`: faults of an installation, and their remedies."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import logging
import os
import platform
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final, cast

from importlib_metadata import PackageNotFoundError, requires, version
from rich.text import Text

from toolstile._version import __version__
from toolstile.host import Host
from toolstile.plugins.offered_tools import log as offers
from toolstile.plugins.plugin_errors import PluginFault, one_line
from toolstile.plugins.reports import PluginReport
from toolstile.policies.persistence import read
from toolstile.policies.rule_set import faults_of, ruled_by_tables, tools_within
from toolstile.settings import Settings
from toolstile.settings.sources import PREFIX
from toolstile.settings.table_validation import secrets_in, without_secrets
from toolstile.stored_sessions import opened
from toolstile_cli.commands.plugins import enter_possible_lifespans, with_fault
from toolstile_cli.commands.run import host_for
from toolstile_cli.console import Terminal
from toolstile_cli.exit_codes import Exit
from toolstile_cli.lint.contributions import deprecated_uses
from toolstile_hookspecs import (
    CONTRACT_VERSION,
    ConfigurationError,
    Decider,
    Diagnostic,
    PersistentPolicy,
    Severity,
    ToolstileError,
)
from toolstile_hookspecs.markers import PROJECT
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_hookspecs.support.text import counted, extra_remedy, printable

SIGNS: Final = {
    Severity.OK: ("✓", "+", "green"),
    Severity.NOTE: ("·", "-", "dim"),
    Severity.WARNING: ("!", "!", "yellow"),
    Severity.ERROR: ("✗", "x", "red"),
}

_NOT_STARTED: Final = (
    "Only plugins that offer tools late, such as MCP servers, were started: `toolstile plugins` "
    "starts all plugins, and shows which fail."
)
Area = tuple[str, Iterable[Diagnostic]]


def doctor(args: argparse.Namespace) -> int:
    """Look at everything that can be looked at without changing it; 1 when something is wrong."""
    severities: Counter[Severity] = Counter()
    terminal = Terminal()
    with contextlib.ExitStack() as running:
        for area, findings in _areas(args, running):
            # Plugins may print meanwhile, which is not a finding.
            with contextlib.redirect_stdout(sys.stderr):
                found = list(findings)
            severities.update(finding.severity for finding in found)
            if args.out is None:
                _print(terminal, area, found)
            else:
                for finding in found:
                    args.out.write({"area": area, **asdict(finding)})
    if args.out is None:
        wrong, doubtful = severities[Severity.ERROR], severities[Severity.WARNING]
        told = [counted(wrong, "error")] if wrong else []
        told += [counted(doubtful, "warning")] if doubtful else []
        terminal.print(Text("\n ").append(", ".join(told) or "Nothing is wrong.", "bold"))
        terminal.print(Text(f" {_NOT_STARTED}", "dim"), whole=True)
    return Exit.FAILED if severities[Severity.ERROR] else Exit.OK


def _areas(args: argparse.Namespace, running: contextlib.ExitStack) -> Iterator[Area]:
    yield "surroundings", surroundings()
    try:
        with contextlib.redirect_stdout(sys.stderr):
            host = host_for(args)
    except ToolstileError as error:
        remedy = "When it is fixed, run this again."
        lines = str(error).splitlines()
        yield "configuration", [Diagnostic.error("configuration", line, remedy) for line in lines]
        # The plugins can be looked at all the same.
        yield "plugins", of_plugins(Host(settings=Settings(), block=args.block), {})
        return
    # Until late tools arrive, a rule may name one of them.
    running.enter_context(contextlib.closing(host))
    args.log.setLevel(logging.NOTSET if args.verbose else logging.ERROR)  # findings tell the rest
    strays: list[Diagnostic] = []

    def note(record: logging.LogRecord) -> bool:
        strays.append(Diagnostic.warning("tools", record.getMessage(), "Fix the names."))
        return False

    offers.addFilter(note)
    running.callback(offers.removeFilter, note)
    with contextlib.redirect_stdout(sys.stderr):
        faults = enter_possible_lifespans(host, running, only_late=True)
    args.log.setLevel(logging.NOTSET)
    yield "configuration", itertools.chain(of_configuration(host), strays)
    yield "plugins", of_plugins(host, faults)
    yield "dependencies", of_dependencies(host)


def _print(terminal: Terminal, area: str, findings: Iterable[Diagnostic]) -> None:
    terminal.print(Text(f" {area}", "bold"))
    for finding in findings:
        symbol, plain, style = SIGNS[finding.severity]
        line = Text("   ").append_text(terminal.sign(symbol, plain, "", style))
        line.append(f"{printable(finding.subject)}: ", "bold").append(printable(finding.text))
        terminal.print(line, whole=True)
        if finding.severity is not Severity.OK and finding.remedy:
            terminal.print(f"     {printable(finding.remedy)}", whole=True)


# --- Python, requirements and extras


# The part of the standard that Toolstile's own requirements use.
_REQUIREMENT: Final = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?(?P<bounds>[^;]*)(;.*extra == ['\"](?P<extra>[^'\"]+))?"
)
_BOUND: Final = re.compile(r"(?P<sign>>=|<)(?P<version>[0-9.]+)")


def surroundings() -> Iterator[Diagnostic]:
    """Yield the state of the Python and of Toolstile's requirements."""
    yield Diagnostic.ok("Python", f"{platform.python_version()}, {sys.executable}")
    contract = f"version {CONTRACT_VERSION} of the contract"
    yield Diagnostic.ok(PROJECT, f"{__version__}, with {contract}")
    try:
        stated = requires(PROJECT) or []
    except PackageNotFoundError:
        yield Diagnostic.warning(
            PROJECT, "It is imported, but not installed: no plugin can be found.", extra_remedy()
        )
        return
    extras: dict[str, list[str]] = {}
    for requirement in stated:
        found = _REQUIREMENT.match(requirement)
        if found is None:
            continue
        fault = _fault(found["name"], found["bounds"])
        if found["extra"]:
            extras.setdefault(found["extra"], []).extend([fault] if fault else [])
        elif fault is None:
            yield Diagnostic.ok(found["name"], version(found["name"]))
        else:
            # With a marker it is required on some platforms only.
            report = Diagnostic.note if ";" in requirement else Diagnostic.error
            remedy = f"Run: python -m pip install --upgrade '{found['name']}{found['bounds']}'"
            yield report(found["name"], fault, remedy)
    for extra, faults in extras.items():
        if faults:
            yield Diagnostic.note(f"extra {extra}", " ".join(faults), extra_remedy(extra))
        else:
            yield Diagnostic.ok(f"extra {extra}", "It is installed.")


def _fault(name: str, bounds: str) -> str | None:
    try:
        present = version(name)
    except PackageNotFoundError:
        return f"{name} is not installed."
    for bound in _BOUND.finditer(bounds):
        fits = _numbers(present) >= _numbers(bound["version"])
        if fits is not (bound["sign"] == ">="):
            return f"{name} {present} is installed, but {bounds.strip()} is required."
    return None


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with, without zeros at its end."""
    found = re.match(r"\d+(\.\d+)*", text)
    numbers = [int(number) for number in found[0].split(".")] if found else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


# --- Configuration, plugins and their findings


HOOK = "toolstile_diagnose"


def of_configuration(host: Host) -> Iterator[Diagnostic]:
    """Yield the source of the configuration, and its faults as a whole."""
    settings = host.configuration
    if settings.path is None:
        yield Diagnostic.ok("configuration", "No toolstile.toml was found; the defaults hold.")
    else:
        yield Diagnostic.ok("configuration", f"{settings.path}")
    survived = "a loss of power" if settings.durability == "power" else "the death of a process"
    yield Diagnostic.ok("durability", f"{settings.durability}: stored data survives {survived}.")
    # The names only: a value may be a secret.
    variables = sorted(
        name for name, value in os.environ.items() if value and name.startswith(PREFIX)
    )
    if variables:
        yield Diagnostic.ok("environment variables", ", ".join(variables))
    try:
        _ = host.approver
    except ConfigurationError as error:
        yield Diagnostic.error("approver", str(error), "Name an installed approver, or none.")
    yield from _of_rules(host)
    overrides = settings.prompt_overrides
    if overrides is not None and not overrides.is_file():
        yield Diagnostic.error(
            f"prompt overrides {overrides}",
            "The file does not exist.",
            "Write it with `toolstile prompt --overrides`, or fix prompt_overrides.",
        )
    for file in sorted(
        {policy.file for policy in host.policies if isinstance(policy, PersistentPolicy)}
    ):
        yield _of_kept(file)


def _of_rules(host: Host) -> Iterator[Diagnostic]:
    """Yield the policies with unknown names, as far as the tools are known yet."""
    wrong = host.wrong_rules()
    for fault in wrong:
        yield Diagnostic.error("policies", fault, "When it is fixed, run this again.")
    ruling = (*host.policies, *ruled_by_tables(host.configuration, host.plugins))
    tools = tools_within(host.prompt, host.catalog)
    for fault in faults_of(ruling, tools, host.plugins.view.withheld):
        if fault not in wrong:
            told = f"This is so unless a tool comes later: {fault}"
            yield Diagnostic.note("policies", told, "When that is there, run this again.")


def _of_kept(file: Path) -> Diagnostic:
    subject = f"kept policies {file}"
    try:
        records = read(file)
    except ConfigurationError as error:
        return Diagnostic.error(subject, str(error), "When it is fixed, run this again.")
    # The file is replaced, not written into; where its folder is missing, that is made.
    folder = next(folder for folder in file.parents if folder.exists())
    if not os.access(folder, os.W_OK | os.X_OK):
        return Diagnostic.error(
            subject,
            f"It cannot be written: this user may not write in {folder}.",
            "Give this user the right to, or name another file with `keep`.",
        )
    return Diagnostic.ok(subject, f"{len(records)} records." if records else "Nothing is kept yet.")


def of_plugins(host: Host, faults: Mapping[str, PluginFault]) -> Iterator[Diagnostic]:
    """Yield the state of each plugin, with its fault as it was started, and deprecated uses."""
    # Late offers are taken now: the reports then have their faults.
    host.plugins.commands()
    host.dialects()
    for report in host.plugins.reports:
        yield _of_plugin(with_fault(report, faults.get(report.name)))
        for use in deprecated_uses(host.plugins, report.name):
            yield Diagnostic.warning(
                _subject(report), use, "Look for a newer version of it, or tell its author."
            )


def of_dependencies(host: Host) -> Iterator[Diagnostic]:
    """Yield the findings of the plugins; an exception of one of them is a finding, too."""
    tables = host.configuration.plugins
    secrets = {secret for name, table in tables.items() for secret in secrets_in({name: table})}
    secrets = {secret for secret in secrets if not _is_path(host, secret)}
    for found in _diagnosed(host):
        # A secret that an author has overlooked is masked all the same.
        yield replace(
            found,
            subject=without_secrets(found.subject, secrets),
            text=without_secrets(found.text, secrets),
            remedy=found.remedy and without_secrets(found.remedy, secrets),
        )
    yield from _of_sessions(host)


def _is_path(host: Host, text: str) -> bool:
    """Tell whether a text is a file in a plugin's settings: an operator has to find also a key."""
    loaded = (each.name for each in host.plugins.reports if each.status == "loaded")
    tables = (getattr(host.plugins.settings_of(name), "__dict__", {}) for name in loaded)
    files = (value for table in tables for value in table.values() if isinstance(value, Path))
    return any(str(file).endswith(text) for file in files)


def _of_sessions(host: Host) -> Iterator[Diagnostic]:
    offering = host.plugins.view.providers
    # Foreign resources may connect to something as soon as they are built.
    if (offering.get(SessionStore), offering.get(Decider)) != ("sessions", "ledger"):
        return
    with contextlib.ExitStack() as built:
        try:
            opened(host.plugins.view.bindings, built, host.configuration)
        except ToolstileError as error:
            yield Diagnostic.error("sessions", str(error), "When it is fixed, run this again.")


def _diagnosed(host: Host) -> Iterator[Diagnostic]:
    bound = host.plugins.view.providers
    for implementation in reversed(host.plugins.implementations(HOOK)):
        plugin = implementation.plugin
        try:
            found = list(implementation.call(host, bound) or ())
        except Exception as error:  # noqa: BLE001 - a plugin's fault hides nothing else
            yield Diagnostic.error(
                f"plugin {plugin}", f"Its {HOOK} failed: {one_line(error)}.", "Fix the plugin."
            )
            continue
        # Because its tools are not requested, no call can fail for lack of a dependency.
        is_unasked = host.plugins.loaded(plugin).contribution.on_request is not None
        for finding in cast("list[object]", found):
            if not isinstance(finding, Diagnostic):
                told = f"Its {HOOK} answered {type(finding).__qualname__}, not a Diagnostic."
                yield Diagnostic.error(f"plugin {plugin}", told, "Fix the plugin.")
            elif is_unasked and finding.severity in {Severity.WARNING, Severity.ERROR}:
                yield replace(finding, severity=Severity.NOTE)
            else:
                yield finding


def _of_plugin(report: PluginReport) -> Diagnostic:
    subject, remedy = _subject(report), report.remedy or "See `toolstile plugins`."
    if report.fault is None:
        return Diagnostic.ok(subject, f"It is {report.status}.")
    if report.status == "blocked":
        return Diagnostic.note(subject, report.fault, report.remedy)
    is_error = report.status == "failed" or report.misconfigured
    make = Diagnostic.error if is_error else Diagnostic.warning
    return make(subject, report.fault, remedy)


def _subject(report: PluginReport) -> str:
    return f"plugin {report.title}"
