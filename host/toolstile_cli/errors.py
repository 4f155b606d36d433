"""Errors of the command line itself, as people read them."""

from __future__ import annotations

import sys

from toolstile.host import Host
from toolstile_hookspecs.support.text import printable


class UsageError(Exception):
    """The input or the command is wrong; says why and what to do.

    Args:
        faults: The faults, one line each.
    """

    def __init__(self, *faults: str) -> None:
        super().__init__(*faults)
        self.faults = faults


def say(kind: str, *texts: str) -> None:
    """Write lines for people to stderr, `toolstile: error: ...`, made safe for a terminal."""
    for text in texts:
        first, *rest = (printable(line) for line in text.splitlines() or [""])
        sys.stderr.write("\n  ".join([f"toolstile: {kind}: {first}", *rest]) + "\n")
    sys.stderr.flush()


def say_interrupted() -> None:
    """Say on stderr what an interruption means, for commands that sum nothing up."""
    say("interrupted", "what was running is rolled back.")


# --- Plugins that did not load


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
