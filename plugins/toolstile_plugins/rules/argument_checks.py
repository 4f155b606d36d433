"""The syntax tree of an expression, and its check against the schema of a tool.

The tree is read from the compiled form that CEL libraries exchange. The check finds missing paths,
wrong types and optional arguments.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from toolstile_hookspecs import DefinitionError
from toolstile_hookspecs.codecs import alternatives, of_item, pointed, schemas_among
from toolstile_hookspecs.support.text import nearest
from toolstile_plugins.policies.path_arguments import Schema, use_of
from toolstile_plugins.rules.helpers import ARGUMENTS, COMMAND, SPELLINGS, is_given


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


# --- The shapes of values, and the check


Place = tuple[str, ...]

ANYTHING: Final = frozenset({"null", "boolean", "number", "string", "array", "object"})
INTEGER: Final = "integer"
DOUBLE: Final = "double"
_OF_PYTHON: Final[Mapping[type[Any], str]] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    bytes: "bytes",
    list: "array",
    dict: "object",
}
_DEEP: Final = 20


def type_of(value: Any) -> str:
    """Return the JSON type of a value, or `bytes`."""
    return _OF_PYTHON.get(value.__class__, "object")


@dataclass(frozen=True, slots=True)
class Shape:
    """The values that may stand in a place."""

    types: frozenset[str]
    label: str = "it"  # the expression, as messages show it
    place: Place = ()  # the names that lead there; none unless it is a variable's
    schemas: tuple[Schema, ...] = ()
    values: frozenset[str] | None = None  # all possible values, as JSON; None for any of the types
    exact: str | None = None  # `integer` or `double`, if the kind of number is known
    use: str = ""  # `path`, `url` or `command`, for a text or the items of an array

    @property
    def shown(self) -> str:
        """The expression with its types."""
        return f"{self.label} ({' or '.join(sorted(self.types))})"


def literal_shape(value: Any) -> Shape:
    """Return the shape of a literal."""
    is_number = type_of(value) == "number"
    exact = None if not is_number else DOUBLE if isinstance(value, float) else INTEGER
    shown = repr(value) if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False)
    return Shape(frozenset({type_of(value)}), shown, values=frozenset({shown}), exact=exact)


def place_shape(schemas: Iterable[Any], root: Schema, place: Place) -> Shape:
    """Return the shape of a place for which any of some schemas may hold."""
    given = [*schemas]
    types = frozenset[str]().union(*(_types(schema, root) for schema in given))
    found = schemas_among(given)
    values = _values(found, root) if len(found) == len(given) else None
    return Shape(types, ".".join(place) or "it", place, tuple(found), values)


def item_shape(array: Shape, root: Schema) -> Shape:
    """Return the shape of the items of an array; they have the label of the whole."""
    parts = list(alternatives(array.schemas, root))
    found = [*schemas_among(part.get("items") for part in parts)]
    longest = max((len(part.get("prefixItems", ())) for part in parts), default=0)
    found += [schema for index in range(longest) for schema in of_item(parts, index)]
    item = place_shape(found or [{}], root, ())
    use = array.use or use_of("", alternatives(item.schemas, root))
    return replace(item, label=f"an item of {array.label}", use=use)


def field_of(
    owner: Shape, name: str, root: Schema, *, is_filled: bool
) -> tuple[Shape, bool] | None:
    """Return a declared field of an object, and whether it is always present; else None.

    `root` is the schema that references point into; `is_filled` tells that defaults are filled in.
    """
    place = (*owner.place, name) if owner.place else ()
    if not owner.schemas or owner.types > {"object", "null"}:
        # The schema says nothing about such an object.
        return place_shape([{}], root, place), False
    parts = list(alternatives(owner.schemas, root))
    objects = [part for part in parts if "properties" in part or part.get("type") == "object"]
    declared = [part for part in objects if name in part.get("properties", {})]
    if declared:
        shape = place_shape([part["properties"][name] for part in declared], root, place)
        return shape, all(_requires(part, name, is_filled=is_filled) for part in objects)
    others = [schema for part in objects for schema in _other_fields(part)]
    if others and (len(owner.place) > 1 or {} not in others):
        return place_shape(others, root, place), False
    return None


def names_in(owner: Shape, root: Schema) -> list[str]:
    """Return the names of the fields that the schema of an object declares."""
    parts = alternatives(owner.schemas, root)
    return [name for part in parts for name in part.get("properties", ())]


def _requires(part: Schema, name: str, *, is_filled: bool) -> bool:
    if name in part.get("required", ()):
        return True
    said = part.get("properties", {}).get(name)
    return is_filled and isinstance(said, Mapping) and "default" in said


def _other_fields(part: Schema) -> list[Schema]:
    """Return the schemas of an object's undeclared fields; {} for any value."""
    found = [*part.get("patternProperties", {}).values()]
    others = part.get("additionalProperties", "properties" not in part)
    if others is True:
        found.append({})
    return schemas_among([*found, others])


def _types(given: object, root: Schema, deep: int = 0) -> frozenset[str]:
    if not isinstance(given, Mapping) or deep > _DEEP:
        return ANYTHING if given is not False else frozenset()
    schema = cast("Schema", given)
    said: Any = schema.get("type", ANYTHING)
    names: Iterable[str] = [said] if isinstance(said, str) else said
    found = frozenset("number" if name == INTEGER else name for name in names)
    if (values := _listed(schema)) is not None:
        found &= set(map(type_of, values))
    if "$ref" in schema:
        found &= _types(pointed(root, schema["$ref"]), root, deep + 1)
    for inner in schema.get("allOf", ()):
        found &= _types(inner, root, deep + 1)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            several = (_types(inner, root, deep + 1) for inner in schema[key])
            found &= frozenset[str]().union(*several)
    return found


def _values(schemas: Iterable[Schema], root: Schema) -> frozenset[str] | None:
    found: set[str] = set()
    for part in alternatives(schemas, root):
        values = _listed(part)
        if values is not None:
            found.update(json.dumps(value, ensure_ascii=False) for value in values)
        elif part.get("type") == "null":
            found.add("null")
        elif part.keys().isdisjoint(("$ref", "anyOf", "oneOf")):
            return None
    return frozenset(found)


def _listed(schema: Schema) -> Sequence[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


_BOOLEAN: Final = Shape(frozenset({"boolean"}))
_INTEGER: Final = Shape(frozenset({"number"}), exact=INTEGER)
_TEXT: Final = Shape(frozenset({"string"}))
_SPELT: Final = {name: {"type": "string", "spelling": name} for name in SPELLINGS}
_WORDS: Final = Shape(frozenset({"array"}), schemas=({"items": _SPELT["words"]},))
_AROUND: Final = {"startsWith": ("", "x"), "endsWith": ("x", ""), "contains": ("x", "x")}
INSTEAD: Final[Mapping[str, str]] = {
    "path": "but a path has several spellings. Write path({0}) in place of {0}.",
    "url": "but a URL has several spellings. Write host({0}) in place of {0}.",
    "command": (
        "but a chained command passes that. Compare the whole line, as in {0} in ['git status'], "
        "or each of commands({0})."
    ),
}
"""By the use of a text, why it is not compared letter by letter, and the function to use."""
_UNSPELT: Final = (frozenset({'""'}), frozenset({"null"}))
_STRING, _ARRAY = frozenset({"string"}), frozenset({"array"})
_SIZED: Final = "string array object bytes"
_ORDERED: Final = ("number", "string", "boolean", "timestamp", "duration", "bytes")
PARTS_OF_MOMENTS: Final = (
    *("FullYear", "Month", "Date", "DayOfMonth", "DayOfWeek", "DayOfYear"),
    *("Hours", "Minutes", "Seconds", "Milliseconds"),
)

FUNCTIONS: Final[Mapping[str, tuple[str, Shape]]] = {
    **dict.fromkeys(("contains", "startsWith", "endsWith", "matches"), ("string", _BOOLEAN)),
    **{name: ("string", replace(_TEXT, schemas=(_SPELT[name],))) for name in SPELLINGS},
    "words": ("string", _WORDS),
    "commands": ("string array", Shape(frozenset({"array"}), schemas=({"items": COMMAND},))),
    "size": (_SIZED, _INTEGER),
    "int": ("number string timestamp", _INTEGER),
    "double": ("number string", Shape(frozenset({"number"}), exact="double")),
    "string": ("number string boolean timestamp duration bytes", _TEXT),
    "timestamp": ("string timestamp", Shape(frozenset({"timestamp"}))),
    "duration": ("string duration", Shape(frozenset({"duration"}))),
    "count": ("session", _INTEGER),
    "seconds_since": ("session", Shape(frozenset({"number"}), exact="double")),
    "!_": ("boolean", _BOOLEAN),
    "@not_strictly_false": ("boolean", _BOOLEAN),
    **{f"get{part}": ("timestamp duration", _INTEGER) for part in PARTS_OF_MOMENTS},
}
"""The types that the operands of functions can have, and the shape of their results."""

Fact = tuple[str, Place]
"""A fact about a place: `("has", place)`, or `("value", place)` if it is not null."""
Facts = frozenset[Fact]
_NOTHING: Final[Facts] = frozenset()


@dataclass
class ArgumentChecks:
    """Faults of an expression for the arguments of one tool."""

    root: Schema  # the schema of the arguments
    others: Mapping[str, Schema]  # the schemas of the other variables
    is_filled: bool  # omitted arguments have defaults, undeclared ones are absent
    # The paths that the schema does not have, each with the nearest known name.
    missing: dict[Place, str | None] = field(default_factory=dict[Place, Any])
    # Other faults, each as a clause about the expression.
    faults: list[str] = field(default_factory=list[str])
    # Comparisons that another spelling of an argument evades, in their order.
    warnings: dict[str, None] = field(default_factory=dict[str, None])
    _bound: dict[str, Shape] = field(default_factory=dict[str, Shape])

    def fault(self, told: str) -> None:
        """Add a fault, once."""
        if told not in self.faults:
            self.faults.append(told)

    def check(self, tree: Node) -> None:
        """Find missing paths and other faults."""
        self._want(self._shape(tree, _NOTHING), "boolean", "is")

    def _shape(self, node: Node, facts: Facts) -> Shape:  # noqa: PLR0911, C901 - a case for each kind
        match node:
            case Literal(value):
                return literal_shape(value)
            case Name(name):
                if name in self._bound:
                    return self._bound[name]
                if name == ARGUMENTS:
                    self.fault("uses args as a whole; name the arguments, as in args.path")
                return self._root(name)
            case FieldOf(owner, name, is_test):
                is_root = owner == Name(ARGUMENTS)
                above = self._root(ARGUMENTS) if is_root else self._known(owner, facts)
                return self._field(above, name, facts, is_test=is_test)
            case ListOf(items):
                return self._list([self._shape(item, facts) for item in items])
            case Loop():
                return self._loop(node, facts)
            case Operation(("_&&_" | "_||_") as name, operands):
                for place, operand in enumerate(operands):
                    rest = operands[:place] + operands[place + 1 :]
                    known = facts.union(*(facts_of(each, is_true=name == "_&&_") for each in rest))
                    self._want(self._shape(operand, known), "boolean", "takes for a condition")
                return _BOOLEAN
            case Operation("_?_:_", (condition, one, other)):
                self._want(self._shape(condition, facts), "boolean", "takes for a condition")
                first = self._shape(one, facts | facts_of(condition, is_true=True))
                second = self._shape(other, facts | facts_of(condition, is_true=False))
                exact = first.exact if first.exact == second.exact else None
                types, use = first.types | second.types, first.use or second.use
                return replace(first, types=types, place=(), exact=exact, use=use)
            case Operation(name, operands):
                return self._operation(name, [self._known(each, facts) for each in operands])

    def _known(self, node: Node, facts: Facts) -> Shape:
        shape = self._shape(node, facts)
        is_given = ("value", shape.place) in facts
        return replace(shape, types=shape.types - {"null"}) if is_given else shape

    def _root(self, name: str) -> Shape:
        schema = self.root if name == ARGUMENTS else self.others.get(name, {})
        if schema.get("type") in {"timestamp", "session"}:
            return Shape(frozenset({schema["type"]}), name)
        return place_shape([schema], schema, (name,))

    def _field(self, owner: Shape, name: str, facts: Facts, *, is_test: bool) -> Shape:
        place = (*owner.place, name) if owner.place else ()
        self._want(owner, "object", f"reads {name} of")
        found = field_of(owner, name, self.root, is_filled=self.is_filled)
        if found is None:
            missing = place or (owner.label, name)
            near = nearest(missing[-1], names_in(owner, self.root))
            if missing[0] == ARGUMENTS:
                self.missing[missing] = near
            else:
                meant = f"; did you mean {near}?" if near else "; name a known one"
                self.fault(f"reads {'.'.join(missing)}, which does not exist{meant}")
            return Shape(ANYTHING, place=place)
        if is_test:
            return _BOOLEAN
        shape, is_required = found
        if not is_required and ("has", place) not in facts:
            shown = ".".join(place) or f"{name} of {owner.label}"
            self.fault(f"reads {shown}, which may be left out; write has({shown}) && ...")
        return replace(shape, use=use_of(name, alternatives(shape.schemas, self.root)))

    def _list(self, items: list[Shape]) -> Shape:
        types = frozenset[str]().union(*(item.types for item in items))
        known = [item.values for item in items]
        values = None if None in known else frozenset[str]().union(*(each or () for each in known))
        label = f"[{', '.join(item.label for item in items)}]"
        inner = {"type": [*types]} if items else {}
        return Shape(frozenset({"array"}), label, schemas=({"items": inner},), values=values)

    def _loop(self, loop: Loop, facts: Facts) -> Shape:
        over = self._known(loop.over, facts)
        self._want(over, "array object", "goes through")
        item = item_shape(over, self.root) if "array" in over.types else _TEXT
        before = dict(self._bound)
        self._bound[loop.item] = replace(item, place=(loop.item,), label=loop.item)
        start = self._shape(loop.start, facts)
        if "array" in start.types:
            start = replace(start, schemas=())
        self._bound[loop.total] = start
        self._shape(loop.step, facts)
        result = self._shape(loop.result, facts)
        self._bound = before
        return result

    def _operation(self, name: str, operands: list[Shape]) -> Shape:
        if name in (*_AROUND, "matches", "_==_", "_!=_", "@in"):
            self._warn(name, operands)
        if name in FUNCTIONS:
            wanted, given = FUNCTIONS[name]
            self._want(operands[0], wanted, f"calls {name}() of")
            for operand in operands[1:]:
                self._want(operand, "string", f"gives {name}()")
                self._spell(operands[0], operand, _AROUND.get(name, ("", "")))
            use = operands[0].use if name == "string" else ""
            return replace(given, label=f"{name}(...)", use=use)
        if name in {"_==_", "_!=_"}:
            self._compare(*operands)
        elif name in {"_<_", "_<=_", "_>_", "_>=_"}:
            self._order(operands)
        elif name == "@in":
            item, within = operands
            self._want(within, "array object", "searches with `in`")
            if "array" in within.types:
                listed = item_shape(within, self.root)
                self._compare(item, replace(listed, values=within.values))
        elif name == "_[_]":
            owner, index = operands
            is_array = owner.types == _ARRAY
            self._want(owner, "array object", "takes an item of")
            self._want(index, "number" if is_array else "number string", "takes item")
            return item_shape(owner, self.root) if is_array else Shape(ANYTHING)
        elif name in {"_+_", "_-_", "_*_", "_/_", "_%_", "-_"}:
            return self._calculate(operands)
        else:
            self.fault(f"calls {name}(), which rules do not have")
        return _BOOLEAN

    def _warn(self, name: str, operands: list[Shape]) -> None:
        """Warn about a letter-by-letter comparison of a text that has several spellings."""
        for each, other in (operands, operands[::-1]):
            if other.values in _UNSPELT or each.values is not None or each.use not in INSTEAD:
                continue
            if each.use != "command" or name in FUNCTIONS:
                shown = f"{name}()" if name in FUNCTIONS else name.strip("_@")
                told = f"compares {each.label} by {shown}, {INSTEAD[each.use].format(each.label)}"
                self.warnings[told] = None

    def _compare(self, one: Shape, other: Shape) -> None:
        if one.types.isdisjoint(other.types):
            self.fault(
                f"compares {one.shown} with {other.shown}, which are never equal; compare values "
                "of one type"
            )
        for given, place in ((one, other), (other, one)):
            strays = (given.values or frozenset()) - (place.values or frozenset())
            if strays and place.values and place.place and given.types == _STRING:
                told = f"compares {place.label} with {', '.join(sorted(strays))}, which it never "
                self.fault(f"{told}is; it is one of {', '.join(sorted(place.values))}")
            self._spell(place, given)

    def _spell(self, place: Shape, given: Shape, around: tuple[str, str] = ("", "")) -> None:
        for name in SPELLINGS.keys() & {schema.get("spelling") for schema in place.schemas}:
            literals = () if given.place else given.values or ()
            texts = [json.loads(value) for value in literals]
            wrong = [text for text in texts if isinstance(text, str)]
            if wrong := sorted(text for text in wrong if not is_given(name, text, around)):
                told = f"compares {place.label} with {', '.join(map(json.dumps, wrong))}, which "
                self.fault(f"{told}{name}() never gives; {SPELLINGS[name][1]}")

    def _order(self, operands: list[Shape]) -> None:
        if operands[0].types.isdisjoint(operands[1].types):
            self._compare(*operands)
            return
        for each, other in (operands, operands[::-1]):
            common = [name for name in _ORDERED if name in other.types] or [*_ORDERED]
            self._want(each, " ".join(common), "compares the order of")

    def _calculate(self, operands: list[Shape]) -> Shape:
        types = frozenset[str]().union(*(each.types for each in operands))
        if types & {"timestamp", "duration"}:
            is_moment = sum("timestamp" in each.types for each in operands) == 1
            return Shape(frozenset({"timestamp" if is_moment else "duration"}))
        if types in (_STRING, _ARRAY):
            used = [each.use for each in operands if each.use]
            label = " + ".join(each.label for each in operands)
            return Shape(types, label, use=used[0] if used else "")
        for each in operands:
            self._want(each, "number", "calculates with")
        exact = {each.exact for each in operands}
        if None in exact or len(exact) > 1:
            shown = next((each.label for each in operands if each.exact is None), "it")
            told = f"calculates with {shown}, a number that may be whole or not; write "
            self.fault(f"{told}double({shown}), and other numbers as 1.0")
        return Shape(frozenset({"number"}), exact=next(iter(exact), None))

    def _want(self, shape: Shape, wanted: str, doing: str) -> None:
        """Add a fault if a value of such a shape may have another type."""
        others = shape.types.difference(wanted.split())
        if not others or shape.types == ANYTHING:
            return
        expected = " or ".join(wanted.split())
        if others == shape.types:
            self.fault(f"{doing} {shape.shown}, not {expected}")
        elif others == frozenset({"null"}):
            told = f"{doing} {shape.label}, which may be null"
            self.fault(f"{told}; write {shape.label} != null && ...")
        else:
            told = f"{doing} {shape.label}, which may also be {' or '.join(sorted(others))}"
            self.fault(f"{told}; convert it, as in string({shape.label})")


def facts_of(node: Node, *, is_true: bool) -> Facts:
    """Return the facts that hold once an expression is true, or false."""
    match node:
        case FieldOf(owner, name, True) if is_true:
            return frozenset({("has", (*_place_of(owner), name))})
        case Operation("!_", (inner,)):
            return facts_of(inner, is_true=not is_true)
        case Operation(("_&&_" | "_||_") as name, operands):
            found = [facts_of(each, is_true=is_true) for each in operands]
            if (name == "_&&_") is is_true:
                return _NOTHING.union(*found)
            return found[0].intersection(*found[1:])
        case Operation(("_!=_" | "_==_") as name, (inner, Literal(None))):
            is_known = (name == "_!=_") is is_true
            return frozenset({("value", _place_of(inner))}) if is_known else _NOTHING
        case _:
            return _NOTHING


def _place_of(node: Node) -> Place:
    match node:
        case Name(name):
            return (name,)
        case FieldOf(owner, name) if above := _place_of(owner):
            return (*above, name)
        case _:
            return ()
