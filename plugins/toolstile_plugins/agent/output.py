"""Structured output: the type of a prompt's answer, as a schema for the model and as a reader."""

from __future__ import annotations

import re
from typing import Any, Final

from toolstile_hookspecs import ToolValidationError
from toolstile_hookspecs.agents.messages import StopReason
from toolstile_hookspecs.codecs import Codec
from toolstile_plugins.agent.providers.thoughts import typed_part
from toolstile_plugins.agent.result import Phase, RunFailed

_FENCE: Final = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n\s*```\s*\Z", re.DOTALL)
_WRAPPED: Final = "answer"


class OutputError(RunFailed):
    """An answer does not fit the type of the prompt's output.

    Args:
        message: The text for a person.
        for_model: The text for the model: all faults, and what to do.
        raw: The answer as it came.
    """

    def __init__(self, message: str, for_model: str, raw: str) -> None:
        super().__init__(message, StopReason.ERROR, Phase.RESPONSE)
        self.for_model = for_model
        self.raw = raw


class OutputType:
    """The type of a prompt's answer.

    Args:
        type_: A dataclass, model, TypedDict or list of these; any type that a tool's result may be.
        prompt: The prompt, for messages.
    """

    def __init__(self, type_: Any, prompt: str) -> None:
        self._prompt = prompt
        self._codec = Codec(type_, owner=f"The output of {prompt}")
        schema = self._codec.schema()
        # Providers take objects alone.
        self._is_wrapped = schema.get("type") != "object"
        self.schema: dict[str, Any] = _wrapped(schema) if self._is_wrapped else schema

    def read(self, text: str) -> Any:
        """Return the typed answer.

        Raises:
            OutputError: With all faults at once, when it does not fit.
        """
        given = typed_part(text)
        fenced = _FENCE.match(given)
        given = fenced.group(1) if fenced else given
        try:
            return self._codec.decode(_unwrapped(given) if self._is_wrapped else given)
        except (ToolValidationError, ValueError) as error:
            told = str(error)
            raise OutputError(
                f"The answer to {self._prompt} does not fit its output: {told}",
                f"Your answer does not fit: {told} Answer again, with the JSON alone.",
                text,
            ) from error


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an object whose one property has the schema; its definitions stay at the root."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer: dict[str, Any] = {
        "type": "object",
        "properties": {_WRAPPED: inner},
        "required": [_WRAPPED],
        "additionalProperties": False,
    }
    return {**outer, "$defs": schema["$defs"]} if "$defs" in schema else outer


def _unwrapped(text: str) -> str:
    """Return the JSON of the one property; other text as it is, so that its reader tells."""
    import json  # the standard library's: numbers and texts stay as they are

    try:
        value = json.loads(text)
    except ValueError:
        return text
    return json.dumps(value[_WRAPPED]) if isinstance(value, dict) and _WRAPPED in value else text
