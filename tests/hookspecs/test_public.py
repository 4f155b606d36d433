"""The public names of the contract."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

import toolstile_hookspecs

MODULES = sorted(
    each.name
    for each in pkgutil.walk_packages(toolstile_hookspecs.__path__, "toolstile_hookspecs.")
)
IMPORTS = ast.parse(inspect.getsource(toolstile_hookspecs)).body[1:]
NAMES = [each.asname for line in IMPORTS for each in line.names]


def own_members(kind):
    for name, member in vars(kind).items():
        inner = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if not name.startswith("_") and (inspect.isfunction(inner) or isinstance(inner, property)):
            yield name, inner


def test_the_names_are_exported_explicitly_and_once():
    assert all(each.asname == each.name for line in IMPORTS for each in line.names)
    assert len(set(NAMES)) == len(NAMES)
    assert all(hasattr(toolstile_hookspecs, name) for name in NAMES)


def test_every_error_is_public():
    kinds = vars(toolstile_hookspecs.errors).values()
    assert {each.__name__ for each in kinds if isinstance(each, type)} <= set(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_says_what_it_is(name):
    value = getattr(toolstile_hookspecs, name)
    if not isinstance(value, type) and not inspect.isroutine(value):
        return
    doc = inspect.getdoc(value)
    assert doc
    assert not doc.startswith(f"{name}(")
    if isinstance(value, type):
        missing = [member for member, inner in own_members(value) if not inspect.getdoc(inner)]
        assert not missing


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is(name):
    assert importlib.import_module(name).__doc__


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_run(name):
    public = {each: getattr(toolstile_hookspecs, each) for each in NAMES}
    result = doctest.testmod(
        importlib.import_module(name),
        extraglobs=public,
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS,
    )
    assert result.failed == 0


@pytest.mark.slow
def test_the_contract_imports_neither_host_nor_plugins():
    text = (
        "import sys, pkgutil, importlib, toolstile_hookspecs as t\n"
        "for m in pkgutil.walk_packages(t.__path__, 'toolstile_hookspecs.'):\n"
        "    if '.testing' not in m.name: importlib.import_module(m.name)\n"
        "print([m for m in sys.modules if m.split('.')[0] in "
        "{'toolstile', 'toolstile_plugins', 'rich', 'importlib_metadata'}])"
    )
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_calls_and_contexts_are_built_in_the_two_ways_the_host_builds_them():
    for kind in (
        toolstile_hookspecs.ToolInvoked,
        toolstile_hookspecs.Outcome,
        toolstile_hookspecs.ToolContext,
    ):
        made = object.__new__(kind)
        made.__dict__.update(session=None)
        assert made.__dict__ == {"session": None}
        assert kind.__dataclass_params__.frozen
