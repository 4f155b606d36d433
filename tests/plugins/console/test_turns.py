"""The questions of a turn are one card with one form, whose rows are answered in any order."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from toolstile_hookspecs import ToolCall
from toolstile_plugins.inbox import resume_pending

from .conftest import Desk, Visitor

pytestmark = pytest.mark.slow
CHOSEN = "Answer as chosen"


@pytest.fixture
def desk(tmp_path, stack: ExitStack) -> Desk:
    return Desk(tmp_path, stack, approve_by="turn")


def ask_turn(desk: Desk, *names: str):
    """Have the calls of a turn wait for a person, and return their questions."""
    desk.tools.dispatch_all([ToolCall("pay", {"to": name}) for name in names])
    return desk.inbox.waiting()


def names_of(questions):
    return [f"{question.ticket}.{question.digest}" for question in questions]


def test_rows_are_chosen_in_another_order_in_a_browser(page, desk):
    from playwright.sync_api import expect

    first, second, third = ask_turn(desk, "ada", "eve", "ada")
    card = page.locator("article.turn")
    expect(card).to_have_count(1)
    expect(page.locator("article")).to_have_count(1)
    for number, answer in ((3, "deny"), (1, "approve"), (2, "approve")):
        card.get_by_label(f"Answer to {number}. pay").select_option(answer)
    card.get_by_label("Reason, for the model").fill("once is enough")
    card.get_by_role("button", name=CHOSEN).click()
    expect(page.locator(".told")).to_have_count(3)
    expect(page.locator("article")).to_have_count(0)
    states = [desk.inbox.store.get(each.ticket).state for each in (first, second, third)]
    assert states == ["approved", "approved", "denied"]
    texts = [outcome.text for outcome in resume_pending(desk.tools)]
    assert texts[:2] == ["Paid 1 to ada.", "Paid 1 to eve."]
    assert "once is enough" in texts[2]


@pytest.mark.parametrize(("button", "state"), [("Approve all", "approved"), ("Deny all", "denied")])
def test_all_rows_are_answered_at_once_in_a_browser(page, desk, button, state):
    from playwright.sync_api import expect

    asked = ask_turn(desk, "ada", "ada")
    page.locator("article.turn").get_by_role("button", name=button).click()
    expect(page.locator(".told")).to_have_count(2)
    assert {desk.inbox.store.get(each.ticket).state for each in asked} == {state}


def test_an_open_row_stays_and_a_changed_digest_is_refused(desk, visitor: Visitor):
    first, second, third = ask_turn(desk, "ada", "eve", "ada")
    names = names_of((first, second, third))
    fields = {"answer": "rows", "question": names, f"row {names[1]}": "approve"}
    visitor.post("/questions", fields)
    left = {question.ticket for question in desk.inbox.waiting()}
    assert left == {first.ticket, third.ticket}
    wrong = f"{first.ticket}.{'0' * 64}"
    page = visitor.post(
        "/questions", {"answer": "rows", "question": [wrong], f"row {wrong}": "approve"}
    )
    assert "does not ask about that any more" in page.text
    assert {question.ticket for question in desk.inbox.waiting()} == left


def test_one_question_and_the_rows_of_a_turn_stand_apart(desk, visitor: Visitor):
    single = desk.ask(to="mia")
    ask_turn(desk, "ada", "eve")
    page = visitor.get().text
    assert page.count("<article") == 2
    assert (
        f'data-href="{visitor.room.removeprefix(desk.address)}/questions/{single["ticket"]}"'
        in page
    )
