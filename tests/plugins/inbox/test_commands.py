"""`toolstile approvals`: a person sees what waits, and answers."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from toolstile_cli.main import main
from toolstile_hookspecs import Status, ToolCall
from toolstile_hookspecs.services.approval_store import QuestionState
from toolstile_plugins.inbox import resume_pending
from toolstile_plugins.record import RecordFile

from .conftest import PAID, House, inbox_of, only

CALL = ToolCall("pay", {"to": "ada", "amount": 5}, id="call-1")


@pytest.fixture
def tools(house: House, monkeypatch):
    monkeypatch.chdir(house.folder)
    state = house.folder / "state" / "state.db"
    (house.folder / "toolstile.toml").write_text(
        f"""\
approver = "inbox"
approval_key = "a key of the tests, 32 letters long"
approval_spent = "{state}"

[plugins.inbox]
path = "{house.folder / "inbox" / "inbox.db"}"

[plugins.sessions]
path = "{state}"

[plugins.ledger]
path = "{state}"
""",
        encoding="utf-8",
    )
    tools = house.tools(house.host(wait="pending", stored=True))
    # The commands read the system's clock.
    house.clock.advance((_now() - house.clock.now()).total_seconds())
    tools.dispatch(CALL)
    return tools


def _now():
    from datetime import UTC, datetime

    return datetime.now(UTC)


@pytest.fixture
def ticket(tools) -> str:
    return only(inbox_of(tools)).ticket


def test_questions_are_listed_with_all_that_tells_them_apart(ticket, capsys):
    assert main(["approvals"]) == 0
    shown = capsys.readouterr().out
    assert main(["approvals", "list"]) == 0
    assert ticket in capsys.readouterr().out
    assert ticket in shown
    assert "pay" in shown
    assert "pay requires confirmation." in shown


def test_an_empty_inbox_says_so(tools, ticket, capsys):
    tools.resources  # noqa: B018 - it is open
    assert main(["approvals", "deny", ticket]) == 0
    capsys.readouterr()
    assert main(["approvals", "list"]) == 0
    assert capsys.readouterr().out == "No question waits for an answer.\n"


def test_a_question_is_shown_whole(ticket, capsys):
    assert main(["approvals", "show", ticket]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("pay (write, high consequence)\n  state      waiting, until ")
    assert '  "to": "ada",\n' in shown


def test_a_question_is_json_for_scripts(ticket, capsys):
    assert main(["approvals", "list", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    question = json.loads(line)
    assert (question["ticket"], question["state"]) == (ticket, "waiting")
    assert question["arguments"] == {"to": "ada", "amount": 5}


def test_an_approved_call_is_resumed_by_its_process(tools, ticket, capsys):
    assert main(["approvals", "approve", ticket]) == 0
    assert "is approved by " in capsys.readouterr().out
    (outcome,) = resume_pending(tools)
    assert outcome.success
    (kept,) = inbox_of(tools).store.questions({QuestionState.RESUMED})
    assert (kept.answer.by.source, kept.answer.via) == ("os", "command line")


def test_a_question_is_withdrawn_and_its_call_is_told(tools, ticket, capsys):
    assert main(["approvals", "withdraw", ticket]) == 0
    assert f"pay {ticket} is denied by " in capsys.readouterr().out
    (outcome,) = resume_pending(tools)
    assert "The question was withdrawn." in outcome.text
    assert PAID == []
    assert main(["approvals", "withdraw", ticket]) != 0
    assert "The first answer counts." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["approve", "nonesuch"], "There is no question 'nonesuch'"),
        (["edit", "TICKET", "{"], "The arguments are not JSON"),
        (["edit", "TICKET", "[]"], "The arguments are not a JSON object"),
        (["approve", "TICKET", "--digest", "0"], "does not ask about that any more"),
        (["approve", "TICKET", "--for", "session"], "say more of --always"),
        (["approve", "TICKET", "--always", "tool", "--hours", "9999"], "at most 720"),
        (["approve", "TICKET", "--always", "tool", "--for", "everybody"], "widest_grant"),
        (["approve", "TICKET", "--always", "exact", "--digest", "0"], "not ask about that"),
    ],
)
def test_wrong_input_is_told_and_answers_nothing(tools, ticket, capsys, command, told):
    assert main(["approvals", *(ticket if part == "TICKET" else part for part in command)]) != 0
    assert told in capsys.readouterr().err
    assert only(inbox_of(tools)).ticket == ticket


@pytest.mark.slow
def test_a_grant_is_given_listed_and_revoked(tools, ticket, capsys):
    assert main(["approvals", "grants"]) == 0
    assert capsys.readouterr().out == "Nothing is granted.\n"
    typed = ["approve", ticket, "--always", "tool", "--hours", "2", "--times", "5"]
    assert main(["approvals", *typed]) == 0
    assert "pay, whatever its arguments, in this session, until" in capsys.readouterr().out
    assert resume_pending(tools)[0].success
    assert tools.dispatch(ToolCall("pay", {"to": "eve", "amount": 7})).success
    assert main(["approvals", "grants"]) == 0
    assert "5 times, 1 used; by " in capsys.readouterr().out
    assert main(["approvals", "grants", "--json"]) == 0
    granted = json.loads(capsys.readouterr().out)
    assert (granted["for"], granted["times"], granted["used"]) == ("session", 5, 1)
    assert main(["approvals", "revoke", granted["id"]]) == 0
    assert capsys.readouterr().out == f"pay {granted['id']} is revoked.\n"
    assert tools.dispatch(ToolCall("pay", {"to": "eve"})).status is Status.PENDING
    assert main(["approvals", "revoke", granted["id"]]) != 0
    assert "There is no grant" in capsys.readouterr().err


def test_an_exact_grant_is_given_with_what_was_shown(tools, ticket, capsys):
    digest = only(inbox_of(tools)).digest
    assert main(["approvals", "approve", ticket, "--always", "exact", "--digest", digest]) == 0
    assert "pay, with the same arguments, in this session" in capsys.readouterr().out
    resume_pending(tools)
    assert tools.dispatch(CALL).success


def test_calls_of_stored_sessions_are_resumed_from_the_command_line(tools, ticket, house, capsys):
    """Their tools come from a plugin there, as those of any host do."""
    (house.folder / "tills.py").write_text(
        """\
from toolstile_hookspecs import MarkdownSection, ToolContext, hookimpl, tool

@tool(category="write", consequence="high", requires_confirmation=True)
def pay(to: str, amount: int = 1, *, context: ToolContext) -> str:
    "Pay an amount."
    context.session[str].append(f"{to} {amount}")
    return f"Paid {amount} to {to}."

@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="tills", title="Tills", tools=[pay])]
""",
        encoding="utf-8",
    )
    assert main(["approvals", "approve", ticket]) == 0
    capsys.readouterr()
    assert main(["--plugin", "tills.py", "approvals", "resume"]) == 0
    assert capsys.readouterr().out == "pay call-1: succeeded\n  Paid 5 to ada.\n"
    assert main(["--plugin", "tills.py", "approvals", "resume"]) == 0
    assert capsys.readouterr().out == "No call was answered since.\n"
    assert PAID == []


@pytest.mark.slow
def test_questions_that_come_are_watched(tools, ticket):
    program = [sys.executable, "-m", "toolstile", "approvals", "list", "--watch", "--json"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["ticket"] == ticket
        tools.dispatch(ToolCall("pay", {"to": "eve"}))
        assert json.loads(watching.stdout.readline())["arguments"]["to"] == "eve"
        watching.terminate()


def test_a_record_that_a_host_writes_keeps_nobody_from_answering(tools, ticket, house, capsys):
    record = house.folder / "calls.jsonl"
    with (house.folder / "toolstile.toml").open("a") as settings:
        settings.write(f'\n[plugins.record]\nfile = "{record}"\n')
    with closing(RecordFile(record)):
        assert main(["approvals", "show", ticket]) == 0
        assert main(["approvals", "approve", ticket]) == 0
        assert main(["approvals", "resume"]) != 0
        assert f"{record} is being written" in capsys.readouterr().err
    assert [outcome.success for outcome in resume_pending(tools)] == [True]


def test_a_look_makes_no_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("toolstile.toml").write_text('[plugins.inbox]\npath = "state/inbox.db"\n')
    assert main(["approvals", "list"]) == 0
    assert capsys.readouterr().out == "No question waits for an answer.\n"
    assert not Path("state").exists()


def test_without_an_inbox_the_command_says_how_to_have_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["approvals", "list"]) != 0
    assert "as path in [plugins.inbox]" in capsys.readouterr().err
    assert list(Path().iterdir()) == []


def test_the_doctor_says_who_can_answer(tools, house, capsys):
    main(["doctor"])
    told = capsys.readouterr().out
    assert "Who reads it can answer" in told
    assert "Other users can read it" not in told
    (house.folder / "inbox" / "inbox.key").chmod(0o644)
    main(["doctor"])
    assert "Other users can read it" in capsys.readouterr().out
