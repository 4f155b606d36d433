"""The wheel works in a clean environment of each supported Python that is there."""

import json

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.packaging]

WHERE = """
import importlib, sysconfig, pathlib
site = pathlib.Path(sysconfig.get_path("purelib")).resolve()
for name in ("toolstile_hookspecs", "toolstile", "toolstile_plugins"):
    path = pathlib.Path(importlib.import_module(name).__file__).resolve()
    assert site in path.parents, path
"""


def test_requirements_agree(installed):
    assert "No broken requirements found" in installed.python("-m", "pip", "check")


def test_the_packages_come_from_the_wheel(installed):
    installed.python("-c", WHERE)


def test_version(installed, built, tmp_path):
    version = built.wheel.name.split("-")[1]
    assert version in installed.toolstile("--version", cwd=tmp_path).split()


def test_plugins_finds_the_built_in_ones(installed, tmp_path):
    # One JSON value, or one on each line.
    said = installed.toolstile("plugins", "--json", cwd=tmp_path).strip()
    try:
        values = [json.loads(said)]
    except json.JSONDecodeError:
        values = [json.loads(line) for line in said.splitlines()]
    assert '"dialects"' in json.dumps(values)


def test_the_demo_proves_its_five_scenes(installed, tmp_path):
    shown = json.loads(installed.toolstile("demo", "--json", cwd=tmp_path))
    assert [scene["proved"] for scene in shown["scenes"]] == [True] * 5
    assert not list(tmp_path.iterdir())
