"""The conversation of a session: a STATE slice that only the loop writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolstile_hookspecs import Outcome, SessionProtocol
from toolstile_hookspecs.agents.messages import CallAnswer, CallMade, Message, unanswered
from toolstile_plugins.dialects.parse import answer


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

    def replace(self, messages: Iterable[Message]) -> None:
        """Replace all messages, as compaction does."""
        self._messages.seed(*messages)

    def open_calls(self) -> list[CallMade]:
        """Return the calls of the last reply that have no result yet."""
        return unanswered(self.all())

    def answer(self, answers: Sequence[CallAnswer]) -> None:
        """Add the results of calls, each once; those that have one keep it."""
        waiting = {call.id for call in self.open_calls()}
        if new := [given for given in answers if given.call_id in waiting]:
            self.add(Message.results(new))


def answer_of(call: CallMade, outcome: Outcome | BaseException | str) -> CallAnswer:
    """Return what the model reads of a call."""
    if isinstance(outcome, str):
        return CallAnswer(call.id, call.name, outcome)
    told = answer(outcome)
    return CallAnswer(call.id, call.name, told.text, told.is_error)
