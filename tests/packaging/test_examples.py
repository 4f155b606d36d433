"""The packages in docs/examples, each as a stranger would write it, work from their wheels.

They are installed beside the host's wheel into clean environments, on the oldest and the newest
Python that is here; there their own tests run, and one run of the command line has all of them.
"""

import ast
import json
import re
import shlex
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from .conftest import SUPPORTED, Venv, find_python, run

EXAMPLES = ("toolstile-cedar", "toolstile-sqlite")
HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[1] / "docs"
README = DOCS / "examples" / "toolstile-cedar" / "README.md"

#: Waits for what the network and a busy machine may take.
LONG = 120

ACCOUNTS = """
CREATE TABLE account (name TEXT PRIMARY KEY, cents INTEGER NOT NULL CHECK (cents >= 0));
INSERT INTO account VALUES ('ada', 100), ('bob', 0);
"""


@dataclass(frozen=True)
class Examples:
    """A clean environment with the packages, and a copy of their source for the tests."""

    venv: Venv
    source: Path


@pytest.fixture(scope="module")
def wheels(built, tmp_path_factory) -> list[Path]:
    """The wheels of the host and of the packages."""
    out = tmp_path_factory.mktemp("examples")
    # One environment builds both.
    run(sys.executable, "-m", "virtualenv", out / "builder")
    builder = Venv(out / "builder")
    builder.python("-m", "pip", "install", "--quiet", "hatchling")
    sources = [built.tree.root / "docs" / "examples" / name for name in EXAMPLES]
    unisolated = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", out)
    builder.python("-m", "pip", "wheel", *unisolated, *sources)
    made = sorted(out.glob("*.whl"))
    assert len(made) == len(EXAMPLES)
    return [built.wheel, *made]


@pytest.fixture(scope="module", params=[pytest.param("oldest", marks=pytest.mark.long), "newest"])
def examples(request, built, wheels, tmp_path_factory) -> Examples:
    """An environment of the oldest or the newest Python, with everything installed."""
    pythons = [each for each in map(find_python, SUPPORTED) if each is not None]
    if request.param == "newest" and len(pythons) == 1:
        pytest.skip("there is one Python here, the oldest")
    folder = tmp_path_factory.mktemp(request.param) / "venv"
    python = pythons[0 if request.param == "oldest" else -1]
    run(sys.executable, "-m", "virtualenv", "--python", python, folder)
    venv = Venv(folder)
    venv.python("-m", "pip", "install", "--quiet", *wheels, "hypothesis", "pytest>=8.4")
    return Examples(venv, built.tree.root / "docs" / "examples")


@pytest.mark.slow
@pytest.mark.packaging
def test_their_own_tests_pass(examples):
    def passes(name: str) -> str:
        folder = examples.source / name
        return examples.venv.python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=folder)

    with ThreadPoolExecutor(2) as pool:
        for said in pool.map(passes, EXAMPLES):
            assert " passed" in said
            assert "skipped" not in said


@dataclass(frozen=True)
class Guide:
    """The content of the guide: files, a command, and its output."""

    configuration: str
    rules: str
    command: list[str]
    denial: str


@pytest.fixture(scope="module")
def guide() -> Guide:
    """The blocks of the section that has both packages."""
    section = README.read_text(encoding="utf-8").partition("\n## With the SQLite tools\n")[2]
    blocks = re.findall(r"```\w+\n(.*?)```", section, re.DOTALL)
    _, rules, configuration, command = blocks
    asked, denial = command.strip().split("\n")
    return Guide(configuration, rules, shlex.split(asked.removeprefix("$ ")), denial)


@pytest.fixture
def bank(guide, tmp_path) -> Path:
    """A folder with the guide's files, and the database of a bank."""
    (tmp_path / "toolstile.toml").write_text(guide.configuration, encoding="utf-8")
    (tmp_path / "rules.cedar").write_text(guide.rules, encoding="utf-8")
    with closing(sqlite3.connect(tmp_path / "bank.db")) as connection:
        connection.executescript(ACCOUNTS)
    return tmp_path


@pytest.mark.slow
@pytest.mark.packaging
def test_nothing_is_to_be_mended_in_them(examples, tmp_path):
    assert "No broken requirements found" in examples.venv.python("-m", "pip", "check")
    examples.venv.toolstile("check", "cedar", "sqlite", cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.packaging
def test_the_guides_command_says_what_the_guide_says(examples, guide, bank):
    program, *arguments = guide.command
    done = subprocess.run(
        [examples.venv.scripts / program, *arguments],
        cwd=bank,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (1, guide.denial)


@pytest.mark.slow
@pytest.mark.packaging
def test_one_run_has_all_of_them(examples, guide, bank):
    calls = [
        ("transfer", {"source": "ada", "target": "bob", "cents": 70}),
        ("transfer", {"source": "ada", "target": "bob", "cents": 70}),
        ("sql_execute", {"sql": "DELETE FROM account"}),
        ("invented", {}),
    ]
    lines = [json.dumps({"name": name, "arguments": given}) for name, given in calls]
    (bank / "calls.jsonl").write_text("\n".join(lines), encoding="utf-8")
    program = (examples.venv.scripts / "toolstile", "run", "calls.jsonl", "--json")
    done = subprocess.run(
        [*program, "--plugin", HERE / "transfers.py"],
        cwd=bank,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        timeout=LONG,
        check=False,
    )

    moved, overdrawn, deleted, unknown = [json.loads(each) for each in done.stdout.splitlines()]
    assert "error" not in moved
    assert "CHECK constraint failed" in overdrawn["error"]
    assert deleted["error"] == guide.denial.removeprefix("toolstile: denied: ")
    assert "invented" in unknown["error"]
    assert done.returncode == 1, "some calls have failed"
    with closing(sqlite3.connect(bank / "bank.db")) as connection:
        assert connection.execute("SELECT * FROM account").fetchall() == [("ada", 30), ("bob", 70)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_their_source_knows_nothing_of_toolstile_but_the_contract(name):
    package = name.replace("-", "_")
    files = list((DOCS / "examples" / name / "src").rglob("*.py"))
    assert files
    imported = {
        module
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        for module in _modules(node)
        if module.startswith("toolstile")
    }
    own = {each for each in imported if each.split(".")[0] == package}
    assert imported - own == {"toolstile_hookspecs"}


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return []
