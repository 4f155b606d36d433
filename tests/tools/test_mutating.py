"""The mutation run draws, judges and reports mutants."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from mutating.drawing import drawn
from mutating.reach import Reach
from mutating.report import Report
from mutating.verdicts import ControlDiedError, Verdict, Verdicts

ROOT = Path(__file__).parents[2]
SAME = tomllib.loads((ROOT / "tools" / "mutating" / "same.toml").read_text("utf-8"))["mutant"]

SUMS = """
import os, signal, time

mutant = ""

def become(name):
    global mutant
    mutant = name

def add(a, b):
    if mutant.endswith("__mutmut_1"):
        return a - b
    if mutant.endswith("__mutmut_2"):
        time.sleep(600)
    if mutant.endswith("__mutmut_3"):
        os.kill(os.getpid(), signal.SIGKILL)
    return a + b
"""

TESTS = """
from sums import add

def test_of_nothing():
    assert add(3, 0) == 3

def test_of_two():
    assert add(3, 2) == 5
"""

DRIVER = """
import json, math, sys
from dataclasses import asdict
import pytest, sums
from mutating import forking
from mutating.reach import Reach

names = [f"sums.add__mutmut_{index}" for index in range(4)] + ["sums.unknown__mutmut_1"]
nothing, two = "test_sums.py::test_of_nothing", "test_sums.py::test_of_two"
# Only for the test that does not end: the others are said to take long, so they may.
forking._LIMIT = 0.5
reach = Reach({"sums.add": [nothing, two]}, {nothing: 60.0, two: 60.0})
if sys.argv[1] == "hung":
    names, reach.seconds[nothing] = ["sums.add__mutmut_2"], 0.0
else:
    names.remove("sums.add__mutmut_2")
told = []
patience = 100 if sys.argv[1] == "hurried" else math.inf
plugin = forking.Forking(names, reach, sums.become, told.append, patience)
pytest.main(["-q", "-p", "no:cacheprovider", "test_sums.py"], plugins=[plugin])
print(json.dumps([[each.name, each.outcome, each.test] for each in told]))
"""


def judged(folder: Path, how: str) -> list[list[str]]:
    """Has a mutated module tested, and returns what is told of each mutant."""
    (folder / "sums.py").write_text(SUMS)
    (folder / "test_sums.py").write_text(TESTS)
    (folder / "driver.py").write_text(DRIVER)
    variables = {"PYTHONPATH": str(ROOT / "tools"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "driver.py", how],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_each_mutant_gets_its_tests_until_one_notices_it(tmp_path):
    assert judged(tmp_path, "patient") == [
        ["sums.add__mutmut_0", "lived", ""],
        ["sums.add__mutmut_1", "failed", "test_sums.py::test_of_two"],
        ["sums.add__mutmut_3", "died", "test_sums.py::test_of_nothing"],
        ["sums.unknown__mutmut_1", "unreached", ""],
    ]


@pytest.mark.slow
def test_the_slowest_tests_are_left_out_beyond_the_patience(tmp_path):
    told = {name: outcome for name, outcome, _ in judged(tmp_path, "hurried")}
    assert told["sums.add__mutmut_1"] == "lived"
    assert told["sums.add__mutmut_3"] == "died"


@pytest.mark.slow
def test_a_test_that_does_not_end_notices_a_mutant(tmp_path):
    (told,) = judged(tmp_path, "hung")
    assert told == ["sums.add__mutmut_2", "hung", "test_sums.py::test_of_nothing"]


def test_a_larger_sample_begins_with_the_smaller_one():
    names = [f"a.b.c__mutmut_{index}" for index in range(100)]
    few, many = drawn(names, 10, seed=1), drawn(reversed(names), 30, seed=1)
    assert len(set(few)) == 10
    assert many[:10] == few
    assert drawn(names, 10, seed=2) != few


def test_the_control_is_of_the_function_that_most_tests_reach(tmp_path):
    reach = Reach({"a.f": ["one"], "a.g": ["one", "two"], "a.h": ["two"]}, {"one": 1, "two": 2})
    reach.save(tmp_path / "reach.json")
    kept = Reach.load(tmp_path / "reach.json")
    assert kept == reach
    assert kept.control() == "a.g__mutmut_0"
    assert kept.of("a.g__mutmut_7") == ["one", "two"]
    assert kept.of("a.nothing__mutmut_1") == []


def test_a_test_that_fails_twice_is_left_out_once():
    reach = Reach()
    for seconds, failed in ((0.5, False), (1.0, True), (0.25, True)):
        reach.add_phase("one", seconds, failed=failed)
    reach.add_phase("two", 1.0, failed=False)
    assert reach.seconds == {"one": 1.75, "two": 1.0}
    assert reach.failed == ["one"]


@pytest.fixture
def verdicts(tmp_path: Path) -> Verdicts:
    kept = Verdicts(tmp_path / "verdicts.jsonl")
    kept.begin()
    return kept


def test_the_control_that_lived_is_no_mutant(verdicts):
    noticed = Verdict("a.g__mutmut_1", "failed", "one")
    for each in (Verdict("a.g__mutmut_0", "lived"), noticed, noticed):
        verdicts.add(each)
    assert verdicts.without("a.g__mutmut_0") == [noticed]


@pytest.mark.parametrize("outcome", ["failed", "hung", "died"])
def test_nothing_is_judged_where_the_control_did_not_live(verdicts, outcome):
    verdicts.add(Verdict("a.g__mutmut_0", outcome, "one"))
    with pytest.raises(ControlDiedError, match=f"Nothing was changed, and yet this {outcome}: one"):
        verdicts.without("a.g__mutmut_0")


def test_a_run_forgets_the_last_one(verdicts):
    verdicts.add(Verdict("a.g__mutmut_1", "lived"))
    verdicts.begin()
    assert verdicts.without("a.g__mutmut_0") == []


def report_of(*outcomes: str, was: str = "a < b", became: str = "a <= b") -> Report:
    found = [Verdict(f"toolstile.x.y.f__mutmut_{i}", each) for i, each in enumerate(outcomes)]
    return Report(found, lambda name: (was, became))


@pytest.mark.parametrize(("noticed", "enough"), [(16, False), (17, True), (20, True)])
def test_85_of_a_hundred_must_be_noticed(noticed, enough):
    assert report_of(*["failed"] * noticed, *["lived"] * (20 - noticed)).is_enough is enough


def test_the_report_shows_what_nobody_noticed_and_the_score():
    assert str(report_of("failed", "lived", "hung", "unreached", "died")).splitlines() == [
        "toolstile.x.y.f__mutmut_1 lived",
        "    - a < b",
        "    + a <= b",
        "toolstile.x.y.f__mutmut_3 unreached",
        "    - a < b",
        "    + a <= b",
        "",
        "| package | mutants | noticed | score |",
        "| --- | ---: | ---: | ---: |",
        "| `toolstile.x` | 5 | 3 | 60% |",
        "| all | 5 | 3 | 60% |",
    ]


@pytest.mark.parametrize("same", SAME, ids=lambda each: each["to"])
def test_a_mutant_that_nobody_could_tell_apart_has_lived_for_a_reason(same):
    told = str(report_of("lived", was=same["from"], became=same["to"]))
    assert told.startswith(f"toolstile.x.y.f__mutmut_0 lived: {same['why']}\n")


def test_what_nobody_could_tell_apart_is_still_in_the_code():
    code = "\n".join(each.read_text("utf-8") for each in (ROOT / "host").rglob("*.py"))
    assert [each["from"] for each in SAME if each["from"] not in code] == []
