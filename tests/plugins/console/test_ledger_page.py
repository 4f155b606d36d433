"""The ledger in a real browser: live, with the keyboard, on a telephone, and without scripts."""

from __future__ import annotations

import re

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
expect = sync_api.expect
pytestmark = pytest.mark.slow


@pytest.fixture
def ledger(page, desk):
    desk.call("order", item="tea")
    desk.call("order", item="lost milk")
    page.get_by_role("link", name="Ledger").click()
    expect(page.locator("#live")).to_have_text("Live")
    return page


def test_effects_come_as_they_are_had_the_unknown_ones_first(ledger, desk):
    rows = ledger.locator("#list tr")
    expect(rows).to_have_count(2)
    ledger.evaluate("window.same = true")
    desk.call("order", item="bread")
    desk.call("order", item="lost salt")
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("Nobody answered about lost salt")
    expect(rows.nth(1)).to_contain_text("Nobody answered about lost milk")
    assert ledger.evaluate("window.same")


def test_an_unknown_effect_is_settled_and_the_next_call_gets_what_it_came_to(ledger, desk):
    ledger.locator("#list tr", has_text="unknown").get_by_role("link").click()
    ledger.get_by_text("The answer to calls, if it has happened").click()
    ledger.get_by_label("Message").fill("Found in the books")
    ledger.get_by_label("Value, as JSON").fill('{"ordered": 1}')
    ledger.get_by_role("button", name="It has: do not repeat it").click()
    expect(ledger.get_by_role("alert")).to_contain_text("The value does not fit")
    ledger.get_by_label("Value, as JSON").fill('{"ordered": "milk"}')
    ledger.get_by_role("button", name="It has: do not repeat it").click()
    expect(ledger.locator("h1")).to_contain_text("done")
    assert "Found in the books" in desk.call("order", item="lost milk").text
    assert ledger.said == [
        "Failed to load resource: the server responded with a status of 409 (Conflict)"
    ]


def test_a_state_changes_in_its_place(ledger, desk, visitor):
    first = ledger.locator("#list tr").first
    expect(first).to_contain_text("unknown")
    (effect, _) = visitor.json("/ledger")["effects"]
    fields = {"effect": effect["effectId"], "answer": "happened", "message": "Found"}
    visitor.post(f"/ledger/{effect['hash']}", fields)
    expect(first).to_contain_text("Found")
    expect(first).to_contain_text("done")


def test_it_is_settled_with_the_keyboard(ledger, desk):
    press = ledger.keyboard.press
    for key in ("j", "Enter"):
        press(key)
    expect(ledger.locator("h1")).to_contain_text("unknown")
    # Its script may come after its text.
    ledger.wait_for_load_state("load")
    for key in ("j", "d"):
        press(key)
    expect(ledger.get_by_role("button", name="It has not")).to_be_focused()
    # A key alone settles nothing.
    assert [effect.reason for effect in desk.effects()][1].startswith("Internal error")
    for key in ("e", "Shift+Tab", "a"):
        press(key)
    expect(ledger.get_by_role("button", name="It has: do not")).to_be_focused()
    press("Enter")
    expect(ledger.locator("h1")).to_contain_text("done")
    assert [effect.state for effect in desk.effects()] == ["done", "done"]


def test_a_call_leads_to_its_effect_and_back(ledger):
    ledger.locator("#list tr", has_text="unknown").get_by_role("link").click()
    ledger.locator("dd").get_by_role("link", name=re.compile("^[0-9a-f]{32}$")).click()
    expect(ledger.locator("h1")).to_contain_text("order")
    ledger.get_by_role("link", name="unknown").click()
    expect(ledger.get_by_role("heading", name="Has it happened?")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_telephone(ledger, desk, scheme):
    ledger.emulate_media(color_scheme=scheme)
    ledger.set_viewport_size({"width": 360, "height": 700})
    desk.call("order", item="lost" + "tea" * 100)
    expect(ledger.locator("#list tr")).to_have_count(3)
    width = "document.documentElement.scrollWidth"
    assert ledger.evaluate(width) <= 360
    ledger.locator("#list a").first.click()
    expect(ledger.locator("h1")).to_contain_text("order")
    ledger.wait_for_load_state("load")
    ledger.locator("summary").click()
    assert ledger.evaluate(width) <= 360


def test_it_is_settled_without_scripts(desk, browser):
    desk.call("order", item="lost tea")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(desk.address)
    page.get_by_label("The part of the address behind #").fill(desk.console.url.partition("#")[2])
    page.get_by_role("button", name="Open").click()
    page.get_by_role("link", name="Ledger").click()
    page.locator("#list").get_by_role("link").click()
    page.get_by_role("button", name="It has not").click()
    expect(page.locator(".reason")).to_contain_text("A person found out that it has not happened.")
    context.close()


def test_a_lost_connection_is_told_and_misses_nothing_when_it_is_back(ledger, desk):
    desk.stop()
    expect(ledger.locator("#live")).to_contain_text("Connection lost")
    desk.call("order", item="lost salt")
    desk.serve_again()
    expect(ledger.locator("#list tr")).to_have_count(3, timeout=20_000)
    expect(ledger.locator("#list tr").first).to_contain_text("lost salt")
    expect(ledger.locator("#live")).to_have_text("Live")
