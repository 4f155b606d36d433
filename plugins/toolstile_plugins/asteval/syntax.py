"""The Python that `evaluate_python` has: all of a text is looked at before any of it runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

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
    # Parts of what is not available.
    *(ast.alias, ast.excepthandler, ast.withitem),
)
_CONSTANTS: Final = (str, int, float, bool, type(None))
_FORMATS: Final = frozenset({"format", "format_map"})


def read_code(code: str) -> ast.Module:
    """Return the syntax tree of a text.

    Raises:
        ValueError: When it is no Python, or has what is not available; names every fault.
    """
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
    """Writes loops in a way that asteval gets right.

    After a `continue` it takes that for the test of a `while`, and for each value that a `map`
    gives to a `for`.
    """

    def visit_While(self, node: ast.While) -> ast.While:
        """Test within the loop."""
        self.generic_visit(node)
        unless = ast.UnaryOp(ast.Not(), node.test)
        stop = ast.If(unless, [*node.orelse, ast.Break()], [])
        node.test, node.body, node.orelse = ast.Constant(value=True), [stop, *node.body], []
        return node

    def visit_For(self, node: ast.For) -> ast.For:
        """Take all values before the loop begins."""
        self.generic_visit(node)
        node.iter = ast.Call(ast.Name(LIST, ast.Load()), [node.iter], [])
        return node


def _faults(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, _ALLOWED):
        yield f"{_called(node)} is not available"
    if isinstance(node, ast.Constant) and not isinstance(node.value, _CONSTANTS):
        yield f"{type(node.value).__name__} is not available"
    if isinstance(node, ast.FormattedValue) and not _is_plain(node.format_spec):
        yield "a format holds no braces of its own"
    if isinstance(node, ast.Dict) and None in node.keys:
        yield "** is not available in a dict; use a loop"
    if isinstance(node, ast.FunctionDef | ast.Lambda) and (
        node.args.posonlyargs or node.args.kwonlyargs
    ):
        yield "/ and * are not available among the arguments of a function"
    if isinstance(node, ast.FunctionDef) and node.decorator_list:
        yield "a decorator is not available"


def _faults_of_names(node: ast.AST) -> Iterator[str]:
    for name in _names(node):
        if name.startswith("__"):
            yield f"the name {name} is not available"
    if isinstance(node, ast.Attribute):
        if node.attr.startswith("_") or node.attr in _FORMATS:
            yield f"the attribute {node.attr} is not available; use an f-string for formats"
        if not isinstance(node.ctx, ast.Load):
            yield f"the attribute {node.attr} cannot be changed"


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.arg | ast.keyword):
        return [node.arg or ""]
    return [node.name] if isinstance(node, ast.FunctionDef) else []


def _is_plain(spec: ast.expr | None) -> bool:
    parts = spec.values if isinstance(spec, ast.JoinedStr) else []
    values = [part.value if isinstance(part, ast.Constant) else "{" for part in parts]
    return not any("{" in str(value) or "}" in str(value) for value in values)


def _called(node: ast.AST) -> str:
    name = type(node).__name__
    return {
        "ClassDef": "class",
        "ImportFrom": "import",
        "AnnAssign": "a type of a variable",
        "NamedExpr": ":=",
        "Starred": "* before a value",
    }.get(name, name.lower())
