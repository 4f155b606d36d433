"""Evaluation of code by asteval, with a table of symbols of our own."""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import json
import math
import statistics
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO
from types import SimpleNamespace
from typing import Any, Final

from toolstile_plugins.asteval.syntax import LIST, NODES, read_code

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
    """Code that is evaluated has failed; the text says where, and by what."""


@dataclass
class Evaluation:
    """One evaluation.

    Args:
        variables: The variables that the code finds.
        functions: Further names that it finds, which are none of its variables.
        most: Characters after which an output is cut.
    """

    variables: Mapping[str, Any]
    functions: Mapping[str, Any]
    most: int
    stdout: StringIO = field(default_factory=StringIO, init=False)
    stderr: StringIO = field(default_factory=StringIO, init=False)

    def run(self, code: str) -> tuple[str | None, dict[str, Any]]:
        """Return the representation of the last expression's value, and the variables left.

        Raises:
            CodeError: When the code is refused, or fails.
        """
        with warnings.catch_warnings(), contextlib.redirect_stderr(self.stderr):
            warnings.simplefilter("always")
            try:
                module = read_code(code)
            except ValueError as error:
                raise CodeError(str(error)) from None
            interpreter, known = self._interpreter()
            value = interpreter.eval(module, show_errors=False)
            if interpreter.error:
                raise CodeError(self._told(interpreter.error[0]))
        has_value = bool(module.body) and isinstance(module.body[-1], ast.Expr)
        shown = None if value is None or not has_value else self._shown(value)
        left = {
            name: value
            for name, value in interpreter.symtable.items()
            if name not in known and not name.startswith("_")
        }
        return shown, left

    def as_text(self, value: Any) -> str:
        """Return a variable's value as JSON where that is possible, else as Python shows it."""
        try:
            return bounded(json.dumps(value, ensure_ascii=False, allow_nan=False), self.most)
        except (TypeError, ValueError, RecursionError):
            return self._shown(value)

    def outputs(self) -> list[str]:
        """Return what was printed, and warnings, both bounded."""
        return [bounded(stream.getvalue(), self.most) for stream in (self.stdout, self.stderr)]

    def _shown(self, value: Any) -> str:
        try:
            return bounded(repr(value), self.most)
        except (ValueError, RecursionError) as error:
            return f"<{type(value).__name__} that cannot be shown: {error}>"

    def _told(self, error: Any) -> str:
        # Of the innermost error; asteval's own text repeats all arguments of a call.
        cause = error.exc_info[1]
        text = bounded(str(error.msg if cause is None else cause), 500)
        line = getattr(error.node, "lineno", None)
        return f"{'' if line is None else f'line {line}: '}{error.exc.__name__}: {text}"

    def _interpreter(self) -> tuple[Any, frozenset[str]]:
        table = {**symbols(), **self.functions, LIST: list}
        known = frozenset(table) - frozenset(self.variables)
        table.update(self.variables)
        interpreter = importlib.import_module("asteval").Interpreter(
            symtable=table, minimal=True, config=NODES, use_numpy=False, err_writer=self.stderr
        )
        table["print"] = self._print

        def attribute(node: ast.Attribute) -> Any:
            value = interpreter.run(node.value)
            if type(value) in _PLAIN or value is _MATH or value is _STATISTICS:
                return getattr(value, node.attr)
            raise AttributeError(f"{type(value).__name__} has no attribute {node.attr} here")

        interpreter.node_handlers["attribute"] = attribute
        interpreter.node_handlers["generatorexp"] = interpreter.on_listcomp
        return interpreter, known

    def _print(self, *values: object, sep: str = " ", end: str = "\n") -> None:
        self.stdout.write(sep.join(map(str, values)) + end)


def symbols() -> dict[str, Any]:
    """Return what code can use, beside the functions for files."""
    return {
        **{name: getattr(builtins, name) for name in _BUILTINS.split()},
        "math": _MATH,
        "pow": _pow,
        "range": _range,
        "statistics": _STATISTICS,
    }


def bounded(text: str, most: int) -> str:
    """Return a text, cut where it is too long."""
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
