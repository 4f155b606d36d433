"""The conversation of a session: a STATE slice that only the loop writes, and its compaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from toolstile_hookspecs import Outcome, SessionProtocol
from toolstile_hookspecs.agents.messages import (
    CallAnswer,
    CallMade,
    Message,
    Role,
    StopReason,
    Turn,
    unanswered,
)
from toolstile_hookspecs.sessions import Append
from toolstile_plugins.dialects.parse import answer


class Said(NamedTuple):
    """A message to add to a conversation, which other processes may extend as well."""

    message: Message
    seen: int | None  # the number of messages that the model was shown before a reply
    landed: list[bool]  # has an item once the message is added


def add_once(messages: Sequence[Message], said: Said) -> Sequence[Message]:
    """Reduce by adding a message, unless another process was first."""
    message = said.message
    fits = message.request_id is None or not any(
        each.request_id == message.request_id for each in reversed(messages)
    )
    if message.role is Role.ASSISTANT:
        fits = said.seen == len(messages)
    elif message.role is Role.TOOL:
        waiting = {call.id for call in unanswered(messages)}
        message = Message.results(each for each in message.answers if each.call_id in waiting)
        fits = bool(message.answers)
    said.landed.extend([True] if fits else [])
    return Append([message] if fits else ())


UNSAID: Final = "Do what the instructions ask for."
"""The message of a user without words, since the prompt holds all of the request."""


class Conversation:
    """The messages of a session."""

    def __init__(self, session: SessionProtocol) -> None:
        self._session = session
        self._messages = session[Message]
        self._messages.register(Said, add_once)

    def all(self) -> Sequence[Message]:
        """Return all messages, the oldest first."""
        return self._messages.all()

    def add(self, message: Message, seen: int | None = None) -> bool:
        """Add a message and load those of other processes; return False if one was first."""
        said = Said(message, seen, [])
        self._session.dispatch(said)
        return bool(said.landed)

    def reply(self, turn: Turn, seen: int) -> bool:
        """Add a reply to `seen` messages; return False if another process was first.

        An empty reply is left out, because providers reject it.
        """
        is_paused = turn.stop_reason is StopReason.INCOMPLETE
        is_empty = not (turn.text.strip() or turn.tool_calls or (is_paused and turn.message.items))
        return is_empty or self.add(turn.message, seen)

    def replace(self, messages: Iterable[Message]) -> None:
        """Replace all messages, as compaction does."""
        self._messages.replace(*messages)

    def request(self, request_id: str | None, text: str | None) -> tuple[str | None, bool]:
        """Return the id of a request that waits with open calls, and whether it came after them.

        Without an id, the same text again is the same request.
        """
        is_after = True
        for message in reversed(self.all()):
            is_said = message.request_id is not None and message.role is Role.USER
            if is_said and (
                message.request_id == request_id or (not request_id and message.text == text)
            ):
                return message.request_id, is_after
            if message.role is Role.ASSISTANT:
                is_after = False
                if not message.calls:
                    break  # requests before it were answered
        return request_id, True

    def is_at(self, calls: Collection[str]) -> bool:
        """Return whether it has these calls, and no newer request since their results."""
        for message in reversed(self.all()):
            if any(answer.call_id in calls for answer in message.answers):
                break
            if message.request_id is not None:
                return False
        return {call.id for message in self.all() for call in message.calls}.issuperset(calls)

    def last_reply(self) -> Message | None:
        """Return the model's reply if it is the last message."""
        messages = self.all()
        return messages[-1] if messages and messages[-1].role is Role.ASSISTANT else None

    def open_calls(self) -> list[CallMade]:
        """Return the calls of the last reply that have no result yet."""
        return unanswered(self.all())

    def answer(self, answers: Sequence[CallAnswer]) -> None:
        """Add the results of calls that have none yet."""
        self.add(Message.results(answers))


def answer_of(call: CallMade, outcome: Outcome | BaseException | str) -> CallAnswer:
    """Return the result of a call as its model reads it."""
    if isinstance(outcome, str):
        return CallAnswer(call.id, call.name, outcome)
    told = answer(outcome)
    return CallAnswer(call.id, call.name, told.text, told.is_error)


_NOTE: Final = "(Earlier messages of this conversation are left out.)"


class Compaction(Protocol):
    """Makes a conversation shorter."""

    def compact(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages to keep, or the same object to keep all; a call with its result."""
        ...


@dataclass(frozen=True, slots=True)
class DropOldest:
    """Replaces the oldest turns, calls with their results, by a note.

    At most `max_messages` stay. These are the newest request of the user, earlier requests that
    have no answer yet, and the note.
    """

    max_messages: int = 200

    def compact(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the requests without an answer, a note and the newest turns."""
        if len(messages) <= self.max_messages + 2:
            return messages
        first = len(messages) - self.max_messages
        while first < len(messages) and messages[first].role is Role.TOOL:
            first += 1
        unanswered_requests: list[Message] = []
        is_asked = False
        for index, message in reversed([*enumerate(messages)]):
            if message.request_id is not None:
                is_asked = True
                unanswered_requests[:0] = [message] if index < first else []
            elif is_asked and message.role is Role.ASSISTANT and not message.calls:
                break
        return [*unanswered_requests, Message.user(_NOTE), *messages[first:]]
