"""Makes every block of a page an example that can be carried out, and counts what was done."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sybil import Document, Example, Region
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
from sybil.typing import Evaluator

from executing import configuration, transcripts
from executing.fences import fences
from executing.markers import markers
from executing.wheels import EXAMPLES, Environment, built
from executing.workplace import Workplace

LANGUAGES = ("console", "json", "python", "text", "toml")

_HERE = "__workplace__"


class Execution:
    """Carries out the blocks of all pages of a run, and counts them.

    Example:
        `Sybil(parsers=execution.parsers, setup=execution.begin, teardown=execution.end)`
    """

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self._folder = tempfile.TemporaryDirectory(prefix="toolstile-docs-")
        self._pages = 0
        self._before = Path.cwd()
        self._variables = dict(os.environ)
        self._databases = ExitStack()
        self._has_database = False

    @property
    def parsers(self) -> list[Any]:
        """The finder of a page's examples."""
        return [
            self._files,
            self._unknown,
            self._python,
            CodeBlockParser("console", told(self._console)),
            CodeBlockParser("toml", told(self._toml)),
            CodeBlockParser("json", told(self._json)),
            CodeBlockParser("text", self._text),
        ]

    @cached_property
    def _wheel(self) -> Path:
        return built(Path(self._folder.name, "dist"))

    @cached_property
    def _environment(self) -> Environment:
        return Environment(Path(self._folder.name, "environment"), self._wheel)

    def _workplace(self, example: Example) -> Workplace:
        """Return where the commands of a page are run; a package of its own is installed apart."""
        if _HERE not in example.namespace:
            here = Path.cwd()
            if _is_apart(example.document):
                environment = Environment(here.with_name(f"{here.name}-environment"), self._wheel)
            else:
                environment = self._environment
            example.namespace[_HERE] = Workplace(here, environment)
        workplace: Workplace = example.namespace[_HERE]
        return workplace

    def begin(self, _namespace: dict[str, Any]) -> None:
        """Give a page its directory, and go there."""
        self._pages += 1
        folder = Path(self._folder.name, f"page-{self._pages}")
        folder.mkdir()
        self._before, self._variables = Path.cwd(), dict(os.environ)
        os.chdir(folder)

    def end(self, namespace: dict[str, Any]) -> None:
        """Leave the directory of a page."""
        os.chdir(self._before)
        os.environ.clear()
        os.environ.update(self._variables)
        if _HERE in namespace:
            namespace[_HERE].close()
        self._databases.close()
        self._has_database = False

    def _start_postgresql(self, workplace: Workplace) -> None:
        """Start a server once a page, which every name of a host leads to; skip without one."""
        # Because the module needs `pwd`, which Windows does not have.
        import postgres_server

        if not postgres_server.is_installed():
            pytest.skip("No PostgreSQL server is installed.")
        if not self._has_database:
            url = self._databases.enter_context(postgres_server.postgres_server())
            reached = {"PGHOSTADDR": "127.0.0.1", "PGPORT": str(urlsplit(url).port)}
            superuser = ["createuser", "-h", "localhost", "-U", "bench", "--superuser", "postgres"]
            subprocess.run(superuser, env={**os.environ, **reached}, check=True)
            workplace.export(**reached)
            self._has_database = True

    def close(self) -> None:
        """Remove all directories."""
        self._folder.cleanup()

    def _files(self, document: Document) -> Iterable[Region]:
        """Find the blocks that stand in a file."""
        for fence in fences(document.text):
            for name in markers(document.text, fence.start)["file"]:
                # The fence itself belongs to another parser, the line end before it to none.
                yield Region(fence.start - 1, fence.start, (name, fence.text), _write)

    def _unknown(self, document: Document) -> Iterable[Region]:
        """Find the blocks that nobody would carry out."""
        for fence in fences(document.text):
            if fence.language not in LANGUAGES:
                yield Region(fence.start, fence.end, fence.language, _refuse)

    def _python(self, document: Document) -> Iterable[Region]:
        for region in PythonCodeBlockParser()(document):
            evaluate = region.evaluator
            assert evaluate is not None

            def counted(example: Example, evaluate: Evaluator = evaluate) -> str | None:
                self.done["python"] += 1
                return evaluate(example)

            region.evaluator = counted
            yield region

    def _console(self, example: Example) -> str | None:
        workplace = self._workplace(example)
        self.done["console"] += 1
        said = markers(example.document.text, example.start)
        if said["needs"]:
            self._start_postgresql(workplace)
        expected = {int(status) for status in said["exit"]}
        instead = dict(pair.split(" => ", 1) for pair in said["instead"])
        typed = next(iter(said["typed"]), None)
        ended: set[int] = set()
        for command in transcripts.commands(example.parsed):
            line = re.sub(r"\s+# .*$", "", command.line)
            printed, status = workplace.run(
                instead.pop(line, command.line),
                typed=typed,
                seen=partial(transcripts.begins, command.shown),
            )
            self.done["commands"] += 1
            ended.add(status)
            # What follows an answer is not on the page.
            compared = transcripts.fits if typed is None else transcripts.begins
            told = f"$ {command.line}\n{printed}(status {status})"
            if command.shown and not compared(command.shown, printed):
                return f"{told}\n\nThe page shows:\n{command.shown}"
            if status not in expected | {0}:
                return f"{told}\n\nIt should end with {sorted(expected | {0})}."
        if instead:
            return f"no command of the block is {', '.join(map(repr, instead))}"
        if not expected <= ended:
            return f"no command ended with {sorted(expected - ended)}"
        return None

    def _toml(self, example: Example) -> str | None:
        self.done["toml"] += 1
        said = markers(example.document.text, example.start)
        tables = tomllib.loads(example.parsed)
        if configuration.is_ours(tables) and not (said["of"] or said["client"]):
            self.done["configurations"] += 1
            if _is_apart(example.document):
                return configuration.fault_elsewhere(example.parsed, self._workplace(example))
            return configuration.fault(example.parsed, Path.cwd())
        return None

    def _json(self, example: Example) -> str | None:
        self.done["json"] += 1
        try:
            json.loads(example.parsed)
        except ValueError:
            # A file of calls has one on each line.
            for line in example.parsed.splitlines():
                json.loads(line)
        return None

    def _text(self, _example: Example) -> None:
        self.done["text"] += 1


def _is_apart(document: Document) -> bool:
    """Tell whether a page installs packages that no other page has."""
    installs = re.search(r"pip install (?:-e|toolstile-)", document.text)
    return EXAMPLES in Path(document.path).parents or installs is not None


def told(evaluate: Evaluator) -> Evaluator:
    """Return an evaluator that tells of an exception, since it has no traceback of the page's."""

    def evaluated(example: Example) -> str | None:
        try:
            return evaluate(example)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return f"{type(error).__name__}: {error}"

    return evaluated


def _write(example: Example) -> None:
    name, text = example.parsed
    file = Path.cwd() / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _refuse(example: Example) -> str:
    known = ", ".join(LANGUAGES)
    return f"blocks of {example.parsed or 'no language'!r} are not carried out; known are {known}"
