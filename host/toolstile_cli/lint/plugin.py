"""Checks of one plugin that a host has met, loaded or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from toolstile.host import Host
from toolstile.plugins.discovery import forget, installed, load_entry_point, load_file
from toolstile.plugins.hook_manager import HookManager
from toolstile.plugins.inspection import hook_faults
from toolstile.plugins.plugin_errors import PluginFault, one_line
from toolstile.plugins.reports import LoadedPlugin, PluginReport, place_of
from toolstile.state.session import Session
from toolstile_cli.lint.contributions import (
    policy_findings,
    resource_findings,
    settings_findings,
    tool_findings,
    undeclared,
    undefined,
)
from toolstile_cli.lint.package import import_findings, package_findings
from toolstile_hookspecs import Finding, Prompt, ToolstileError

_SEE: Final = "See `toolstile plugins`."
_DEFAULTS: Final = (
    "Where a key can have a default, give it one in the plugin: without, no host opens where the "
    "plugin is installed and not configured."
)


def findings_in(host: Host, report: PluginReport) -> list[Finding]:
    """Return what an author should fix in a plugin.

    Args:
        host: The host that has met it; it need not be open.
        report: What became of it.
    """
    if report.status == "absent":
        return [Finding.error("configuration", report.fault or "", report.remedy or _SEE)]
    findings = list(_loading(host, report))
    if report.status == "loaded":
        record = host.plugins.loaded(report.name)
        findings += settings_findings(record)
        names = host.catalog.names()
        findings += tool_findings(record.contribution.tools, host.dialects(), names)
        findings += policy_findings(record)
        findings += resource_findings(record)
        findings += _prompt(record)
    findings += package_findings(report)
    findings += import_findings(report)
    return findings


def _loading(host: Host, report: PluginReport) -> Iterator[Finding]:
    """Yield what keeps a plugin, or a part of what it offers, from being taken."""
    if report.status == "failed":
        found = list(_in_what_is_loaded(report))
        yield from found
        if found:
            return
    if report.fault is not None:
        yield Finding.error(_place_of_fault(report), report.fault, _remedy(host, report))
    for each in report.deprecations:
        yield Finding.error("hooks", each, "Fix it before the release that leaves it out.")


def _remedy(host: Host, report: PluginReport) -> str:
    remedy = report.remedy or _SEE
    if report.place is not None and not report.misconfigured:
        return f"Fix it in {report.place}."
    # Where nothing is configured, what does not fit is what the plugin itself asks of everybody.
    if report.misconfigured and not host.configuration.table_of(report.name):
        return f"{remedy} {_DEFAULTS}"
    return remedy


def _place_of_fault(report: PluginReport) -> str:
    if report.misconfigured:
        return "configuration"
    return "offers" if report.status == "failed" or report.hooks else "hooks"


def _in_what_is_loaded(report: PluginReport) -> Iterator[Finding]:
    try:
        plugin = _load(report)
    except PluginFault as fault:
        yield _import_finding(report, fault)
        return
    if plugin is not None:
        faults = [_of_fault("hooks", each) for each in hook_faults(plugin, HookManager())]
        yield from faults or (*undeclared(plugin), *undefined(plugin))
        forget(plugin)


def _of_fault(where: str, fault: PluginFault) -> Finding:
    return Finding.error(where, fault.cause, fault.remedy)


def _load(report: PluginReport) -> object:
    """Import a plugin that was refused once more, to see all that is wrong with it."""
    if report.source == "file" and report.location is not None:
        return load_file(Path(report.location))
    of_that_name = (
        found
        for found in installed()
        if (found.name, found.distribution) == (report.name, report.distribution)
    )
    found = next(of_that_name, None)
    return None if found is None else load_entry_point(found)


def _import_finding(report: PluginReport, fault: PluginFault) -> Finding:
    error = fault.__cause__
    if error is None:
        return _of_fault("import", fault)
    place = place_of(error)
    where = f", in {place}" if place else ""
    cause = f"{report.location} cannot be imported: {one_line(error)}{where}."
    return Finding.error("import", cause, _import_remedy(report, fault, error, place))


def _import_remedy(
    report: PluginReport, fault: PluginFault, error: BaseException, place: str | None
) -> str:
    if not place and report.source == "entry point":
        return (
            f'Fix the entry point `{report.name} = "{report.location}"` in pyproject.toml, or add '
            "what it names; then install it again."
        )
    return fault.remedy if isinstance(error, ModuleNotFoundError) else "Fix it there."


def _prompt(record: LoadedPlugin) -> Iterator[Finding]:
    sections = record.contribution.sections
    if not sections:
        return
    session = Session()
    try:
        prompt = Prompt.of("check", record.origin.name, sections)
        prompt.render()
        for section in prompt.everywhere():
            section.setup(session)
        prompt.tools(session)
    except ToolstileError as error:
        yield Finding.error("prompt", str(error), "Fix the section, its template or its tools.")
    except Exception as error:  # noqa: BLE001 - a section's own code can raise anything
        cause = f"Its sections cannot be rendered, or set up: {one_line(error)}."
        place = place_of(error)
        where = "the section that raises" if place is None else f"it in {place}"
        yield Finding.error("prompt", cause, f"Fix {where}.")
