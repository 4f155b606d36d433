"""The package that `toolstile new` writes, beside the wheel: built, installed and tested."""

import json
import re
from pathlib import Path

import pytest

from toolstile_cli.options import KINDS

pytestmark = [pytest.mark.slow, pytest.mark.packaging]

# pytest takes classes of such names for tests, and lines that hold them are as long as they get.
NAMES = {kind: f"test-of-a-rather-long-name-{kind[:3]}" for kind in KINDS}


@pytest.fixture(scope="module")
def packages(own, tmp_path_factory) -> Path:
    """A folder with a package of each kind, all built and installed."""
    folder = tmp_path_factory.mktemp("new")
    # Many an author has pytest-asyncio, which warns where it is not configured.
    tools = ("hatchling", "mypy", "pytest", "pytest-asyncio", "ruff")
    own.python("-m", "pip", "install", "--quiet", *tools)
    for kind, name in NAMES.items():
        own.toolstile("new", name, "--kind", kind, cwd=folder)
    made = [folder / f"toolstile-{name}" for name in NAMES.values()]
    wheels = folder / "wheels"
    build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    own.python(*build, "--wheel-dir", wheels, *made)
    own.python("-m", "pip", "install", "--quiet", "--no-deps", *sorted(wheels.glob("*.whl")))
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_its_tests_pass(own, packages, kind):
    folder = packages / f"toolstile-{NAMES[kind]}"
    said = own.python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)
    assert re.search(r"^\d+ passed", said, re.MULTILINE)


def test_its_code_is_typed_and_in_order(own, packages):
    for name in NAMES.values():
        folder = packages / f"toolstile-{name}"
        own.python("-m", "mypy", "--cache-dir", packages / "mypy", cwd=folder)
        own.python("-m", "ruff", "check", ".", cwd=folder)
        own.python("-m", "ruff", "format", "--check", ".", cwd=folder)


def test_they_are_all_among_the_plugins(own, packages):
    said = own.toolstile("plugins", "--json", cwd=packages)
    found = {each["name"]: each for each in map(json.loads, said.splitlines())}
    for name in NAMES.values():
        assert found[name]["status"] == "loaded"
        assert found[name]["cause"] is None
        assert found[name]["distribution"] == f"toolstile-{name}"


CHECK = """
import sys
from toolstile_cli.main import main

sys.exit(0 if main(["check", "--json"]) == int(sys.argv[1]) else "another status")
"""


@pytest.fixture
def checked(own, packages):
    """Checks all plugins, with the source of some packages changed; gives what is found in each."""
    (site,) = own.folder.glob("lib/python*/site-packages")
    before: dict[Path, str] = {}

    def checked(change=None, kinds=KINDS) -> dict[str, list[tuple[str, str]]]:
        for kind in kinds if change else ():
            path = site / f"toolstile_{NAMES[kind].replace('-', '_')}" / "__init__.py"
            before[path] = path.read_text("utf-8")
            changed = change(before[path])
            assert changed != before[path]
            path.write_text(changed, "utf-8")
        said = own.python("-c", CHECK, "1" if change else "0", cwd=packages)
        reports = map(json.loads, said.splitlines())
        return {
            each["name"]: [(found["where"], found["cause"]) for found in each["findings"]]
            for each in reports
        }

    yield checked
    for path, source in before.items():
        path.write_text(source, "utf-8")


def test_there_is_nothing_to_mend_in_them(checked):
    found = checked()
    assert set(NAMES.values()) <= set(found)
    assert not any(found.values())


@pytest.mark.parametrize(
    ("pattern", "instead", "where", "told"),
    [
        (
            r"def toolstile_(\w+)",
            r"def toolstile_\1x",
            "hooks",
            r"There is no hook toolstile_\w+x\.",
        ),
        (r"(def toolstile_\w+)\(", r"\1(nonsense, ", "hooks", r"has no argument nonsense"),
        (
            r"\nimport |\nfrom toolstile",
            r"\nimport no_such_module\g<0>",
            "import",
            "no_such_module",
        ),
    ],
    ids=["misspelt hook", "wrong argument", "raising import"],
)
def test_a_fault_that_is_put_into_each_is_named(checked, pattern, instead, where, told):
    found = checked(lambda source: re.sub(pattern, instead, source, count=1))
    for name in NAMES.values():
        assert [place for place, _ in found[name]] == [where], found[name]
        assert re.search(told, found[name][0][1])


CLASHING = """

from toolstile_hookspecs import MarkdownSection, hookimpl, tool


@tool(name="test_of_a_rather_long_name_sui_add")
def clashing() -> None:
    '''Have a name that another has.'''


@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="clashing", title="Clashing", tools=[clashing])]
"""


def test_a_tool_that_clashes_is_named(checked):
    found = checked(lambda source: source + CLASHING, kinds=["policy"])
    ((where, told),) = found[NAMES["suite"]]
    assert where == "offers"
    assert f"a_rather_long_name_sui_add', a name that plugin {NAMES['policy']!r}" in told
