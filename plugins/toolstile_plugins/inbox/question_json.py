"""Questions and answers as JSON: as stores keep them, and as commands and the console show them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final, cast

from toolstile_hookspecs import Answer, Principal, StateError
from toolstile_hookspecs.services.approval_store import AnswerRecord, Question, QuestionState
from toolstile_hookspecs.support.text import wire_time

_KINDS: Final[dict[Any, Any]] = {"str": str, "str | None": str | None}
_TEXTS: Final = {each.name: _KINDS[each.type] for each in fields(Question) if each.type in _KINDS}
"""The types of the fields of a question that are texts."""
_LATER: Final = ("sealed", "state", "answer")
FIRST: Final = [each.name for each in fields(Question) if each.name not in _LATER]
"""The fields of a question from its beginning on."""


def plain(value: Any) -> Any:
    """Return a time or a principal as data, for `json.dumps`."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return [value.source, value.id, sorted(value.groups)]


def question_as_json(question: Question) -> str:
    """Return what is kept of a question beside its state, its seal and its answer."""
    # In ASCII: no database takes lone surrogates, which names of files may have.
    return json.dumps({name: getattr(question, name) for name in FIRST}, default=plain)


def question_of(row: Sequence[Any]) -> Question:
    """Return the question of a row: its JSON, seal, state, answer, and the proof of the answer.

    Raises:
        ValueError: It was altered; or `TypeError`, `LookupError` or `AttributeError`.
    """
    text, sealed, state, answer, proof = row
    found = json.loads(text)
    for name in ("reasons", "asked_by"):
        found[name] = tuple(found.get(name, ()))
    found["principal"] = found["principal"] and Principal(*found["principal"])
    for name in ("created", "expires"):
        found[name] = _read_moment(found[name])
    given = None if answer is None else _read_answer(answer, proof)
    json.loads(found["arguments"])
    texts = [(found.get(name, ""), kind) for name, kind in _TEXTS.items()]
    texts += [(text, str) for text in (*found["reasons"], *found["asked_by"])]
    if not all(isinstance(text, kind) for text, kind in texts):
        raise TypeError("a value in it is not a text")
    return Question(**found, sealed=sealed, state=QuestionState(state), answer=given)


def answer_as_json(given: AnswerRecord) -> str:
    """Return what is kept of an answer beside its proof."""
    told = [given.answer.value, given.by, given.via, given.at, given.reason]
    return json.dumps(told, default=plain)


def _read_answer(text: str, proof: bytes) -> AnswerRecord:
    answer, (source, id_, groups), via, moment, reason = json.loads(text)
    by = Principal(source, id_, groups)
    return AnswerRecord(Answer(answer), by, via, _read_moment(moment), reason, proof)


def _read_moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


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
