"""The configuration file alone declares policies over anybody's tools."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from toolyard.cli.main import main

PLUGIN = '''\
from toolyard_hookspecs import MarkdownSection, hookimpl, tool


def step(name, **options):
    @tool(name=name, **options)
    def run() -> str:
        """Do one step of a deployment."""
        return f"{name} is done"

    return run


@tool(category="read")
def show(doc: str) -> str:
    """Show a document."""
    with open(doc, encoding="utf-8") as file:
        return file.read()


@tool(category="write")
def save(doc: str, text: str) -> None:
    """Save a document."""
    with open(doc, "w", encoding="utf-8") as file:
        file.write(text)


@hookimpl
def toolyard_sections():
    steps = [step(name) for name in ("lint", "test", "build", "review")]
    deploy = step("deploy", category="side_effect", consequence="high")
    return [MarkdownSection(key="ops", title="Ops", tools=[*steps, deploy, show, save])]
'''

DEPLOYMENT = """
[[policies]]
kind = "sequential_dependency"
dependencies = {build = ["lint"], deploy = ["test", "build"]}

[[policies]]
kind = "sequential_dependency"
dependencies = {deploy = ["review"]}
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Writes a configuration and runs calls through the command line, giving envelopes."""
    for name in list(os.environ):
        if name.startswith("TOOLYARD_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ops.py").write_text(PLUGIN, encoding="utf-8")

    def started(configuration, *calls, mode=()):
        (tmp_path / "toolyard.toml").write_text(configuration, encoding="utf-8")
        lines = [
            {"name": each, "arguments": {}}
            if isinstance(each, str)
            else {"name": each[0], "arguments": each[1]}
            for each in calls
        ]
        (tmp_path / "calls.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
        status = main(["--plugin", "ops.py", "run", "calls.jsonl", "--json", *mode])
        said = capsys.readouterr()
        return status, [json.loads(line) for line in said.out.splitlines()], said.err

    return started


def succeeded(envelopes):
    return ["data" in each for each in envelopes]


def test_the_required_order_passes(run):
    status, envelopes, err = run(DEPLOYMENT, "lint", "build", "test", "review", "deploy")
    assert (status, err) == (0, "")
    assert envelopes[-1]["data"] == "deploy is done"


def test_everything_missing_is_told_at_every_step(run):
    status, envelopes, _ = run(
        DEPLOYMENT, "deploy", "build", "lint", "build", "deploy", "test", "review", "deploy"
    )
    assert status == 1
    assert succeeded(envelopes) == [False, False, True, True, False, True, True, True]
    assert "missing build, test" in envelopes[0]["error"]
    assert "missing review" in envelopes[0]["error"]
    assert "missing lint" in envelopes[1]["error"]
    assert "missing test" in envelopes[4]["error"]


def test_in_parallel_no_prerequisite_is_there_yet(run):
    _, envelopes, _ = run(DEPLOYMENT, "lint", "build", "test", "deploy", mode=["--parallel"])
    assert succeeded(envelopes) == [True, False, True, False]


def test_every_kind_can_be_declared(run, tmp_path):
    configuration = """
        [[policies]]
        kind = "rate_limit"
        max_calls_per_minute = 2
        tools = ["lint"]

        [[policies]]
        kind = "quota"
        max_calls = 9
        per_tool = {test = 1}

        [[policies]]
        kind = "category"
        name = "nothing dangerous"
        consequence = {high = "deny"}

        [[policies]]
        kind = "read_before_write"
        read_tools = ["show"]
        write_tools = ["save"]
        path_fields = ["doc"]
        root = "."
    """
    (tmp_path / "a.txt").write_text("one")
    save = ("save", {"doc": "a.txt", "text": "two"})
    calls = ("lint", "lint", "lint", "test", "test", "deploy", save)
    _, envelopes, _ = run(configuration, *calls, ("show", {"doc": "a.txt"}), save)

    errors = [each.get("error", "") for each in envelopes]
    assert succeeded(envelopes) == [True, True, False, True, False, False, False, True, True]
    assert "Rate limit exceeded: 2 calls of lint" in errors[2]
    assert "1 of 1 calls of test" in errors[4]
    assert "tools of high consequence are not allowed" in errors[5]
    assert "a.txt exists and was not read" in errors[6]
    assert (tmp_path / "a.txt").read_text() == "two"


def test_a_kept_policy_remembers_from_one_run_to_the_next(run, tmp_path):
    kept = 'name = "order"\nkeep = "state/policies.json"\n'
    configuration = f"{DEPLOYMENT.split('[[policies]]')[1]}{kept}"
    configuration = f"[[policies]]{configuration}"

    assert succeeded(run(configuration, "lint")[1]) == [True]
    assert succeeded(run(configuration, "build", "deploy")[1]) == [True, False]
    assert succeeded(run(configuration, "test", "deploy")[1]) == [True, True]
    (tmp_path / "state/policies.json").unlink()
    assert succeeded(run(configuration, "build")[1]) == [False]


def test_a_dry_run_keeps_nothing(run, tmp_path):
    configuration = '[[policies]]\nkind = "quota"\nmax_calls = 1\nname = "q"\nkeep = "q.json"\n'
    run(configuration, "lint", mode=["--dry-run"])
    assert not (tmp_path / "q.json").exists()


def test_a_spoilt_file_is_told_before_anything_runs(run, tmp_path):
    (tmp_path / "q.json").write_text("{")
    configuration = '[[policies]]\nkind = "quota"\nmax_calls = 1\nname = "q"\nkeep = "q.json"\n'
    status, envelopes, err = run(configuration, "lint")
    assert (status, envelopes) == (2, [])
    assert re.search(r"q\.json keeps what policies remember, but it is no JSON", err)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('kind = "quotas"', "kind: 'quotas' is not a known kind of policy; did you mean 'quota'?"),
        (
            'kind = "quota"\nmax_call = 3',
            (
                "max_call: is not a known key; did you mean 'max_calls'? "
                "(known: max_calls, per_tool, tools, name)."
            ),
        ),
        (
            'kind = "quota"\nper_tool = {deploy = "many"}',
            "per_tool.deploy: expected a whole number, found the text 'many'.",
        ),
        ('kind = "quota"\nmax_calls = -1', "QuotaPolicy: a quota cannot be negative."),
        ('kind = "quota"', "QuotaPolicy: give max_calls, per_tool or both; it limits nothing."),
        (
            'kind = "category"\ncategory = {delete = "asks"}',
            "category.delete: expected 'allow', 'ask' or 'deny', found the text 'asks'.",
        ),
        (
            'kind = "category"\ncategory = {drop = "ask"}',
            (
                "category.drop: expected 'read', 'write', 'delete' or 'side_effect', "
                "found the text 'drop'."
            ),
        ),
        ('kind = "sequential_dependency"', "dependencies: is missing."),
        (
            'kind = "sequential_dependency"\ndependencies = {a = ["b"], b = ["a"]}',
            "These tools wait for one another in a circle: a -> b -> a.",
        ),
        ('kind = "rate_limit"\nmax_calls = 3\ntools = "x"', "tools: expected an array, found "),
        ('kind = "quota"\nmax_calls = 3\nkeep = 3', "keep: expected text, the name of a JSON file"),
        (
            'kind = "quota"\nmax_calls = 3\nkeep = "q.json"',
            (
                "keep: a policy that is kept needs a name, under which the file knows it; "
                "add name = '...'."
            ),
        ),
    ],
)
def test_a_wrong_table_is_told_with_file_number_key_and_what_was_expected(run, table, told):
    good = '[[policies]]\nkind = "quota"\nmax_calls = 5\n'
    status, envelopes, err = run(f"{good}\n[[policies]]\n{table}\n", "lint")
    assert (status, envelopes) == (2, [])
    assert "toolyard.toml, [[policies]] number 2: " in err.replace("\n", " ")
    assert told in err.replace("\n", " ")


def test_two_tables_of_one_name_are_refused(run):
    table = '[[policies]]\nkind = "quota"\nmax_calls = 5\nname = "same"\n'
    status, _, err = run(table * 2, "lint")
    assert status == 2
    assert "'same' and would share one state" in err


def test_the_tables_in_the_guide_are_right(run):
    guide = Path(__file__).parents[3] / "docs" / "guides" / "policies.md"
    tables = re.findall(r"```toml\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)
    assert len(tables) == 2
    for each in tables:
        status, envelopes, err = run(each, "lint")
        assert (status, succeeded(envelopes), err) == (0, [True], "")
