"""Plugins that did not load: a warning, or an error where the configuration is to blame."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from toolyard.cli.failures import UsageError, say
from toolyard.host import Host
from toolyard.plugins.reports import PluginReport


def report_faults(host: Host, args: argparse.Namespace) -> None:
    """Say on stderr which plugins did not load.

    Raises:
        UsageError: Where that is the configuration's fault.
    """
    faults = misconfigured(host, args, host.plugins.reports)
    if faults:
        raise UsageError(*map(str, faults))
    for report in host.plugins.reports:
        if report.status != "blocked" and report.fault is not None:
            say("warning", str(report))


def misconfigured(
    host: Host, args: argparse.Namespace, reports: Iterable[PluginReport]
) -> list[PluginReport]:
    """Return those of the plugins for whose fault the configuration is to blame.

    To switch off what is not installed is worth a warning only: it is off.
    """
    switched_off = {*args.block, *host.configuration.block}
    return [
        report
        for report in reports
        if report.misconfigured and not (report.status == "absent" and report.name in switched_off)
    ]
