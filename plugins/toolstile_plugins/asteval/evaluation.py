"""Calls of `evaluate_python`: the code is checked, then run in a process with limits."""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import json
import keyword
import math
import os
import re
import resource
import signal
import statistics
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from types import SimpleNamespace
from typing import Any, Final, NoReturn

from toolstile_hookspecs import ToolContext, ToolResult, ToolValidationError
from toolstile_plugins.asteval.settings import (
    MODES,
    AstevalConfig,
    Evaluated,
    EvaluatePython,
    Write,
)
from toolstile_plugins.vfs.paths import canonical
from toolstile_plugins.vfs.tools.checks import Checks, checking, missing, shown

# --- The Python that code has: a text is checked before any of it runs


LIST: Final = "__list__"
"""The name of `list` in loops, which code cannot change."""
NODES: Final = {
    **dict.fromkeys(("augassign", "dictcomp", "for", "formattedvalue", "functiondef", "if"), True),
    **dict.fromkeys(("ifexp", "joinedstr", "lambda", "listcomp", "setcomp", "while"), True),
    **dict.fromkeys(("assert", "delete", "import", "importfrom", "raise", "try", "with"), False),
}
"""The nodes of asteval that can be chosen, one by one."""

_ALLOWED: Final = (
    *(ast.Module, ast.Expr, ast.Assign, ast.AugAssign, ast.For, ast.While, ast.If, ast.Pass),
    *(ast.FunctionDef, ast.Return, ast.Break, ast.Continue, ast.BinOp, ast.UnaryOp, ast.BoolOp),
    *(ast.Compare, ast.Call, ast.keyword, ast.Constant, ast.Name, ast.expr_context, ast.List),
    *(ast.Tuple, ast.Set, ast.Dict, ast.Subscript, ast.Slice, ast.Attribute, ast.IfExp, ast.Lambda),
    *(ast.arguments, ast.arg, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    *(ast.comprehension, ast.JoinedStr, ast.FormattedValue, ast.operator, ast.unaryop),
    *(ast.boolop, ast.cmpop),
    # Only within nodes that are not available.
    *(ast.alias, ast.excepthandler, ast.withitem),
)
_CALLED: Final = {
    "ClassDef": "class",
    "ImportFrom": "import",
    "AnnAssign": "a type of a variable",
    "NamedExpr": ":=",
    "Starred": "* before a value",
}
"""The names of nodes in messages; for others, the class in small letters."""
_CONSTANTS: Final = (str, int, float, bool, type(None))
_FORMATS: Final = frozenset({"format", "format_map"})


def read_code(code: str) -> ast.Module:
    """Return a text's syntax tree, with rewritten loops; `ValueError` names all faults."""
    try:
        module = ast.parse(code, "code")
    except SyntaxError as error:
        raise ValueError(f"line {error.lineno}: {error.msg}") from None
    except (MemoryError, RecursionError, ValueError) as error:
        raise ValueError(f"it cannot be read: {str(error) or type(error).__name__}") from None
    found = {
        (getattr(node, "lineno", 1), fault): None
        for node in ast.walk(module)
        for fault in (*_faults(node), *_faults_of_names(node))
    }
    if found:
        raise ValueError("\n".join(f"line {line}: {fault}" for line, fault in sorted(found)))
    _Loops().visit(module)
    return ast.fix_missing_locations(module)


class _Loops(ast.NodeTransformer):
    """Rewrites loops, because asteval runs some of them wrongly.

    After a `continue`, asteval runs the test of a `while`, or the `map` that gives values to a
    `for`, in a wrong state.
    """

    def visit_While(self, node: ast.While) -> ast.While:
        # The test moves into the loop.
        self.generic_visit(node)
        unless = ast.UnaryOp(ast.Not(), node.test)
        stop = ast.If(unless, [*node.orelse, ast.Break()], [])
        node.test, node.body, node.orelse = ast.Constant(value=True), [stop, *node.body], []
        return node

    def visit_For(self, node: ast.For) -> ast.For:
        # All values are taken before the loop begins.
        self.generic_visit(node)
        node.iter = ast.Call(ast.Name(LIST, ast.Load()), [node.iter], [])
        return node


def _faults(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, _ALLOWED):
        name = type(node).__name__
        yield f"{_CALLED.get(name, name.lower())} is not available"
    if isinstance(node, ast.Constant) and not isinstance(node.value, _CONSTANTS):
        yield f"{type(node.value).__name__} is not available"
    if isinstance(node, ast.FormattedValue) and not _is_plain(node.format_spec):
        yield "braces in a format are not available"
    if isinstance(node, ast.Dict) and None in node.keys:
        yield "** is not available in a dict; use a loop"
    if isinstance(node, ast.FunctionDef | ast.Lambda) and (
        node.args.posonlyargs or node.args.kwonlyargs
    ):
        yield "/ and * are not available among the arguments of a function"
    if isinstance(node, ast.FunctionDef) and node.decorator_list:
        yield "a decorator is not available"


def _faults_of_names(node: ast.AST) -> Iterator[str]:
    name = ""
    if isinstance(node, ast.Name):
        name = node.id
    elif isinstance(node, ast.arg | ast.keyword):
        name = node.arg or ""
    elif isinstance(node, ast.FunctionDef):
        name = node.name
    if name.startswith("__"):
        yield f"the name {name} is not available"
    if isinstance(node, ast.Attribute):
        if node.attr.startswith("_") or node.attr in _FORMATS:
            yield f"the attribute {node.attr} is not available; use an f-string for formats"
        if not isinstance(node.ctx, ast.Load):
            yield f"the attribute {node.attr} cannot be changed"


def _is_plain(spec: ast.expr | None) -> bool:
    parts = spec.values if isinstance(spec, ast.JoinedStr) else []
    values = [part.value if isinstance(part, ast.Constant) else "{" for part in parts]
    return not any("{" in str(value) or "}" in str(value) for value in values)


# --- Evaluation by asteval, with a table of symbols of our own


CUT: Final = "... (cut)"
MAX_RANGE: Final = 1_000_000
MAX_BITS: Final = 1_000_000
_BUILTINS: Final = (
    "abs all any bool dict divmod enumerate filter float int isinstance len list map max min print "
    "reversed round set sorted str sum tuple zip"
)
_MATH: Final = SimpleNamespace(
    **{name: value for name, value in vars(math).items() if not name.startswith("_")}
)
_STATISTICS: Final = SimpleNamespace(
    mean=statistics.mean,
    median=statistics.median,
    pstdev=statistics.pstdev,
    stdev=statistics.stdev,
    variance=statistics.variance,
)
_PLAIN: Final = (str, bytes, int, float, bool, list, tuple, set, dict)
"""The types whose attributes code can read, beside the modules."""


class CodeError(Exception):
    """The evaluated code has failed; the text has the line and the cause."""


@dataclass
class Evaluation:
    """One evaluation."""

    variables: Mapping[str, Any]  # that the code finds
    functions: Mapping[str, Any]  # further names for the code, which do not count as variables
    most: int  # the characters after which an output is cut
    stdout: StringIO = field(default_factory=StringIO, init=False)
    stderr: StringIO = field(default_factory=StringIO, init=False)

    def run(self, code: str) -> tuple[str | None, dict[str, Any]]:
        """Return the last value as Python shows it, and the variables left, or `CodeError`."""
        with warnings.catch_warnings(), contextlib.redirect_stderr(self.stderr):
            warnings.simplefilter("always")
            try:
                module = read_code(code)
            except ValueError as error:
                raise CodeError(str(error)) from None
            interpreter, known = self._interpreter()
            value = interpreter.eval(module, show_errors=False)
            if interpreter.error:
                first = interpreter.error[0]
                # The innermost error, because asteval's own text repeats all arguments of a call.
                cause = first.exc_info[1]
                text = bounded(str(first.msg if cause is None else cause), 500)
                line = getattr(first.node, "lineno", None)
                where = "" if line is None else f"line {line}: "
                raise CodeError(f"{where}{first.exc.__name__}: {text}")
        has_value = bool(module.body) and isinstance(module.body[-1], ast.Expr)
        shown = None if value is None or not has_value else self._shown(value)
        left = {
            name: value
            for name, value in interpreter.symtable.items()
            if name not in known and not name.startswith("_")
        }
        return shown, left

    def as_text(self, value: Any) -> str:
        """Return a variable's value as JSON if possible, else as Python shows it."""
        try:
            return bounded(json.dumps(value, ensure_ascii=False, allow_nan=False), self.most)
        except (TypeError, ValueError, RecursionError):
            return self._shown(value)

    def outputs(self) -> list[str]:
        """Return the printed text and the warnings, both cut."""
        return [bounded(stream.getvalue(), self.most) for stream in (self.stdout, self.stderr)]

    def _shown(self, value: Any) -> str:
        try:
            return bounded(repr(value), self.most)
        except (ValueError, RecursionError) as error:
            return f"<{type(value).__name__} that cannot be shown: {error}>"

    def _interpreter(self) -> tuple[Any, frozenset[str]]:
        table = {**SYMBOLS, **self.functions, LIST: list}
        known = frozenset(table) - frozenset(self.variables)
        table.update(self.variables)
        interpreter = importlib.import_module("asteval").Interpreter(
            symtable=table, minimal=True, config=NODES, use_numpy=False, err_writer=self.stderr
        )

        def print_(*values: object, sep: str = " ", end: str = "\n") -> None:
            self.stdout.write(sep.join(map(str, values)) + end)

        def attribute(node: ast.Attribute) -> Any:
            value = interpreter.run(node.value)
            if type(value) in _PLAIN or value is _MATH or value is _STATISTICS:
                return getattr(value, node.attr)
            raise AttributeError(f"{type(value).__name__} has no attribute {node.attr} here")

        table["print"] = print_
        interpreter.node_handlers["attribute"] = attribute
        interpreter.node_handlers["generatorexp"] = interpreter.on_listcomp
        return interpreter, known


def bounded(text: str, most: int) -> str:
    """Return a text, cut if it is too long."""
    return text if len(text) <= most else text[:most] + CUT


def _pow(base: Any, exponent: Any, modulus: Any = None) -> Any:
    whole = modulus is None and isinstance(base, int) and isinstance(exponent, int)
    if whole and base.bit_length() * exponent > MAX_BITS:
        raise ValueError(f"pow() gives integers of up to {MAX_BITS:,} bits")
    return pow(base, exponent, modulus)


def _range(*bounds: int) -> range:
    made = range(*bounds)
    if len(made) > MAX_RANGE:
        raise ValueError(f"range() gives up to {MAX_RANGE:,} numbers")
    return made


SYMBOLS: Final = {
    **{name: getattr(builtins, name) for name in _BUILTINS.split()},
    "math": _MATH,
    "pow": _pow,
    "range": _range,
    "statistics": _STATISTICS,
}
"""The names for code, without the functions for files."""


# --- Limits on processor time and memory


def limited(work: Callable[[], Any], config: AstevalConfig) -> Any:
    """Return the plain value of `work` from a forked process; `CodeError` names a limit it meets.

    In a process, because Python checks limits only between two steps, and the kernel at any time.
    """
    read, write = os.pipe()
    with warnings.catch_warnings():
        # The other thread only waits for the end of the host; the fork does not need it.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        _work(work, config, write)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if not answer:
        number = os.waitstatus_to_exitcode(status)
        ended = f"its process ended (exit status {number}), as deep recursion and little memory do"
        if number in {-signal.SIGXCPU, -signal.SIGKILL}:
            ended = f"it used up its {config.cpu_seconds} seconds of processor time (cpu_seconds)"
        raise CodeError(ended)
    value, fault = json.loads(answer)
    if fault is not None:
        raise CodeError(fault)
    return value


def _work(work: Callable[[], Any], config: AstevalConfig, write: int) -> NoReturn:
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (config.cpu_seconds, config.cpu_seconds + 1))
        resource.setrlimit(resource.RLIMIT_DATA, (config.memory, config.memory))
        try:
            answer = json.dumps([work(), None])
        except (CodeError, MemoryError, RecursionError) as error:
            fault = str(error) if isinstance(error, CodeError) else type(error).__name__
            if "MemoryError" in fault:
                most = config.memory // 1024**2
                fault = f"{fault.rstrip(': ')}: it may take {most} MiB (memory)"
            answer = json.dumps([None, fault])
        with os.fdopen(write, "wb") as pipe:
            pipe.write(answer.encode())
    finally:
        os._exit(0)


# --- The call


_WHAT: Final = "Cannot evaluate the code"
_NAMED: Final = re.compile(r"\{([A-Za-z_]\w*)\}", re.ASCII)


def evaluate(params: EvaluatePython, context: ToolContext) -> ToolResult[Evaluated]:
    """Evaluate code, then write its files; `ToolValidationError` names all faults of the params."""
    variables = _variables(params.globals)
    config = context.resources.get(AstevalConfig)
    has_files = context.filesystem is not None
    if not has_files and (params.reads or params.writes):
        raise ToolValidationError(
            f"{_WHAT}: there is no workspace here. Leave reads and writes out, then retry."
        )
    with checking(context, _WHAT) if has_files else contextlib.nullcontext() as checks:
        files = None if checks is None else Files(checks)
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
    writes: list[list[str]] = []
    functions: dict[str, Any] = {}
    if files is not None:
        # The functions for files; `texts` and `writes` collect the reads and writes.

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
    """The files of a call; all faults are reported at once."""

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
