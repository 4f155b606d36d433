"""Wrappers around parse, execute and render see the awaited answer, and swallow no interruption."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pydantic import SecretStr

from toolstile_hookspecs import (
    Stage,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    ToolValidationError,
    hookimpl,
    tool,
)

Touch = Callable[..., None]
Steps = Generator[None, Any, Any]


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@tool
async def aadd(a: int, b: int) -> int:
    """Add two integers, asynchronously."""
    return a + b


class Tracing:
    """Notes when each wrapper is entered and left, and with what."""

    def __init__(self, name: str, notes: list[Any]) -> None:
        self.name = name
        self.notes = notes

    def _around(self, stage: str) -> Steps:
        self.notes.append(f"{self.name} {stage} >")
        try:
            answer = yield
        except BaseException as error:
            self.notes.append(f"{self.name} {stage} ! {type(error).__name__}")
            raise
        self.notes.append(f"{self.name} {stage} < {type(answer).__name__}")
        return answer

    @hookimpl(wrapper=True)
    def toolstile_parse(self, tool: Tool[Any, Any], call: ToolCall) -> Steps:
        return (yield from self._around("parse"))

    @hookimpl(wrapper=True)
    def toolstile_execute(self, tool: Tool[Any, Any], params: Any, context: ToolContext) -> Steps:
        return (yield from self._around("execute"))

    @hookimpl(wrapper=True)
    def toolstile_render(self, tool: Tool[Any, Any], result: ToolResult[Any]) -> Steps:
        return (yield from self._around("render"))


class Outer(Tracing):
    """Registered later, it goes around."""


@pytest.mark.parametrize("name", ["add", "aadd"])
def test_each_is_left_when_the_awaited_answer_is_there(yard: Any, name: str) -> None:
    notes: list[Any] = []
    yard.open(add, aadd, plugins=(Tracing("inner", notes), Outer("outer", notes)))

    assert yard.call(name, a=1, b=2).text == "3"
    assert notes == [
        "outer parse >",
        "inner parse >",
        f"inner parse < {'Add' if name == 'add' else 'Aadd'}Params",
        f"outer parse < {'Add' if name == 'add' else 'Aadd'}Params",
        "outer execute >",
        "inner execute >",
        "inner execute < ToolResult",
        "outer execute < ToolResult",
        "outer render >",
        "inner render >",
        "inner render < str",
        "outer render < str",
    ]


class Waiting:
    """Answers each stage with an awaitable."""

    @hookimpl
    async def toolstile_parse(self, tool: Tool[Any, Any], call: ToolCall) -> Any:
        return tool.params_codec.decode('{"a": 20, "b": 1}')

    @hookimpl
    async def toolstile_execute(self, tool: Tool[Any, Any], params: Any) -> ToolResult[int]:
        return ToolResult.ok(params.a + params.b)


def test_the_answer_of_a_hook_that_waits_is_awaited_first(yard: Any) -> None:
    notes: list[Any] = []
    yard.open(add, plugins=(Tracing("one", notes), Waiting()))

    outcome = yard.call("add", a=1, b=2)

    assert outcome.text == "21"
    assert outcome.event.replayed
    assert "one execute < ToolResult" in notes


class Changing:
    """Changes every answer."""

    @hookimpl(wrapper=True)
    def toolstile_parse(self, tool: Tool[Any, Any], call: ToolCall) -> Steps:
        params = yield
        return replace(params, a=params.a * 10)

    @hookimpl(wrapper=True)
    def toolstile_execute(self, tool: Tool[Any, Any], params: Any, context: Any) -> Steps:
        result = yield
        return replace(result, value=result.value + 1)

    @hookimpl(wrapper=True)
    def toolstile_render(self, tool: Tool[Any, Any], result: ToolResult[Any]) -> Steps:
        text = yield
        return f"<{text}>"


def test_they_change_what_goes_through(yard: Any) -> None:
    yard.open(add, plugins=(Changing(),))

    outcome = yard.call("add", a=1, b=2)

    assert (outcome.text, outcome.result.value) == ("<13>", 13)


class Unreadable:
    """Answers with a result that nobody can read."""

    @hookimpl
    def toolstile_execute(self, tool: Tool[Any, Any]) -> ToolResult[int]:
        message: Any = 3
        return ToolResult(message, 5)


def test_a_result_that_cannot_be_read_can_be_mended(yard: Any) -> None:
    class Fixing:
        @hookimpl(wrapper=True)
        def toolstile_execute(self, tool: Tool[Any, Any]) -> Steps:
            result = yield
            return replace(result, message="")

    yard.open(add, plugins=(Unreadable(), Fixing()))
    assert yard.call("add", a=1, b=2).text == "5"

    yard.open(add, plugins=(Unreadable(),))
    assert yard.call("add", a=1, b=2).status is Status.ERROR


class PolicyStoreParticipant:
    """Turns every exception into an answer."""

    @hookimpl(wrapper=True)
    def toolstile_parse(self, tool: Tool[Any, Any], call: ToolCall) -> Steps:
        try:
            return (yield)
        except ToolValidationError:
            return tool.params_codec.decode('{"a": 0, "b": 0}')

    @hookimpl(wrapper=True)
    def toolstile_execute(self, tool: Tool[Any, Any], params: Any, context: Any) -> Steps:
        try:
            return (yield)
        except BaseException as error:
            return ToolResult.ok(f"saved from {type(error).__name__}")


def raising(error: BaseException, touch: Touch) -> Tool[Any, Any]:
    @tool(name="fails")
    def fails(*, context: ToolContext) -> str:
        """Raise."""
        touch(context)
        raise error

    return fails


def araising(error: BaseException, touch: Touch) -> Tool[Any, Any]:
    @tool(name="fails")
    async def fails(*, context: ToolContext) -> str:
        """Raise."""
        touch(context)
        raise error

    return fails


def test_arguments_that_do_not_fit_can_be_mended(yard: Any) -> None:
    yard.open(add, plugins=(PolicyStoreParticipant(),))

    assert yard.call("add", a="1").text == "0"


@pytest.mark.parametrize("make", [raising, araising])
def test_an_exception_can_become_an_answer(yard: Any, touch: Touch, make: Any) -> None:
    yard.open(make(ValueError("no"), touch), plugins=(PolicyStoreParticipant(),))

    outcome = yard.call("fails")

    assert (outcome.status, outcome.text) == (Status.SUCCEEDED, "saved from ValueError")
    assert yard.marks == ["x"]


INTERRUPTIONS = [KeyboardInterrupt(), SystemExit(2), GeneratorExit()]


class Swallowing:
    """Tries to swallow whatever comes, by returning, by yielding on or by raising another."""

    def __init__(self, how: str) -> None:
        self.how = how

    @hookimpl(wrapper=True)
    def toolstile_execute(self, tool: Tool[Any, Any], params: Any, context: Any) -> Steps:
        try:
            yield
        except BaseException:
            if self.how == "raise":
                msg = "another"
                raise ValueError(msg) from None
        if self.how == "yield":
            yield
        return ToolResult.ok("swallowed")


@pytest.mark.slow
@pytest.mark.parametrize("make", [raising, araising])
@pytest.mark.parametrize("error", INTERRUPTIONS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("how", ["return", "yield", "raise"])
def test_an_interruption_is_never_swallowed(
    yard: Any, touch: Touch, make: Any, error: BaseException, how: str
) -> None:
    notes: list[Any] = []
    plugins = (Swallowing(how), Tracing("outer", notes))
    yard.open(make(error, touch), plugins=plugins)

    with pytest.raises(type(error)) as raised:
        yard.call("fails")

    assert raised.value is error
    yard.assert_untouched()
    assert notes[-1] == f"outer execute ! {type(error).__name__}"
    assert len(yard.events) == 1


class Odd:
    """Is no proper wrapper."""

    def __init__(self, how: str) -> None:
        self.how = how

    @hookimpl(wrapper=True)
    def toolstile_execute(self, tool: Tool[Any, Any], params: Any, context: Any) -> Steps:
        if self.how == "never":
            return None
        if self.how == "raises first":
            msg = "before it began"
            raise ValueError(msg)
        result = yield
        if self.how == "raises last":
            msg = "after it ended"
            raise ValueError(msg)
        if self.how == "twice":
            yield
        return result


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("never", "did not yield; it must, once"),
        ("raises first", "before it began"),
        ("raises last", "after it ended"),
        ("twice", "yielded twice; it must, once"),
    ],
)
def test_one_that_fails_fails_the_call_and_those_outside_see_it(
    yard: Any, touch: Touch, how: str, told: str
) -> None:
    notes: list[Any] = []

    @tool
    def marked(*, context: ToolContext) -> int:
        """Change something."""
        touch(context)
        return 1

    yard.open(marked, plugins=(Odd(how), Tracing("outer", notes)))

    outcome = yard.call("marked")

    assert (outcome.status, outcome.stage) == (Status.ERROR, Stage.EXECUTE)
    assert told in outcome.text
    yard.assert_untouched()
    assert notes[-1].startswith("outer execute ! ")


@pytest.mark.parametrize("how", ["never", "raises first", "raises last", "twice"])
def test_those_outside_can_mend_it(yard: Any, how: str) -> None:
    yard.open(add, plugins=(Odd(how), PolicyStoreParticipant()))

    assert yard.call("add", a=1, b=2).text.startswith("saved from ")


def test_one_around_render_that_raises_falls_back(
    yard: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Breaking:
        @hookimpl(wrapper=True)
        def toolstile_render(self, tool: Tool[Any, Any], result: ToolResult[Any]) -> Steps:
            yield
            msg = "no text"
            raise ValueError(msg)

    yard.open(add, plugins=(Breaking(),))
    with caplog.at_level(logging.ERROR):
        assert yard.call("add", a=1, b=2).text == "3"
    assert "its plain form" in caplog.text


@dataclass(frozen=True)
class Login:
    name: str
    password: SecretStr


def test_secrets_pass_through_wrappers_around_parse_as_they_are(yard: Any) -> None:
    seen: list[str] = []

    def log_in(params: Login, *, context: ToolContext) -> ToolResult[None]:
        seen.append(params.password.get_secret_value())
        return ToolResult.ok()

    login = Tool[Login, None](name="log_in", description="Log in.", handler=log_in)
    yard.open(login, plugins=(Tracing("one", []),))

    assert yard.call("log_in", name="ada", password="hunter2").success
    assert seen == ["hunter2"]
