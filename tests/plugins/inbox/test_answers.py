"""An answer is a person's who may give it: the first one counts, for what was shown."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import pytest
from cryptography.fernet import Fernet

from toolstile import ConfigurationError
from toolstile_hookspecs import (
    Answer,
    Binding,
    Filesystem,
    Principal,
    StateError,
    Status,
    ToolCall,
    tool,
)
from toolstile_hookspecs.services.approval_store import AnswerRecord, QuestionState
from toolstile_hookspecs.testing.approval_store import question_of
from toolstile_plugins.inbox import Answerers, resume_pending
from toolstile_plugins.inbox.inbox import read_arguments
from toolstile_plugins.inbox.seal import Seal, SealedCall
from toolstile_plugins.vfs import VfsConfig, open_workspace

from .conftest import BOB, PAID, House, inbox_of, only, pay, say

CALL = ToolCall("pay", {"to": "ada", "amount": 5}, id="call-1")
EVE = Principal("os", "eve")


@pytest.fixture
def asked(house: House):
    tools = house.tools(house.host(wait="pending"))
    tools.dispatch(CALL)
    return inbox_of(tools)


def test_an_unknown_ticket_is_told(asked):
    with pytest.raises(StateError, match="There is no question 123"):
        asked.answer("123", Answer.APPROVED, BOB, via="test")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [({"to": "ada", "amount": "much"}, "amount"), ({"amount": 1}, "to"), ({"for": "x"}, "for")],
)
def test_an_edit_that_does_not_fit_is_told_and_the_question_waits_on(asked, arguments, told):
    with pytest.raises(StateError, match=told):
        say(asked, Answer.EDITED, arguments=arguments, tool=pay)
    assert only(asked).state is QuestionState.WAITING


@pytest.mark.parametrize(
    ("arguments", "told"),
    [({"to": "ada", "amount": "much"}, "amount"), ({"amount": 1}, "to"), ({"for": "x"}, "for")],
)
def test_without_the_tool_the_schema_of_the_question_checks_an_edit(asked, arguments, told):
    with pytest.raises(StateError, match=told):
        say(asked, Answer.EDITED, arguments=arguments)
    assert only(asked).state is QuestionState.WAITING
    assert say(asked, Answer.EDITED, arguments={"to": "eve"}).answer.by == BOB


def test_an_edit_of_an_older_question_needs_the_tool(asked):
    """It carries no schema."""
    question = only(asked)
    seal = asked.seal
    older = seal.seal_call(question, replace(seal.call_of(question), schema=None))
    store = SimpleNamespace(get=lambda _: older)
    with pytest.raises(StateError, match=r"pay is not installed here.*Answer with the plugins of"):
        replace(asked, store=store).answer(
            older.ticket, Answer.EDITED, BOB, via="test", arguments={"to": "eve"}
        )


def test_an_edit_without_arguments_is_told(asked):
    with pytest.raises(StateError, match="The edit has no arguments"):
        say(asked, Answer.EDITED)
    assert only(asked).state is QuestionState.WAITING


def test_arguments_that_are_too_deep_are_told():
    with pytest.raises(StateError, match="The arguments are not JSON"):
        read_arguments('{"to": ' + "[" * 100_000)


# --- Secrets


def test_secrets_are_masked_and_an_edit_leaves_them_as_they_are(house):
    from pydantic import SecretStr

    @tool(requires_confirmation=True)
    def log_in(name: str, password: SecretStr) -> str:
        """Log in."""
        return f"{name} {len(password.get_secret_value())}"

    tools = house.tools(house.host(log_in, wait="pending"))
    tools.dispatch(ToolCall("log_in", {"name": "ada", "password": "opensesame"}))
    inbox = inbox_of(tools)
    shown = json.loads(only(inbox).arguments)
    assert shown == {"name": "ada", "password": "*** (unchanged)"}
    kept = b"".join(file.read_bytes() for file in (house.folder / "inbox").iterdir())
    assert b"opensesame" not in kept
    say(inbox, Answer.EDITED, arguments={**shown, "name": "eve"}, tool=log_in)
    (outcome,) = resume_pending(tools)
    assert outcome.text == "eve 10"


# --- Who may answer


@pytest.mark.parametrize("source", ["os", "https://id.example.org"])
def test_somebody_else_has_to_answer_with_four_eyes(house, source):
    """A person of two sources is one person."""
    host = house.host(wait="pending", four_eyes=True)
    tools = house.tools(host, principal=Principal(source, BOB.id))
    tools.dispatch(CALL)
    inbox = inbox_of(tools)
    with pytest.raises(StateError, match="another person must answer"):
        say(inbox)
    inbox.answer(only(inbox).ticket, Answer.APPROVED, EVE, via="test")


def test_nobody_answers_without_a_name(asked):
    with pytest.raises(StateError, match="needs a name"):
        asked.answer(only(asked).ticket, Answer.APPROVED, Principal("os", ""), via="test")


@pytest.mark.parametrize(
    ("table", "may"),
    [
        ({"users": ["bob"]}, True),
        ({"users": ["eve"]}, False),
        ({"users": ["os bob"]}, True),
        ({"users": ["chat bob"]}, False),
        ({"groups": ["treasury"]}, True),
        ({"groups": ["staff"]}, False),
        ({"users": ["eve"], "groups": ["treasury"]}, True),
        ({"tools": ["pay*"]}, True),
        ({"tools": ["send_*"]}, False),
        ({"consequences": ["high"]}, True),
        ({"consequences": ["low"]}, False),
    ],
)
def test_the_configuration_says_who_answers(house, table, may):
    tools = house.tools(house.host(wait="pending", answerers=[table]))
    tools.dispatch(CALL)
    inbox = inbox_of(tools)
    bob = Principal("os", "bob", groups={"treasury"})

    def answer():
        return inbox.answer(only(inbox).ticket, Answer.APPROVED, bob, via="test")

    if may:
        assert answer().state is QuestionState.APPROVED
    else:
        with pytest.raises(StateError, match="lets bob answer"):
            answer()


def test_an_id_of_another_source_does_not_spell_the_name_of_a_person():
    rule = Answerers(users=["os bob"])
    assert rule.allow(Principal("os", "bob"), question_of())
    assert not rule.allow(Principal("chat", "os bob"), question_of())


# --- Attacks on the store


def test_an_answer_that_was_written_into_the_store_lets_nothing_run(house):
    """As by a shell of the agent that finds the file, and not the key."""
    tools = house.tools(house.host(wait="pending"))
    tools.dispatch(CALL)
    inbox = inbox_of(tools)
    forged = Fernet(Fernet.generate_key()).encrypt(b'["", "", "approved", null]')
    given = AnswerRecord(Answer.APPROVED, BOB, "shell", house.clock.now(), sealed=forged)
    assert inbox.store.answer(only(inbox).ticket, given) is not None
    (outcome,) = resume_pending(tools)
    assert (outcome.status, PAID) == (Status.DENIED, [])
    assert "not genuine" in outcome.text


@pytest.mark.parametrize(
    ("name", "value"),
    [("arguments", '{"to": "ada"}'), ("tool", "look"), ("call_id", "c"), ("shown_before", "- a")],
)
def test_nobody_answers_a_question_that_was_altered(house, name, value):
    """Else a person would be shown one thing, and approve another."""
    tools = house.tools(house.host(wait="pending"))
    tools.dispatch(CALL)
    with closing(sqlite3.connect(house.folder / "inbox" / "inbox.db")) as file, file:
        altered = "UPDATE toolstile_questions SET question = json_set(question, ?, ?)"
        file.execute(altered, (f"$.{name}", value))
    with pytest.raises(StateError, match="was altered"):
        say(inbox_of(tools))


def test_a_question_that_was_altered_keeps_no_other_call_from_going_on(house, caplog):
    tools = house.tools(house.host(wait="pending"))
    for amount in (1, 2, 3):
        tools.dispatch(ToolCall("pay", {"to": "ada", "amount": amount}))
    inbox = inbox_of(tools)
    tickets = [question.ticket for question in inbox.waiting()]
    for ticket in tickets:
        inbox.answer(ticket, Answer.APPROVED, BOB, via="test")
    with closing(sqlite3.connect(house.folder / "inbox" / "inbox.db")) as file, file:
        altered = "UPDATE toolstile_questions SET question = json_set(question, '$.tool', 'look')"
        file.execute(f"{altered} WHERE ticket = ?", (tickets[1],))
    outcomes = resume_pending(tools)
    assert [outcome.text for outcome in outcomes] == ["Paid 1 to ada.", "Paid 3 to ada."]
    assert f"The question {tickets[1]} or its answer was altered" in caplog.text
    assert resume_pending(tools) == []


@pytest.mark.parametrize(
    "change",
    [
        "proof = NULL",
        "proof = 'no proof'",
        "proof = 7",
        "answer = NULL",
        "answer = 'garbage'",
        "answer = '[]'",
        "state = 'sold'",
        "sealed = 'é'",
        "sealed = 7",
        "question = 'garbage'",
        "question = json_set(question, '$.arguments', 'garbage')",
        "question = json_set(question, '$.diff', 7)",
        "question = json_set(question, '$.tool', NULL)",
        "question = json_set(question, '$.reasons', json_array(7))",
        "question = json_set(question, '$.expires', '2026-01-01')",
        "question = json_set(question, '$.principal', 7)",
        "created = 'never'",
        "expires = 'never'",
    ],
)
def test_a_bad_row_stops_no_other_question(house, change):
    tools = house.tools(house.host(wait="pending"))
    for amount in (1, 2, 3, 4):
        tools.dispatch(ToolCall("pay", {"to": "ada", "amount": amount}))
    inbox = inbox_of(tools)
    tickets = [question.ticket for question in inbox.waiting()]
    for ticket in tickets[:3]:
        inbox.answer(ticket, Answer.APPROVED, BOB, via="test")
    with closing(sqlite3.connect(house.folder / "inbox" / "inbox.db")) as file, file:
        file.execute(f"UPDATE toolstile_questions SET {change} WHERE ticket = ?", (tickets[1],))

    assert tickets[3] in [question.ticket for question in inbox.waiting()]
    told = [outcome.text for outcome in resume_pending(tools) if outcome.success]
    assert {"Paid 1 to ada.", "Paid 3 to ada."} <= {*told}
    inbox.answer(tickets[3], Answer.APPROVED, BOB, via="test")
    assert [outcome.text for outcome in resume_pending(tools)][-1] == "Paid 4 to ada."


def test_an_answer_after_the_sealed_end_does_not_count(house):
    """Whatever the store goes by: whoever can write it would answer for ever."""
    tools = house.tools(house.host(wait="pending"))
    tools.dispatch(CALL)
    inbox = inbox_of(tools)
    question = only(inbox)
    with closing(sqlite3.connect(house.folder / "inbox" / "inbox.db")) as file, file:
        file.execute("UPDATE toolstile_questions SET expires = 1e12")
    house.clock.advance((question.expires - house.clock.now()).total_seconds())
    with pytest.raises(StateError, match="could be answered until"):
        inbox.answer(question.ticket, Answer.APPROVED, BOB, via="test")
    late = AnswerRecord(Answer.APPROVED, BOB, "test", house.clock.now())
    inbox.store.answer(question.ticket, inbox.seal.seal_answer(question, late))
    (outcome,) = resume_pending(tools)
    assert (outcome.status, PAID) == (Status.DENIED, [])


def test_a_bad_grant_or_event_stops_no_other(house):
    tools = house.tools(house.host(wait="pending"))
    tools.dispatch(CALL)
    inbox = inbox_of(tools)
    with closing(sqlite3.connect(house.folder / "inbox" / "inbox.db")) as file, file:
        file.execute("INSERT INTO toolstile_grants (id, expires, sealed) VALUES ('g', 'x', 7)")
        for due in (-1e300, "'x'"):
            values = f"VALUES ('s', 'e{due}', {due}, 7)".replace("'e'x''", "'e'")
            file.execute(
                f"INSERT INTO toolstile_events (session_id, expiry_of, due, sealed) {values}"
            )
    say(inbox)
    assert [event.act for event in inbox.events.newest(9)][:1] == ["approved"]
    assert [outcome.success for outcome in resume_pending(tools)] == [True]


@pytest.mark.parametrize("altered", [{"by": EVE}, {"via": "card"}, {"reason": "Pay more"}], ids=str)
def test_nobody_alters_who_answered_and_why(house, altered):
    tools = house.tools(house.host(wait="pending"))
    tools.dispatch(CALL)
    inbox = inbox_of(tools)
    genuine = AnswerRecord(Answer.APPROVED, BOB, "test", house.clock.now())
    given = replace(inbox.seal.seal_answer(only(inbox), genuine), **altered)
    inbox.store.answer(only(inbox).ticket, given)
    (outcome,) = resume_pending(tools)
    assert (outcome.status, PAID) == (Status.DENIED, [])


def test_an_answer_to_one_question_does_not_answer_another(house):
    tools = house.tools(house.host(wait="pending"))
    inbox = inbox_of(tools)
    tools.dispatch(ToolCall("pay", {"to": "ada", "amount": 1}))
    small = say(inbox).answer
    tools.dispatch(ToolCall("pay", {"to": "eve", "amount": 5000}))
    inbox.store.answer(only(inbox).ticket, small)
    outcomes = resume_pending(tools)
    assert [outcome.success for outcome in outcomes] == [True, False]
    assert PAID == ["ada"]


STRANGE = """
import os
from toolstile_hookspecs import Binding, Filesystem, hookimpl
from toolstile_plugins.vfs import Mount, VfsConfig, open_workspace

@hookimpl
def toolstile_resources():
    shown = VfsConfig(mounts=[Mount(source=os.environ["SHOWN"], target="docs")])
    return [Binding(Filesystem, lambda _: open_workspace(shown))]
"""


@pytest.mark.parametrize("name", ["path", "key"])
@pytest.mark.parametrize("whose", ["configured", "another plugin's", "the executor's"])
def test_files_within_a_workspace_have_every_question_denied(
    house, tmp_path, monkeypatch, name, whose
):
    """Whatever plugin the workspace is of; mounted directories are part of it."""
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.setenv("SHOWN", str(place))
    (tmp_path / "strange.py").write_text(STRANGE, encoding="utf-8")
    top = {
        "configured": {"plugins": {"vfs": {"root": str(place)}}},
        "another plugin's": {
            "plugin_files": [str(tmp_path / "strange.py")],
            "plugins": {"vfs": {"enabled": False}},
        },
    }
    host = house.host(top=top.get(whose), **{name: str(place / "inbox.file")})
    executors = Binding(Filesystem, lambda _: open_workspace(VfsConfig(root=place)))
    given = {"resources": [executors]} if whose == "the executor's" else {}
    tools = house.tools(host, **given)
    outcome = tools.dispatch(CALL)
    assert (outcome.status, PAID) == (Status.DENIED, [])
    with pytest.raises(ConfigurationError, match=f"{name}: .* lies in the workspace"):
        inbox_of(tools)
    assert list(place.glob("inbox*")) == []


def test_a_file_that_is_no_key_is_told(house, tmp_path):
    (tmp_path / "other.key").write_text("letters")
    tools = house.tools(house.host(key=str(tmp_path / "other.key")))
    assert tools.dispatch(CALL).status is Status.DENIED
    with pytest.raises(ConfigurationError, match="is not a key of the inbox"):
        inbox_of(tools).seal.seal_call(question_of(), SealedCall("pay", "{}", "call-1", ""))


def test_the_key_is_private_to_the_user(asked, house):
    key = house.folder / "inbox" / "inbox.key"
    assert key.stat().st_mode & 0o777 == 0o600


def test_of_keys_that_are_made_at_once_one_holds(tmp_path):
    file = tmp_path / "inbox.key"
    call = SealedCall("pay", "{}", "call-1", "token")
    with ThreadPoolExecutor(8) as pool:
        questions = [*pool.map(lambda _: Seal(file).seal_call(question_of(), call), range(32))]
    assert {Seal(file).call_of(question).token for question in questions} == {"token"}
    assert list(tmp_path.iterdir()) == [file]


def test_without_an_inbox_nobody_is_asked(house, caplog):
    tools = house.tools(house.host(top={"plugins": {"inbox": {}}}))
    outcome = tools.dispatch(CALL)
    assert outcome.status is Status.DENIED
    assert "No inbox is configured." in outcome.text
    assert "The table [plugins.inbox] has no path, or beside a database no key." in caplog.text
