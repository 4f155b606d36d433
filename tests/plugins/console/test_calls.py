"""The pages Calls and one call: recorded calls, as they come and past."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from opentelemetry.sdk.trace import TracerProvider

from toolstile_hookspecs import ToolCall
from toolstile_plugins.console.call_index import MOST
from toolstile_plugins.inbox import resume_pending

from .test_access import EVIL
from .test_live import versions


def made(desk, name, **arguments):
    return desk.tools.dispatch(ToolCall(name, arguments))


def shown(visitor, query=""):
    return [row["tool"] for row in visitor.json(f"/calls{query}")["calls"]]


def test_calls_are_shown_the_newest_first(desk, visitor):
    made(desk, "read_file", path="old.txt")
    made(desk, "read_file", path="nonesuch")
    page = visitor.get("/calls").text
    outcomes = re.findall(r'class="outcome">(\w+)', page)
    assert outcomes == ["failed", "succeeded"]
    assert visitor.json("/calls")["calls"][0]["session"] == "s"


def test_calls_that_come_later_are_told_to_open_pages_and_read_on(desk, visitor):
    made(desk, "read_file", path="old.txt")
    assert shown(visitor) == ["read_file"]
    with visitor.client.stream("GET", f"{visitor.room}/events/calls") as events:
        told = versions(events)
        before = next(told)
        made(desk, "list_directory", path=".")
        assert next(told) != before
    assert shown(visitor) == ["list_directory", "read_file"]


def test_calls_are_found_by_outcome_tool_session_principal_and_time(desk, visitor):
    made(desk, "read_file", path="old.txt")
    made(desk, "read_file", path="nonesuch")
    made(desk, "list_directory", path=".")
    assert shown(visitor, "?tool=read_*") == ["read_file", "read_file"]
    assert shown(visitor, "?outcome=failed") == ["read_file"]
    assert shown(visitor, "?outcome=succeeded&tool=list*") == ["list_directory"]
    assert shown(visitor, "?session=other") == shown(visitor, "?principal=ada") == []
    newest = datetime.fromisoformat(visitor.json("/calls")["calls"][0]["at"])
    late = (newest + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M")
    assert shown(visitor, f"?since={late}") == []
    for nonsense in ("nonsense", "0001-01-01T00:00%2B23:00"):
        assert len(shown(visitor, f"?until={late}&since={nonsense}")) == 3


def test_one_call_is_shown_whole(desk, visitor):
    question = desk.ask(to="ada", amount=5)
    visitor.answer(question, "deny", reason="Ada has left.")
    resume_pending(desk.tools)
    (row, *_) = visitor.json("/calls")["calls"]
    page = visitor.get(f"/calls/{row['name']}").text
    for part in ("pay", "denied", "Ada has left.", "&#34;ada&#34;", "its handler did not run"):
        assert part in page
    call = visitor.json(f"/calls/{row['name']}")["call"]
    assert (call["status"], call["id"]) == ("denied", row["call_id"])


def test_one_call_tells_how_long_its_stages_took_and_its_trace(desk, visitor):
    with TracerProvider().get_tracer("app").start_as_current_span("request") as span:
        made(desk, "read_file", path="old.txt")
    (row,) = visitor.json("/calls")["calls"]
    page = visitor.get(f"/calls/{row['name']}").text
    assert f"<dd>{span.get_span_context().trace_id:032x}</dd>" in page
    stages = page.partition("<h2>Stages</h2>")[2]
    names = re.findall(r"<dt>(\w+)</dt><dd>\d+\.\d ms<", stages)
    assert names[:3] == ["lookup", "parse", "deadline"]
    call = visitor.json(f"/calls/{row['name']}")["call"]
    assert call["stages"][0][0] == "lookup"


def test_what_a_call_changed_is_shown_as_a_diff(desk, visitor):
    visitor.answer(desk.ask("write", path="old.txt", text="one\n2\nthree\n"), "approve")
    resume_pending(desk.tools)
    (row, *_) = visitor.json("/calls")["calls"]
    assert '<td class="text added">+2</td>' in visitor.get(f"/calls/{row['name']}").text


def test_nested_calls_lead_to_one_another(desk, visitor):
    made(desk, "twice", path="old.txt")
    rows = visitor.json("/calls")["calls"]
    (outer,) = [row for row in rows if row["tool"] == "twice"]
    page = visitor.get(f"/calls/{outer['name']}").text
    for inner in (row for row in rows if row["parent"] == outer["call_id"]):
        assert f"/calls/{inner['name']}" in page
        assert f"/calls/{outer['name']}" in visitor.get(f"/calls/{inner['name']}").text
    assert len(visitor.json(f"/calls/{outer['name']}")["nested"]) == 2


def test_what_was_recorded_stays_text_and_secrets_masked(desk, visitor):
    desk.ask("log_in", user=EVIL, password="hunter2")
    (row,) = visitor.json("/calls")["calls"]
    for path in ("/calls", f"/calls/{row['name']}"):
        page = visitor.get(path)
        assert not re.search(r"<script>|<img", page.text)
        assert "hunter2" not in page.text + visitor.get(path, accept="application/json").text


def test_an_unknown_call_is_not_found(desk, visitor):
    made(desk, "read_file", path="old.txt")
    for name in ("nonesuch", "x-0", "../calls.jsonl"):
        assert visitor.get(f"/calls/{name}").status_code == 404


def test_all_of_the_past_is_paged_through(desk, visitor):
    for number in range(2 * MOST + 30):
        made(desk, "read_file", path=f"{number}.txt")
    query, found = "", []
    while query is not None:
        page = visitor.json(f"/calls?{query}&tool=read_file")
        found += [row["gist"] for row in page["calls"]]
        assert len(page["calls"]) <= MOST
        query = page["older"]
    said = [f"Cannot read {number}.txt" for number in reversed(range(2 * MOST + 30))]
    assert [gist.partition(":")[0] for gist in found] == said


def test_pages_lead_to_the_older_and_to_the_newest(desk, visitor):
    for _ in range(MOST + 1):
        made(desk, "read_file", path="old.txt")
    made(desk, "list_directory", path=".")
    newest = visitor.get("/calls?tool=read_file").text
    older = re.search(r'href="[^"]*/calls\?([^"]+)" rel="next"', newest)[1].replace("&amp;", "&")
    assert "tool=read_file" in older
    page = visitor.get(f"/calls?{older}").text
    assert page.count("<tr id=") == 1
    assert 'calls?tool=read_file">Newest</a>' in page
    assert "data-events" in newest
    assert "data-events" not in page


def test_a_call_of_a_transaction_names_its_end_and_is_not_kept_if_that_was_not(desk, visitor):
    ids = []
    for reason in ("", "No <luck>."):
        with desk.tools.transaction("a trip") as work:
            work.dispatch(ToolCall("read_file", {"path": "old.txt"}))
            rows = visitor.json("/calls")["calls"]
            assert (rows[0]["transaction"], rows[0]["fate"]) == (work.id, None)
            assert "a trip" not in visitor.get(f"/calls/{rows[0]['name']}").text
            version = desk.feed_of("calls")._version()
            if reason:
                work.rollback(reason)
        assert desk.feed_of("calls")._version() != version
        ids.append(rows[0]["name"])
    page = visitor.get("/calls").text
    assert re.findall(r'class="outcome">([\w, ]+)', page) == ["succeeded, not kept", "succeeded"]
    kept, dropped = (visitor.get(f"/calls/{each}").text for each in ids)
    assert "<dd>a trip, committed</dd>" in kept
    assert "<dd>a trip, rolled back: No &lt;luck&gt;.</dd>" in dropped
    assert "succeeded, not kept" in dropped
    assert visitor.json(f"/calls/{ids[1]}")["transaction"]["reason"] == "No <luck>."
