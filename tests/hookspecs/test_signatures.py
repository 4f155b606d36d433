"""Signatures of handlers give the types of params and results."""

import functools
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn, Protocol, TypeVar

import pytest

from toolstile_hookspecs import DefinitionError, ToolContext, ToolResult, tool
from toolstile_hookspecs._tools.signatures import read_full_form, read_function
from toolstile_hookspecs.support.callables import is_async_callable

T = TypeVar("T")


async def coroutine():
    pass


def function():
    pass


class Callable:
    async def __call__(self):
        pass


class SyncCallable:
    def __call__(self):
        pass


@functools.wraps(function)
async def async_around_sync():
    pass


@functools.wraps(coroutine)
def sync_around_async():
    return coroutine()


def test_whether_a_call_gives_a_coroutine_is_seen_through_wrappers(subtests):
    for handler, expected in [
        (coroutine, True),
        (function, False),
        (Callable(), True),
        (SyncCallable(), False),
        (Callable().__call__, True),
        (functools.partial(coroutine), True),
        (functools.partial(functools.partial(Callable())), True),
        (functools.partial(function), False),
        (async_around_sync, True),
        (sync_around_async, True),
        (print, False),
    ]:
        with subtests.test(handler=handler, expected=expected):
            assert is_async_callable(handler) is expected


@pytest.mark.parametrize(
    ("hint", "result", "wraps"),
    [
        (int, int, True),
        (None, None, True),
        (NoReturn, None, True),
        (ToolResult[int], int, False),
        (ToolResult[None], None, False),
        (ToolResult, Any, False),
        (Awaitable[ToolResult[int]], int, False),
        (Coroutine[Any, Any, int], int, True),
        (ToolResult[int] | str, int | str, True),
    ],
)
def test_a_result_is_read_from_the_return_annotation(hint, result, wraps):
    def handler():
        pass

    handler.__annotations__["return"] = hint
    found = read_function(handler, owner="test", name="test")
    assert (found.result, found.wraps) == (result, wraps)


def test_a_type_variable_says_nothing():
    def handler(params: T, *, context) -> ToolResult[T]:
        raise AssertionError

    found = read_full_form(handler, owner="test", params=int, result=str)
    assert (found.params, found.result) == (int, str)
    found = read_full_form(handler, owner="test", params=Any, result=Any)
    assert (found.params, found.result) == (Any, Any)


def test_a_hint_that_cannot_be_found_does_not_hide_the_others():
    def handler(params: "Lost", *, context: "Gone") -> ToolResult[int]:  # noqa: F821 - not to be found
        raise AssertionError

    found = read_full_form(handler, owner="test", params=Any, result=Any)
    assert (found.params, found.result) == (Any, int)


def test_a_result_whose_type_cannot_be_found_is_told_unless_the_tool_declares_it():
    def handler(params: dict[str, Any], *, context) -> "ToolResult[Itm]":  # noqa: F821 - not to be found
        raise AssertionError

    with pytest.raises(DefinitionError, match=r"test: it returns ToolResult\[Itm\], but its type"):
        read_full_form(handler, owner="test", params=Any, result=Any)
    assert read_full_form(handler, owner="test", params=Any, result=int).result is int


def test_names_of_the_author_s_scope_are_known():
    @dataclass
    class Local:
        a: int

    def handler(params: "Local") -> "list[Local]":
        raise AssertionError

    found = read_function(handler, owner="test", name="test", localns=locals())
    assert (found.params, found.result) == (Local, list[Local])


def test_a_mapping_can_be_given_as_a_dictionary():
    def handler(params: dict[str, Any], *, context) -> ToolResult[None]:
        raise AssertionError

    found = read_full_form(handler, owner="test", params=dict[str, int], result=None)
    assert found.params == dict[str, int]


def test_a_context_by_another_name_is_told_its_own():
    with pytest.raises(DefinitionError, match="argument ctx is a ToolContext; call it context"):

        @tool
        def add(a: int, *, ctx: ToolContext) -> int:
            """Add one."""
            return a + 1


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (str, "Tool 'answer': its argument context is of type str; that name is kept for the "),
        (str | None, r"is of type str \| None; that name is kept for the ToolContext: rename it\."),
        (Annotated[list[str], "What was said."], r"is of type .*list\[str\].*; that name"),
    ],
)
def test_an_argument_that_only_shares_the_context_s_name_is_told_to_take_another(hint, said):
    def answer(question: str, context: hint) -> str:
        """Answer."""

    with pytest.raises(DefinitionError, match=said):
        tool(answer)


class HasUser(Protocol):
    user_id: str | None


@pytest.mark.parametrize(
    "hint",
    [
        ToolContext,
        ToolContext | None,
        Annotated[ToolContext, "The call's."],
        Any,
        object,
        T,
        HasUser,
    ],
)
def test_whatever_may_be_the_context_is_taken_for_it(hint):
    def answer(question: str, context: hint) -> str:
        """Answer."""

    assert list(tool(answer).params_codec.schema()["properties"]) == ["question"]
