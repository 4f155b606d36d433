"""The syntax tree of an expression, read from the compiled form that CEL libraries exchange."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from toolstile_hookspecs import DefinitionError


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal: null, a boolean, a number, a text or bytes."""

    value: Any


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True)
class FieldOf:
    """A field of an object; `is_test` for `has(...)`, the test of its presence."""

    owner: Node
    name: str
    is_test: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator or a function with its operands, the receiver first."""

    name: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of expressions."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A macro over a list, such as `exists`: `step` makes a new `total` of it and an `item`."""

    item: str
    over: Node
    total: str
    start: Node
    step: Node
    result: Node


Node = Literal | Name | FieldOf | Operation | ListOf | Loop

# Numbers of fields in messages of `cel.expr` (github.com/google/cel-spec, proto/cel/expr).
_ANY_VALUE: Final = 2
_CHECKED_EXPR: Final = 4
_CONSTANT, _IDENT, _SELECT, _CALL, _LIST, _COMPREHENSION = 3, 4, 5, 6, 7, 9
_TEST: Final = 3
_VARINT, _FIXED, _BYTES = 0, 1, 2
_SIGN: Final = 1 << 63


def syntax_tree(compiled: bytes) -> Node:
    """Return the tree of a compiled expression, an `Any` of a `cel.expr.CheckedExpr`.

    Raises `DefinitionError` for something that rules do not support.
    """
    return _node(_fields(_fields(compiled)[_ANY_VALUE][0])[_CHECKED_EXPR][0])


def within(node: Node) -> Iterator[Node]:
    """Yield every node of a tree, the root first."""
    yield node
    match node:
        case FieldOf(owner):
            yield from within(owner)
        case Operation(_, inner) | ListOf(inner):
            for each in inner:
                yield from within(each)
        case Loop(_, over, _, start, step, result):
            for each in (over, start, step, result):
                yield from within(each)
        case _:
            pass


def _node(message: bytes) -> Node:  # noqa: PLR0911 - one a kind of node
    fields = _fields(message)
    if _CONSTANT in fields:
        return Literal(_constant(fields[_CONSTANT][0]))
    if _IDENT in fields:
        return Name(_text(_fields(fields[_IDENT][0]), 1))
    if _SELECT in fields:
        inner = _fields(fields[_SELECT][0])
        return FieldOf(_node(inner[1][0]), _text(inner, 2), is_test=_TEST in inner)
    if _CALL in fields:
        inner = _fields(fields[_CALL][0])
        operands = tuple(map(_node, (*inner.get(1, ()), *inner.get(3, ()))))
        match operands:
            case (owner, Literal(str() as name)) if _text(inner, 2) == "_[_]":
                return FieldOf(owner, name)
            case _:
                return Operation(_text(inner, 2), operands)
    if _LIST in fields:
        return ListOf(tuple(map(_node, _fields(fields[_LIST][0]).get(1, ()))))
    if _COMPREHENSION in fields:
        inner = _fields(fields[_COMPREHENSION][0])
        # The loop's condition adds nothing to its step.
        over, start, step, result = (_node(inner[key][0]) for key in (2, 4, 6, 7))
        return Loop(_text(inner, 1), over, _text(inner, 3), start, step, result)
    raise DefinitionError("a map or a message is written out, which rules do not have")


def _constant(message: bytes) -> Any:
    ((kind, (value,)),) = _fields(message).items()
    match kind:
        case 1:
            return None
        case 2:
            return bool(value)
        case 3:
            return value - 2 * _SIGN if value >= _SIGN else value
        case 5:
            return struct.unpack("<d", value)[0]
        case 6:
            return value.decode()
        case _:
            return value


def _text(fields: dict[int, list[Any]], key: int) -> str:
    return cast("bytes", fields[key][0]).decode()


def _fields(message: bytes) -> dict[int, list[Any]]:
    """Return the values of a message of Protocol Buffers by field number."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        wire = tag & 7
        if wire == _VARINT:
            value, at = _varint(message, at)
        elif wire in {_FIXED, _BYTES}:
            size, at = (8, at) if wire == _FIXED else _varint(message, at)
            value, at = message[at : at + size], at + size
        else:
            raise DefinitionError("the library's compiled form is another than the one known here")
        found.setdefault(tag >> 3, []).append(value)
    return found


def _varint(message: bytes, at: int) -> tuple[Any, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
