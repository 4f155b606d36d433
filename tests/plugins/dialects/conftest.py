"""Tools, outcomes and a small JSON Schema validator for the dialects' tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import pytest
from hypothesis import strategies as st
from pydantic import Field

from toolstile_hookspecs import (
    Outcome,
    Stage,
    Status,
    Tool,
    ToolCall,
    ToolExample,
    ToolInvoked,
    ToolResult,
)
from toolstile_hookspecs.codecs import Codec


@dataclass(frozen=True)
class Search:
    """The text to look for."""

    query: str
    """Words to find."""
    limit: int = 10


@dataclass(frozen=True)
class Found:
    titles: list[str]

    def render(self) -> str:
        return "\n".join(self.titles)


def _search(params, *, context):
    return ToolResult.ok(Found([params.query]))


@pytest.fixture
def with_example() -> str:
    """Return the description of `search` where the provider has no field for examples."""
    example = 'One word: {"query":"whale","limit":3} -> {"titles":["Moby-Dick"]}'
    return f"Search the library.\n\nExamples:\n- {example}"


@pytest.fixture
def search() -> Tool:
    """Return a tool with a default, an example and an object for a result."""
    return Tool[Search, Found](
        name="search",
        description="Search the library.",
        handler=_search,
        category="read",
        examples=(ToolExample("One word.", Search("whale", 3), Found(["Moby-Dick"])),),
    )


@pytest.fixture
def make_tool() -> Callable[..., Tool]:
    """Return a function that makes a tool of types and options."""

    def make(params: Any = None, result: Any = None, **options: Any) -> Tool:
        def handler(params, *, context):
            return ToolResult.ok()

        options = {"name": "act", "description": "Act.", "handler": handler, **options}
        return Tool[params, result](**options)

    return make


@pytest.fixture
def outcome() -> Callable[..., Outcome]:
    """Return a function that makes an outcome by hand."""

    def make(
        result: ToolResult,
        *,
        status: Status | None = None,
        tool: Tool | None = None,
        call: ToolCall | None = None,
        data: bytes | None = None,
    ) -> Outcome:
        known = status or (Status.SUCCEEDED if result.success else Status.FAILED)
        event = ToolInvoked(
            call=call or ToolCall("search", id="call_1"),
            tool=tool,
            arguments=None,
            result=result,
            status=known,
            stage=Stage.TELEMETRY,
            session_id="s",
            parent_id=None,
            timestamp=datetime(2026, 1, 15, 10, 30, tzinfo=UTC),
            duration=0.1,
            text=result.render(),
            data=data,
        )
        return Outcome(event)

    return make


_KINDS = {
    "null": type(None),
    "boolean": bool,
    "string": str,
    "array": list,
    "object": dict,
}


def _is(value: object, kind: str) -> bool:
    if kind in {"integer", "number"}:
        whole = int if kind == "integer" else (int, float)
        return isinstance(value, whole) and not isinstance(value, bool)
    return isinstance(value, _KINDS[kind])


def _fits(schema: Any, value: Any, root: dict[str, Any]) -> bool:  # noqa: C901, PLR0911, PLR0912 - a branch for each keyword
    if isinstance(schema, bool):
        return schema
    if schema.get("nullable") and value is None:
        return True
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].split("/")[1:]:
            target = target[part]
        if not _fits(target, value, root):
            return False
    kinds = schema.get("type")
    if kinds and not any(_is(value, k) for k in ([kinds] if isinstance(kinds, str) else kinds)):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "const" in schema and value != schema["const"]:
        return False
    for key in ("anyOf", "oneOf"):
        if key in schema and not any(_fits(each, value, root) for each in schema[key]):
            return False
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return schema.get("minimum", value) <= value <= schema.get("maximum", value)
    if isinstance(value, str):
        return schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
    if isinstance(value, list):
        places = schema.get("prefixItems", [])
        rest = value[len(places) :] if places else value
        return (
            schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
            and all(_fits(s, v, root) for s, v in zip(places, value, strict=False))
            and all(_fits(schema.get("items", True), each, root) for each in rest)
        )
    if isinstance(value, dict):
        named = schema.get("properties", {})
        extra = schema.get("additionalProperties", True)
        return all(name in value for name in schema.get("required", ())) and all(
            _fits(named.get(name, extra), each, root) for name, each in value.items()
        )
    return True


@pytest.fixture(scope="session")
def fits() -> Callable[[dict[str, Any], Any], bool]:
    """Return a function that tells whether a value fits a schema."""
    return lambda schema, value: _fits(schema, value, schema)


_LEAVES = [
    (int, st.integers(-5, 5)),
    (str, st.text("ab", max_size=3)),
    (bool, st.booleans()),
    (float, st.floats(-2, 2)),
    (type(None), st.none()),
    (Any, st.none() | st.booleans() | st.integers() | st.text("ab", max_size=2)),
    (Literal["x", "y"], st.sampled_from(["x", "y"])),
    (Literal[1, "x"] | None, st.sampled_from([1, "x", None])),
    (Literal[""], st.just("")),
    (Annotated[int, Field(ge=0, lt=9)], st.integers(0, 8)),
    (Annotated[int, Field(gt=-1, le=9)], st.integers(0, 9)),
    (Annotated[str, Field(max_length=2, pattern="^a*$")], st.text("a", max_size=2)),
    (datetime, st.just("2026-01-15T10:30:00Z")),
]


@dataclass
class Tree:
    name: str
    branches: list[Tree] = field(default_factory=list)


_TREES = st.recursive(
    st.fixed_dictionaries({"name": st.just("leaf")}),
    lambda inner: st.fixed_dictionaries(
        {"name": st.just("fork"), "branches": st.lists(inner, max_size=2)}
    ),
    max_leaves=4,
)


@st.composite
def _records(draw, kinds):
    fields: list[Any] = []
    required, optional = {}, {}
    for index, (kind, values) in enumerate(draw(st.lists(kinds, max_size=3))):
        name = f"field_{index}"
        if draw(st.booleans()):
            default = draw(values)
            fields.append((name, kind, dataclasses.field(default_factory=lambda d=default: d)))
            if isinstance(default, (int, str, type(None))) and kind is not datetime:
                fields[-1] = (name, kind, dataclasses.field(default=default))
            optional[name] = values
        else:
            fields.append((name, kind, dataclasses.field()))
            required[name] = values
    name = draw(st.sampled_from(["Left", "Right"]))
    made = dataclasses.make_dataclass(name, fields, kw_only=True)
    return made, st.fixed_dictionaries(required, optional=optional)


def _larger(kinds):
    return st.one_of(
        kinds.map(lambda k: (list[k[0]], st.lists(k[1], max_size=2))),
        kinds.map(lambda k: (dict[str, k[0]], st.dictionaries(st.text("ab"), k[1], max_size=2))),
        kinds.map(lambda k: (k[0] | None if k[0] is not Any else Any, k[1] | st.none())),
        st.tuples(kinds, kinds).map(
            lambda two: (tuple[two[0][0], two[1][0]], st.tuples(two[0][1], two[1][1]).map(list))
        ),
        _records(kinds),
    )


def _with_value(records):
    return records.flatmap(lambda k: st.tuples(st.just(Codec(k[0], owner="a test").schema()), k[1]))


@pytest.fixture(scope="session")
def schemas_and_values():
    """Return a strategy of the schemas of random record types, each with one value of it."""
    leaves = st.sampled_from([*_LEAVES, (Tree, _TREES)])
    return _with_value(_records(st.recursive(leaves, _larger, max_leaves=5)))


@pytest.fixture(scope="session")
def plain_schemas_and_values():
    """Return the same without types that no closed schema can describe."""
    leaves = st.sampled_from([leaf for leaf in _LEAVES if leaf[0] is not Any])
    return _with_value(_records(st.recursive(leaves, _records, max_leaves=5)))
