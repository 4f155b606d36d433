"""A single Python file can be a plugin."""

import sys
import textwrap
from pathlib import Path

import pytest

from toolstile.plugins.registry import Plugins
from toolstile.settings import Settings
from toolstile_hookspecs import PluginError

SOURCE = """
    '''Tools in a file.'''
    from __future__ import annotations
    from dataclasses import dataclass
    from toolstile_hookspecs import MarkdownSection, hookimpl, tool

    @dataclass(frozen=True)
    class Sum:
        value: int

    @tool
    def add(a: int, b: int) -> Sum:
        "Add."
        return Sum(a + b)

    @hookimpl
    def toolstile_sections():
        return [MarkdownSection(key="math", title="Math", tools=[add])]
"""


@pytest.fixture
def write(tmp_path):
    def write(source, name="math.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(source))
        return path

    return write


@pytest.fixture
def plugins():
    return Plugins(settings=Settings())


@pytest.fixture(autouse=True)
def nothing_stays_imported():
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("toolstile_file_"):
            del sys.modules[name]


def modules_from_files():
    return {name for name in sys.modules if name.startswith("toolstile_file_")}


def test_a_file_is_a_plugin_that_is_called_as_its_stem(plugins, write):
    path = write(SOURCE)
    report = plugins.register_file(path)
    assert (report.name, report.source, report.location) == ("math", "file", str(path))
    assert (report.tools, report.summary) == (("add",), "Tools in a file.")
    assert plugins.catalog.get("add")(1, 2).value == 3
    assert "math" not in sys.modules or not hasattr(sys.modules["math"], "toolstile_sections")


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import zqnothing", r"ModuleNotFoundError: No module named 'zqnothing'"),
        ("raise SystemExit", r"SystemExit"),
        (
            SOURCE + "\n    @hookimpl\n    def toolstile_lokup(call): ...",
            r"no hook toolstile_lokup",
        ),
    ],
)
def test_a_broken_file_raises_and_leaves_nothing(plugins, write, source, cause):
    before = modules_from_files()
    with pytest.raises(PluginError, match=rf"Plugin 'math' is not registered: .*{cause}"):
        plugins.register_file(write(source))
    assert plugins.reports == ()
    assert plugins.catalog.names() == ()
    assert modules_from_files() == before


def test_an_interrupt_while_a_file_is_imported_goes_through(plugins, write):
    before = modules_from_files()
    with pytest.raises(KeyboardInterrupt):
        plugins.register_file(write("raise KeyboardInterrupt"))
    assert modules_from_files() == before


def test_a_file_that_is_not_there(plugins, tmp_path):
    with pytest.raises(PluginError, match=r"absent\.py cannot be read: No such file .*\. Name a"):
        plugins.register_file(tmp_path / "absent.py")


def test_a_file_of_another_kind(plugins, tmp_path):
    (tmp_path / "plugin.txt").touch()
    with pytest.raises(PluginError, match=r"is not a Python file\. Name a file that ends"):
        plugins.register_file(tmp_path / "plugin.txt")
    with pytest.raises(PluginError, match=r"Plugin '\.' is not registered: \. is not a Python"):
        plugins.register_file(Path())


def test_a_blocked_file_is_not_even_imported(write):
    plugins = Plugins(settings=Settings(), block=["math"])
    assert plugins.register_file(write("1 / 0")).status == "blocked"


def test_an_unregistered_file_can_be_registered_anew_as_it_is_then(plugins, write):
    before = modules_from_files()
    plugins.register_file(write(SOURCE))
    plugins.unregister("math")
    assert modules_from_files() == before
    plugins.register_file(write(SOURCE.replace("def add", "def plus").replace("[add]", "[plus]")))
    assert plugins.catalog.names() == ("plus",)


def test_configured_files_are_discovered_each_by_itself(write, tmp_path):
    good, bad = write(SOURCE), write("1 / 0", "bad.py")
    plugins = Plugins(settings=Settings(plugin_files=(bad, tmp_path / "away.py", good)))
    plugins.discover()
    plugins.discover()
    found = {each.name: each for each in plugins.reports if each.source == "file"}
    assert {name: each.status for name, each in found.items()} == {
        "math": "loaded",
        "bad": "failed",
        "away": "failed",
    }
    assert "ZeroDivisionError: division by zero" in found["bad"].fault
    assert found["bad"].remedy == "Fix the file."


def test_hooks_of_a_class_in_a_file_are_told_to_be_functions(plugins, write):
    report = plugins.register_file(
        write(
            "from toolstile_hookspecs import hookimpl\n\n\nclass Suite:\n    @hookimpl\n"
            "    def toolstile_sections(self):\n        return []\n"
        )
    )
    assert report.fault == "It implements no hook."
    assert report.remedy == (
        "The hooks of its class Suite are methods; write them as functions of the module, "
        "without self."
    )


def test_a_file_that_cannot_be_looked_at_is_told_with_the_cause(plugins, tmp_path):
    told = r"x\.py cannot be read: File name too long\. Name a file that can be read\."
    with pytest.raises(PluginError, match=told):
        plugins.register_file(tmp_path / f"{'x' * 300}.py")
