"""The house keeps its order: layers, sizes, names and the walk of a call.

The numbers are a ratchet: a change may lower them, and none raises one without a reason beside it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

# The source is the same on every Python: once is enough.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "toolstile_hookspecs": ROOT / "hookspecs",
    "toolstile": ROOT / "host",
    "toolstile_cli": ROOT / "host",
    "toolstile_plugins": ROOT / "plugins",
}
CORE = (
    "hooks",
    "markers",
    "tools",
    "decorator",
    "context",
    "calls",
    "results",
    "content",
    "sections",
    "sessions",
    "resources",
    "transactions",
    "policies",
    "approval",
    "limits",
    "errors",
    "handles",
    "prompts",
)
"""The core of the contract: the modules that the author of a plugin reads."""

MAX_FILE = 800
MAX_FUNCTION = 60
MAX_FOLDER = 30

QUESTION_WORDS = ("What", "Which", "Whether", "How", "Who")


@dataclass(frozen=True)
class Module:
    """A module of the product."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def shown(self) -> str:
        return str(self.path.relative_to(PACKAGES[self.name.partition(".")[0]]))

    @property
    def lines(self) -> int:
        return self.text.count("\n")


@cache
def modules() -> dict[str, Module]:
    found: dict[str, Module] = {}
    for package, folder in PACKAGES.items():
        for path in sorted((folder / package).rglob("*.py")):
            name = ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(
                ".__init__"
            )
            text = path.read_text(encoding="utf-8")
            found[name] = Module(name, path, text, ast.parse(text))
    return found


def of_package(package: str, *, without: tuple[str, ...] = ()) -> list[Module]:
    return [
        module
        for name, module in modules().items()
        if name.partition(".")[0] == package
        and not any(name == each or name.startswith(f"{each}.") for each in without)
    ]


CONTRACT = "toolstile_hookspecs"
SUITES = ("toolstile_hookspecs.testing",)
HOST = "toolstile"
TESTING = ("toolstile.testing",)


def lines_of(found: list[Module]) -> int:
    return sum(module.lines for module in found)


def is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def functions() -> Iterator[tuple[str, int]]:
    """Yield the place and the length of each function."""
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                yield f"{module.shown} {node.name}", node.end_lineno - node.lineno + 1


# --- Sizes ------------------------------------------------------------------------------------


def test_the_core_of_the_contract_is_read_in_half_an_hour():
    core = [modules()[f"{CONTRACT}.{name}"] for name in CORE]
    assert len(core) <= 18
    assert lines_of(core) <= CORE_LINES


CORE_LINES = 3636 + 169
"""The second number is for transactions, cards, children, undo, and the hook of `status`."""
MAX_LINES = {
    "toolstile_hookspecs": 17784 + 562,
    "toolstile": 19820 + 1589,
    "toolstile_cli": 5840 + 69,
    "toolstile_plugins": 55377 + 1980 + 6837 + 526 + 472,
}
"""The size of each package. An issue that adds lines states its share here before it begins.

The second number is the share of what people can hold: transactions of several calls, stop, undo,
one card for a turn, and children, because they are new. 2,600 lines were stated for all; the rest
is to be cut. The third is the share of rules over commands, hooks of coding agents and `wrap`,
for which 3,200 lines were stated; the rest is to be cut. The fourth is the share of the console's
controls: stop and go, servers, rules. The fifth is that of its charts and sessions.
"""


@pytest.mark.parametrize("package", MAX_LINES)
def test_a_package_does_not_grow(package):
    assert lines_of(of_package(package)) <= MAX_LINES[package]


def test_the_product_does_not_grow():
    assert lines_of(list(modules().values())) <= sum(MAX_LINES.values())


def test_no_file_is_too_long_to_have_one_role():
    too_long = {
        module.shown: module.lines for module in modules().values() if module.lines > MAX_FILE
    }
    assert too_long == {}


def test_functions_do_one_thing():
    too_long = {name: size for name, size in functions() if size > MAX_FUNCTION}
    assert too_long == {}


def test_folders_can_be_taken_in_at_a_glance():
    folders = Counter(str(Path(module.shown).parent) for module in modules().values())
    crowded = {folder: count for folder, count in folders.items() if count > MAX_FOLDER}
    assert crowded == {}


# --- Imports ----------------------------------------------------------------------------------


def imports_of(module: Module, *, with_types: bool) -> set[str]:
    """Return the modules of ours that a module imports.

    Args:
        module: The module.
        with_types: Count also imports for type checkers, and those in functions.
    """
    found = {known(name) for name in imported(module, module.tree.body, with_types=with_types)}
    return found - {"", module.name}


def known(name: str) -> str:
    """Return the module of ours that a dotted name is in, "" where it is in none."""
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return name


def imported(module: Module, nodes: list[Any], *, with_types: bool) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{base_of(module, node)}.{alias.name}" for alias in node.names)
        elif with_types or not is_for_types(node):
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from imported(module, getattr(node, field, []), with_types=with_types)


def is_for_types(node: ast.stmt) -> bool:
    """Tell whether a statement's imports do not happen when its module is imported."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.dump(node.test)
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def base_of(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    kept = parts[: len(parts) - node.level + module.is_package]
    return ".".join([*kept, *([node.module] if node.module else [])])


def rings(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the sets of modules that import one another, by reachability."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for name in graph[waiting.pop()] - seen:
                seen.add(name)
                waiting.append(name)
        return seen

    reach = {name: reached(name) for name in graph}
    found: list[set[str]] = []
    for name in graph:
        ring = {other for other in reach[name] if name in reach[other]}
        if ring and ring not in found:
            found.append(ring)
    return found


def test_no_modules_import_one_another_at_run_time():
    graph = {name: imports_of(module, with_types=False) for name, module in modules().items()}
    assert rings(graph) == []


TYPE_RINGS = {
    # The types of the contract's core know one another; the goal is six.
    "toolstile_hookspecs": 9,
}


def test_hardly_any_modules_need_one_another_even_for_types():
    graph = {name: imports_of(module, with_types=True) for name, module in modules().items()}
    largest: dict[str, int] = {}
    for ring in rings(graph):
        packages = " and ".join(sorted({name.partition(".")[0] for name in ring}))
        largest[packages] = max(largest.get(packages, 0), len(ring))
    assert {name: size for name, size in largest.items() if size > TYPE_RINGS.get(name, 0)} == {}


MAX_LATE_IMPORTS = 60
"""Import statements that stand directly in the body of a function."""


def test_imports_stand_at_the_top_unless_they_load_something_heavy():
    late = [
        f"{module.shown}:{statement.lineno}"
        for module in modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for statement in node.body
        if isinstance(statement, ast.Import | ast.ImportFrom)
    ]
    assert len(late) <= MAX_LATE_IMPORTS, late


MAX_HIDDEN_STATE = 0
"""Private attributes of settings models; none is the goal."""


def test_settings_hold_no_running_parts():
    hidden = [
        f"{module.shown}:{node.lineno}"
        for module in modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "PrivateAttr"
    ]
    assert len(hidden) <= MAX_HIDDEN_STATE, hidden


# --- Names and words --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "without"), [(CONTRACT, SUITES), (HOST, TESTING)], ids=[CONTRACT, HOST]
)
def test_a_module_is_found_by_its_name_alone(package, without):
    names = Counter(
        module.path.stem for module in of_package(package, without=without) if not module.is_package
    )
    assert {name for name, count in names.items() if count > 1} == set()


NEVER_CHANGED = "toolstile-first"
"""The plugin that shows that version 1.0 of the contract still works."""


def docstrings() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each docstring, also of tests, tools and examples."""
    folders = ("hookspecs", "host", "plugins", "bench", "tests", "tools", "docs")
    paths = {path for folder in folders for path in (ROOT / folder).rglob("*.py")}
    for path in sorted(path for path in paths if NEVER_CHANGED not in path.parts):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            body = getattr(node, "body", None)
            for statement in body if isinstance(body, list) else []:
                if is_docstring(statement):
                    yield f"{path.relative_to(ROOT)}:{statement.lineno}", statement.value.value


def test_docstrings_begin_with_their_subject():
    found = [
        place
        for place, text in docstrings()
        if re.match(rf"({'|'.join(QUESTION_WORDS)})\b", text.strip())
    ]
    assert found == []


# --- The walk of a call -----------------------------------------------------------------------

WALK = """
import sys
from toolstile import Host, MarkdownSection, Prompt, ToolCall, tool

def add(a: int, b: int) -> int:
    "Add two integers."
    return a + b

seen = []

def profile(frame, event, _):
    name = frame.f_code.co_filename
    if event == "call" and "/toolstile" in name:
        seen.append((name.rpartition("/toolstile")[2], frame.f_code.co_qualname))

name, options = ("add", {}) if sys.argv[1] == "timeout" else ("inline", {"timeout": None})
section = MarkdownSection(key="sums", title="Sums", tools=[tool(name=name, **options)(add)])
with Host(discover=False) as host, host.executor(prompt=Prompt.of("w", "s", [section])) as tools:
    for _ in range(3):
        tools.dispatch(ToolCall(name, {"a": 1, "b": 2}))
    call = ToolCall(name, '{"a": 1, "b": 2}')
    seen.clear()
    sys.setprofile(profile)
    outcome = tools.dispatch(call)
    sys.setprofile(None)
assert outcome.text == "3", outcome.text
changes = sum(here[0] != there[0] for here, there in zip(seen, seen[1:]))
print(len({module for module, _ in seen}), len(set(seen)), changes)
"""
WALKS = {
    # Modules, functions and changes of module; the goals are 22, 52, 45 and 18, 40, 32.
    # A busy machine may take another way round the wait for the thread.
    # One module more: plugins use the worker threads, too.
    "timeout": (20, 45, 40),
    "inline": (18, 37, 32),
}


@pytest.mark.skipif(sys.version_info < (3, 13), reason="older Pythons take another way round enums")
@pytest.mark.parametrize("kind", WALKS)
def test_a_plain_call_passes_few_modules(kind):
    done = subprocess.run(
        [sys.executable, "-c", WALK, kind], capture_output=True, text=True, check=True
    )
    walked = tuple(int(figure) for figure in done.stdout.split())
    assert all(here <= most for here, most in zip(walked, WALKS[kind], strict=True)), walked
