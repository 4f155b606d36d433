"""Wheels for commands without network: pytest and what it needs, as they are installed here."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

_OF_THE_INSTALLER = {"INSTALLER", "REQUESTED", "direct_url.json"}


def build_wheels(folder: Path, name: str = "pytest") -> list[str]:
    """Pack a distribution and all it needs into wheels, and return their names."""
    return sorted(_pack(folder, packed) for packed in _with_needs(name, {}).values())


def _with_needs(name: str, found: dict[str, Distribution]) -> dict[str, Distribution]:
    if name.casefold() not in found:
        found[name.casefold()] = distribution(name)
        for requirement in map(Requirement, found[name.casefold()].requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                _with_needs(requirement.name, found)
    return found


def _pack(folder: Path, packed: Distribution) -> str:
    wheel = folder / f"{packed.name.replace('-', '_')}-{packed.version}-py3-none-any.whl"
    files: Iterable = packed.files or ()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            # Programs are made by pip when it installs; they name this interpreter.
            if not {"..", "__pycache__"} & {*file.parts} and file.name not in _OF_THE_INSTALLER:
                archive.write(file.locate(), str(file))
    return wheel.name
