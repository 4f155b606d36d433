"""Given results in the place of tools."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from toolstile_hookspecs import CallRefused, Tool, ToolResult, hookimpl

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

    Lookup, parsing, policies and rendering go on as ever. A call of a tool without an answer is
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
