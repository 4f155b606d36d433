"""Questions, answers, grants and events that an earlier version wrote are read, and genuine.

The file holds the rows of one inbox, written while principals were lists in them.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from toolstile_hookspecs import Principal
from toolstile_hookspecs.services.approval_store import GrantRecord
from toolstile_plugins.approval.grants import GRANT
from toolstile_plugins.inbox.inbox import EVENT
from toolstile_plugins.inbox.seal import Seal
from toolstile_plugins.inbox.sql import question_of

ROWS = json.loads((Path(__file__).parent / "earlier_version.json").read_text())
AT = datetime(2026, 5, 1, 12, 30, 0, 5, UTC)
ANN, BOB = Principal("os", "ann"), Principal("os", "bob")


@pytest.fixture
def seal(tmp_path: Path) -> Seal:
    file = tmp_path / "inbox.key"
    file.write_text(ROWS["key"])
    return Seal(file)


def test_a_question_and_its_answer_are_genuine(seal: Seal) -> None:
    sealed, proof = ROWS["sealed"].encode(), ROWS["proof"].encode()
    question = question_of([ROWS["question"], sealed, "denied", ROWS["answer"], proof])
    assert (question.principal, question.created) == (ANN, AT)
    assert question.principal is not None
    assert question.principal.groups == {"staff", "wheel"}
    assert question.reasons == ("Pays \ud800.txt",)
    assert seal.call_of(question).token == "token"
    assert question.answer is not None
    assert question.answer.by.groups == {"staff"}
    given = seal.answer_to(question, question.answer)
    assert (given.answer, given.reason, given.by) == (
        "denied", "No \ud800.", "os bob (command line)",
    )  # fmt: skip


def test_a_grant_is_genuine(seal: Seal) -> None:
    grant = GRANT.read(json.loads(seal.grant_of(GrantRecord("g", AT, ROWS["grant"].encode()))))
    assert (grant.principal, grant.by, grant.scope) == (ANN, BOB, "session")
    assert grant.by.groups == {"staff"}
    assert grant.expires.tzinfo is UTC


def test_an_event_is_genuine(seal: Seal) -> None:
    event = EVENT.read(json.loads(seal.event_of(ROWS["event"].encode())))
    assert (event.act, event.by, event.at, event.reason) == ("denied", BOB, AT, "No \ud800.")
