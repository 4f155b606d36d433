"""What `toolyard new` writes, beside the wheel: built, installed and tested."""

import json
import re
from pathlib import Path

import pytest

from toolyard.scaffolding.kinds import KINDS

pytestmark = [pytest.mark.slow, pytest.mark.packaging]

NAMES = {kind: f"lunch-{kind}" for kind in KINDS}


@pytest.fixture(scope="module")
def packages(own, tmp_path_factory) -> Path:
    """A folder with a package of each kind, all built and installed."""
    folder = tmp_path_factory.mktemp("new")
    own.python("-m", "pip", "install", "--quiet", "hatchling", "mypy", "pytest", "ruff")
    for kind, name in NAMES.items():
        own.toolyard("new", name, "--kind", kind, cwd=folder)
    made = [folder / f"toolyard-{name}" for name in NAMES.values()]
    wheels = folder / "wheels"
    build = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    own.python(*build, "--wheel-dir", wheels, *made)
    own.python("-m", "pip", "install", "--quiet", "--no-deps", *sorted(wheels.glob("*.whl")))
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_its_tests_pass(own, packages, kind):
    folder = packages / f"toolyard-{NAMES[kind]}"
    said = own.python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)
    assert re.search(r"^\d+ passed", said, re.MULTILINE)


def test_its_code_is_typed_and_in_order(own, packages):
    for name in NAMES.values():
        folder = packages / f"toolyard-{name}"
        own.python("-m", "mypy", cwd=folder)
        own.python("-m", "ruff", "check", ".", cwd=folder)
        own.python("-m", "ruff", "format", "--check", ".", cwd=folder)


def test_they_are_all_among_the_plugins(own, packages):
    said = own.toolyard("plugins", "--json", cwd=packages)
    found = {each["name"]: each for each in map(json.loads, said.splitlines())}
    for name in NAMES.values():
        assert found[name]["status"] == "loaded"
        assert found[name]["cause"] is None
        assert found[name]["distribution"] == f"toolyard-{name}"
