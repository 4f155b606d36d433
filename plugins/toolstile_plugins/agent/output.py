"""The answer in a model's text: without its thoughts, and as the type of the prompt's output."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
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
"""A text that may become such a beginning."""

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
    """Return an answer in JSON without the thoughts before it; some lack an opening tag."""
    text = _RETURNED.sub("", without_thoughts(text))
    while found := _CLOSED.match(text):
        text = text[found.end() :]
    return text


class InlineThoughts:
    """Separates the thoughts before a streamed text from the text.

    Models without a reasoning parser write their thoughts so.
    """

    def __init__(self) -> None:
        self._held = ""
        self._end: re.Pattern[str] | None = None
        self._has_begun = self._is_text = False

    def split(self, text: str) -> Iterator[Delta]:
        """Yield the next piece, without an end that may be a part of a tag."""
        if self._is_text:
            yield text
            return
        self._held += text
        yield from self._pieces(is_whole=False)

    def rest(self) -> Iterator[Delta]:
        """Yield the rest, at the end of the stream."""
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
                end = r"<\|end\|>|(?=<\|(?:start|channel)\|>)"
                if tag := opened["tag"]:
                    end = rf"[<◁]/{re.escape(tag)}\s*[>▷]"
                elif opened[0].startswith("["):
                    end = r"\[/think\]"
                self._end = None if opened["final"] else re.compile(end, re.IGNORECASE)


_FENCE: Final = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n\s*```\s*\Z", re.DOTALL)
_WRAPPED: Final = "answer"


class OutputError(RunFailed):
    """An answer does not fit the output; `for_model` names all faults and the next step."""

    def __init__(self, message: str, for_model: str, raw: str) -> None:
        super().__init__(message, StopReason.ERROR, Phase.RESPONSE)
        self.for_model = for_model
        self.raw = raw


class OutputType:
    """The type of a prompt's answer: any type that a tool's result may have."""

    def __init__(self, type_: Any, prompt: str) -> None:
        self._prompt = prompt
        self._codec = Codec(type_, owner=f"The output of {prompt}")
        self.schema: dict[str, Any] = {**self._codec.schema()}
        self._is_wrapped = self.schema.get("type") != "object"
        if self._is_wrapped:
            # Because providers accept objects only, another type becomes the one property of one.
            definitions = self.schema.pop("$defs", None)
            self.schema = {
                "type": "object",
                "properties": {_WRAPPED: self.schema},
                "required": [_WRAPPED],
                "additionalProperties": False,
            }
            if definitions is not None:  # which stay at the root
                self.schema["$defs"] = definitions

    def read(self, text: str) -> Any:
        """Return the typed answer, or raise `OutputError` with all faults at once."""
        given = typed_part(text)
        fenced = _FENCE.match(given)
        given = fenced.group(1) if fenced else given
        try:
            if self._is_wrapped:
                with suppress(ValueError):  # the codec describes the fault of another text
                    value = json.loads(given)
                    if isinstance(value, dict) and _WRAPPED in value:
                        given = json.dumps(value[_WRAPPED])
            return self._codec.decode(given)
        except (ToolValidationError, ValueError) as error:
            raise OutputError(
                f"The answer to {self._prompt} does not fit its output: {error}",
                f"Your answer does not fit: {error} Answer again, with the JSON alone.",
                text,
            ) from error
