"""Every check of the contract of suites finds the fault that it is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import WithJsonSchema

from toolstile_hookspecs import Tool, ToolContext, ToolExample, ToolResult, hookimpl, tool
from toolstile_hookspecs.testing import ToolSuiteContract
from toolstile_hookspecs.testing.tools import UNKNOWN, wrong_arguments

Check = Callable[..., None]


@dataclass(frozen=True)
class Sum:
    a: int
    b: int


def add(params: Sum, *, context: ToolContext) -> ToolResult[int]:
    return ToolResult.ok(params.a + params.b)


def adding(output: int = 3, handler: Any = add, **options: Any) -> Tool[Any, Any]:
    example = ToolExample("Add", Sum(1, 2), output)
    return Tool[Sum, int](
        name="add", description="Add two numbers.", handler=handler, examples=(example,), **options
    )


@pytest.fixture
def check(toolstile_tools) -> Check:
    """Run one of the contract's tests on tools and plugins."""

    def check(
        name: str, *plugins: Any, outside: Any = None, attributes: Any = None, **arguments: Any
    ) -> None:
        named = attributes or {"arguments": arguments}
        contract = type("TestBroken", (ToolSuiteContract,), named)()
        suite = list(toolstile_tools(*plugins).host.catalog)
        given = {
            "suite": suite,
            "open_for": lambda tool, *others: toolstile_tools(*plugins, *others),
            "outside": outside or (lambda bench: None),
            "toolstile_tools": toolstile_tools,
        }
        test = getattr(contract, name)
        names = test.__code__.co_varnames[1 : test.__code__.co_argcount]
        test(**{each: given[each] for each in names})

    return check


TESTS = sorted(name for name in vars(ToolSuiteContract) if name.startswith("test_"))


def test_a_good_suite_passes(check, subtests):
    for name in TESTS:
        with subtests.test(name=name):
            check(name, adding())


def test_no_tools(check):
    with pytest.raises(AssertionError, match="offers no tool"):
        check("test_it_offers_tools", Early())


@pytest.mark.parametrize("named", [{"arguments": {"ad": {}}}, {"varying": frozenset({"ad"})}])
def test_a_tool_that_is_named_and_not_there(check, named):
    with pytest.raises(AssertionError, match=r"^ad: no such tool\. .* can name add"):
        check("test_the_tools_that_are_named_are_offered", adding(), attributes=named)


def test_no_example(check):
    @tool
    def wait(seconds: int) -> None:
        """Wait."""

    with pytest.raises(AssertionError, match="wait: no example"):
        check("test_every_tool_has_an_example", wait)
    check("test_every_tool_has_an_example", wait, wait={"seconds": 1})


def test_a_tool_that_needs_no_arguments_is_called_without_any(check):
    called = []

    @tool
    def look(depth: int = 1) -> int:
        """Look."""
        called.append(depth)
        return depth

    check("test_every_tool_has_an_example", look)
    check("test_values_are_what_their_type_says", look)
    assert set(called) == {1}
    check("test_values_are_what_their_type_says", look, look={"depth": 2})
    assert set(called) == {1, 2}


def test_a_schema_that_is_none(check):
    @tool
    def odd(a: Annotated[int, WithJsonSchema({"type": "number-ish"})]) -> None:
        """Take something."""

    with pytest.raises(Exception, match="number-ish"):
        check("test_schemas_are_valid", odd)


def test_a_schema_that_a_dialect_does_not_take(check):
    @tool
    def odd(a: Annotated[int, WithJsonSchema({"$ref": "#/$defs/Nowhere"})]) -> None:
        """Take something."""

    with pytest.raises(Exception, match="Nowhere"):
        check("test_every_dialect_takes_them", odd)


@pytest.mark.parametrize("output", [4, 2])
def test_an_example_that_says_something_else(check, output):
    with pytest.raises(AssertionError, match=rf'add {{"a": 1, "b": 2}} gave 3, not {output}'):
        check("test_examples_give_what_they_say", adding(output))


def test_an_example_that_fails(check):
    def broken(params: Sum, *, context: ToolContext) -> ToolResult[int]:
        return ToolResult.error("Never. It cannot be done.")

    with pytest.raises(AssertionError, match="ended as failed: Never"):
        check("test_examples_give_what_they_say", adding(handler=broken))


def test_a_value_of_another_type_than_is_promised(check):
    @tool(name="add")
    def adding_badly(a: int) -> int:
        """Add."""
        return f"{a}"  # type: ignore[return-value]

    with pytest.raises(AssertionError, match=r'add {"a": 1} gave "1"; .* not of type .integer'):
        check("test_values_are_what_their_type_says", adding_badly, add={"a": 1})
    with pytest.raises(AssertionError, match=r'add {"a": "x"} ended as invalid'):
        check("test_values_are_what_their_type_says", adding_badly, add={"a": "x"})


class Lenient:
    """A plugin that takes any arguments."""

    @hookimpl
    def toolstile_parse(self, tool, call):
        return Sum(1, 2)


@pytest.mark.parametrize(
    "name",
    [
        "test_all_faults_of_arguments_are_told_at_once",
        "test_missing_arguments_are_told",
        "test_unknown_arguments_are_told",
    ],
)
def test_arguments_that_are_taken_though_they_do_not_fit(check, name):
    with pytest.raises(AssertionError, match="add"):
        check(name, adding(), Lenient())


class OneByOne:
    """A plugin that tells of the first fault only."""

    @hookimpl
    def toolstile_parse(self, tool, call):
        from toolstile_hookspecs import ToolValidationError

        raise ToolValidationError("a: not like this. Fix it, then retry.")


def test_faults_that_are_told_one_by_one(check):
    with pytest.raises(AssertionError, match="does not name b"):
        check("test_all_faults_of_arguments_are_told_at_once", adding(), OneByOne())


@pytest.mark.parametrize(
    "name",
    [
        "test_what_a_failed_call_changed_is_rolled_back",
        "test_a_call_that_is_cancelled_while_it_runs_leaves_nothing",
    ],
)
def test_what_is_kept_whatever_becomes_of_the_call(check, name):
    kept: list[int] = []

    def keeping(params: Sum, *, context: ToolContext) -> ToolResult[int]:
        kept.append(params.a)
        return ToolResult.ok(params.a + params.b)

    with pytest.raises(AssertionError, match="add"):
        check(name, adding(handler=keeping), outside=lambda bench: list(kept))


class Early:
    """A plugin that keeps something before the call may even begin."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    @hookimpl
    def toolstile_lookup(self, call):
        self.kept.append(call.name)


def test_what_a_call_leaves_that_never_began(check):
    early = Early()
    with pytest.raises(AssertionError):
        check(
            "test_a_call_that_is_cancelled_before_it_begins_leaves_nothing",
            adding(),
            early,
            outside=lambda bench: list(early.kept),
        )


@pytest.mark.parametrize("part", [{}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}])
def test_patterns_of_other_programs_are_searched_for_in_bounded_time(check, part):
    letters = {**part, "type": "string", "pattern": r"^(\p{L}+)+$"}
    schema = {"type": "object", "properties": {"a": letters}, "additionalProperties": False}

    def greet(params: dict[str, Any], *, context: ToolContext) -> ToolResult[Any]:
        return ToolResult.ok(params)

    greeting = Tool[Any, Any](
        name="greet",
        description="Greet.",
        handler=greet,
        params_schema=schema,
        result_schema=schema,
        examples=(ToolExample("Greet", {"a": "Zoë"}, {"a": "Zoë"}),),
    )

    for name in ("test_schemas_are_valid", "test_values_are_what_their_type_says"):
        check(name, greeting)
    assert wrong_arguments(greeting) == {"a": {UNKNOWN: [0]}}
