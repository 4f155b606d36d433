"""Runs pytest over the mutants, in processes that have imported nothing else."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from pathlib import Path

import pytest
from mutmut.configuration import config
from mutmut.mutation.trampoline import set_mutant_under_test

from mutating.forking import Forking
from mutating.reach import Reach
from mutating.reaching import Reaching
from mutating.verdicts import ControlDiedError, Verdict, Verdicts

_TESTS = (
    "tests/host/pipeline",
    "tests/host/state",
    "tests/host/policies",
    "tests/host/resources",
    "tests/plugins/policies",
)
_REACH = Path("reach.json")
_VERDICTS = Path("verdicts.jsonl")


def look_at_tests(place: Path) -> Reach:
    """Run all tests once, without any mutant, and return what they reach."""
    _in_process(_see_reach, [(place,)])
    return Reach.load(place / _REACH)


def run(place: Path, names: list[str], workers: int, patience: float) -> None:
    """Run the tests of these mutants; every verdict is kept as soon as it is there."""
    Verdicts(place / _VERDICTS).begin()
    names = [Reach.load(place / _REACH).control(), *names]
    _in_process(_run_mutants, [(place, i, names[i::workers], patience) for i in range(workers)])


def verdicts(place: Path) -> list[Verdict]:
    """Return those of the last run, which may still go on."""
    try:
        return Verdicts(place / _VERDICTS).without(Reach.load(place / _REACH).control())
    except ControlDiedError as error:
        sys.exit(str(error))


def _in_process(target: object, all_args: list[tuple[object, ...]]) -> None:
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=target, args=each) for each in all_args]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    if any(each.exitcode for each in processes):
        sys.exit("A run of the tests ended before its time; what it said is above.")


def _see_reach(place: Path) -> None:
    reaching = Reaching()
    _pytest(place, "all", reaching)
    if not reaching.reach.tests:
        sys.exit("No test reaches what is mutated.")
    reaching.reach.save(place / _REACH)


def _run_mutants(place: Path, worker: int, names: list[str], patience: float) -> None:
    tell = Verdicts(place / _VERDICTS).add
    reach = Reach.load(place / _REACH)
    _pytest(place, str(worker), Forking(names, reach, set_mutant_under_test, tell, patience))


def _pytest(place: Path, worker: str, plugin: object) -> None:
    """Let the tests import the mutants, also in processes that they start."""
    # Tests send themselves Ctrl-C, which a shell has what is in the background ignore.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config()  # is where the process began
    mutants = place / "mutants"
    sources = str(mutants / "src")
    sys.path.insert(0, sources)
    os.environ["PYTHONPATH"] = sources
    os.chdir(mutants)
    temporary = place / "temporary" / worker
    temporary.mkdir(parents=True, exist_ok=True)
    arguments = [
        "-q",
        "-m",
        "not long",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        f"--basetemp={temporary}",
    ]
    pytest.main([*arguments, *_TESTS], plugins=[plugin])
