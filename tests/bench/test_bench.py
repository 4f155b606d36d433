import json
import math
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
RUN = Path(__file__).parents[2] / "bench" / "run.py"

FORMS = (
    "async handler, async driver, timeout",
    "sync handler, sync driver, no timeout",
    "sync handler, sync driver, timeout",
    "sync handler, async driver, timeout",
)
ADDED = "on top of a full host"
FRAMEWORKS = ("Claude Agent SDK", "LangChain", "llm", "OpenAI Agents SDK", "pydantic-ai")
LIMITS = {
    **dict(zip((f"add: {form}" for form in FORMS), (18, 14, 40, 40), strict=True)),
    **dict(zip((f"create_order: {form}" for form in FORMS[:2]), (2.3, 2), strict=True)),
    "add: each of 8 at once, async handlers, async driver": 60,
    "add: each of 8 at once, sync handlers, sync driver": 60,
    "add: each of 16 at once, async handlers, async driver": 60,
    "add: each of 16 at once, sync handlers, sync driver": 60,
    "the first call of a session: 30 tools": 0.6,
    "the first call of a session: 1,000 tools": 0.8,
    "memory that stays of a result of 1 MB of text": 1.05,
    "write_note: calls 1,101 to 2,100": 1.2,
    "rollback of a call: 1,000 entries": 1.5,
    "rollback of a branch: 1,000 entries": 1.5,
    "toolstile --version": 2.5,
    "a first Host(), and its import": 30,
    **{f"toolstile {command}": 30 for command in ("tools --example", "call", "run --example")},
    "the same, against the SDK alone in its place": 1.6,
    f"add: the memory ledger, {ADDED}": 21,
    f"add: the SQLite ledger, {ADDED}": 70,
    "add: the SQLite ledger at 1,000 rows, full": 1.5,
    "a catch-up before a fork, in SQLite": 8,
    "add, once: a decision with record and entry, at 100 entries": 1.3,
    "add, once: a decision with record and entry, at 10,000 entries": 1.3,
    "add, once: a decision with record and entry, at 10,000 entries, against 100": 1.1,
    f"add: the record, {ADDED}": 18,
    "add in a process of its own": 2,
    "add: one rule, on top": 8,
    "add: 200 rules, two of them its own, on top": 16,
    "add: provenance, on top": 12,
    "provenance: 10,000 values": 1.25,
    "note: each of 100 at once, in 1 file": 3,
    "a run of ten turns with three calls each, beside pydantic-ai": 1.0,
    "a run of ten turns with three calls each, beside OpenAI Agents SDK": 1.0,
    "the same: 10 tabs show its calls, the console in its process": 1.05,
    "the same: 10 tabs show 100 questions, the console in its process": 1.05,
    "the same: 10 tabs show its calls, the console a process of its own": 1.05,
    "MCP, add within a process: Toolstile": 1.3,
    **{f"{framework}: its own tool, governed": 1.25 for framework in FRAMEWORKS},
    **{f"{framework}: our tool, on top of bare": 1.25 for framework in FRAMEWORKS},
    "the same as a command, whole call: scratch by default": 2,
    "a rendered digest: 1,000 files": 1.5,
    "memory, a call that wrote and fails: 1,000 files": 1.5,
    "disk, a call that wrote and fails: 1,000 files": 1.5,
    "disk, a call that touches nothing: 1,000 files": 1.5,
    "disk, a call that changes one file: 1,000 files": 1.5,
    "disk, a call that changes one file: 1,000 files, process time": 1,
}
if any(Path("/usr/lib/postgresql").glob("*/bin")):
    LIMITS["a look before a call, in PostgreSQL"] = 20
    LIMITS["a decision in PostgreSQL at 200 entries"] = 1.25
    LIMITS["a host that opens a session in PostgreSQL of 200 entries"] = 5
    for measured in ("", ", process time"):
        opens = f"a host that opens one more session in PostgreSQL{measured}"
        LIMITS[f"{opens} of 200 entries"] = 5
    for session in ("its session", "its session and its effect"):
        for hosts in ("1 host", "2 hosts at once", "4 hosts at once"):
            LIMITS[f"a call, {session} in PostgreSQL: {hosts}, as the model says"] = 2
    if find_spec("dbos"):
        LIMITS["a call on a worker through DBOS"] = 1.5


def run(*arguments, env=None):
    command = [sys.executable, RUN, "--quick", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "rows.json"
    ended = run("--json", path)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, json.loads(path.read_text())


@pytest.mark.long
def test_a_quick_run_measures_every_case_that_has_a_limit(quick):
    _, written = quick
    assert {row["case"]: row["limit"] for row in written["rows"] if row["limit"]} == LIMITS


@pytest.mark.long
def test_what_has_a_limit_has_a_figure_and_a_ratio_is_to_something_that_was_measured_too(quick):
    _, written = quick
    cases = {row["case"] for row in written["rows"]}
    for row in written["rows"]:
        if row["limit"] is not None:
            # Of so few calls it may also be below zero, where it is a difference.
            assert math.isfinite(row["figure"])
            is_of_a_model = row["case"].endswith("as the model says")
            assert row["unit"] != "x" or row["floor"] in cases or is_of_a_model


@pytest.mark.long
def test_the_table_shows_each_case_once_and_a_quick_run_judges_none(quick):
    table, written = quick
    for row in written["rows"]:
        assert table.count(f"| {row['case']} ") == 1
        assert row["over"] is None


def test_one_group_can_be_measured_alone():
    ended = run("--only", "rollback")
    assert ended.returncode == 0, ended.stderr
    assert "rollback of a call" in ended.stdout
    assert "add" not in ended.stdout


@pytest.mark.long
def test_a_commit_to_git_per_call_is_measured_beside_the_workspace(quick):
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    _, written = quick
    rows = {row["case"]: row for row in written["rows"]}
    for files in ("10", "1,000"):
        row = rows[f"git add and commit per call: {files} files"]
        assert row["floor"] == f"disk, a call that changes one file: {files} files"
        assert row["figure"] > 0


def test_without_git_its_rows_are_left_out_and_that_is_said():
    ended = run("--only", "workspace", env={**os.environ, "PATH": ""})
    assert ended.returncode == 0, ended.stderr
    assert "There is no git: the rows to compare with it are left out." in ended.stderr
    assert "git add" not in ended.stdout
