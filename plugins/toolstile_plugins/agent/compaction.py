"""Compaction: a long conversation is made shorter before it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from toolstile_hookspecs.agents.messages import Message, Role

_NOTE: Final = "(Earlier messages of this conversation are left out.)"


class Compaction(Protocol):
    """Makes a conversation shorter."""

    def compact(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages to keep; the same object where none is left out.

        A call is kept with its result or not at all.
        """
        ...


@dataclass(frozen=True, slots=True)
class DropOldest:
    """Drops whole turns from the oldest, calls with their results; a note takes their place.

    The newest request of the user is kept, with those before it that have no answer yet.

    Args:
        max_messages: The most messages to keep, these requests and the note beside them.
    """

    max_messages: int = 200

    def compact(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the requests without an answer, a note and the newest turns."""
        if len(messages) <= self.max_messages + 2:
            return messages
        first = len(messages) - self.max_messages
        while first < len(messages) and messages[first].role is Role.TOOL:
            first += 1
        # A reply without its results would be half a turn.
        return [*_unanswered(messages, first), Message.user(_NOTE), *messages[first:]]


def _unanswered(messages: Sequence[Message], first: int) -> list[Message]:
    """Return the requests before a place that the model still works on."""
    asked: list[tuple[int, Message]] = []
    for index, message in reversed([*enumerate(messages)]):
        if message.request_id is not None:
            asked.insert(0, (index, message))
        elif asked and message.role is Role.ASSISTANT and not message.calls:
            break
    return [message for index, message in asked if index < first]
