import subprocess
import sys
from itertools import cycle
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = (
    "add",
    "add, async with a timeout",
    "add, each of 8 at once",
    "add, recorded",
    "add, memory ledger",
    "add, SQLite ledger",
    "create_order",
    "create_order, by JSON Schema",
    "create_order, over MCP in memory",
)


@pytest.mark.parametrize(
    ("before", "now", "again", "worse"),
    [
        ([100, 110], [100, 110], [100, 110], False),
        ([100, 110], [104, 115], [100, 110], True),
        # Never called a slowdown: up to 3 %.
        ([100, 110], [102.9, 113], [100, 110], False),
        # The noise is 3 %: 5 % is within twice that, 10 % is not.
        ([100, 110], [105, 116], [103, 113], False),
        ([100, 110], [110, 121], [103, 113], True),
        # Only the smallest, or only the median, is slower.
        ([100, 110, 110], [110, 110, 110], [100, 110, 110], False),
        ([100, 110, 110], [100, 140, 140], [100, 110, 110], False),
        ([100, 110], [80, 90], [100, 110], False),
    ],
)
def test_a_case_is_worse_by_both_figures_and_by_more_than_noise(bench, before, now, again, worse):
    compared = bench.against.Compared({"before": before, "now": now, "again": again})
    assert compared.worse is worse


class Machine:
    """Processes of both revisions, whose slices take the given times in turn."""

    def __init__(self, monkeypatch, against, now):
        self.measured = []
        times = {"before": cycle([100]), "now": iter(now), "again": cycle([100])}

        def visit(found, cases, pythons, folder, effort=(0.02, 1)):
            self.measured.append(cases)
            for case in cases or ["add", "batch"]:
                for side, series in times.items():
                    step = 100 if case == "batch" else next(series)
                    found.setdefault(case, against.Compared()).slices[side].append(step)

        monkeypatch.setattr(against, "_visit", visit)
        monkeypatch.setattr(against, "_pythons", lambda revisions, folder: [Path()] * 3)
        monkeypatch.setattr(against, "_git", lambda *arguments: "")


def test_what_looks_worse_is_measured_again_and_nothing_else_is(bench, monkeypatch, tmp_path):
    slow_once = Machine(monkeypatch, bench.against, [*[110] * 3, *[100] * 9])
    found = bench.against.measure_against("REV", tmp_path, bench.measuring.THOROUGH)
    assert slow_once.measured == [None] * 3 + [["add"]] * 3
    assert not found["add"].worse


def test_what_stays_slower_is_worse(bench, monkeypatch, tmp_path):
    machine = Machine(monkeypatch, bench.against, [110] * 9)
    found = bench.against.measure_against("REV", tmp_path, bench.measuring.THOROUGH)
    assert machine.measured == [None] * 3 + [["add"]] * 6
    assert [case for case, compared in found.items() if compared.worse] == ["add"]
    table = bench.against.as_table_against("REV", found, judged=True)
    (row,) = (line for line in table.splitlines() if line.startswith("| add"))
    assert "1.100x" in row
    assert row.endswith("| worse |")


@pytest.mark.slow
def test_a_revision_that_is_not_there_is_named(tmp_path):
    command = [sys.executable, ROOT / "bench/run.py", "--environments", tmp_path, "--against"]
    ended = subprocess.run([*command, "nowhere"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "Give a revision of this tree." in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_case_that_a_revision_lacks_is_shown_as_a_dash(bench):
    found = {"add": bench.against.Compared()}
    row = bench.against.as_table_against("REV", found, judged=True).splitlines()[-1]
    assert [cell.strip() for cell in row.strip("|").split("|")] == ["add", *["-"] * 8, ""]


def test_a_revision_is_measured_by_the_names_that_it_has(bench, tmp_path):
    python = tmp_path / "bin" / "python"
    ours = ROOT / "bench/peers/revision.py"
    assert bench.against._program_for(python) == ours
    (tmp_path / "lib/python3.13/site-packages/toolyard").mkdir(parents=True)
    theirs = bench.against._program_for(python)
    assert theirs == tmp_path / "bench/peers/revision.py"
    assert theirs.read_text("utf-8") == ours.read_text("utf-8").replace("toolstile", "toolyard")
    assert "from toolyard import" in (tmp_path / "bench/full_host.py").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("revision", ["HEAD", None])
def test_a_revision_is_built_and_visited_beside_the_present_tree(bench, tmp_path, revision):
    named = revision or bench.against.BASELINE
    there = ["git", "-C", ROOT, "cat-file", "-e", named]
    if subprocess.run(there, capture_output=True, check=False).returncode:
        pytest.skip("not in this checkout")
    command = [sys.executable, ROOT / "bench/run.py", "--environments", tmp_path, "--quick"]
    asked = ["--against"] if revision is None else ["--against", revision]
    ended = subprocess.run([*command, *asked], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert f"Building {named} ..." in ended.stderr
    rows = [line.split("|") for line in ended.stdout.splitlines()[4:]]
    assert tuple(row[1].strip() for row in rows) == CASES
    assert [row[1].strip() for row in rows if row[2].strip() != "-"][:7] == [*CASES[:7]]
