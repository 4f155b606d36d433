"""Doubles for tests: a clock, a model with a script, and results in the place of tools."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from toolstile_hookspecs import CallRefused, Tool, ToolResult, hookimpl
from toolstile_hookspecs.agents.messages import CallMade, Message, Role, StopReason, Turn, Usage
from toolstile_hookspecs.agents.provider import CallDelta, Listener, ModelRequest

START: Final = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


class FakeClock:
    """A clock that a test advances; both readings advance together.

    Args:
        start: The time it begins with, aware.

    Raises:
        ValueError: The time is not aware, or time is to go back.

    Example:
        >>> clock = FakeClock()
        >>> clock.advance(90)
        >>> clock.now().isoformat()
        '2026-01-01T12:01:30+00:00'
    """

    def __init__(self, start: datetime = START) -> None:
        if start.tzinfo is None:
            msg = f"FakeClock: start {start} has no time zone; write datetime(..., tzinfo=UTC)."
            raise ValueError(msg)
        self._start = start.astimezone(UTC)
        self._passed = timedelta()
        self._lock = threading.Lock()

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC."""
        return self._start + self._passed

    def monotonic(self) -> float:
        """Return the seconds that have passed since the clock was made."""
        return self._passed.total_seconds()

    def advance(self, by: float | timedelta) -> None:
        """Let seconds, or a `timedelta`, pass."""
        passed = by if isinstance(by, timedelta) else timedelta(seconds=by)
        if passed < timedelta():
            msg = f"FakeClock: time cannot go back by {-passed}; make a new clock instead."
            raise ValueError(msg)
        with self._lock:
            self._passed += passed

    def __repr__(self) -> str:
        return f"FakeClock({self.now().isoformat()})"


Scripted = str | list[tuple[str, Mapping[str, Any]]] | Turn | Exception
"""A text, calls by name and arguments, a whole turn, or an exception to raise."""


class ScriptedModel:
    """Answers each request with the next entry of its script.

    Args:
        *script: The answers, in order, or functions of the request that give one.
        usage: The tokens of each reply; None if the reply has no usage.

    Attributes:
        requests: The requests, in order.

    Example:
        >>> from toolstile_hookspecs.agents.provider import ModelRequest
        >>> model = ScriptedModel([("add", {"a": 1, "b": 2})], "It is 3.")
        >>> model.send(ModelRequest("You add.", [])).tool_calls[0].name
        'add'
        >>> model.send(ModelRequest("You add.", [])).text
        'It is 3.'
    """

    name = "scripted"
    model = "script"

    def __init__(
        self,
        *script: Scripted | Callable[[ModelRequest], Scripted],
        usage: Usage | None = Usage(100, 10),  # noqa: B008 - immutable
    ) -> None:
        self._script = iter(script)
        self._usage = usage
        self._lock = threading.Lock()
        self.requests: list[ModelRequest] = []

    def send(self, request: ModelRequest, listen: Listener | None = None) -> Turn:
        """Return the next answer of the script.

        Raises:
            AssertionError: When the script is at its end.
        """
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
            answer = next(self._script, None)
        if answer is None:
            raise AssertionError(f"The script has no answer to request {number}.")
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, Exception):
            raise answer
        turn = answer if isinstance(answer, Turn) else self._turn(answer, number)
        if listen is not None:
            if turn.text:
                listen(turn.text)
            for call in turn.tool_calls:
                listen(CallDelta(call.id, call.name, call.arguments))
        return turn

    async def asend(self, request: ModelRequest, listen: Listener | None = None) -> Turn:
        """Return the next answer of the script."""
        return self.send(request, listen)

    def close(self) -> None:
        """Close nothing."""

    async def aclose(self) -> None:
        """Close nothing."""

    def _turn(self, answer: str | list[tuple[str, Mapping[str, Any]]], number: int) -> Turn:
        if isinstance(answer, str):
            return Turn(Message(Role.ASSISTANT, answer), StopReason.END, self._usage, self.model)
        calls = tuple(
            CallMade(f"call_{number}_{index}", name, json.dumps(dict(given)))
            for index, (name, given) in enumerate(answer, 1)
        )
        message = Message(Role.ASSISTANT, calls=calls)
        return Turn(message, StopReason.TOOL_USE, self._usage, self.model)


_RESULT: Final[type[Any]] = ToolResult


class InOrder:
    """Answers of one tool, the first for its first call, and so on.

    Args:
        answers: The answers, each as `Answers` takes it.

    Example:
        >>> answers = {"exchange_rate": InOrder(0.94, 0.95)}
    """

    def __init__(self, *answers: Any) -> None:
        self.left = list(answers)


class Answers:
    """A plugin that answers calls in the handlers' place.

    Lookup, parsing, policies and rendering stay the same. A call of a tool without an answer is
    refused, and kept in `unexpected`; the fixture `toolstile_tools` then fails the test at its end.

    Args:
        answers: By the tool's name: a value, a `ToolResult`, an exception to raise, a function of
            the params that gives one of these, or several `InOrder`.
        others_run: Whether the handlers of other tools run.

    Example:
        >>> answers = Answers({"exchange_rate": 0.94})
    """

    def __init__(self, answers: Mapping[str, Any], *, others_run: bool = False) -> None:
        self.answers = dict(answers)
        self.others_run = others_run
        self.answered: list[tuple[str, Any]] = []
        """The calls that were answered: tool and params."""
        self.unexpected: list[str] = []
        """The fault of each call without a canned answer."""
        self._lock = threading.Lock()

    @hookimpl(tryfirst=True)
    def toolstile_execute(
        self, tool: Tool[Any, Any], params: Any
    ) -> Callable[..., ToolResult[Any]] | None:
        """Answer in the handler's place."""
        if tool.name not in self.answers and self.others_run:
            return None
        with self._lock:
            answer = self._next(tool.name)
            self.answered.append((tool.name, params))

        def given(params: Any, *, context: object) -> ToolResult[Any]:  # noqa: ARG001 - a handler's
            return _result(answer, params)

        return given

    def _next(self, name: str) -> Any:
        if name not in self.answers:
            known = ", ".join(sorted(self.answers)) or "none"
            raise self._refusal(
                f"There is no answer for a call of {name}. There are answers for: {known}. Give "
                "one, or let it run with Answers(..., others_run=True)."
            )
        answer = self.answers[name]
        if not isinstance(answer, InOrder):
            return answer
        if not answer.left:
            raise self._refusal(
                f"All answers for {name} are used up. Give one more to InOrder, or call it less "
                "often."
            )
        return answer.left.pop(0)

    def _refusal(self, why: str) -> CallRefused:
        self.unexpected.append(why)
        return CallRefused(why)


def _result(answer: Any, params: Any) -> ToolResult[Any]:
    if isinstance(answer, BaseException):
        raise answer
    if isinstance(answer, _RESULT):
        result: ToolResult[Any] = answer
        return result
    if callable(answer):
        return _result(answer(params), params)
    return ToolResult.ok(answer)
