"""Checks of the package that brings a plugin: its requirements, types and imports."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from toolstile._version import requirement
from toolstile.plugins.reports import PluginReport
from toolstile_cli.commands.new import PREFIX
from toolstile_hookspecs import Finding
from toolstile_hookspecs.markers import ENTRY_POINT_GROUP, PROJECT
from toolstile_hookspecs.support.text import suggest

_REQUIREMENT: Final = re.compile(
    rf"{PROJECT}(?![\w.-])\s*(?:\[[^]]*\])?\s*(?P<versions>[^;]*)", re.IGNORECASE
)


def package_findings(report: PluginReport) -> Iterator[Finding]:
    """Yield what an author should fix in the distribution of an installed plugin."""
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
        yield Finding.error(
            "package",
            f"{report.distribution} does not say that it needs {PROJECT}.",
            f'Write dependencies = ["{pin}"] into its pyproject.toml.',
        )
    elif not any(match["versions"].strip(" ()") for match in found):
        yield Finding.error(
            "package",
            f"{report.distribution} does not say which versions of {PROJECT} it works with.",
            f'Write "{pin}" into the dependencies in its pyproject.toml.',
        )


def _typing(report: PluginReport) -> Iterator[Finding]:
    packages = list(_packages(report.location or ""))
    # A single module can have no such file.
    if packages and not any((each / "py.typed").is_file() for each in packages):
        yield Finding.error(
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


# --- Unknown plugins


_TO_INSTALL: Final = (
    "A package that is being written is found after `python -m pip install -e .` in its folder."
)


def brought_by(distribution: str, reports: Iterable[PluginReport]) -> list[str]:
    """Return the names of the plugins that a distribution brings.

    Args:
        distribution: Its name, however it is spelt.
        reports: Those of all plugins there are.
    """
    wanted = _normalised(distribution)
    return [each.name for each in reports if _normalised(each.distribution or "") == wanted]


def why_unknown(name: str, reports: Iterable[PluginReport]) -> str:
    """Return that there is no plugin of a name, with the cause and the remedy.

    Args:
        name: What was taken for a plugin's name, or that of its distribution.
        reports: Those of all plugins there are.
    """
    reports = list(reports)
    for distribution, version in _installed(name):
        brought = brought_by(distribution, reports)
        what = f"{distribution} {version} is installed"
        if brought:
            listed = ", ".join(map(repr, brought))
            return f"there is no plugin {name!r}; {what} and brings {listed}."
        return f"there is no plugin {name!r}: {what}, but {_lacking(name, distribution)}"
    known = {each.name for each in reports}
    hint = suggest(name, known) or f". There are {', '.join(sorted(known))}."
    return f"there is no plugin {name!r}{hint} {_TO_INSTALL}"


def _lacking(name: str, distribution: str) -> str:
    plugin = _normalised(name).removeprefix(PREFIX)
    package = _normalised(distribution).replace("-", "_")
    return (
        f"has no entry point in the group {ENTRY_POINT_GROUP!r}. "
        f"Write `[project.entry-points.{ENTRY_POINT_GROUP}]` and below it "
        f'`{plugin} = "{package}"`, the module that has the hooks, into its pyproject.toml; then '
        "install it again."
    )


def _installed(name: str) -> Iterator[tuple[str, str]]:
    """Yield the distributions of a name, or of that name as packages of plugins have it."""
    import importlib_metadata

    metadata: Any = importlib_metadata
    for each in (name, PREFIX + name):
        try:
            found = metadata.distribution(each)
        except (metadata.PackageNotFoundError, ValueError):
            continue
        yield found.metadata["Name"], found.version


def _normalised(name: str) -> str:
    """Return a distribution's name in the one spelling that all others come to."""
    return re.sub(r"[-_.]+", "-", name).lower()


# --- Imports


CONTRACT: Final = "toolstile_hookspecs"
_INTERNALS: Final = frozenset({"toolstile", "toolstile_plugins"})
_FOR_TESTS: Final = "toolstile.testing"


def import_findings(report: PluginReport) -> Iterator[Finding]:
    """Yield the files of a plugin that import what is not the contract."""
    if report.distribution == PROJECT or report.location is None:
        return
    for path, lines in _internal_imports(_files(report)):
        told = ", ".join(f"{name} (line {line})" for line, name in lines)
        yield Finding.error(
            "imports",
            f"{path} imports {told}, which may change with any release.",
            f"Import from {CONTRACT}, the contract, instead.",
        )


def _internal_imports(files: Iterable[Path]) -> Iterator[tuple[Path, list[tuple[int, str]]]]:
    for path in files:
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        lines = [
            (line, name)
            for line, name in _imports(tree)
            if name.partition(".")[0] in _INTERNALS and not _is_for_tests(name)
        ]
        if lines:
            yield path, lines


def _imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield node.lineno, node.module


def _is_for_tests(name: str) -> bool:
    return name == _FOR_TESTS or name.startswith(f"{_FOR_TESTS}.")


def _files(report: PluginReport) -> Iterator[Path]:
    location = report.location or ""
    if report.source == "file":
        yield Path(location)
        return
    if report.source != "entry point":
        return
    spec = find_spec(re.split(r"[:.\s\[]", location, maxsplit=1)[0])
    if spec is None or spec.origin is None:
        return
    if spec.submodule_search_locations is None:
        yield Path(spec.origin)
        return
    for folder in spec.submodule_search_locations:
        files = Path(folder).rglob("*.py")
        yield from (each for each in sorted(files) if not _is_test(each))


def _is_test(path: Path) -> bool:
    return path.name == "conftest.py" or path.name.startswith("test_") or "tests" in path.parts
