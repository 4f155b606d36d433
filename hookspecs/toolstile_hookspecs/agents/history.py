"""A conversation in the form in which every provider takes it back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import starmap
from typing import Any, Final, cast

from pydantic_core import from_json

from toolstile_hookspecs.agents.messages import CallAnswer, CallMade, Message, Role
from toolstile_hookspecs.codecs import encodable

_LOST: Final = (
    "The result of this call is not known. Find out whether it has run before you make it again."
)
_Item = Mapping[str, Any]
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9_-]")
MAX_NAME: Final = 64
"""The maximum length of a tool's name at the strictest provider."""


class _Sendable(tuple[Message, ...]):
    """A conversation that is in this form."""

    __slots__ = ()


def sendable(messages: Iterable[Message]) -> Sequence[Message]:
    """Return a conversation as every provider takes it, whatever a model or a store put into it.

    A message with a result for each call follows each reply. A call has the provider's id if no
    earlier call has it, else the host's, and its result has the same. Names have letters, digits,
    `_` and `-` alone, arguments are a JSON object, and no text has half a character.
    """
    if isinstance(messages, _Sendable):
        return messages
    used: set[str] = {""}
    made: list[CallMade] = []
    sent: list[Message] = []
    for message in paired(messages):
        calls = [_sendable_call(call, used) for call in message.calls]
        told = starmap(_answer, zip(made, message.answers, strict=False))
        made = calls
        text, items = encodable(message.text), tuple(map(_clean, message.items))
        known = replace(message, text=text, items=items)
        sent.append(replace(known, calls=tuple(calls), answers=tuple(told)))
    return _Sendable(sent)


def paired(messages: Iterable[Message]) -> list[Message]:
    """Return a conversation in which one message has all results of a reply, in call order.

    Results of calls that waited for a person come later than those beside them, and than the texts
    of the user meanwhile. A result without its call is left out.
    """
    known = list(messages)
    results: dict[int, list[CallAnswer]] = {}
    replied = -1
    for index, message in enumerate(known):
        replied = index if message.role is Role.ASSISTANT else replied
        results.setdefault(replied, []).extend(message.answers)
    return [
        each
        for index, message in enumerate(known)
        if message.role is not Role.TOOL
        for each in _with_results(message, results.get(index, []))
    ]


def _with_results(message: Message, left: list[CallAnswer]) -> Iterator[Message]:
    yield message
    if message.role is Role.ASSISTANT and message.calls:
        yield Message.results([_taken(call, left) for call in message.calls])


def _taken(call: CallMade, left: list[CallAnswer]) -> CallAnswer:
    """Take the result of a call; ids of stored sessions may stand for several calls."""
    found = next((answer for answer in left if answer.call_id == call.id), None)
    if found is None:
        return CallAnswer(call.id, call.name, _LOST, is_error=True)
    left.remove(found)
    return found


def _sendable_call(call: CallMade, used: set[str]) -> CallMade:
    asked = encodable(call.provider_id or call.id)
    id_ = encodable(call.id) if asked in used else asked
    number = 1
    while id_ in used:  # in a session that was stored before its calls had ids of the host's
        number += 1
        id_ = f"{asked[:32] or 'call'}-{number}"
    used.add(id_)
    name = _ILLEGAL.sub("_", call.name)[:MAX_NAME] or "_"
    return CallMade(id_, name, call.arguments if _is_object(call.arguments) else "{}", id_)


def _answer(call: CallMade, answer: CallAnswer) -> CallAnswer:
    return CallAnswer(call.id, call.name, encodable(answer.text), answer.is_error)


def _is_object(text: str) -> bool:
    try:
        return isinstance(from_json(text, allow_inf_nan=False), dict)
    except (TypeError, ValueError):  # a text with half a character is a `TypeError`
        return False


def _clean(value: Any) -> Any:
    """Return a provider's items without halves of characters, which no request can carry."""
    if isinstance(value, dict):
        return {encodable(key): _clean(each) for key, each in cast("_Item", value).items()}
    if isinstance(value, list):
        return [*map(_clean, cast("Sequence[Any]", value))]
    return encodable(value) if isinstance(value, str) else value
