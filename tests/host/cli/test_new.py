"""`toolstile new` writes whole packages, or nothing."""

import ast
import json
import tomllib
from pathlib import Path

import pytest

from toolstile_cli.commands import new as writing
from toolstile_cli.commands.new import requirement
from toolstile_cli.options import KINDS

CONTRACTS = {
    "suite": "ToolSuiteContract",
    "policy": "PolicyContract",
    "observer": "ObserverContract",
    "store": "LedgerStoreContract",
}
ROOT = Path(__file__).parents[3]
LONGEST = "a-name-of-thirty-characters-xx"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["lunch-menu", LONGEST])
def test_each_kind_is_a_whole_package(toolstile, folder, kind, name):
    status, out, err = toolstile("new", name, "--kind", kind, plugin=False)
    assert (status, err) == (0, "")
    package = f"toolstile_{name.replace('-', '_')}"
    assert f"cd toolstile-{name}\n" in out
    made = folder / f"toolstile-{name}"
    found = {each.relative_to(made).as_posix() for each in made.rglob("*") if each.is_file()}
    assert {
        ".gitignore",
        "README.md",
        "pyproject.toml",
        "tox.ini",
        f"src/{package}/__init__.py",
        f"src/{package}/py.typed",
    } <= found
    assert any(each.startswith("tests/test_") for each in found)
    project = tomllib.loads((made / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == f"toolstile-{name}"
    assert project["entry-points"]["toolstile"] == {name: package}
    assert project["description"] == KINDS[kind]
    for each in made.rglob("*"):
        if each.suffix == ".py":
            ast.parse(each.read_text(encoding="utf-8"))
        if each.is_file():
            assert "$" not in each.read_text(encoding="utf-8")
    assert "\n\n\n" not in (made / "README.md").read_text(encoding="utf-8")
    assert made.stat().st_mode & 0o700 == 0o700


@pytest.mark.parametrize("kind", KINDS)
def test_a_package_depends_on_what_its_source_imports(toolstile, folder, kind):
    toolstile("new", "weather", "--kind", kind, plugin=False)
    made = folder / "toolstile-weather"
    project = tomllib.loads((made / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = "".join(each.read_text(encoding="utf-8") for each in made.glob("src/*/*.py"))
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    uses_pydantic = "import pydantic" in source or "from pydantic" in source
    pydantic = [each for each in ours["dependencies"] if each.startswith("pydantic")]
    assert project["dependencies"] == [*(pydantic if uses_pydantic else []), requirement()]


def test_a_suite_is_made_unless_said_otherwise_and_the_prefix_may_be_written(toolstile, folder):
    assert toolstile("new", "toolstile-weather", plugin=False)[0] == 0
    made = folder / "toolstile-weather"
    assert (made / "src" / "toolstile_weather" / "tools.py").is_file()
    assert 'name="weather_add"' in (made / "src/toolstile_weather/tools.py").read_text()


def test_another_place_and_json(toolstile, folder):
    (folder / "there").mkdir()
    status, out, _ = toolstile("new", "weather", "--path", "there", "--json", plugin=False)
    assert status == 0
    told = json.loads(out)
    assert told["folder"] == str(Path("there", "toolstile-weather"))
    assert (told["plugin"], told["package"]) == ("weather", "toolstile_weather")
    assert all((folder / told["folder"] / each).is_file() for each in told["files"])


@pytest.mark.parametrize(("kind", "contract"), CONTRACTS.items())
def test_its_tests_show_that_it_keeps_to_its_contract(toolstile, folder, kind, contract):
    toolstile("new", "weather", "--kind", kind, plugin=False)
    (tests,) = (folder / "toolstile-weather" / "tests").iterdir()
    assert f"class TestWeather({contract}):" in tests.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "kind", "klass"),
    [
        ("lunch", "policy", "LunchPolicy"),
        ("lunch-policy", "policy", "LunchPolicy"),
        ("policy", "policy", "Policy"),
        ("lunch-store", "store", "LunchStore"),
    ],
)
def test_its_class_has_the_word_for_its_kind_once(toolstile, folder, name, kind, klass):
    toolstile("new", name, "--kind", kind, plugin=False)
    (made,) = (folder / f"toolstile-{name}" / "src").iterdir()
    assert f"class {klass}:" in (made / f"{kind}.py").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Lunch Menu", "'lunch-menu' is one"),
        ("lunch_menu", "'lunch-menu' is one"),
        ("2lunch", "begin with a letter"),
        ("a--b", "'a-b' is one"),
        ("../escape", "'escape' is one"),
        ("toolstile-", "begin with a letter"),
        ("x" * 31, "at most 30 characters"),
        ("ärger", "lower-case letters"),
        ("Ärger", "'arger' is one"),
        ("größe", "'grosse' is one"),
        ("policies", "A plugin 'policies' is installed (from toolstile)"),
        ("hookspecs", "A module 'toolstile_hookspecs' can be imported already"),
    ],
)
def test_a_name_that_cannot_be_taken_is_refused(toolstile, folder, name, told):
    before = sorted(folder.iterdir())
    status, out, err = toolstile("new", name, plugin=False)
    assert (status, out) == (2, "")
    assert told in err
    assert sorted(folder.iterdir()) == before


def test_what_is_there_stays_as_it_is(toolstile, folder):
    (folder / "toolstile-weather").mkdir()
    (folder / "toolstile-weather" / "mine").write_text("mine")
    status, _, err = toolstile("new", "weather", plugin=False)
    assert status == 2
    assert "toolstile-weather already exists. Remove it, choose another name" in err
    assert [each.name for each in (folder / "toolstile-weather").iterdir()] == ["mine"]


def test_there_must_be_a_place_for_it(toolstile, folder):
    status, _, err = toolstile("new", "weather", "--path", "nowhere", plugin=False)
    assert status == 2
    assert "nowhere is not a folder. Make it, or give another with --path." in err


def test_nothing_is_left_of_what_cannot_be_written(toolstile, folder, monkeypatch):
    before = sorted(folder.iterdir())
    write = Path.write_text
    monkeypatch.setattr(
        writing.Path,
        "write_text",
        lambda path, text, **options: (
            write(path, text, **options)
            if path.name != "README.md"
            else (_ for _ in ()).throw(OSError(28, "No space left on device"))
        ),
    )
    status, _, err = toolstile("new", "weather", plugin=False)
    assert status == 2
    assert "toolstile-weather cannot be written: No space left on device." in err
    assert sorted(folder.iterdir()) == before


def test_it_works_beside_a_configuration_that_is_wrong(toolstile, folder):
    (folder / "toolstile.toml").write_text("nonsense = 3\n")
    assert toolstile("new", "weather", plugin=False)[0] == 0
