"""The Python, what is installed with it, and the extras."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Final

from importlib_metadata import PackageNotFoundError, requires, version

from toolstile._version import __version__
from toolstile_hookspecs import CONTRACT_VERSION, Finding
from toolstile_hookspecs.markers import PROJECT
from toolstile_hookspecs.support.text import extra_remedy

# Of what the standard allows, the part in which Toolstile states its requirements.
_REQUIREMENT: Final = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?(?P<bounds>[^;]*)(;.*extra == ['\"](?P<extra>[^'\"]+))?"
)
_BOUND: Final = re.compile(r"(?P<sign>>=|<)(?P<version>[0-9.]+)")


def surroundings() -> Iterator[Finding]:
    """Yield what is the case with the Python and with what Toolstile requires."""
    yield Finding.ok("Python", f"{platform.python_version()}, {sys.executable}")
    contract = f"version {CONTRACT_VERSION} of the contract"
    yield Finding.ok(PROJECT, f"{__version__}, with {contract}")
    try:
        stated = requires(PROJECT) or []
    except PackageNotFoundError:
        yield Finding.warning(
            PROJECT,
            "It is imported, but not installed: no plugin can be found.",
            "Install it from its checkout: python -m pip install .",
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
            yield Finding.ok(found["name"], version(found["name"]))
        else:
            # With a marker it is required on some platforms only.
            report = Finding.note if ";" in requirement else Finding.error
            remedy = f"pip install --upgrade '{found['name']}{found['bounds']}'"
            yield report(found["name"], fault, remedy)
    yield from _of_extras(extras)


def _of_extras(extras: Mapping[str, list[str]]) -> Iterator[Finding]:
    for extra, faults in extras.items():
        if faults:
            yield Finding.note(f"extra {extra}", " ".join(faults), extra_remedy(extra))
        else:
            yield Finding.ok(f"extra {extra}", "It is installed.")


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
    numbers = [int(each) for each in found[0].split(".")] if found else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
