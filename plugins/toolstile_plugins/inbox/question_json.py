"""Questions and answers as the JSON that stores keep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, Final

from toolstile_hookspecs import Answer, Principal
from toolstile_hookspecs.services.approval_store import AnswerRecord, Question, QuestionState

_KINDS: Final[dict[Any, Any]] = {"str": str, "str | None": str | None}
_TEXTS: Final = {each.name: _KINDS[each.type] for each in fields(Question) if each.type in _KINDS}
"""The types of the fields of a question that are texts."""


def question_as_json(question: Question) -> str:
    """Return what is kept of a question beside its state, its seal and its answer."""
    # In ASCII: no database takes lone surrogates, which names of files may have.
    return json.dumps(
        {
            "call_id": question.call_id,
            "tool": question.tool,
            "category": question.category,
            "consequence": question.consequence,
            "reasons": question.reasons,
            "arguments": question.arguments,
            "digest": question.digest,
            "principal": _written_principal(question.principal),
            "owner": question.owner,
            "diff": question.diff,
            "shown_before": question.shown_before,
            "asked_by": question.asked_by,
            "definition": question.definition,
            "ticket": question.ticket,
            "session_id": question.session_id,
            "created": question.created.isoformat(),
            "expires": question.expires.isoformat(),
        }
    )


def question_of(row: Sequence[Any]) -> Question:
    """Return the question of a row: its JSON, seal, state, answer, and the proof of the answer.

    Raises:
        ValueError: It was altered; or `TypeError`, `LookupError` or `AttributeError`.
    """
    text, sealed, state, answer, proof = row
    found = json.loads(text)
    for name in ("reasons", "asked_by"):
        found[name] = tuple(found.get(name, ()))
    found["principal"] = _read_principal(found["principal"])
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
    by = _written_principal(given.by)
    told = [given.answer.value, by, given.via, given.at.astimezone(UTC).isoformat(), given.reason]
    return json.dumps(told)


def _read_answer(text: str, proof: bytes) -> AnswerRecord:
    answer, (source, id_, groups), via, moment, reason = json.loads(text)
    by = Principal(source, id_, groups)
    return AnswerRecord(Answer(answer), by, via, _read_moment(moment), reason, proof)


def _read_moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _written_principal(principal: Principal | None) -> list[Any] | None:
    if principal is None:
        return None
    return [principal.source, principal.id, sorted(principal.groups)]


def _read_principal(written: Sequence[Any] | None) -> Principal | None:
    return None if written is None else Principal(*written)
