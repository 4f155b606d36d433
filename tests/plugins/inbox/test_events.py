"""Every answer is an event and a line of the record, whoever gives it in whatever process."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from toolstile_cli.main import main
from toolstile_hookspecs import Answer, Principal, Status, ToolCall, tool
from toolstile_hookspecs.services.approval_store import QuestionState
from toolstile_plugins.approval.grants import Terms
from toolstile_plugins.inbox import ApprovalEvent, resume_pending
from toolstile_plugins.inbox.grants import InboxGrants
from toolstile_plugins.record import verify

from .conftest import BOB, House, inbox_of, only, pay, say


class Key(BaseModel):
    key: SecretStr


@tool(category="write", requires_confirmation=True)
def sign_in(name: str, keys: list[Key]) -> str:
    """Sign in."""
    return name


CALL = ToolCall("pay", {"to": "ada", "amount": 5}, id="call-1")


@pytest.fixture
def record(house: House) -> Path:
    return house.folder / "calls.jsonl"


def opened(house: House, record: Path | None, *tools: Any, **more: Any):
    """Return an executor, of a host with a record where one is named."""
    top = {"plugins": {} if record is None else {"record": {"file": str(record)}}}
    return house.tools(house.host(*tools, wait="pending", top=top, **more))


def answers(record: Path) -> list[dict[str, Any]]:
    """Return the answers that a record tells, in its order."""
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    assert not verify(record).faults
    return [line for line in lines if line["kind"] == "approval"]


def acts(record: Path) -> list[str]:
    return [line["act"] for line in answers(record)]


@pytest.mark.parametrize(
    ("answer", "more"),
    [
        (Answer.APPROVED, {}),
        (Answer.DENIED, {"reason": "No."}),
        (Answer.EDITED, {"arguments": {"to": "eve"}, "tool": pay}),
    ],
)
def test_an_answer_is_recorded_as_it_is_given_though_its_call_never_goes_on(
    house, record, answer, more
):
    tools = opened(house, record)
    tools.dispatch(CALL)
    question = say(inbox_of(tools), answer, **more)
    (line,) = answers(record)
    told = {name: line[name] for name in ("act", "tool", "subject", "session", "call", "via")}
    assert told == {
        "act": answer.value,
        "tool": "pay",
        "subject": question.ticket,
        "session": "s",
        "call": "call-1",
        "via": "test",
    }
    assert (line["by"], line["reason"]) == ({"source": "os", "id": "bob"}, more.get("reason"))


def test_a_reason_tells_no_secret_of_the_call(house, record):
    tools = opened(house, record, sign_in)
    keys = [{"key": "hunter22"}, {"key": "correct horse"}]
    outcome = tools.dispatch(ToolCall("sign_in", {"name": "ada", "keys": keys}))
    assert outcome.status is Status.PENDING
    say(inbox_of(tools), Answer.DENIED, reason="ada: hunter22 and correct horse are weak.")
    (line,) = answers(record)
    assert line["reason"] == "ada: *** and *** are weak."


def test_one_of_a_host_without_a_record_is_recorded_once_by_the_next_that_has_one(house, record):
    """As of a command line, while the record is written by the host that asks."""
    asking = opened(house, record, stored=True)
    asking.dispatch(CALL)
    elsewhere = opened(house, None, stored=True)
    say(inbox_of(elsewhere), Answer.DENIED, reason="No.")
    assert acts(record) == []
    for _ in range(2):
        resume_pending(asking)
    assert acts(record) == ["denied"]


def test_the_command_line_leaves_it_to_the_host_as_its_calls_end(house, record, monkeypatch):
    monkeypatch.chdir(house.folder)
    path = house.folder / "inbox" / "inbox.db"
    (house.folder / "toolstile.toml").write_text(
        f'approver = "inbox"\n\n[plugins.record]\nfile = "{record}"\n\n'
        f'[plugins.inbox]\npath = "{path}"\n',
        encoding="utf-8",
    )
    tools = opened(house, record, expiry=10.0**9)
    tools.dispatch(CALL)
    granting = ToolCall("pay", {"to": "eve"})
    tools.dispatch(granting)
    first, second = (question.ticket for question in inbox_of(tools).waiting())
    assert main(["approvals", "deny", first, "--reason", "No."]) == 0
    assert main(["approvals", "approve", second, "--always", "exact"]) == 0
    (grant,) = tools.resources.get(InboxGrants).all()
    assert main(["approvals", "revoke", grant.id]) == 0
    assert acts(record) == []
    # The commands read the system's clock.
    house.clock.advance(10.0**9)
    tools.dispatch(ToolCall("nonesuch", {}))
    assert acts(record) == ["denied", "approved", "granted", "revoked"]
    assert {line["via"] for line in answers(record)} == {"command line"}
    assert [line["subject"] for line in answers(record)][2:] == [grant.id] * 2


def test_a_question_that_nobody_answers_expires_in_the_record_as_well(house, record):
    tools = opened(house, record)
    tools.dispatch(CALL)
    ticket = only(inbox_of(tools)).ticket
    house.clock.advance(3600)
    tools.dispatch(ToolCall("nonesuch", {}))
    (outcome,) = resume_pending(tools)
    assert outcome.status is Status.DENIED
    (line,) = answers(record)
    assert (line["act"], line["subject"], line["by"]) == ("expired", ticket, None)


def test_one_that_was_answered_does_not_expire(house, record):
    tools = opened(house, record)
    tools.dispatch(CALL)
    say(inbox_of(tools))
    house.clock.advance(7200)
    assert resume_pending(tools)[0].success
    assert acts(record) == ["approved"]


def test_one_that_is_withdrawn_says_so_and_does_not_expire(house, record):
    tools = opened(house, record)
    tools.dispatch(CALL)
    inbox = inbox_of(tools)
    inbox.end(only(inbox), QuestionState.WITHDRAWN)
    house.clock.advance(7200)
    resume_pending(tools)
    assert acts(record) == ["withdrawn"]


def test_an_answer_that_comes_too_late_is_none(house, record):
    tools = opened(house, record)
    tools.dispatch(CALL)
    inbox = inbox_of(tools)
    ticket = say(inbox).ticket
    with pytest.raises(Exception, match="The first answer counts"):
        inbox.answer(ticket, Answer.DENIED, BOB, via="test")
    assert acts(record) == ["approved"]


def test_the_session_hears_what_was_decided_elsewhere(house):
    """Once, before its calls go on; also grants and revocations, and nothing of others."""
    tools, other = (opened(house, None, stored=True) for _ in range(2))
    heard: list[ApprovalEvent] = []
    tools.session.dispatcher.subscribe(ApprovalEvent, heard.append)
    tools.dispatch(CALL)
    grants = other.resources.get(InboxGrants)
    grants.approve(only(grants.inbox).ticket, BOB, Terms(), via="test")
    (grant,) = grants.all()
    grants.revoke(grant.id, Principal("os", "eve"), via="test")
    with other.session and house.host(wait="pending", stored=True).executor() as stranger:
        stranger.dispatch(CALL)
        say(inbox_of(stranger), Answer.DENIED)
    for _ in range(2):
        resume_pending(tools)
    assert [(event.act, event.by.id) for event in heard] == [
        ("approved", "bob"),
        ("granted", "bob"),
        ("revoked", "eve"),
    ]


def test_an_event_that_was_written_into_the_store_is_left_out(house, record, caplog):
    """As by a shell of the agent that finds the file, and not the key."""
    tools = opened(house, None)
    tools.dispatch(CALL)
    say(inbox_of(tools), Answer.DENIED)
    path = house.folder / "inbox" / "inbox.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE toolstile_events SET sealed = x'00' WHERE told_session = 0")
    resume_pending(opened(house, record))
    assert not record.exists() or acts(record) == []
    assert "An event of the inbox is not genuine. It is left out." in caplog.text


def test_show_tells_them_once_though_a_crash_wrote_one_twice(house, record, capsys, monkeypatch):
    tools = opened(house, record)
    tools.dispatch(CALL)
    say(inbox_of(tools), Answer.DENIED, reason="No.")
    path = house.folder / "inbox" / "inbox.db"
    # As if the process had died between the line and the note of it.
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE toolstile_events SET told_record = 0")
    resume_pending(tools)
    assert acts(record) == ["denied", "denied"]
    monkeypatch.chdir(house.folder)
    assert main(["record", "show", str(record)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("denied by os bob (test): No.") == 1
    assert main(["record", "show", str(record), "--json"]) == 0
    wire = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["act"] for line in wire if line["kind"] == "approval"] == ["denied"]
