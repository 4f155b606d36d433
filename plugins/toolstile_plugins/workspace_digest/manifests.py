"""Manifests: files that say how a project is built, tested and started."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that a manifest states.

    Args:
        about: The name of the project, and what it is.
        commands: Commands that build, test or check it.
        entry_points: The programs that it offers.
    """

    about: str = ""
    commands: tuple[str, ...] = ()
    entry_points: tuple[str, ...] = ()


_TARGET: Final = re.compile(r"^([A-Za-z0-9][\w.-]*)\s*:(?![=:])", re.MULTILINE)
_ENVIRONMENT: Final = re.compile(r"^\[testenv:([\w.-]+)\]", re.MULTILINE)
_RUN: Final = re.compile(r"^\s*(?:- )?run:[ \t]+([^|>\s].*)$", re.MULTILINE)


def _pyproject(text: str) -> Facts:
    import tomllib  # late, as most hosts read no manifest

    table = tomllib.loads(text)
    project, tools = _table(table, "project"), _table(table, "tool")
    commands = ["python -m build"] if "build-system" in table else []
    commands += [name for name in ("pytest", "tox") if name in tools]
    scripts = {**_table(project, "scripts"), **_table(_table(tools, "poetry"), "scripts")}
    points = tuple(f"{name} = {target}" for name, target in scripts.items())
    return Facts(_about(project), tuple(commands), points)


def _package_json(text: str) -> Facts:
    package: dict[str, Any] = json.loads(text)
    points = tuple(f"{name} = {target}" for name, target in _table(package, "bin").items())
    commands = tuple(f"npm run {script}" for script in _table(package, "scripts"))
    return Facts(_about(package), commands, points)


def _makefile(text: str) -> Facts:
    return Facts(commands=tuple(f"make {name}" for name in dict.fromkeys(_TARGET.findall(text))))


def _tox(text: str) -> Facts:
    return Facts(commands=("tox", *(f"tox -e {name}" for name in _ENVIRONMENT.findall(text))))


def _workflow(text: str) -> Facts:
    return Facts(commands=tuple(dict.fromkeys(run.strip() for run in _RUN.findall(text))))


READERS: Final[Mapping[str, Callable[[str], Facts]]] = {
    "pyproject.toml": _pyproject,
    "package.json": _package_json,
    "Makefile": _makefile,
    "tox.ini": _tox,
}
"""The reader of each manifest, by its name."""

WORKFLOWS: Final = ".github/workflows"
"""The directory whose files say what CI runs."""


def facts_of(name: str, text: str) -> Facts:
    """Return the facts that a manifest of a name states; none where it is malformed."""
    try:
        return READERS.get(name, _workflow)(text)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return Facts()


def _table(within: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found: Any = within.get(key)
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _about(table: Mapping[str, Any]) -> str:
    name, told = table.get("name"), table.get("description")
    return ": ".join(text for text in (name, told) if isinstance(text, str) and text)
