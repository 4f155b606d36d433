"""Where the mutants live: a copy of the sources and the tests, laid out as mutmut wants it."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]

_CONFIGURATION = ROOT / "tools" / "mutating" / "setup.cfg"
_PACKAGES = (
    "hookspecs/toolstile_hookspecs",
    "host/toolstile",
    "host/toolstile_cli",
    "plugins/toolstile_plugins",
)
_READ_BY_TESTS = ("tests", "docs")


def lay_out(place: Path) -> None:
    """Copy what is mutated, and beside the mutants what tests them.

    mutmut names a mutant after its file's path, less `src`, and what the tests call by the
    module's name. So the three packages lie side by side in `src`. A file that did not change is
    not mutated again.
    """
    mutants = place / "mutants"
    mutants.mkdir(parents=True, exist_ok=True)
    for package in _PACKAGES:
        _copy(ROOT / package, place / "src" / Path(package).name)
    for folder in _READ_BY_TESTS:
        _copy(ROOT / folder, mutants / folder)
    for file in (ROOT / "pyproject.toml", ROOT / "conftest.py"):
        shutil.copy2(file, mutants)
    shutil.copy2(_CONFIGURATION, place)


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
