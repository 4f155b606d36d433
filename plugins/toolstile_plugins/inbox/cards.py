"""Cards: questions as data for a chat, with buttons that answer them.

Slack accepts a card unchanged; other chats show its Markdown beside buttons of the application.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from toolstile_hookspecs import Answer, Principal
from toolstile_hookspecs.execution.principal import MAIN_AGENT
from toolstile_hookspecs.services.approval_store import Question, QuestionState
from toolstile_hookspecs.support.text import printable, wire_time
from toolstile_plugins.inbox.inbox import Inbox, described_answer, parts_of
from toolstile_plugins.screen import printable_lines

VIA: Final = "card"
MOST: Final = 2_900
"""Maximum characters of a text on a card; Slack accepts 3,000 in a block."""
_HEADER: Final = 150
"""Maximum characters that Slack accepts in a header."""
_LABELS: Final = {Answer.APPROVED: "Approve", Answer.DENIED: "Deny"}
_CUT: Final = (
    "Not all of it fits here, so it cannot be approved here. See all of it with `toolstile "
    "approvals show {ticket}`."
)


@dataclass(frozen=True, slots=True)
class Button:
    """A button of a card.

    Args:
        answer: The answer that the button gives.
        value: The value for `Cards.answer`; only the inbox can make and read it.
    """

    answer: Answer
    value: str = field(repr=False)

    @property
    def label(self) -> str:
        """The label."""
        return _LABELS[self.answer]


@dataclass(frozen=True, slots=True)
class Card:
    """A question as a chat shows it; its texts contain no markup.

    Args:
        title: The tool and its effect.
        text: The reasons, the principal of the call, and the time until which to answer.
        fields: The arguments and the changes, by their titles.
        note: The state of a question that cannot be answered here; "" if it can.
        buttons: The buttons; none if the question was answered.
    """

    title: str
    text: str
    fields: Mapping[str, str]
    note: str
    buttons: tuple[Button, ...]

    def slack(self) -> dict[str, Any]:
        """Return the card as a message of Slack's Block Kit."""
        blocks: list[dict[str, Any]] = [
            {"type": "header", "text": _plain(self.title[:_HEADER])},
            {"type": "section", "text": _plain(self.text)},
        ]
        for title, text in self.fields.items():
            blocks.append({"type": "section", "text": _plain(title)})
            # As rich text, because a text cannot add markup there.
            inner = {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": text}]}
            blocks.append({"type": "rich_text", "elements": [inner]})
        if self.note:
            blocks.append({"type": "section", "text": _plain(self.note)})
        if self.buttons:
            blocks.append({"type": "actions", "elements": [*map(_slack_button, self.buttons)]})
        return {"text": self.title, "blocks": blocks}

    def markdown(self) -> str:
        """Return all but the buttons as Markdown."""
        parts = [f"**{self.title}**", _fenced(self.text)]
        for title, text in self.fields.items():
            parts += [f"{title}:", _fenced(text)]
        return "\n\n".join([*parts, _fenced(self.note)] if self.note else parts) + "\n"


@dataclass(frozen=True, slots=True)
class Cards:
    """Makes cards of the questions of an inbox, and accepts the answers of their buttons.

    Args:
        inbox: The inbox.
        via: The name of the chat, for records of its answers.
    """

    inbox: Inbox
    via: str = VIA

    def card(self, question: Question) -> Card:
        """Return the card of a question in its present state; without buttons if answered."""
        state = question.state_at(self.inbox.clock.now())
        note, answers = "", tuple(_LABELS)
        if state is not QuestionState.WAITING:
            note = described_answer(question.answer) if question.answer else state.value
            answers = ()
        has_run = ", has run and waits to be kept" if question.diff is not None else ""
        effect = f"{question.category}, {question.consequence} consequence"
        whose = question.principal and f"for {question.principal.id} ({question.principal.source})"
        until = f"until {wire_time(question.expires)}"
        agent = f"agent {question.agent}" if question.agent != MAIN_AGENT else ""
        lines = [*question.reasons, whose or "", f"session {question.session_id}", agent, until]
        parts = parts_of(question).items()
        fields = {title: "\n".join(printable_lines(text)) for title, text in parts}
        text = "\n".join(printable(line) for line in lines if line)
        if answers and any(len(shown) > MOST for shown in (text, *fields.values())):
            # Because the card is cut, a person must not approve the unseen rest.
            note, answers = _CUT.format(ticket=question.ticket), (Answer.DENIED,)
        return Card(
            title=f"{question.tool} ({effect}){has_run}",
            text=_short(text),
            fields={title: _short(shown) for title, shown in fields.items()},
            note=_short(printable(note)),
            buttons=tuple(
                Button(answer, self.inbox.seal.seal_button(question, answer)) for answer in answers
            ),
        )

    def answer(self, value: str, by: Principal, *, reason: str | None = None) -> Question:
        """Give the answer of a pressed button, and return the updated question.

        Args:
            value: The value of the button.
            by: The person, as the chat vouches for them.
            reason: The reason of a denial, for the model.

        Raises:
            StateError: The value was altered, the answer is too late, or the person may not
                answer; the message is for the person.
        """
        ticket, digest, answer = self.inbox.seal.button_of(value)
        return self.inbox.answer(ticket, answer, by, via=self.via, digest=digest, reason=reason)


def _short(text: str) -> str:
    return text if len(text) <= MOST else f"{text[:MOST]}..."


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}


def _slack_button(button: Button) -> dict[str, Any]:
    style = "primary" if button.answer is Answer.APPROVED else "danger"
    return {
        "type": "button",
        "action_id": f"toolstile_{button.answer}",
        "text": _plain(button.label),
        "style": style,
        "value": button.value,
    }


def _fenced(text: str) -> str:
    """Return a text as a Markdown block that shows it without markup."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
