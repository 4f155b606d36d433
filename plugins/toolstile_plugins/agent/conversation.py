"""The conversation of a session: a STATE slice that only the loop writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

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
from toolstile_plugins.dialects.parse import answer

UNSAID: Final = "Do what the instructions ask for."
"""The message of a user who says nothing, since the prompt holds all of the request."""


class Conversation:
    """The messages of a session.

    Args:
        session: The session.
    """

    def __init__(self, session: SessionProtocol) -> None:
        self._messages = session[Message]

    def all(self) -> Sequence[Message]:
        """Return all messages, oldest first."""
        return self._messages.all()

    def add(self, message: Message) -> None:
        """Add a message."""
        self._messages.append(message)

    def reply(self, turn: Turn) -> None:
        """Add a reply; no provider takes an empty one back."""
        is_paused = turn.stop_reason is StopReason.INCOMPLETE
        if turn.text.strip() or turn.tool_calls or (is_paused and turn.message.items):
            self.add(turn.message)

    def replace(self, messages: Iterable[Message]) -> None:
        """Replace all messages, as compaction does."""
        self._messages.seed(*messages)

    def has_request(self, request_id: str | None) -> bool:
        """Tell whether a request is part of it, as when its run was killed."""
        return any(
            each.role is Role.USER and each.request_id == request_id
            for each in reversed(self.all())
        )

    def is_at(self, calls: Iterable[str], request_id: str | None) -> bool:
        """Tell whether calls are a part of it, and nothing was asked since their request."""
        made = {call.id for message in self.all() for call in message.calls}
        asked = [each.request_id for each in self.all() if each.request_id is not None]
        return made.issuperset(calls) and asked[-1:] in ([], [request_id])

    def last_reply(self) -> Message | None:
        """Return the model's reply where nothing was said after it."""
        messages = self.all()
        return messages[-1] if messages and messages[-1].role is Role.ASSISTANT else None

    def open_calls(self) -> list[CallMade]:
        """Return the calls of the last reply that have no result yet."""
        return unanswered(self.all())

    def answer(self, answers: Sequence[CallAnswer]) -> None:
        """Add the results of calls, each once; those that have one keep it."""
        waiting = {call.id for call in self.open_calls()}
        if new := [given for given in answers if given.call_id in waiting]:
            self.add(Message.results(new))


def in_call_order(messages: Sequence[Message]) -> list[Message]:
    """Return a conversation in which one message has all results of a reply, in call order.

    Results of calls that waited for a person come later than those beside them, and than what the
    user has said meanwhile.
    """
    ordered: list[Message] = []
    for message in messages:
        if message.role is not Role.TOOL:
            ordered.append(message)
            continue
        after = len(ordered)
        while ordered[after - 1].role is not Role.ASSISTANT:
            after -= 1
        answers = [*message.answers]
        if after < len(ordered) and ordered[after].role is Role.TOOL:
            answers += ordered.pop(after).answers
        place = {call.id: index for index, call in enumerate(ordered[after - 1].calls)}
        answers.sort(key=lambda answer: place[answer.call_id])
        ordered.insert(after, Message.results(answers))
    return ordered


def answer_of(call: CallMade, outcome: Outcome | BaseException | str) -> CallAnswer:
    """Return what the model reads of a call."""
    if isinstance(outcome, str):
        return CallAnswer(call.id, call.name, outcome)
    told = answer(outcome)
    return CallAnswer(call.id, call.name, told.text, told.is_error)
