"""Checks of one plugin that a host has met, loaded or not, and of the package that brings it."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import importlib_metadata

from toolstile.host import Host
from toolstile.plugins.discovery import forget, installed, load_entry_point, load_file
from toolstile.plugins.inspection import HookManager, hook_faults
from toolstile.plugins.plugin_errors import PluginFault, one_line
from toolstile.plugins.reports import LoadedPlugin, PluginReport, place_of
from toolstile.state.session import Session
from toolstile_cli.commands.new import PREFIX, requirement
from toolstile_cli.lint.contributions import (
    deprecated_uses,
    policy_findings,
    settings_findings,
    tool_findings,
    undeclared,
    undefined,
)
from toolstile_hookspecs import Diagnostic, Prompt, ToolstileError
from toolstile_hookspecs.markers import ENTRY_POINT_GROUP, PROJECT
from toolstile_hookspecs.support.text import suggest

_SEE: Final = "See `toolstile plugins`."
_DEFAULTS: Final = (
    "Where a key can have a default, give it one in the plugin: without, no host opens where the "
    "plugin is installed and not configured."
)


def findings_in(host: Host, report: PluginReport) -> list[Diagnostic]:
    """Return the faults of a plugin that a host has met; the host need not be open."""
    if report.status == "absent":
        return [Diagnostic.error("configuration", report.fault or "", report.remedy or _SEE)]
    findings = list(_loading(host, report))
    if report.status == "loaded":
        record = host.plugins.loaded(report.name)
        findings += settings_findings(record)
        names = host.catalog.names()
        findings += tool_findings(record.contribution.tools, host.dialects(), names)
        findings += policy_findings(record)
        findings += _prompt(record)
    findings += package_findings(report)
    findings += import_findings(report)
    return findings


def _loading(host: Host, report: PluginReport) -> Iterator[Diagnostic]:
    if report.status == "failed":
        found = list(_loaded_diagnostics(report))
        yield from found
        if found:
            return
    if report.fault is not None:
        place = "offers" if report.status == "failed" or report.hooks else "hooks"
        if report.misconfigured:
            place = "configuration"
        yield Diagnostic.error(place, report.fault, _remedy(host, report))
    for use in deprecated_uses(host.plugins, report.name):
        yield Diagnostic.error("hooks", use, "Fix it before the release that leaves it out.")


def _remedy(host: Host, report: PluginReport) -> str:
    remedy = report.remedy or _SEE
    if report.place is not None and not report.misconfigured:
        return f"Fix it in {report.place}."
    # Where nothing is configured, the plugin's own settings lack defaults.
    if report.misconfigured and not host.configuration.table_of(report.name):
        return f"{remedy} {_DEFAULTS}"
    return remedy


def _loaded_diagnostics(report: PluginReport) -> Iterator[Diagnostic]:
    try:
        plugin = _load(report)
    except PluginFault as fault:
        yield _import_finding(report, fault)
        return
    if plugin is not None:
        faults = [
            _of_fault("hooks", fault) for fault in hook_faults(plugin, HookManager().arguments)
        ]
        yield from faults or (*undeclared(plugin), *undefined(plugin))
        forget(plugin)


def _of_fault(where: str, fault: PluginFault) -> Diagnostic:
    return Diagnostic.error(where, fault.cause, fault.remedy)


def _load(report: PluginReport) -> object:
    """Import a refused plugin again, to find all its faults."""
    if report.source == "file" and report.location is not None:
        return load_file(Path(report.location))
    of_that_name = (
        found
        for found in installed()
        if (found.name, found.distribution) == (report.name, report.distribution)
    )
    found = next(of_that_name, None)
    return None if found is None else load_entry_point(found)


def _import_finding(report: PluginReport, fault: PluginFault) -> Diagnostic:
    error = fault.__cause__
    if error is None:
        return _of_fault("import", fault)
    place = place_of(error)
    where = f", in {place}" if place else ""
    cause = f"{report.location} cannot be imported: {one_line(error)}{where}."
    return Diagnostic.error("import", cause, _import_remedy(report, fault, error, place))


def _import_remedy(
    report: PluginReport, fault: PluginFault, error: BaseException, place: str | None
) -> str:
    if not place and report.source == "entry point":
        return (
            f'Fix the entry point `{report.name} = "{report.location}"` in pyproject.toml, or add '
            "the module that it names; then install it again."
        )
    return fault.remedy if isinstance(error, ModuleNotFoundError) else "Fix it there."


def _prompt(record: LoadedPlugin) -> Iterator[Diagnostic]:
    sections = record.contribution.sections
    if not sections:
        return
    session = Session()
    try:
        prompt = Prompt.of("check", record.origin.name, sections)
        prompt.render()
        for section in prompt.everywhere():
            section.setup(session)
        prompt.tools(session)
    except ToolstileError as error:
        yield Diagnostic.error("prompt", str(error), "Fix the section, its template or its tools.")
    except Exception as error:  # noqa: BLE001 - a section's own code can raise anything
        cause = f"Its sections cannot be rendered, or set up: {one_line(error)}."
        place = place_of(error)
        where = "the section that raises" if place is None else f"it in {place}"
        yield Diagnostic.error("prompt", cause, f"Fix {where}.")


# --- The package


_REQUIREMENT: Final = re.compile(
    rf"{PROJECT}(?![\w.-])\s*(?:\[[^]]*\])?\s*(?P<versions>[^;]*)", re.IGNORECASE
)


def package_findings(report: PluginReport) -> Iterator[Diagnostic]:
    """Yield the faults of an installed plugin's distribution."""
    if report.source != "entry point" or report.distribution in {None, PROJECT}:
        return
    yield from _requirement(report)
    yield from _typing(report)


def _requirement(report: PluginReport) -> Iterator[Diagnostic]:
    metadata: Any = importlib_metadata
    required: list[str] = metadata.distribution(report.distribution).requires or []
    found = [
        match for requirement in required if (match := _REQUIREMENT.match(requirement.strip()))
    ]
    pin = requirement()
    if not found:
        yield Diagnostic.error(
            "package",
            f"{report.distribution} does not say that it needs {PROJECT}.",
            f'Write dependencies = ["{pin}"] into its pyproject.toml.',
        )
    elif not any(match["versions"].strip(" ()") for match in found):
        yield Diagnostic.error(
            "package",
            f"{report.distribution} does not say which versions of {PROJECT} it works with.",
            f'Write "{pin}" into the dependencies in its pyproject.toml.',
        )


def _typing(report: PluginReport) -> Iterator[Diagnostic]:
    packages = list(_packages(report.location or ""))
    # A single module can have no such file.
    if packages and not any((package / "py.typed").is_file() for package in packages):
        yield Diagnostic.error(
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
        yield from (Path(location) for location in spec.submodule_search_locations)


# --- Unknown plugins


_TO_INSTALL: Final = (
    "A package that is being written is found after `python -m pip install -e .` in its folder."
)


def brought_by(distribution: str, reports: Iterable[PluginReport]) -> list[str]:
    """Return the names of the plugins that a distribution brings, however its name is spelt."""
    wanted = _normalised(distribution)
    return [report.name for report in reports if _normalised(report.distribution or "") == wanted]


def why_unknown(name: str, reports: Iterable[PluginReport]) -> str:
    """Return the message about a name of no plugin, with the cause and the remedy."""
    reports = list(reports)
    for distribution, version in _installed(name):
        brought = brought_by(distribution, reports)
        what = f"{distribution} {version} is installed"
        if brought:
            listed = ", ".join(map(repr, brought))
            return f"there is no plugin {name!r}; {what} and brings {listed}."
        return f"there is no plugin {name!r}: {what}, but {_lacking(name, distribution)}"
    known = {report.name for report in reports}
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
    metadata: Any = importlib_metadata
    for candidate in (name, PREFIX + name):
        try:
            found = metadata.distribution(candidate)
        except (metadata.PackageNotFoundError, ValueError):
            continue
        yield found.metadata["Name"], found.version


def _normalised(name: str) -> str:
    """Return a distribution's name in the one spelling that all others come to."""
    return re.sub(r"[-_.]+", "-", name).lower()


# --- Imports


CONTRACT: Final = "toolstile_hookspecs"
_INTERNALS: Final = frozenset({"toolstile", "toolstile_plugins"})
_FOR_TESTS: Final = "toolstile.testing."


def import_findings(report: PluginReport) -> Iterator[Diagnostic]:
    """Yield the files of a plugin that import more than the contract."""
    if report.distribution == PROJECT or report.location is None:
        return
    for path, lines in _internal_imports(_files(report)):
        told = ", ".join(f"{name} (line {line})" for line, name in lines)
        yield Diagnostic.error(
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
            if name.partition(".")[0] in _INTERNALS and not f"{name}.".startswith(_FOR_TESTS)
        ]
        if lines:
            yield path, lines


def _imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield node.lineno, node.module


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
        for file in sorted(Path(folder).rglob("*.py")):
            is_test = file.name == "conftest.py" or file.name.startswith("test_")
            if not is_test and "tests" not in file.parts:
                yield file
