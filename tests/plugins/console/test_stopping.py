"""A person stops calls on the first page, and lets them run again after a second question."""

from __future__ import annotations

import re

import pytest

from .conftest import EVIL
from .test_access import Markup


def token(page: str, name: str = "once", form: str = "") -> str:
    """Return a hidden field of a page's form, whose action ends as given."""
    part = page[page.index(f'{form}">\n<input type="hidden" name="csrf"') :]
    found = re.search(rf'name="{name}" value="([^"]+)"', part)
    assert found is not None
    return found.group(1)


def stop(visitor, **fields):
    once = token(visitor.get().text, form="/stop")
    return visitor.post("/stop", {"once": once, "reason": "Too many", **fields})


def ask_to_go(visitor) -> dict[str, str]:
    """Press Go; return the fields of the page that asks again."""
    once = token(visitor.get().text, form="/go")
    asked = visitor.post("/go", {"once": once})
    assert (asked.status_code, "End these stops?" in asked.text) == (200, True)
    return {name: token(asked.text, name, "/go") for name in ("once", "sure")}


def test_calls_stop_by_scope_and_run_again_once_it_is_confirmed(desk, visitor):
    for fields, stops in (
        ({"kind": "all"}, True),
        ({"kind": "tool", "name": "order"}, True),
        ({"kind": "tool", "name": " ord* "}, True),
        ({"kind": "session", "name": "s"}, True),
        ({"kind": "session", "name": "other"}, False),
    ):
        answer = stop(visitor, **fields)
        (made,) = desk.host.stops()
        assert (answer.status_code, made.by, made.reason) == (303, "bob", "Too many")
        assert str(made) in visitor.get().text
        assert desk.call("order", item="tea").event.success is not stops
        sure = ask_to_go(visitor)
        assert desk.host.stops() == (made,)
        assert visitor.post("/go", sure).status_code == 303
        assert (desk.host.stops(), desk.call("order", item="tea").event.success) == ((), True)


def test_a_script_that_stops_calls_gets_the_page(desk, visitor):
    once = token(visitor.get().text, form="/stop")
    answer = visitor.post("/stop", {"once": once, "reason": "Too many"}, **{"hx-request": "true"})
    (made,) = desk.host.stops()
    assert (answer.status_code, str(made) in answer.text) == (200, True)


def test_no_stop_without_a_reason_and_a_known_scope(desk, visitor):
    kinds = ("all of it", "by", "reason", "self", "seconds")
    unknown = [{"kind": kind, "name": "5"} for kind in kinds]
    for fields in ({"reason": " "}, {"kind": "tool"}, *unknown):
        answer = stop(visitor, **fields)
        assert (answer.status_code, "Nothing is stopped" in answer.text) == (400, True)
    assert desk.host.stops() == ()


@pytest.mark.parametrize("path", ["/stop", "/go"])
def test_a_form_is_taken_once_and_with_a_token_of_its_own(desk, visitor, path):
    desk.host.stop("Before", by="ada")
    page = visitor.get().text
    own, other = token(page, form=path), token(page, form="/go" if path == "/stop" else "/stop")
    for once in ("", "x" * 80, "ü" * 20, other, own[:-1], f"{own}0"):
        answer = visitor.post(path, {"once": once, "reason": "No"})
        assert (answer.status_code, "Load its page again" in answer.text) == (409, True)
    no_csrf = visitor.post(path, {"once": own, "reason": "No", "csrf": ""})
    foreign = visitor.post(path, {"once": own, "reason": "No"}, origin="http://127.0.0.1:1")
    assert (no_csrf.status_code, foreign.status_code) == (403, 403)
    # A refused request has not used the token up.
    assert [visitor.post(path, {"once": own, "reason": "Yes"}).status_code for _ in range(2)] == [
        303 if path == "/stop" else 200,
        409,
    ]
    assert token(visitor.get().text, form=path) != own
    assert len(desk.host.stops()) == (2 if path == "/stop" else 1)


def test_go_ends_the_stops_alone_that_its_person_has_seen(desk, visitor):
    desk.host.stop("First", by="ada")
    unsure = ask_to_go(visitor)
    assert "by ada" in visitor.post("/go", {"once": unsure["once"], "sure": "x" * 80}).text
    seen = ask_to_go(visitor)
    desk.host.stop("Second", by="eve")
    asked = visitor.post("/go", seen)
    assert (asked.status_code, "by eve" in asked.text) == (200, True)
    assert len(desk.host.stops()) == 2
    sure = {name: token(asked.text, name, "/go") for name in ("once", "sure")}
    assert visitor.post("/go", sure).status_code == 303
    assert desk.host.stops() == ()
    # The confirmation is of one use, too.
    desk.host.stop("Second", by="eve")
    again = {**ask_to_go(visitor), "sure": sure["sure"]}
    assert (visitor.post("/go", again).status_code, len(desk.host.stops())) == (200, 1)


def test_go_leaves_a_stop_alone_that_another_process_has_made_meanwhile(desk, visitor, monkeypatch):
    desk.host.stop("First", by="ada")
    sure, change = ask_to_go(visitor), desk.host.gate.change

    def change_late(asked):
        monkeypatch.undo()
        desk.host.stop("Second", by="eve")
        change(asked)

    monkeypatch.setattr(desk.host.gate, "change", change_late)
    assert visitor.post("/go", sure).status_code == 303
    assert [stop.by for stop in desk.host.stops()] == ["eve"]


def test_the_page_says_whether_other_processes_hear_of_a_stop(desk, visitor, monkeypatch):
    told = "Only calls of this process stop"
    assert told in visitor.get().text
    monkeypatch.setattr(desk.host.gate, "is_alone", False)
    assert told not in visitor.get().text


def test_what_a_stop_says_stays_text(desk, visitor):
    assert stop(visitor, reason=EVIL, kind="tool", name=EVIL).status_code == 303
    page = visitor.get().text
    asked = visitor.post("/go", {"once": token(page, form="/go"), EVIL: EVIL})
    for text in (page, asked.text):
        assert ("alert(1)" in text, Markup(text).found) == (True, [])
