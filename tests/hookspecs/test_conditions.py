"""require and ensure: the model reads the author's words, and nothing of the internals."""

import asyncio
import functools
import inspect
from dataclasses import dataclass

import pytest

from toolstile import Host, ToolCall
from toolstile_hookspecs import (
    ConditionError,
    DefinitionError,
    Status,
    Tool,
    ToolResult,
    ensure,
    require,
    tool,
)


@dataclass
class Amount:
    value: int


@require(lambda params: params.value > 0, "the amount must be positive")
@ensure(lambda result, params: result.value < params.value, "the result must be smaller")
def halve(params: Amount, *, context) -> ToolResult[int]:
    return ToolResult.ok(params.value // 2 if params.value != 13 else 99)


@require(lambda params: params.value > 0, "the amount must be positive")
@ensure(lambda result: result.success, "it must succeed")
async def ahalve(params: Amount, *, context) -> ToolResult[int]:
    return ToolResult.ok(1) if params.value != 13 else ToolResult.error("no")


def run(handler, value):
    result = handler(Amount(value), context=None)
    return asyncio.run(result) if asyncio.iscoroutine(result) else result


@pytest.mark.parametrize("handler", [halve, ahalve])
def test_a_condition_that_holds_changes_nothing(handler):
    assert run(handler, 3).value == 1


@pytest.mark.parametrize("handler", [halve, ahalve])
def test_a_broken_precondition_is_a_failed_result_in_the_author_s_words(handler):
    assert run(handler, -1) == ToolResult.error(
        "Precondition failed: the amount must be positive. Fix this, then retry."
    )


@pytest.mark.parametrize(
    ("handler", "said"), [(halve, "the result must be smaller"), (ahalve, "it must succeed")]
)
def test_a_broken_postcondition_is_a_failed_result_in_the_author_s_words(handler, said):
    assert run(handler, 13) == ToolResult.error(
        f"Postcondition failed: {said}. This requires human intervention."
    )


@pytest.mark.parametrize("declared", [ToolResult[int], "ToolResult[int]", inspect.Signature.empty])
def test_a_full_handler_tells_all_broken_conditions_at_once(declared):
    def handler(params, *, context):
        raise AssertionError

    if declared is not inspect.Signature.empty:
        handler.__annotations__["return"] = declared
    handler = require(lambda params: params % 2, "it must be odd")(handler)
    handler = require(lambda params: params < 9, "it must be small")(handler)
    handler = require(lambda params: params > 0, "it must be positive")(handler)
    assert handler(-2, context=None) == ToolResult.error(
        "Preconditions failed:\n  - it must be positive\n  - it must be odd\nFix this, then retry."
    )


def test_all_broken_postconditions_are_told_at_once():
    @ensure(lambda result: result.success, "it must succeed")
    @ensure(lambda result: result.value, "it must have a value")
    async def handler(params, *, context) -> ToolResult[int]:
        return ToolResult.error("no")

    told = asyncio.run(handler(1, context=None)).message
    assert told.splitlines()[:3] == [
        "Postconditions failed:",
        "  - it must succeed",
        "  - it must have a value",
    ]


def test_a_plain_function_raises_with_all_broken_conditions():
    @require(lambda a: a > 0, "a must be positive")
    @require(lambda b: b > 0, "b must be positive")
    def add(a: int, b: int) -> int:
        return a + b

    assert add(1, 2) == 3
    with pytest.raises(ConditionError) as caught:
        add(-1, -2)
    assert str(caught.value) == (
        "Preconditions failed:\n  - a must be positive\n  - b must be positive\n"
        "Fix this, then retry."
    )


def test_what_another_decorator_does_between_two_conditions_is_done():
    def doubled(function):
        @functools.wraps(function)
        def wrapper(a):
            return function(2 * a)

        return wrapper

    @require(lambda a: a < 10, "a must be small")
    @doubled
    @require(lambda a: a > 5, "a must be large")
    def same(a: int) -> int:
        return a

    assert same(4) == 8
    with pytest.raises(ConditionError, match="must be large"):
        same(1)


def test_a_model_is_told_all_broken_conditions_of_a_call():
    @require(lambda params: params.value > 0, "the amount must be positive")
    @require(lambda params: params.value % 2, "the amount must be odd")
    def pay(params: Amount, *, context) -> ToolResult[int]:
        raise AssertionError

    made = Tool[Amount, int](name="pay", description="Pay.", handler=pay)
    with Host(discover=False, tools=[made]) as host, host.executor() as tools:
        outcome = tools.dispatch(ToolCall("pay", {"value": -2}))
    assert outcome.status is Status.FAILED
    assert "positive" in outcome.text
    assert "odd" in outcome.text
    assert outcome.text.endswith("then retry.")


def test_a_predicate_that_raises_does_not_hold_and_tells_nothing_of_itself():
    @require(lambda params: params["secret"], "it must be known")
    def handler(params, *, context):
        raise AssertionError

    told = handler({}, context=None).message
    assert told == "Precondition failed: it must be known. Fix this, then retry."


def test_the_handler_does_not_run_when_a_precondition_is_broken():
    ran = []

    @require(lambda a: a, "a must hold")
    def handler(a):
        ran.append(a)

    with pytest.raises(ConditionError):
        handler(a=False)
    handler(True)
    assert ran == [True]


def test_defaults_are_seen_by_predicates():
    @require(lambda b: b == 2, "b must be two")
    def handler(a, b=2):
        return a

    assert handler(1) == 1
    with pytest.raises(ConditionError):
        handler(1, 3)


def test_a_handler_keeps_its_types_and_form():
    made = Tool[Amount, int](name="halve", description="Halve.", handler=halve)
    assert not made.is_async
    assert Tool[Amount, int](name="halve", description="Halve.", handler=ahalve).is_async

    @tool
    @require(lambda a: a > 0, "a must be positive")
    def root(a: float) -> float:
        """Take a root."""
        return a**0.5

    assert root.signature.invoke(root.parse('{"a": 4}'), context=None) == 2.0


def test_a_predicate_that_asks_for_too_much_is_refused_where_it_is_written():
    with pytest.raises(
        DefinitionError, match="handler asks for 'amount'; it can name context, params"
    ):

        @require(lambda amount: amount, "some")
        def handler(params, *, context):
            pass

    with pytest.raises(DefinitionError, match="asks for 'result'"):
        require(lambda result: result, "some")(halve)


def test_an_async_predicate_is_refused():
    async def check(params):
        return False

    with pytest.raises(DefinitionError, match="is async, and would always hold"):
        require(check, "some")


def test_a_condition_needs_words():
    with pytest.raises(DefinitionError, match="has no description; give one"):
        ensure(lambda result: True, " ")


def test_conditions_are_written_below_the_decorator():
    made = tool(name="t", description="T.")(lambda: None)
    with pytest.raises(DefinitionError, match=r"Tool 't': .*write @tool above @require"):
        require(lambda: True, "some")(made)


@pytest.mark.parametrize("declare", [require, ensure])
def test_a_condition_is_a_function_and_its_words_are_a_text(declare):
    with pytest.raises(TypeError, match="'x' is not a callable object"):
        declare("x", "must hold")
    with pytest.raises(DefinitionError, match="has no description; give one"):
        declare(lambda params: True, 5)
