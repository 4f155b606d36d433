"""Expressions of rules: CEL, compiled once, with the variables and functions that rules have.

The library is the CEL runtime of the language's authors. Only this library gives the syntax tree,
which the checks of `argument_checks` read; it counts letters as the language says, bounds its
loops, and its regular expressions take linear time.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs import DefinitionError
from toolstile_hookspecs.support.text import extra_remedy, nearest
from toolstile_plugins.rules.argument_checks import (
    FUNCTIONS,
    FieldOf,
    Literal,
    Loop,
    Name,
    Node,
    Operation,
    syntax_tree as tree_of,
    within,
)
from toolstile_plugins.rules.helpers import (
    ARGUMENTS,
    SESSION,
    EvaluationFailed,
    commands_of,
    host_of,
    mail_host_of,
    path_in,
    words_of,
)

LIBRARY: Final = "cel_expr_python.cel"
VARIABLES: Final = {
    ARGUMENTS: "dyn",
    "tool": "dyn",
    "principal": "dyn",
    "agent": "dyn",
    SESSION: "session",
    "request": "list",
    "now": "timestamp",
}
ON_SESSION: Final = ("count", "seconds_since")
"""The functions of `session`, in the order of the figures of a `Reading`."""
CONVERSIONS: Final = frozenset({"timestamp", "duration", "int", "double"})
CALLED: Final = sorted(
    {name for name in FUNCTIONS if name.isidentifier()}
    | {"has", "all", "exists", "exists_one", "filter", "map"}
)
"""The names of the functions and macros that rules have."""
_SCHEMES: Final = [Literal(name) for name in ("http", "https", "ws", "wss", "ftp", "ssh", "git")]
_NOISE: Final = re.compile(r" \(in container ''\)| \[[A-Z_]+\]$| expecting \{.{40,}\}")
_UNKNOWN: Final = re.compile(r"undeclared reference to '([^']+)'")


@dataclass(frozen=True)
class Expression:
    """A compiled expression: its syntax tree, and the program of the library."""

    tree: Node
    program: Any

    @cached_property
    def arguments(self) -> frozenset[str]:
        """The names of the arguments that it reads."""
        fields = (each for each in within(self.tree) if isinstance(each, FieldOf))
        return frozenset(each.name for each in fields if each.owner == Name(ARGUMENTS))

    @cached_property
    def others(self) -> frozenset[str]:
        """The variables in it, except arguments and session."""
        names = {each.name for each in within(self.tree) if isinstance(each, Name)}
        return frozenset(names & VARIABLES.keys() - {ARGUMENTS, SESSION})

    @property
    def counted(self) -> frozenset[str]:
        """The names of the tools whose calls it counts."""
        return frozenset(_counted_names(self.tree))

    @property
    def has_paths(self) -> bool:
        """True if it normalizes paths."""
        calls = (each for each in within(self.tree) if isinstance(each, Operation))
        return any(call.name == "path" for call in calls)

    def evaluate(self, values: Mapping[str, Any]) -> bool:
        """Return the value with these variables; raise `EvaluationFailed` without one."""
        try:
            found = self.program.eval(data=values)
            value = found.value()
        except Exception as error:  # noqa: BLE001 - the library raises any type
            raise EvaluationFailed(_first_line(str(error))) from None
        if value is True or value is False:
            return bool(value)
        if found.type().name() != "ERROR":
            raise EvaluationFailed("it is neither true nor false")
        raise EvaluationFailed(_first_line(str(value)))


def compiled(source: str, root: Path | None = None) -> Expression:
    """Return an expression, ready to be evaluated, with `path()` below `root`, as in `path_in`.

    Raises `DefinitionError` if the library is missing, or the text is not such an expression.
    """
    try:
        program = _environment(root).compile(source)
        if program.return_type().name() not in {"BOOL", "DYN"}:
            raise DefinitionError(f"it is {program.return_type().name()}, not true or false")
        tree = tree_of(program.serialize())
    except RuntimeError as error:
        told = _first_line(str(error))
        raise DefinitionError(f"{told}; {_remedy(told, source)}") from None
    for fault in _literal_faults(tree):
        raise DefinitionError(fault)
    return Expression(tree, program)


def _counted_names(tree: Node) -> list[str]:
    found: list[str] = []
    for node in within(tree):
        match node:
            case Operation(name, (Name("session"), Literal(str() as tool))) if name in ON_SESSION:
                found.append(tool)
            case _:
                pass
    return found


@cache
def _environment(root: Path | None) -> Any:
    try:
        cel: Any = importlib.import_module(LIBRARY)
    except ImportError:
        raise DefinitionError(f"it needs a library for CEL. {extra_remedy('policies')}") from None
    text, texts = cel.Type.STRING, cel.Type.List(cel.Type.STRING)
    dyn, session = cel.Type.DYN, cel.Type.Map(text, cel.Type.DYN)
    types = {"dyn": dyn, "list": texts, "timestamp": cel.Type.TIMESTAMP, "session": session}
    functions = [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(f"{name}{at}", gives, of, of[0] is session, impl)
                for at, of in enumerate(takes)
            ],
        )
        for name, gives, takes, impl in (
            ("path", text, [[text]], partial(path_in, root)),
            ("host", text, [[text], [text, text]], host_of),
            ("mail_host", text, [[text]], mail_host_of),
            ("words", texts, [[text]], words_of),
            ("commands", cel.Type.List(dyn), [[text], [cel.Type.List(dyn)]], commands_of),
            *(
                (name, dyn, [[session, text]], partial(_read, at))
                for at, name in enumerate(ON_SESSION)
            ),
        )
    ]
    variables = {name: types[kind] for name, kind in VARIABLES.items()}
    return cel.NewEnv(variables=variables, functions=functions)


def _read(place: int, reading: Any, name: str) -> float:
    found: float = reading[name][place]
    return found


def _literal_faults(tree: Node) -> Iterator[str]:
    """Yield faults of patterns and times, which the library only reads at evaluation."""
    if [*within(tree)].count(Name(SESSION)) != len(_counted_names(tree)):
        yield "it reads the session other than by session.count('TOOL') and seconds_since"
    for node in within(tree):
        match node:
            case Loop(item) if item in VARIABLES:
                yield f"{item} is a variable of rules; give the items another name"
                continue
            case Operation("matches", (_, Literal(str() as given))):
                text = f"''.matches({_quoted(given)})"
            case Operation("matches", _):
                yield "matches() takes its pattern from the rule; write it out"
                continue
            case Operation("host", (_, scheme)) if scheme not in _SCHEMES:
                yield "host() takes a scheme by default from the rule; write it out, as in 'https'"
                continue
            case Operation(name, (Literal(str() as given),)) if name in CONVERSIONS:
                text = f"{name}({_quoted(given)}) == {name}({_quoted(given)})"
            case Operation(name, (_, Literal(str() as given))) if name.startswith("get"):
                text = f"timestamp(0).{name}({_quoted(given)}) >= 0"
            case _:
                continue
        found = _environment(None).compile(text).eval(data={})
        if found.value() is True or found.value() is False:
            continue
        yield f"{_first_line(str(found.value()))}; correct {given!r}"


def _quoted(text: str) -> str:
    escaped = "".join(f"\\U{ord(char):08x}" for char in text)
    return f'"{escaped}"'


def _first_line(text: str) -> str:
    """Return the reason in a message of the library, without its code and place."""
    first = text.split("\n", 1)[0]
    reason = first.partition(": ")[2] or first
    reason = reason.removeprefix("ERROR: <input>:").strip()
    reason = _NOISE.sub("", reason)
    is_mixed = "int, double)" in reason or "double, int)" in reason
    return f"{reason}; write whole numbers as 1.0 beside others" if is_mixed else reason


def _remedy(told: str, source: str) -> str:
    if "Syntax error" in told:
        return "conditions are joined by && and ||, turned by !, compared by ==; texts are quoted"
    found = _UNKNOWN.search(told)
    if found is None:
        return "give it values of types that it takes"
    name = found[1]
    first = name.split(".", 1)[0]
    is_called = f"{name}(" in source
    if name in CALLED:
        return f"{name}() is called with other values than these"
    meant = nearest(first, CALLED if is_called else (*VARIABLES, "true", "false", "null"))
    if meant is not None:
        return f"did you mean {meant}?"
    if is_called:
        common = [each for each in CALLED if not each.startswith("get")]
        return f"there are {', '.join(common)}"
    return f"write args.{name} for an argument, and '{name}' for a text"
