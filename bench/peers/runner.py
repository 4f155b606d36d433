"""The program that a peer's own Python runs: it loads one runner and answers its parent.

`python runner.py RUNNER` reads a line of JSON, does what it says, and writes a line of JSON:
`{"ok": ...}` or `{"failed": "..."}`. Whatever the peer prints goes to stderr.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TextIO

from contestant import Contestant
from sampling import WORKS, grow, put_back, take
from watching import TEXT_FOR_A_NUMBER, UNKNOWN_ARGUMENTS, watch

RUNNERS: Final = Path(__file__).parent / "runners"


def contestant_of(runner: str) -> Contestant:
    """Load a runner, by its file's name or by the path of a file."""
    path = RUNNERS / f"{runner}.py"
    if not path.exists():
        path = Path(runner)
    spec = importlib.util.spec_from_file_location(f"runner_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.CONTESTANT


@contextmanager
def apart() -> Iterator[tuple[TextIO, TextIO]]:
    """Give what is read from and written to the parent; all other output goes to stderr."""
    with (
        os.fdopen(os.dup(0), encoding="utf-8") as said,
        os.fdopen(os.dup(1), "w", encoding="utf-8") as answers,
    ):
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        yield said, answers


class Tasks:
    """The requests of a parent."""

    def __init__(self, contestant: Contestant) -> None:
        self._contestant = contestant
        self.by_name: Mapping[str, Callable[..., Any]] = {
            "describe": self._describe,
            "take": self._take,
            "grow": self._grow,
            "put_back": self._put_back,
            "watch": self._watch,
        }

    def _describe(self) -> dict[str, Any]:
        contestant = self._contestant
        return {
            "versions": {name: version(name) for name in contestant.distributions},
            "ways": [
                {
                    "name": way.name,
                    "includes": way.includes,
                    "handlers": way.handlers,
                    "governs": way.governs,
                    "keeps": way.keeps,
                    "times_out": way.times_out,
                }
                for way in contestant.ways
            ],
            "kept": contestant.kept,
        }

    def _take(self, way: int, work: str, handler: Any, seconds: float) -> dict[str, Any]:
        return asdict(take(self._contestant.ways[way], WORKS[work], handler, seconds))

    def _grow(self, way: int, calls: int) -> dict[str, Any]:
        return asdict(grow(self._contestant.ways[way], WORKS["add"], calls))

    def _put_back(self, files: int, kept: Any, seconds: float) -> dict[str, Any]:
        assert self._contestant.rollback is not None
        opened = self._contestant.rollback(files, kept)
        return asdict(put_back(opened, WORKS["add"], seconds))

    def _watch(self) -> dict[str, Any]:
        way = self._contestant.ways[0]
        return {
            "unknown": asdict(watch(way, UNKNOWN_ARGUMENTS)),
            "text": asdict(watch(way, TEXT_FOR_A_NUMBER)),
        }


def answer(tasks: Tasks, line: str) -> dict[str, Any]:
    """Do what a line asks for."""
    asked = json.loads(line)
    try:
        return {"ok": tasks.by_name[asked["do"]](**asked.get("with", {}))}
    # A peer may fail in any way; the parent says how.
    except Exception as error:  # noqa: BLE001 - told to the parent
        traceback.print_exc()
        return {"failed": f"{type(error).__name__}: {error}"[:500]}


def main() -> None:
    """Answer the parent until it has no more to ask."""
    with apart() as (said, answers):
        tasks = Tasks(contestant_of(sys.argv[1]))
        for line in said:
            print(json.dumps(answer(tasks, line), default=repr), file=answers, flush=True)


if __name__ == "__main__":
    main()
