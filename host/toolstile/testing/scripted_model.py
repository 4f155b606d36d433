"""An adapter that answers from a script, to test agents without a provider."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from toolstile_hookspecs.agents.messages import (
    CallMade,
    Message,
    Role,
    StopReason,
    Turn,
    Usage,
)
from toolstile_hookspecs.agents.provider import CallDelta, Listener, ModelRequest

Scripted = str | list[tuple[str, Mapping[str, Any]]] | Turn | Exception
"""A text, calls by name and arguments, a whole turn, or an exception to raise."""


class ScriptedModel:
    """Answers each request with the next entry of its script.

    Args:
        *script: The answers, in order, or functions of the request that give one.
        usage: The tokens of each reply, None where it tells none.

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
