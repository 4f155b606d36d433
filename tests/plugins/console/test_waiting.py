"""The page Waiting over HTTP: it shows all that a person needs to decide, and takes the answer."""

from __future__ import annotations

import json

import pytest

from toolstile_hookspecs import Answer, Principal, Status, ToolCall
from toolstile_plugins.inbox import resume_pending

from .conftest import BOB, Desk, Visitor


def test_a_question_is_shown_with_all_that_is_needed_to_decide(desk, visitor):
    desk.ask(to="ada", amount=5)
    page = visitor.get().text
    for shown in ("pay", "high consequence", "pay requires confirmation.", "&#34;ada&#34;", "left"):
        assert shown in page


def test_questions_are_json_for_programs(desk, visitor):
    question = desk.ask(to="ada", amount=5)
    assert visitor.json() == {"questions": [question], "grants": [], "lately": []}
    path = f"/questions/{question['ticket']}"
    assert visitor.json(path) == {"question": question, "fault": None}


def test_words_that_are_no_utf_8_are_json_as_well(desk, visitor):
    ticket = desk.ask()["ticket"]
    desk.inbox.answer(ticket, Answer.DENIED, BOB, via="test", reason="No\udcff")
    assert visitor.json(f"/questions/{ticket}")["question"]["answer"]["reason"] == "No\udcff"


def test_a_browser_gets_a_page_though_it_takes_json_as_well(visitor):
    answer = visitor.get(accept="text/html,application/json;q=0.9")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_a_diff_is_shown_in_one_column_and_in_two(desk, visitor):
    desk.ask("write", path="old.txt", text="one\n2\nthree\n")
    page = visitor.get().text
    assert '<td class="text">-two</td>' in page
    assert '<td class="text removed">-two</td>' in page
    assert '<td class="text added">+2</td>' in page


def test_an_approved_call_runs(desk, visitor):
    question = desk.ask()
    answer = visitor.answer(question, "approve")
    assert (answer.status_code, answer.headers["location"]) == (303, answer.url.path)
    assert "pay is approved by bob at " in visitor.client.get(answer.headers["location"]).text
    (outcome,) = resume_pending(desk.tools)
    assert outcome.text == "Paid 1 to ada."
    given = desk.inbox.store.get(question["ticket"]).answer
    assert (given.by, given.via) == (BOB, "console")


def test_the_diff_that_was_approved_is_kept(desk, visitor):
    question = desk.ask("write", path="new.txt", text="new\n")
    visitor.answer(question, "approve")
    assert not (desk.workspace / "new.txt").exists()
    resume_pending(desk.tools)
    assert (desk.workspace / "new.txt").read_text(encoding="utf-8") == "new\n"


def test_faults_of_an_edit_are_told_and_what_was_written_stays(desk, visitor):
    question = desk.ask()
    for written, fault in {
        '{"to": ': "The arguments are not JSON",
        "[1]": "The arguments are not a JSON object",
        '{"to": "eve", "amount": "much"}': "amount",
    }.items():
        answer = visitor.answer(question, "edit", arguments=written)
        assert answer.status_code == 409
        _, _, told = answer.text.partition('role="alert">')
        assert fault in told.partition("</p>")[0]
        assert written.replace('"', "&#34;") in answer.text
    assert desk.inbox.waiting()


def test_an_answer_to_what_was_not_shown_is_not_taken(desk, visitor):
    question = desk.ask()
    for digest in ("", "0" * 64):
        answer = visitor.answer({**question, "digest": digest}, "approve")
        assert (answer.status_code, "does not ask about that" in answer.text) == (409, True)
    assert desk.inbox.waiting()


def test_of_several_one_that_is_gone_hides_no_answer(desk, visitor):
    first = desk.ask()
    chosen = [f"{first['ticket']}.{first['digest']}", "nonesuch."]
    answer = visitor.post("/questions", {"question": chosen, "answer": "approve"})
    assert f"pay {first['ticket']} is approved by bob" in answer.text
    assert "The inbox has no such question." in answer.text


def test_several_are_answered_at_once_each_by_itself(desk, visitor):
    first, second, third = (desk.ask(to=name) for name in ("ada", "bob", "eve"))
    visitor.answer(second, "approve")
    chosen = [f"{one['ticket']}.{one['digest']}" for one in (first, second)]
    answer = visitor.post("/questions", {"question": chosen, "answer": "deny", "reason": "Not now"})
    assert f"pay {first['ticket']} is denied by bob" in answer.text
    assert f"pay {second['ticket']} was approved by bob" in answer.text
    assert visitor.json()["questions"] == [third]


def test_who_may_not_answer_is_told_and_gets_no_buttons(tmp_path, stack):
    desk = Desk(tmp_path, stack, answerers=[{"users": ["carol"]}])
    visitor = Visitor(desk, stack.enter_context(desk.client()))
    question = desk.ask()
    page = visitor.get().text
    assert "lets bob answer for it" in page
    assert "Run with these" not in page
    visitor.csrf = desk.console._access.csrf
    assert visitor.answer(question, "approve").status_code == 409
    assert desk.inbox.waiting()


def test_a_secret_is_never_on_a_page_and_survives_an_edit(desk, visitor):
    question = desk.ask("log_in", user="ada", password="hunter2")
    page = visitor.get().text
    assert "hunter2" not in page + json.dumps(visitor.json())
    masked = json.dumps({**question["arguments"], "user": "eve"})
    visitor.answer(question, "edit", arguments=masked)
    (outcome,) = resume_pending(desk.tools)
    assert outcome.text == "eve has 7 letters."


def test_characters_that_turn_or_hide_text_are_shown_as_such(desk, visitor):
    question = desk.ask(to="ada\u202eevil\x85")
    page = visitor.get(f"/questions/{question['ticket']}").text
    assert "\u202e" not in page
    assert "ada\\u202eevil" in page
    shown = page.partition('aria-label="Arguments as JSON">')[2].partition("</textarea>")[0]
    written = shown.replace("&#34;", '"')
    assert json.loads(written) == question["arguments"]


def test_without_an_inbox_the_page_says_how_to_get_one(tmp_path, stack):
    desk = Desk(tmp_path, stack, path=None)
    page = Visitor(desk, stack.enter_context(desk.client())).get()
    assert (page.status_code, "[plugins.inbox]" in page.text) == (200, True)
    desk.tools.dispatch(ToolCall("pay", {"to": "ada"}))


def test_what_is_not_there_is_not_found(visitor):
    assert visitor.get("/questions/nonesuch").status_code == 404
    answer = visitor.post("/questions/nonesuch", {"answer": "approve", "digest": ""})
    assert answer.status_code == 404
    assert visitor.get("/nonesuch").status_code == 404


def test_what_was_decided_lately_is_shown_the_newest_first(desk, visitor):
    """In whatever process, and whether the call has gone on or not."""
    asked = desk.ask(to="ada")
    desk.inbox.answer(
        asked["ticket"], Answer.DENIED, Principal("os", "eve"), via="chat", reason="<b>No</b>"
    )
    visitor.answer(desk.ask(to="mia"), "grant")
    (grant,) = visitor.json()["grants"]
    visitor.post(f"/grants/{grant['id']}", {})
    told = [(event["act"], event["via"]) for event in visitor.json()["lately"]]
    ours = [(act, "console") for act in ("revoked", "granted", "approved")]
    assert told == [*ours, ("denied", "chat")]
    page = visitor.get().text
    assert f"pay {asked['ticket']} denied by os eve (chat): &lt;b&gt;No&lt;/b&gt;" in page
    assert f"pay {grant['id']} revoked by os bob (console)" in page


# --- Grants


def test_a_grant_lets_calls_like_it_run_until_it_is_revoked(desk, visitor):
    fields = {"what": "tool", "for": "session", "hours": "24"}
    answered = visitor.answer(desk.ask(), "grant", **fields)
    assert answered.status_code == 303
    resume_pending(desk.tools)
    assert desk.call("pay", to="eve", amount=7).text == "Paid 7 to eve."
    (granted,) = visitor.json()["grants"]
    assert (granted["tool"], granted["digest"], granted["via"]) == ("pay", None, "console")
    assert "pay, whatever its arguments, in this session" in visitor.get().text
    revoked = visitor.post(f"/grants/{granted['id']}", {})
    assert f"pay {granted['id']} is revoked." in revoked.text
    assert desk.call("pay", to="eve").status is Status.PENDING
    assert visitor.post(f"/grants/{granted['id']}", {}).status_code == 404


def test_without_terms_a_grant_is_as_narrow_as_can_be(desk, visitor):
    visitor.answer(desk.ask(), "grant")
    (granted,) = visitor.json()["grants"]
    assert (granted["for"], granted["digest"] is None, granted["times"]) == ("session", False, None)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"for": "everybody"}, "widest_grant in [plugins.inbox] is principal"),
        ({"for": "all"}, "one of session, principal, everybody"),
        ({"hours": "many"}, "as numbers"),
        ({"hours": "999"}, "at most 720"),
        ({"times": "3"}, "path in [plugins.sessions]"),
        ({"times": "0"}, "1 time or more"),
        ({"digest": "0"}, "does not ask about that any more"),
    ],
    ids=str,
)
def test_what_cannot_be_granted_is_told_on_the_card(desk, visitor, fields, told):
    refused = visitor.answer(desk.ask(), "grant", **fields)
    assert refused.status_code == 409
    assert told in refused.text
    assert visitor.json()["grants"] == []
    assert desk.inbox.waiting()


def test_no_other_page_grants_or_revokes(desk, visitor):
    question = desk.ask()
    for path, more in {
        f"/questions/{question['ticket']}": {"answer": "grant"},
        "/grants/a": {},
    }.items():
        assert visitor.post(path, {"csrf": "other", **more}).status_code == 403
    assert visitor.json()["grants"] == []


def test_nobody_is_offered_what_they_may_not_grant(tmp_path, stack):
    desk = Desk(tmp_path, stack, widest_grant="none")
    with desk.client() as client:
        visitor = Visitor(desk, client)
        refused = visitor.answer(desk.ask(), "grant")
        assert refused.status_code == 409
        assert "from now on" not in visitor.get().text


def test_every_page_behind_the_door_shows_the_stops(desk, visitor):
    desk.host.stop("<b>Wrong</b> prices.", by="ann", tool="pay*")
    for path in ("/", "/calls", "/ledger"):
        page = visitor.get(path).text
        assert "Stopped: calls of tool pay*, by ann at " in page
        assert "&lt;b&gt;Wrong&lt;/b&gt; prices." in page
    with desk.client() as stranger:
        assert "Stopped" not in stranger.get("/").text
    desk.host.go()
    assert "Stopped" not in visitor.get("/").text
