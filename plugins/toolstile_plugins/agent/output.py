"""The answer in a model's text: without its thoughts, and as the type of the prompt's output."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from toolstile_hookspecs import ToolValidationError
from toolstile_hookspecs.agents.messages import StopReason
from toolstile_hookspecs.agents.provider import Delta, ThoughtDelta
from toolstile_hookspecs.codecs import Codec
from toolstile_plugins.agent.result import Phase, RunFailed

_TAG: Final = r"(?:\w+:)?(?:think(?:ing)?|thoughts?|reasoning)"
_CHANNEL: Final = r"(?:<\|start\|>\s*assistant\s*)?<\|channel\|>\s*"
_FINAL: Final = rf"{_CHANNEL}final\s*(?:<\|constrain\|>\w*)?(?:<\|message\|>)?"
_OPENED: Final = re.compile(
    rf"[<◁](?P<tag>{_TAG})(?:\s[^<>]*)?[>▷]|\[think\]|(?P<final>{_FINAL})|"
    rf"{_CHANNEL}analysis\s*(?:<\|message\|>)?",
    re.IGNORECASE,
)
_PART: Final = re.compile(
    r"[<◁][^<>▷]{0,40}|\[\w{0,5}|(?:<\|\w+\|>\s*\w{0,20}\s*){1,3}(?:<[^<>]{0,20})?"
)
"""A text that may go on to be such a beginning."""

_PART_OF_END: Final = re.compile(r"[<◁\[][^<>▷\[\]]{0,20}\Z")
_CLOSED: Final = re.compile(
    rf"(?!\s*[\[{{\"]).*?(?:[<◁]/{_TAG}\s*[>▷]|\[/think\]|{_FINAL})\s*", re.DOTALL | re.IGNORECASE
)
_RETURNED: Final = re.compile(r"\s*<\|(?:return|end)\|>\s*\Z")


def without_thoughts(text: str) -> str:
    """Return a text without the thoughts before it.

    Example:
        >>> without_thoughts("<think>Hm.</think>Yes.")
        'Yes.'
    """
    reader = InlineThoughts()
    pieces = (*reader.split(text), *reader.rest())
    return "".join(each for each in pieces if isinstance(each, str))


def typed_part(text: str) -> str:
    """Return an answer in JSON without all thoughts before it; some lack their beginning."""
    text = _RETURNED.sub("", without_thoughts(text))
    while found := _CLOSED.match(text):
        text = text[found.end() :]
    return text


class InlineThoughts:
    """Tells the thoughts before a text that streams from the text."""

    def __init__(self) -> None:
        self._held = ""
        self._end: re.Pattern[str] | None = None
        self._has_begun = self._is_text = False

    def split(self, text: str) -> Iterator[Delta]:
        """Yield the next piece, but for what may be a part of a tag."""
        if self._is_text:
            yield text
            return
        self._held += text
        yield from self._pieces(is_whole=False)

    def rest(self) -> Iterator[Delta]:
        """Yield the end of a stream that has ended."""
        if not self._is_text:
            yield from self._pieces(is_whole=True)

    def _pieces(self, *, is_whole: bool) -> Iterator[Delta]:
        while not self._is_text:
            if self._end is not None:
                found = self._end.search(self._held)
                part = None if found or is_whole else _PART_OF_END.search(self._held)
                place = found or part
                thought = self._held[: place.start()] if place else self._held
                self._held = self._held[place.end() if found else place.start() :] if place else ""
                if thought:
                    yield ThoughtDelta(thought)
                if found is None:
                    return
                self._end = None
            begun = self._held.lstrip()
            if not is_whole and (not begun or _PART.fullmatch(begun)):
                return
            opened = _OPENED.match(begun)
            if opened is None:
                self._is_text = True
                if rest := begun if self._has_begun else self._held:
                    yield rest
            else:
                self._has_begun, self._held = True, begun[opened.end() :]
                self._end = None if opened["final"] else _end_of(opened)


def _end_of(opened: re.Match[str]) -> re.Pattern[str]:
    """Return the end of thoughts that have begun so."""
    other = r"\[/think\]" if opened[0].startswith("[") else r"<\|end\|>|(?=<\|(?:start|channel)\|>)"
    tag = opened["tag"]
    return re.compile(rf"[<◁]/{re.escape(tag)}\s*[>▷]" if tag else other, re.IGNORECASE)


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
