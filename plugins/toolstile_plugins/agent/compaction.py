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

    Args:
        max_messages: The most messages to keep, the first one and the note beside them.
    """

    max_messages: int = 200

    def compact(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the first message, a note and the newest turns."""
        if len(messages) <= self.max_messages + 2:
            return messages
        first = len(messages) - self.max_messages
        while first < len(messages) and messages[first].role is Role.TOOL:
            first += 1
        # A reply without its results would be half a turn.
        return [messages[0], Message.user(_NOTE), *messages[first:]]
