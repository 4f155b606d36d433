"""No program that a line runs is missed unless the line is unknown; a sandbox runs the lines."""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from toolstile_plugins.rules.shell.lines import ShellLine, parsed
from toolstile_plugins.rules.shell.policy import CommandPolicy, strictest
from toolstile_plugins.rules.shell.scanner import SimpleCommand

pytestmark = pytest.mark.slow


def loaded(name: str) -> ModuleType:
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"shell_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


canaries, grammar, ways = loaded("canaries"), loaded("grammar"), loaded("ways")


def is_listed(record: list[str], line: ShellLine) -> bool:
    return any(is_same(record, command) for command in line.commands if command.words)


def is_same(record: list[str], command: SimpleCommand) -> bool:
    """Tell whether a program that ran, with its words, is a command of the line."""
    program, *words = command.words
    if program.text.rpartition("/")[2] != record[0]:
        return False
    pattern = ""
    for word in words:
        if word.text == "~":
            pattern += "(?:~|/room/home)\0"
        elif word.head is None:
            pattern += re.escape(word.text) + "\0"
        elif word.splits or re.search(r"[*?\[]", word.text):
            pattern += "(?:.*\0)?"
        else:
            pattern += "[^\0]*\0"
    return re.fullmatch(f"(?s){pattern}", "".join(f"{each}\0" for each in record[1:])) is not None


def missed(lines: list[str], shell: str = "bash") -> tuple[list[tuple[str, list[str]]], str]:
    """Return the lines with a program that ran and was not listed, and the counts."""
    found: list[tuple[str, list[str]]] = []
    known = count = 0
    for text, records in zip(lines, canaries.ran(lines, shell=shell), strict=True):
        line = parsed(text)
        count += len(records)
        if not line.unknown:
            known += 1
            found += [(text, record) for record in records if not is_listed(record, line)]
    told = f"{len(lines):,} lines under {shell}: {known:,} known, {count:,} programs ran"
    return found, f"{told}, {len(found)} missed"


def some_lines(number: int, seed: int) -> list[str]:
    return list(itertools.islice(grammar.Lines(seed), number))


def verdict(policy: CommandPolicy, line: str) -> str:
    return strictest(policy.judge(line))


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_no_program_of_500_lines_of_a_grammar_is_missed(shell, record_property):
    found, told = missed(some_lines(500, 1), shell)
    record_property("counts", told)
    assert found == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_no_program_of_20000_lines_of_a_grammar_is_missed(shell, seed, capsys, record_property):
    found, told = missed(some_lines(2_000, 50 + seed), shell)
    record_property("counts", told)
    with capsys.disabled():
        sys.stdout.write(f"\n{told}\n")
    assert found == []


def test_no_way_around_runs_a_denied_program(record_property):
    policy = CommandPolicy(allow=["*"], deny=["canary *"])
    lines = [*ways.RUN, *ways.LATER]
    silent = [
        line
        for line, records in zip(lines, canaries.ran(lines), strict=True)
        if "canary" not in {record[0] for record in records}
    ]
    assert silent == []
    assert [line for line in lines if verdict(policy, line) == "allow"] == []
    found, told = missed(lines)
    record_property("counts", told)
    assert found == []


def test_the_harmless_lines_run_no_program_that_is_missed():
    lines = Path(__file__).with_name("harmless.txt").read_text().splitlines()
    found, _ = missed(lines)
    assert found == []
