"""The mutants, each with its change."""

from __future__ import annotations

from pathlib import Path

from mutmut.__main__ import create_mutants
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.utils.file_utils import copy_src_dir, walk_mutatable_files


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


def changed(name: str, file: Path) -> tuple[str, str]:
    """The lines that were there, and those that are there instead."""
    lines = get_diff_for_mutant(name, path=file).splitlines()
    return _marked(lines, "-"), _marked(lines, "+")


def _marked(lines: list[str], sign: str) -> str:
    marked = [each for each in lines if each.startswith(sign) and not each.startswith(sign * 3)]
    return "\n".join(each[1:].strip() for each in marked)
