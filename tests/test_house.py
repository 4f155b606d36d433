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
from statistics import median
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
MAX_MEDIAN_FUNCTION = 8
MAX_FOLDER = 30

OLD_NAMES = set(
    """
    addresses applied approving area asking awaiting benches bounded building call_run calling
    cells chain changes checking choosing closing coinciding_keys commits complaints consoles
    contents control diagnosis doubting eager ending endings every_outcome exact_reading
    existing exits explaining facts faults finding flow forks gates given given_calls
    given_names given_plugins handling held hidden_ways holding items_json keeping kept known
    lifetime likeness lines locking loops made_up marks missing nesting notes notices noting
    offers opening order pace participants patience pins places plain_data plugin_faults
    principals processes quantities raising reading_back records redoing refusals rehearsing
    renamed replaying resuming reviewing roles roster round_trips same_again scarcity
    schema_keywords schema_parts sealing secrecy section_faults self_waits sets shelf showing
    slots spent spent_file fakes standing steps stepwise story strangers strays subcommands
    targets telling terminals tool_faults trees uncommitted undefined undoing unwritable view
    widths wording working wrong_arguments
    """.split()  # noqa: SIM905 - a list of one word a line says no more
)
"""Names of modules that said a half-sentence, or a participle, in place of their thing."""

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


def statements() -> int:
    return sum(
        isinstance(node, ast.stmt) and not is_docstring(node)
        for module in modules().values()
        for node in ast.walk(module.tree)
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


CORE_LINES = 3699
BUDGETS = {
    # The house as it was finished; the figure that was asked for stands behind each.
    "house": {
        # Raised by 3 %: the checks of fields that left the core, the one walker of core schemas,
        # and the interruptions and forks that host and plugins share all have their place here.
        "contract": 7803,  # 7,500
        # Raised by 2 %: bounded histories, shared plans and interruptions came with this figure.
        "host": 15769,  # 15,500
        "lines": 54893,  # 55,500
        # Raised by 3 %, for the same.
        "statements": 28225,  # 27,500
        "files": 281,  # 355
    },
    "faults that users met": {
        # Patterns of ECMA-262, faults told per alternative, all broken conditions at once,
        # integers that are written as 3.0, passwords in schemas.
        "contract": 425,
        # Commits on workers, rules that are checked against all tools, versions, tags and
        # dependencies of tools, resources with snapshots, corrections of a tool by configuration.
        "host": 395,
        # The same, and in the plugins: MCP servers and clients as they are, conversations in all
        # their forms, sessions over HTTP, read-before-write by schema, lists of records, the
        # options of commands apart from their plugins.
        "lines": 4480,
        "statements": 2425,
        "files": 20,
    },
    # The executor's handle, requests, principals, change sets, one decision, session stores,
    # counters, selectors, foreign tools, watched workspaces, the end of what runs elsewhere; the
    # figure that was asked for stands behind.
    "seams": {
        "contract": 1117,  # 1,000
        "host": 1696,  # 1,200
        "lines": 5223,
        "statements": 2764,
        "files": 32,
    },
    # The loop, adapters of providers, budgets, feedback, completion, `toolstile ask`, and the suite
    # that adapters pass.
    "agent": {
        "contract": 636,
        "host": 1,
        "lines": 5880,  # 2,800
        "statements": 2977,
        "files": 40,
    },
    # Rules in the configuration: expressions, their check against schemas.
    "rules": {
        "contract": 60,
        "host": 285,
        "lines": 4061,  # 1,800
        "statements": 2154,
        "files": 28,
    },
    # Questions that are kept, answered from anywhere, and resumed; the suite that stores pass.
    "people decide": {
        "contract": 269,
        "host": 60,
        "lines": 4829,  # 3,200
        "statements": 2387,
        "files": 29,
    },
    # Pages of what waits; templates, scripts and styles are apart.
    "console": {
        "contract": 0,
        "host": 0,
        "lines": 2210,  # 1,300
        "statements": 1120,
        "files": 19,
    },
    # A turn's calls as one batch, foreign tools within our calls, five frameworks, metrics, and the
    # suite that adapters pass; 1,800 lines were asked.
    "adapters": {
        "contract": 31,
        "host": 26,
        "lines": 3498,
        "statements": 1747,
        "files": 20,
    },
    # Shell and code on the call's branch, and digests of workspaces; 3,200 lines were asked.
    "shell and code": {
        "contract": 214,
        "host": 27,
        "lines": 7022,
        "statements": 3722,
        "files": 52,
    },
    # Workers, one PostgreSQL, and unknown outcomes that settle themselves; 3,200 lines were asked.
    "beyond one machine": {
        "contract": 983,
        "host": 63,
        "lines": 8309,
        "statements": 4297,
        "files": 61,
    },
    # Protected paths (420 lines), interrupts (60), outcomes of failures (120), ids and messages
    # (150), approvals over restarts and retries (250), purposes of commands (80), tables and
    # install lines (90), hosts and paths in rules (120), fakes of providers in `testing` (210).
    "faults that strangers found": {
        "contract": 902,
        "host": 449,
        "lines": 3067,  # 1,500
        "statements": 1758,
        "files": 0,
    },
    # One call as a value, an agent in a line, settings that survive a restart, and words for
    # arguments; 520 lines were asked.
    "three concepts": {
        "contract": 35,
        "host": 259,
        "lines": 567,
        "statements": 337,
        "files": 4,
    },
    # Shared commits, and statements that PostgreSQL gets together; 300 lines were asked for speed
    # and durability together.
    "fast and durable": {
        "contract": 81,
        "host": -39,
        "lines": 254,
        "statements": 159,
        "files": 1,
    },
    # Four scenes with their proofs, and the shop that they play in; 380 lines were asked.
    "demo": {
        "contract": 0,
        "host": 0,
        "lines": 420,
        "statements": 250,
        "files": 2,
    },
    # Names of new files that outlive a loss of power, and a rename of which the disk had one half.
    "loss of power": {
        "contract": 26,
        "host": 6,
        "lines": 68,
        "statements": 44,
        "files": 1,
    },
}
"""The budget of each piece of work: what it may add to the sizes of the product."""


def test_the_parts_of_the_product_keep_to_their_sizes():
    found = {
        "contract": lines_of(of_package(CONTRACT, without=SUITES)),
        "host": lines_of(of_package(HOST, without=TESTING)),
        "lines": lines_of(list(modules().values())),
        "statements": statements(),
        "files": len(modules()),
    }
    most = {name: sum(budget[name] for budget in BUDGETS.values()) for name in found}
    assert {name: size for name, size in found.items() if size > most[name]} == {}


def test_no_file_is_too_long_to_have_one_role():
    too_long = {
        module.shown: module.lines for module in modules().values() if module.lines > MAX_FILE
    }
    assert too_long == {}


def test_functions_do_one_thing():
    found = list(functions())
    too_long = {name: size for name, size in found if size > MAX_FUNCTION}
    assert too_long == {}
    assert median(size for _, size in found) <= MAX_MEDIAN_FUNCTION


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


# --- Names and words --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("package", "without"), [(CONTRACT, SUITES), (HOST, TESTING)], ids=[CONTRACT, HOST]
)
def test_a_module_is_found_by_its_name_alone(package, without):
    names = Counter(
        module.path.stem for module in of_package(package, without=without) if not module.is_package
    )
    assert {name for name, count in names.items() if count > 1} == set()


def test_modules_are_named_for_their_things():
    names = {module.shown: module.name.rpartition(".")[2] for module in modules().values()}
    assert {shown for shown, name in names.items() if name in OLD_NAMES} == set()


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


def public_definitions(nodes: list[ast.stmt]) -> Iterator[bool]:
    """Yield of each public class and function whether it has a docstring."""
    for node in nodes:
        is_definition = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if is_definition and not node.name.startswith("_"):
            yield ast.get_docstring(node) is not None
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node.body)


def test_public_definitions_say_what_they_are():
    documented = [
        has for module in modules().values() for has in public_definitions(module.tree.body)
    ]
    assert sum(documented) / len(documented) >= LEAST_DOCUMENTED


LEAST_DOCUMENTED = 2743 / 2997
"""The share before the modules were merged."""

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
