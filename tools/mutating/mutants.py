"""Which mutants there are, and what became of them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mutmut.__main__ import create_mutants
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.utils.file_utils import copy_src_dir, walk_mutatable_files

NOTICED = frozenset({"failed", "hung", "died"})


@dataclass(frozen=True)
class Verdict:
    """What the tests said of one mutant."""

    name: str
    outcome: str
    """`failed`, `hung`, `died`, `lived` or `unreached`."""
    test: str = ""
    """Which one noticed it."""

    @property
    def package(self) -> str:
        """Where it is: `toolyard.pipeline`."""
        return ".".join(self.name.split(".")[:2])

    @property
    def is_noticed(self) -> bool:
        """Whether a test failed, did not end or took the interpreter along."""
        return self.outcome in NOTICED


def make_mutants(workers: int) -> dict[str, Path]:
    """Write them all into each file's copy, and return their names, with the files they are of."""
    copy_src_dir()
    create_mutants(workers)
    found: dict[str, Path] = {}
    for file in walk_mutatable_files():
        data = SourceFileMutationData(path=file)
        data.load()
        found |= dict.fromkeys(data.exit_code_by_key, file)
    return found


def drawn(names: Iterable[str], size: int, seed: int) -> list[str]:
    """So many of them, each with the same chance.

    The same sources and seed give the same ones; a larger sample begins with the smaller one.
    """
    shuffled = sorted(names)
    random.Random(seed).shuffle(shuffled)
    return shuffled[:size]


def changed(name: str, file: Path) -> tuple[str, str]:
    """The lines that were there, and those that are there instead."""
    lines = get_diff_for_mutant(name, path=file).splitlines()
    return _marked(lines, "-"), _marked(lines, "+")


def _marked(lines: list[str], sign: str) -> str:
    marked = [each for each in lines if each.startswith(sign) and not each.startswith(sign * 3)]
    return "\n".join(each[1:].strip() for each in marked)
