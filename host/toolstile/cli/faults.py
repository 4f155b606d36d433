"""Plugins that did not load: a warning, or an error where the configuration is to blame."""

from __future__ import annotations

from toolstile.cli.failures import UsageError, say
from toolstile.host import Host


def report_faults(host: Host) -> None:
    """Say on stderr which plugins did not load.

    Raises:
        UsageError: Where that is the configuration's fault.
    """
    if unmet := host.unmet():
        raise UsageError(*unmet)
    for report in host.plugins.reports:
        if report.status != "blocked" and report.fault is not None:
            say("warning", str(report))
