"""The call of `evaluate_python`, in a process of its own."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from toolstile_hookspecs import ToolContext, ToolResult, ToolValidationError
from toolstile_plugins.asteval.evaluation import CodeError, Evaluation
from toolstile_plugins.asteval.limits import limited
from toolstile_plugins.asteval.models import MODES, Evaluated, EvaluatePython, Write
from toolstile_plugins.asteval.settings import AstevalConfig
from toolstile_plugins.vfs.paths import canonical
from toolstile_plugins.vfs.tools.checks import Checks, checking, missing, shown

_WHAT: Final = "Cannot evaluate the code"
_NAMED: Final = re.compile(r"\{([A-Za-z_]\w*)\}", re.ASCII)


def evaluate(params: EvaluatePython, context: ToolContext) -> ToolResult[Evaluated]:
    """Evaluate code, and write the files that it leaves.

    Raises:
        ToolValidationError: For variables, paths and files that cannot be; names every fault.
    """
    variables = _variables(params.globals)
    if context.filesystem is not None:
        with checking(context, _WHAT) as checks:
            return _evaluated(params, variables, Files(checks), context)
    if params.reads or params.writes:
        raise ToolValidationError(
            f"{_WHAT}: there is no workspace here. Leave reads and writes out, then retry."
        )
    return _evaluated(params, variables, None, context)


def _evaluated(
    params: EvaluatePython, variables: dict[str, Any], files: Files | None, context: ToolContext
) -> ToolResult[Evaluated]:
    config = context.resources.get(AstevalConfig)
    texts: dict[str, str] = {}
    if files is not None:
        texts = files.texts(params.reads, [write.path for write in params.writes])
    run = partial(_run, params, variables, files, texts, config.max_output)
    try:
        shown, stdout, stderr, left, reads, writes = limited(run, config)
    except CodeError as error:
        told = "The code fails, and nothing is written."
        return ToolResult.error(f"{told}\n{error}\nFix the code, then retry.")
    if files is not None:
        files.write([Write(*write) for write in writes], reads)
    written = tuple(path for path, _, _ in writes)
    return ToolResult.ok(Evaluated(shown, stdout, stderr, left, tuple(reads), written))


def _run(
    params: EvaluatePython,
    variables: dict[str, Any],
    files: Files | None,
    texts: dict[str, str],
    most: int,
) -> list[Any]:
    """Evaluate the code, and return what is left of it as plain data; happens in a fork."""
    writes: list[list[str]] = []
    functions: dict[str, Any] = {}
    if files is not None:
        # What code has for files; `texts` and `writes` take what it reads and writes.

        def read_text(path: str) -> str:
            if type(path) is not str:
                raise ValueError("read_text() takes a path, a text")
            texts[path] = texts[path] if path in texts else files.read(path)
            return texts[path]

        def write_text(path: str, content: str, mode: str = "create") -> None:
            if type(path) is not str or type(content) is not str or mode not in MODES:
                raise ValueError(
                    f"write_text() takes a path, a text, and a mode of {', '.join(MODES)}"
                )
            writes.append([path, content, mode])

        functions = {"read_text": read_text, "write_text": write_text, "reads": dict(texts)}
    evaluation = Evaluation(variables, functions, most)
    shown, left = evaluation.run(params.code)
    writes += [[write.path, _filled(write.content, left), write.mode] for write in params.writes]
    outputs = {name: evaluation.as_text(value) for name, value in left.items()}
    return [shown, *evaluation.outputs(), outputs, list(texts), writes]


def _variables(given: dict[str, str]) -> dict[str, Any]:
    variables: dict[str, Any] = {}
    faults: list[str] = []
    for name, text in given.items():
        if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            faults.append(f"{name!r} cannot be the name of a variable.")
        try:
            variables[name] = json.loads(text)
        except ValueError as error:
            faults.append(f"The value of {name!r} is not JSON ({error}).")
    if faults:
        told = "\n".join([f"{_WHAT}, because of globals:", *faults])
        raise ToolValidationError(f"{told}\nFix them, then retry.")
    return variables


def _filled(content: str, left: dict[str, Any]) -> str:
    named = set(_NAMED.findall(content))
    if missing := sorted(named - left.keys()):
        raise CodeError(
            f"the content of a write names {', '.join(missing)}, which the code has not left"
        )
    return _NAMED.sub(lambda found: str(left[found[1]]), content)


class Files:
    """The files of a call, whose faults are told at once.

    Args:
        checks: The checks of the call.
    """

    def __init__(self, checks: Checks) -> None:
        self._checks = checks

    def texts(self, reads: Sequence[str], writes: Sequence[str]) -> dict[str, str]:
        """Return the texts of files by their paths."""
        for path in reads:
            self._checks.file(path)
        self._targets(writes, reads)
        self._checks.pass_or_refuse()
        return {path: self._checks.files.read(path) for path in reads}

    def read(self, path: str) -> str:
        """Return the text of a file that the code asks for."""
        try:
            return self._checks.files.read(path)
        except FileNotFoundError:
            raise ValueError(missing(self._checks.files, path)) from None

    def write(self, writes: Sequence[Write], reads: Sequence[str]) -> None:
        """Write files, all of them or none."""
        checks, files = self._checks, self._checks.files
        for write in writes:
            if write.mode != "create":
                checks.file(write.path)
            elif checks.stat(write.path) is not None:
                there = f"{shown(write.path)} already exists."
                checks.add(f"{there} Choose overwrite, append or another path.")
            checks.writable(write.path)
        self._targets([write.path for write in writes], reads)
        checks.pass_or_refuse()
        for write in writes:
            before = files.read(write.path) if write.mode == "append" else ""
            files.write(write.path, before + write.content)

    def _targets(self, writes: Sequence[str], reads: Sequence[str]) -> None:
        read, seen = {self._place(path) for path in reads}, set[str]()
        for path in writes:
            place = self._place(path)
            if place in seen:
                self._checks.add(f"{shown(path)} is written twice. Write it once.")
            if place in read:
                self._checks.add(f"{shown(path)} is read and written. Use one call for each.")
            seen.add(place)

    def _place(self, path: str) -> str:
        try:
            return canonical(path)
        except (OSError, ValueError) as error:
            self._checks.add(str(error))
            return path
