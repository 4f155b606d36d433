"""The JSON of questions and answers."""

from __future__ import annotations

import json
from typing import Any, cast

from toolstile_hookspecs import StateError
from toolstile_hookspecs.services.approval_store import Question
from toolstile_hookspecs.support.text import wire_time


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
        "principal": principal and {"source": principal.source, "id": principal.id},
        "created": wire_time(question.created),
        "expires": wire_time(question.expires),
        "state": question.state.value,
        "lost": lost,
        "answer": given
        and {
            "answer": given.answer.value,
            "by": {"source": given.by.source, "id": given.by.id},
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
