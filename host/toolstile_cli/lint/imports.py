"""Checks of the imports of a plugin: of Toolstile only the names that stay stable."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from toolstile.plugins.reports import PluginReport
from toolstile_cli.lint.diagnostic import Finding
from toolstile_hookspecs.markers import PROJECT

CONTRACT: Final = "toolstile_hookspecs"
_INTERNALS: Final = frozenset({"toolstile", "toolstile_plugins"})
_FOR_TESTS: Final = "toolstile.testing"


def import_findings(report: PluginReport) -> Iterator[Finding]:
    """Yield the files of a plugin that import what is not the contract."""
    if report.distribution == PROJECT or report.location is None:
        return
    for path, lines in _internal_imports(_files(report)):
        told = ", ".join(f"{name} (line {line})" for line, name in lines)
        yield Finding(
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
