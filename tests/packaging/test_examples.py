"""The packages in docs/examples, each as a stranger would write it, work from their wheels.

They are installed beside the host's wheel into clean environments, on the oldest and the newest
Python that is here; there their own tests run, and one run of the command line has all of them.
"""

import ast
import json
import socket
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from .conftest import SUPPORTED, Venv, find_python, run

EXAMPLES = ("toolyard-cedar", "toolyard-prometheus", "toolyard-sqlite")
HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "docs" / "examples"

#: Waits for what the network and a busy machine may take.
LONG = 120

CONFIGURATION = """\
[plugins.sqlite]
path = "bank.db"

[plugins.prometheus]
port = 0
targets_file = "targets.json"

[[policies]]
kind = "cedar"
policies = ["rules.cedar"]
"""
RULES = """\
permit (principal, action in Action::"read", resource);
permit (principal, action in Action::"write", resource);

@id("history")
@advice("Close the account instead.")
forbid (principal, action == Action::"sql_execute", resource)
when { context.params.sql like "DELETE*" };
"""
ACCOUNTS = """
CREATE TABLE account (name TEXT PRIMARY KEY, cents INTEGER NOT NULL CHECK (cents >= 0));
INSERT INTO account VALUES ('ada', 100), ('bob', 0);
"""
SCRAPE = """
import sys, urllib.request
print(urllib.request.urlopen(f"http://{sys.argv[1]}/metrics", timeout=60).read().decode())
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

    def build(name: str) -> None:
        source = built.tree.root / "docs" / "examples" / name
        run(sys.executable, "-m", "build", "--wheel", "--outdir", out, source)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(build, EXAMPLES))
    made = sorted(out.glob("*.whl"))
    assert len(made) == len(EXAMPLES)
    return [built.wheel, *made]


@pytest.fixture(scope="module", params=["oldest", "newest"])
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


@pytest.mark.slow
@pytest.mark.packaging
def test_one_run_has_all_of_them(examples, tmp_path):
    (tmp_path / "toolyard.toml").write_text(CONFIGURATION, encoding="utf-8")
    (tmp_path / "rules.cedar").write_text(RULES, encoding="utf-8")
    with closing(sqlite3.connect(tmp_path / "bank.db")) as connection:
        connection.executescript(ACCOUNTS)
    with socket.create_server(("127.0.0.1", 0)) as waiting:
        waiting.settimeout(LONG)
        calls = [
            ("transfer", {"source": "ada", "target": "bob", "cents": 70}),
            ("transfer", {"source": "ada", "target": "bob", "cents": 70}),
            ("sql_execute", {"sql": "DELETE FROM account"}),
            ("made_up_by_a_model", {}),
            ("wait_for", {"port": waiting.getsockname()[1]}),
        ]
        lines = [json.dumps({"name": name, "arguments": given}) for name, given in calls]
        (tmp_path / "calls.jsonl").write_text("\n".join(lines), encoding="utf-8")
        with subprocess.Popen(
            [
                examples.venv.scripts / "toolyard", "run", "calls.jsonl", "--json",
                "--plugin", HERE / "transfers.py",
            ],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        ) as running:  # fmt: skip
            try:
                call, _ = waiting.accept()
                with call:
                    ((target,),) = [
                        each["targets"]
                        for each in json.loads((tmp_path / "targets.json").read_text())
                    ]
                    metrics = examples.venv.python("-c", SCRAPE, target)
                    call.sendall(b".")
                said, _ = running.communicate(timeout=LONG)
            finally:
                running.kill()

    moved, overdrawn, deleted, unknown, waited = [json.loads(each) for each in said.splitlines()]
    assert "error" not in moved
    assert "CHECK constraint failed" in overdrawn["error"]
    assert deleted["error"] == (
        "Cannot call sql_execute: the Cedar policy 'history' (rules.cedar, line 4) forbids it. "
        "Close the account instead."
    )
    assert "made_up_by_a_model" in unknown["error"]
    assert waited["data"] == "seen"
    assert running.returncode == 1, "some calls have failed"

    with closing(sqlite3.connect(tmp_path / "bank.db")) as connection:
        assert connection.execute("SELECT * FROM account").fetchall() == [("ada", 30), ("bob", 70)]
    samples = dict(
        line.rsplit(" ", 1) for line in metrics.splitlines() if line and not line.startswith("#")
    )
    expected = {
        'toolyard_calls_total{status="succeeded",tool="transfer"}': 1,
        'toolyard_calls_total{status="failed",tool="transfer"}': 1,
        'toolyard_calls_total{status="succeeded",tool="sql_execute"}': 3,
        'toolyard_calls_total{status="denied",tool="sql_execute"}': 1,
        'toolyard_calls_total{status="unknown_tool",tool="(unknown)"}': 1,
        'toolyard_denials_total{policy="cedar@host#1",tool="sql_execute"}': 1,
        'toolyard_rollbacks_total{status="failed",tool="transfer"}': 1,
        'toolyard_call_duration_seconds_count{tool="transfer"}': 2,
    }
    assert {name: float(samples[name]) for name in expected} == expected
    assert "made_up_by_a_model" not in metrics
    assert not (tmp_path / "targets.json").exists()


@pytest.mark.parametrize("name", EXAMPLES)
def test_their_source_knows_nothing_of_toolyard_but_the_contract(name):
    package = name.replace("-", "_")
    files = list((SOURCE / name / "src").rglob("*.py"))
    assert files
    imported = {
        module
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        for module in _modules(node)
        if module.startswith("toolyard")
    }
    own = {each for each in imported if each.split(".")[0] == package}
    assert imported - own == {"toolyard_hookspecs"}


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return []
