"""The one JSON form of principals, questions and answers."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from pydantic import TypeAdapter

from toolstile_hookspecs import Answer, Principal, Secret
from toolstile_hookspecs.services.approval_store import AnswerRecord, Question, QuestionState
from toolstile_hookspecs.services.json_forms import ANSWER, PRINCIPAL, QUESTION

ANN = Principal("os", "ann", groups=["wheel", "staff"], claims=Secret({"pin": 1}))
AT = datetime(2026, 5, 1, 12, 30, 0, 5, UTC)
ODD = "\ud800.txt"
QUESTIONED = Question(
    "t", "c", "pay", "update", "high", (f"Pays {ODD}",), json.dumps({"to": ODD}), "d", ODD,
    ANN, AT, AT + timedelta(hours=1), b"sealed", diff=ODD, asked_by=("limits",), definition="f",
)  # fmt: skip


def test_a_principal_is_an_object_with_its_groups_and_without_secrets():
    assert PRINCIPAL.data(ANN) == {"source": "os", "id": "ann", "groups": ["staff", "wheel"]}
    assert PRINCIPAL.data(Principal("os", "ann")) == {"source": "os", "id": "ann"}


@pytest.mark.parametrize("who", [ANN, Principal("os", ODD, groups=[ODD]), Principal("", "")])
def test_a_principal_comes_back(who):
    back = PRINCIPAL.read(json.loads(PRINCIPAL.text(who)))
    assert (back, back.groups) == (who, who.groups)


def test_one_that_was_written_as_a_list_is_read():
    who = PRINCIPAL.read(["os", "ann", ["staff"]])
    assert (who, who.groups) == (Principal("os", "ann"), frozenset({"staff"}))


@pytest.mark.parametrize(
    "altered",
    [{}, {"source": "os"}, {"source": "os", "id": 1}, ["os"], ["os", "ann", "x"], 7, None],
)
def test_data_that_was_altered_is_refused(altered):
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        PRINCIPAL.read(altered)


def test_pydantic_knows_it_in_any_model():
    adapter = TypeAdapter(list[Principal])
    assert adapter.validate_python([ANN])[0] is ANN
    assert adapter.validate_json(adapter.dump_json([ANN])) == [ANN]


def test_a_question_comes_back_with_the_parts_that_are_kept_beside():
    text = QUESTION.text(QUESTIONED)
    assert text.isascii()
    beside = {"sealed": b"sealed", "state": "waiting", "answer": None}
    back = QUESTION.read({**json.loads(text), **beside})
    assert (back, back.principal.groups) == (QUESTIONED, ANN.groups)
    assert back.state is QuestionState.WAITING


def test_an_answer_comes_back_and_its_time_is_in_utc():
    elsewhere = AT.astimezone(timezone(timedelta(hours=3)))
    given = AnswerRecord(Answer.DENIED, ANN, "command line", elsewhere, ODD, b"proof")
    form = ANSWER.data(given)
    assert form["at"] == "2026-05-01T12:30:00.000005+00:00"
    assert ANSWER.read({**form, "sealed": b"proof"}) == given
