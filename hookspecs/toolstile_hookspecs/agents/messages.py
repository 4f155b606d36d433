"""The conversation with a model, in values that belong to no provider, ready to be sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Final, cast

from pydantic_core import from_json

from toolstile_hookspecs.calls import Outcome, ToolCall
from toolstile_hookspecs.codecs import encodable
from toolstile_hookspecs.stored_names import stored_as


class Role(StrEnum):
    """The author of a message: the person or the loop, the model, or the host with results."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class StopReason(StrEnum):
    """The reason for the end of a reply or a whole run."""

    END = "end"
    """The model has said all."""
    TOOL_USE = "tool_use"
    """The model waits for the results of its calls."""
    MAX_TOKENS = "max_tokens"
    """The reply was cut off at its longest."""
    REFUSED = "refused"
    """The model, or a filter of the provider, refused."""
    TURNS = "turns"
    """The run has had all its turns."""
    DEADLINE = "deadline"
    """The deadline has passed."""
    BUDGET = "budget"
    """The budget is used up."""
    CANCELLED = "cancelled"
    """The run was cancelled."""
    PENDING = "pending"
    """Calls wait for the answer of a person."""
    INCOMPLETE = "incomplete"
    """The model stopped, and its task is not complete."""
    ERROR = "error"
    """The provider, or an answer that cannot be read, ended the run."""


@stored_as("agent.Usage")
@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one reply, or of several.

    Args:
        input_tokens: All input tokens, cached ones included.
        output_tokens: All output tokens, reasoning included.
        cached_tokens: Input tokens read from a cache.
        cache_written_tokens: Input tokens written to a cache.
        reasoning_tokens: Output tokens for reasoning, if the provider counts them.
        cost: The cost by the prices of the configuration, None without a price for the model.

    Example:
        >>> (Usage(10, 2) + Usage(5, 1)).total_tokens
        18
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_written_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """Return the sum; an unknown cost counts as 0 beside a known one."""
        costs = [each.cost for each in (self, other) if each.cost is not None]
        names = [each.name for each in fields(self) if each.name != "cost"]
        tokens = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Usage(**tokens, cost=sum(costs) if costs else None)


NO_USAGE: Final = Usage()


@dataclass(frozen=True, slots=True)
class CallMade:
    """A call as the model made it.

    Args:
        id: The provider's id of the call in a reply of an adapter. The loop keeps the reply with
            ids of the host's, which no other call has.
        name: The tool, as the model named it.
        arguments: The arguments as JSON text, or as close to it as the model came.
        provider_id: The provider's id of a call that has the host's; "" without one.
    """

    id: str
    name: str
    arguments: str = field(default="{}", repr=False)
    provider_id: str = ""

    @property
    def params(self) -> dict[str, Any]:
        """The arguments as a dict, empty if they are not JSON, which the host then reports."""
        try:
            read: object = json.loads(self.arguments)
        except ValueError:
            return {}
        return cast("dict[str, Any]", read) if isinstance(read, dict) else {}

    def as_call(self) -> ToolCall:
        """Return the call that the host carries out."""
        return ToolCall(self.name, self.arguments, id=self.id, provider_id=self.provider_id)


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The result of a call, as the model reads it.

    Args:
        call_id: The id of the call.
        name: The tool.
        text: The text.
        is_error: Whether the host refused the call or rolled it back.
    """

    call_id: str
    name: str
    text: str
    is_error: bool = False


@stored_as("agent.Message")
@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation; immutable.

    Args:
        role: Its author.
        text: Its text.
        calls: The calls that the model made in it.
        answers: The results of calls.
        dialect: The dialect of `items`, empty without items.
        items: The provider's own items as they came, reasoning and signatures among them.
        request_id: The id of the request, None for texts of the loop.
    """

    role: Role
    text: str = ""
    calls: tuple[CallMade, ...] = ()
    answers: tuple[CallAnswer, ...] = ()
    dialect: str = ""
    items: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    request_id: str | None = None

    @classmethod
    def user(cls, text: str, request_id: str | None = None) -> Message:
        """Return a text of a person, or of the loop."""
        return cls(Role.USER, text, request_id=request_id)

    @classmethod
    def results(cls, answers: Iterable[CallAnswer]) -> Message:
        """Return the results of calls."""
        return cls(Role.TOOL, answers=tuple(answers))


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply of a model, as its adapter has read it.

    Args:
        message: The message, to be kept in the conversation.
        stop_reason: Why the reply ended.
        usage: The tokens, None if the provider does not count them.
        model: The model that answered, as it calls itself.
        response_id: The provider's id of the reply, empty without one.
    """

    message: Message
    stop_reason: StopReason = StopReason.END
    usage: Usage | None = None
    model: str = ""
    response_id: str = ""

    @property
    def text(self) -> str:
        """The text of the reply."""
        return self.message.text

    @property
    def tool_calls(self) -> tuple[CallMade, ...]:
        """The calls that the model made."""
        return self.message.calls


def unanswered(messages: Sequence[Message]) -> list[CallMade]:
    """Return the calls of the last reply that have no result yet, in order."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message.role is Role.ASSISTANT:
            return [call for call in message.calls if call.id not in answered]
        answered |= {answer.call_id for answer in message.answers}
    return []


ToolResults = Sequence["Outcome | BaseException | str"]
"""Outcomes, or texts, in the order of the calls."""


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
        answers = [
            CallAnswer(call.id, call.name, encodable(answer.text), answer.is_error)
            for call, answer in zip(made, message.answers, strict=False)
        ]
        made = calls
        text, items = encodable(message.text), tuple(map(_clean, message.items))
        known = replace(message, text=text, items=items)
        sent.append(replace(known, calls=tuple(calls), answers=tuple(answers)))
    return _Sendable(sent)


def paired(messages: Iterable[Message]) -> list[Message]:
    """Return a conversation with one message for all results of a reply, in call order.

    Results of calls that waited for a person come later than those beside them, and than the texts
    of the user meanwhile. A result without its call is left out.
    """
    known = list(messages)
    results: dict[int, list[CallAnswer]] = {}
    replied = -1
    for index, message in enumerate(known):
        replied = index if message.role is Role.ASSISTANT else replied
        results.setdefault(replied, []).extend(message.answers)
    paired: list[Message] = []
    for index, message in enumerate(known):
        if message.role is not Role.TOOL:
            paired.append(message)
        if message.role is Role.ASSISTANT and message.calls:
            paired.append(Message.results([_taken(call, results[index]) for call in message.calls]))
    return paired


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
