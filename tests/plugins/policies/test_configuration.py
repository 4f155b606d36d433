"""The configuration file alone declares policies over anybody's tools."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from toolstile import Host
from toolstile_cli.main import main
from toolstile_hookspecs import ToolCall

PLUGIN = '''\
from toolstile_hookspecs import MarkdownSection, hookimpl, tool


def step(name, **options):
    @tool(name=name, **options)
    def run() -> str:
        """Do one step of a deployment."""
        return f"{name} is done"

    return run


def page(name):
    @tool(name=name)
    def run(page: str = "", old: str = "", new: str = "") -> None:
        """Do something with a page."""

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


@tool(category="side_effect")
def pay(amount: float) -> str:
    """Pay somebody."""
    return "paid"


@hookimpl
def toolstile_sections():
    steps = [step(name) for name in ("lint", "test", "build", "review")]
    deploy = step("deploy", category="side_effect", consequence="high")
    pages = [page(name) for name in ("show_page", "save_page", "rename_page")]
    others = [step(name) for name in ("search_web", "send_letter")]
    tools = [*steps, deploy, show, save, pay, *pages, *others]
    return [MarkdownSection(key="ops", title="Ops", tools=tools)]
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
        if name.startswith("TOOLSTILE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ops.py").write_text(PLUGIN, encoding="utf-8")

    def started(configuration, *calls, mode=()):
        (tmp_path / "toolstile.toml").write_text(configuration, encoding="utf-8")
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


def test_files_and_deployment_are_governed_together_by_configuration_alone(run, tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "config.yaml").write_text("one")
    configuration = f"""
        {DEPLOYMENT}
        [[policies]]
        kind = "read_before_write"
        name = "files"
    """
    write = {"content": "two", "overwrite": True}
    calls = [
        ("write_file", {"path": "new.txt", "content": "new"}),
        ("write_file", {"path": "config.yaml", **write}),
        ("read_file", {"path": "config.yaml"}),
        "deploy",
        *("lint", "build", "test"),
        ("write_file", {"path": "config.yaml", **write}),
        "deploy",
        "review",
        "deploy",
    ]
    _, envelopes, _ = run(configuration, *calls, mode=["--workspace", str(work)])

    assert [place for place, done in enumerate(succeeded(envelopes)) if not done] == [1, 3, 8]
    assert "the file config.yaml exists and was not read" in envelopes[1]["error"]
    assert "missing build, test" in envelopes[3]["error"]
    assert envelopes[8]["error"].startswith("Cannot call 'deploy' yet: missing review.")
    assert envelopes[-1]["data"] == "deploy is done"
    assert (work / "config.yaml").read_text() == "two"


def test_two_tables_of_one_kind_never_mix(run):
    limits = """
        [[policies]]
        kind = "quota"
        max_calls = 1
        tools = ["lint"]

        [[policies]]
        kind = "quota"
        max_calls = 2
        tools = ["test"]
    """
    calls = ("test", "lint", "test", "lint", "test")
    for mode in ([], ["--parallel"]):
        _, envelopes, _ = run(limits, *calls, mode=mode)
        assert succeeded(envelopes) == [True, True, True, False, False]


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


@pytest.mark.slow
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
    assert re.search(r"q\.json keeps the records of policies, but its content does not fit", err)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "told"),
    [
        ('kind = "quotas"', "kind: 'quotas' is not a known kind of policy; did you mean 'quota'?"),
        (
            'kind = "quota"\nmax_call = 3',
            "max_call: is not a known key; did you mean 'max_calls'?",
        ),
        (
            'kind = "quota"\nper_tool = {deploy = "many"}',
            "per_tool.deploy: expected a whole number, found the text 'many'.",
        ),
        ('kind = "quota"\nmax_calls = -1', "QuotaPolicy: a quota cannot be negative."),
        (
            'kind = "quota"',
            "QuotaPolicy: give max_calls, per_tool or sum with max_sum; it limits nothing.",
        ),
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
        ('kind = "sequential_dependency"', "give dependencies, any_of or not_after."),
        (
            'kind = "sequential_dependency"\ndependencies = {a = ["b"], b = ["a"]}',
            "These tools wait for one another in a circle: a -> b -> a.",
        ),
        ('kind = "rate_limit"\nmax_calls = 3\ntools = "x"', "tools: expected an array, found "),
        (
            'kind = "read_before_write"\nroot = "wikki"',
            (
                "ReadBeforeWritePolicy: root: {here}/wikki is not a directory. "
                "Make it, or name the directory of the tools."
            ),
        ),
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
def test_a_wrong_table_is_told_with_file_number_key_and_what_was_expected(
    run, tmp_path, table, told
):
    good = '[[policies]]\nkind = "quota"\nmax_calls = 5\n'
    status, envelopes, err = run(f"{good}\n[[policies]]\n{table}\n", "lint")
    assert (status, envelopes) == (2, [])
    assert "toolstile.toml, [[policies]] number 2: " in err.replace("\n", " ")
    assert told.replace("{here}", str(tmp_path)) in err.replace("\n", " ")


def test_all_wrong_tables_are_told_at_once(run):
    tables = ('kind = "quotas"', 'kind = "quota"\nmax_calls = 5', 'kind = "quota"\nmax_call = 5')
    status, envelopes, err = run("".join(f"[[policies]]\n{each}\n" for each in tables), "lint")
    told = err.replace("\n", " ")
    assert (status, envelopes) == (2, [])
    assert "[[policies]] number 1: kind: 'quotas' is not a known kind" in told
    assert "number 2" not in told
    assert "[[policies]] number 3: max_call: is not a known key" in told


def test_a_root_is_relative_to_the_file_and_not_to_the_process(run, tmp_path, monkeypatch):
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki" / "a.txt").write_text("one")
    configuration = """
        [[policies]]
        kind = "read_before_write"
        read_tools = ["show"]
        write_tools = ["save"]
        path_fields = ["doc"]
        root = "wiki"
    """
    run(configuration, "lint")
    (tmp_path / "wiki" / "deeper").mkdir()
    monkeypatch.chdir(tmp_path / "wiki" / "deeper")
    with Host(plugin_files=[tmp_path / "ops.py"]) as host, host.executor() as tools:
        denied = tools.dispatch(ToolCall("save", {"doc": "a.txt", "text": "two"}))
    assert "the file a.txt exists and was not read" in denied.text


def test_two_tables_of_one_name_are_refused(run):
    table = '[[policies]]\nkind = "quota"\nmax_calls = 5\nname = "same"\n'
    status, _, err = run(table * 2, "lint")
    assert status == 2
    assert "'same' and would share one state" in err


def test_the_tables_in_the_guide_are_right(run, tmp_path):
    guide = Path(__file__).parents[3] / "docs" / "how-to" / "policies.md"
    blocks = re.findall(r"```toml\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)
    # The others name tools that this plugin does not have.
    tables = [each for each in blocks if "search_web" in each or "sum =" in each]
    assert len(tables) == 2
    for each in tables:
        status, envelopes, err = run(each, "lint")
        assert (status, succeeded(envelopes)) == (0, [True])
        assert err == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "name", "near"),
    [
        (
            'kind = "read_before_write"\nread_tools = ["show"]\nwrite_tools = ["saves"]',
            "saves",
            "save",
        ),
        ('kind = "quota"\nmax_calls = 9\ntools = ["tset"]', "tset", "test"),
        ('kind = "rate_limit"\nmax_calls = 9\ntools = ["lnit"]', "lnit", "lint"),
        ('kind = "category"\ncategory = {write = "deny"}\ntools = ["saves"]', "saves", "save"),
        ('kind = "sequential_dependency"\ndependencies = {builds = ["lint"]}', "builds", "build"),
    ],
)
def test_a_name_that_no_tool_has_is_an_error(run, capsys, table, name, near):
    status, envelopes, said = run(f"[[policies]]\n{table}\n", "lint", "lint")

    assert (status, envelopes) == (2, [])
    assert said.count("toolstile.toml: Policy") == 1
    assert f"'{name}' (did you mean '{near}'" in said
    for command, end in (("tools", 2), ("plugins", 2), ("doctor", 1)):
        assert main(["--plugin", "ops.py", command]) == end
        shown = capsys.readouterr()
        assert f"'{name}'" in shown.out + shown.err


def test_what_a_policy_rules_by_default_need_not_be_there(run):
    _, _, said = run('[[policies]]\nkind = "read_before_write"\n', "lint", mode=["--block", "vfs"])

    assert said == ""
