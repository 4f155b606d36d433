"""Checks the distribution that brings a plugin."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from toolstile._version import requirement
from toolstile.checks.finding import Finding
from toolstile.plugins.reports import PluginReport
from toolstile_hookspecs.markers import PROJECT

_REQUIREMENT: Final = re.compile(
    rf"{PROJECT}(?![\w.-])\s*(?:\[[^]]*\])?\s*(?P<versions>[^;]*)", re.IGNORECASE
)


def package_findings(report: PluginReport) -> Iterator[Finding]:
    """Yield what an author should mend in the distribution of an installed plugin."""
    if report.source != "entry point" or report.distribution in {None, PROJECT}:
        return
    yield from _requirement(report)
    yield from _typing(report)


def _requirement(report: PluginReport) -> Iterator[Finding]:
    import importlib_metadata

    metadata: Any = importlib_metadata
    required: list[str] = metadata.distribution(report.distribution).requires or []
    found = [match for each in required if (match := _REQUIREMENT.match(each.strip()))]
    pin = requirement()
    if not found:
        yield Finding(
            "package",
            f"{report.distribution} does not say that it needs {PROJECT}.",
            f'Write dependencies = ["{pin}"] into its pyproject.toml.',
        )
    elif not any(match["versions"].strip(" ()") for match in found):
        yield Finding(
            "package",
            f"{report.distribution} does not say which versions of {PROJECT} it works with.",
            f'Write "{pin}" into the dependencies in its pyproject.toml.',
        )


def _typing(report: PluginReport) -> Iterator[Finding]:
    packages = list(_packages(report.location or ""))
    # A single module can have no such file.
    if packages and not any((each / "py.typed").is_file() for each in packages):
        yield Finding(
            "package",
            f"{packages[0].name} has no file py.typed, so type checkers ignore its annotations.",
            f"Add an empty file py.typed to {packages[0].name}.",
        )


def _packages(value: str) -> Iterator[Path]:
    """Yield the folders of the packages that an entry point's module lies in, outermost first."""
    parts = re.split(r"[:\s\[]", value, maxsplit=1)[0].split(".")
    for end in range(1, len(parts) + 1):
        try:
            spec = importlib.util.find_spec(".".join(parts[:end]))
        except Exception:  # noqa: BLE001 - it imports the packages around, which may raise
            return
        if spec is None or spec.submodule_search_locations is None:
            return
        yield from (Path(each) for each in spec.submodule_search_locations)
