"""Questions as rows of stores, and as JSON of commands and of the console."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from toolstile_hookspecs import StateError
from toolstile_hookspecs.services.approval_store import Question
from toolstile_hookspecs.services.json_forms import ANSWER, PRINCIPAL, QUESTION
from toolstile_hookspecs.support.text import wire_time

_EARLIER = ("answer", "by", "via", "at", "reason")
"""The fields of an answer as earlier versions stored them: in a list."""


def question_of(row: Sequence[Any]) -> Question:
    """Return the question of a row: its JSON, seal, state, answer, and the proof of the answer.

    Raises:
        ValueError: The row was altered; also `TypeError`.
    """
    text, sealed, state, answer, proof = row
    given = None
    if answer is not None:
        found: list[Any] | dict[str, Any] = json.loads(answer)
        if isinstance(found, list):
            found = dict(zip(_EARLIER, found, strict=True))
        given = ANSWER.read({**found, "sealed": proof})
    beside = {"sealed": sealed, "state": state, "answer": given}
    question = QUESTION.read({**json.loads(text), **beside})
    json.loads(question.arguments)
    return question


def wire_of(question: Question, lost: str | None = None) -> dict[str, Any]:
    """Return a question as JSON data, with the reason why no answer to it can count."""
    given, principal = question.answer, question.principal
    return {
        "ticket": question.ticket,
        "tool": question.tool,
        "category": question.category,
        "consequence": question.consequence,
        "reasons": list(question.reasons),
        "arguments": json.loads(question.arguments),
        "diff": question.diff,
        "shownBefore": question.shown_before,
        "digest": question.digest,
        "callId": question.call_id,
        "session": question.session_id,
        "principal": principal and PRINCIPAL.data(principal),
        "created": wire_time(question.created),
        "expires": wire_time(question.expires),
        "state": question.state.value,
        "lost": lost,
        "answer": given
        and {
            "answer": given.answer.value,
            "by": PRINCIPAL.data(given.by),
            "via": given.via,
            "at": wire_time(given.at),
            "reason": given.reason,
        },
    }


def read_arguments(text: str) -> dict[str, Any]:
    """Return the arguments that a person has written as JSON.

    Raises:
        StateError: They are not a JSON object.
    """
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StateError(f"The arguments are not JSON: {error}. Correct them.") from None
    if not isinstance(arguments, dict):
        raise StateError("The arguments are not a JSON object. Write {...}.")
    return cast("dict[str, Any]", arguments)
