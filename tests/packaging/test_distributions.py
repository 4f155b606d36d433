"""The sdist and the wheel hold what they should and nothing else."""

import configparser
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.packaging]

#: Each import package, and the folder of the tree that holds it.
PACKAGES = {
    "toolstile_hookspecs": "hookspecs",
    "toolstile": "host",
    "toolstile_cli": "host",
    "toolstile_plugins": "plugins",
}


@pytest.fixture(scope="module")
def wheel(built):
    with zipfile.ZipFile(built.wheel) as archive:
        yield archive


@pytest.fixture(scope="module")
def dist_info(wheel):
    (folder,) = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    return folder


@pytest.fixture(scope="module")
def metadata(wheel, dist_info) -> Message:
    return Parser().parsestr(wheel.read(f"{dist_info}/METADATA").decode())


@pytest.fixture(scope="module")
def sdist_files(built):
    """The names of the files in the sdist, without the folder that everything is in."""
    with tarfile.open(built.sdist) as archive:
        members = archive.getmembers()
    assert {member.name.split("/")[0] for member in members} == {
        built.sdist.name.removesuffix(".tar.gz")
    }
    return {member.name.partition("/")[2] for member in members if not member.isdir()}


def test_wheel_holds_the_tracked_files_of_the_three_packages_and_nothing_else(
    built, wheel, dist_info
):
    expected = {
        name.removeprefix(f"{folder}/")
        for package, folder in PACKAGES.items()
        for name in built.tree.files
        if name.startswith(f"{folder}/{package}/")
    }
    expected |= {
        f"{dist_info}/{name}"
        for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    }
    assert set(wheel.namelist()) == expected


def test_wheel_is_pure_and_for_any_python_3(built):
    assert built.wheel.name.endswith("-py3-none-any.whl")


@pytest.mark.parametrize("package", PACKAGES)
def test_wheel_says_that_each_package_is_typed(wheel, package):
    names = wheel.namelist()
    assert f"{package}/__init__.py" in names
    assert f"{package}/py.typed" in names


def test_wheel_carries_the_licence(built, wheel, dist_info, metadata):
    text = (built.tree.root / "LICENSE").read_text(encoding="utf-8")
    assert wheel.read(f"{dist_info}/licenses/LICENSE").decode() == text
    assert metadata["License-Expression"] == "MIT"


def test_wheel_declares_the_command_and_the_built_in_plugins(wheel, dist_info):
    entry_points = configparser.ConfigParser()
    entry_points.read_string(wheel.read(f"{dist_info}/entry_points.txt").decode())
    groups = ("adapters", "completion", "dispatchers", "feedback", "gates", "sandboxes")
    ours = {"toolstile", *(f"toolstile.{group}" for group in groups)}
    assert set(entry_points.sections()) == {"console_scripts", "llm", "pytest11", *ours}
    assert dict(entry_points["console_scripts"]) == {"toolstile": "toolstile_cli.main:main"}
    plugins = dict(entry_points["toolstile"])
    assert plugins["dialects"] == "toolstile_plugins.dialects"
    assert all(target.startswith("toolstile_plugins.") for target in plugins.values())


def test_every_plugin_entry_point_names_a_module_of_the_wheel(wheel, dist_info):
    entry_points = configparser.ConfigParser()
    entry_points.read_string(wheel.read(f"{dist_info}/entry_points.txt").decode())
    names = set(wheel.namelist())
    for target in entry_points["toolstile"].values():
        path = target.partition(":")[0].replace(".", "/")
        assert {f"{path}.py", f"{path}/__init__.py"} & names, target


def test_extras_are_few_and_one_has_all_jobs(metadata):
    extras = set(metadata.get_all("Provides-Extra"))
    assert len(extras) <= 12
    frameworks = {"claude-agent", "langchain", "llm", "openai-agents", "pydantic-ai"}
    needed = {
        (line.split("; ")[0], line.partition("extra == ")[2].strip("'\""))
        for line in metadata.get_all("Requires-Dist")
    }
    jobs = extras - frameworks - {"all"}
    assert {name for name, of in needed if of == "all"} == {
        name for name, of in needed if of in jobs
    }


def test_nothing_that_is_required_lies_outside_the_index(metadata):
    required = metadata.get_all("Requires-Dist", [])
    assert required
    assert not [line for line in required if "@" in line]


def test_an_index_would_take_both(built):
    pytest.importorskip("twine", reason="`tox -e pkg` has it")
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", built.sdist, built.wheel],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_sdist_holds_every_tracked_file_and_nothing_else(built, sdist_files):
    missing = built.tree.files - sdist_files
    surplus = sdist_files - built.tree.files - {"PKG-INFO"}
    assert not missing, "add it to [tool.hatch.build.targets.sdist] include in pyproject.toml"
    assert not surplus


def test_sdist_is_enough_to_build_and_to_test(sdist_files):
    assert {"pyproject.toml", "tox.ini", "conftest.py", "README.md", "LICENSE"} <= sdist_files
    folders = {name.split("/")[0] for name in sdist_files}
    assert {"hookspecs", "host", "plugins", "tests", "docs", "bench"} <= folders
