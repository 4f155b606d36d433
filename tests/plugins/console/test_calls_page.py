"""Calls in a real browser: as they come, with the keyboard, and on a telephone."""

from __future__ import annotations

import pytest

from toolstile_hookspecs import ToolCall
from toolstile_plugins.console.call_index import MOST

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
expect = sync_api.expect
pytestmark = pytest.mark.slow


@pytest.fixture
def calls(page, desk):
    desk.tools.dispatch(ToolCall("read_file", {"path": "old.txt"}))
    page.get_by_role("link", name="Calls").click()
    expect(page.locator("#live")).to_have_text("Live")
    return page


def test_calls_come_as_they_are_made(calls, desk):
    rows = calls.locator("#list tr")
    expect(rows).to_have_count(1)
    calls.evaluate("window.same = true")
    for number in range(5):
        desk.tools.dispatch(ToolCall("read_file", {"path": f"{number}.txt"}))
    expect(rows).to_have_count(6)
    expect(rows.first).to_contain_text("4.txt")
    expect(rows.last).to_contain_text("3 lines")
    assert calls.evaluate("window.same")


def test_a_filter_stays_while_calls_come(calls, desk):
    calls.get_by_label("Outcome").select_option("failed")
    calls.get_by_role("button", name="Show").click()
    expect(calls.locator("#list tr")).to_have_count(0)
    expect(calls.locator("#live")).to_have_text("Live")
    desk.tools.dispatch(ToolCall("read_file", {"path": "none"}))
    desk.tools.dispatch(ToolCall("read_file", {"path": "old.txt"}))
    expect(calls.locator("#list tr")).to_have_count(1)
    expect(calls.locator("#list")).to_contain_text("Cannot read none")


def test_one_call_is_opened_with_the_keyboard(calls, desk):
    desk.tools.dispatch(ToolCall("twice", {"path": "old.txt"}))
    expect(calls.locator("#list tr")).to_have_count(4)
    for key in ("j", "Enter"):
        calls.keyboard.press(key)
    expect(calls.locator("h1")).to_contain_text("twice")
    calls.get_by_role("link", name="read_file").first.click()
    expect(calls.get_by_role("link", name="twice")).to_be_visible()
    assert calls.said == []


def test_more_calls_than_a_page_shows_come_and_the_newest_stay(calls, desk):
    rows = calls.locator("#list tr")
    expect(rows).to_have_count(1)
    calls.evaluate("window.same = true")
    for number in range(MOST + 50):
        desk.call("read_file", path=f"{number}.txt")
    expect(rows.first).to_contain_text(f"{MOST + 49}.txt")
    said = [text.partition("Cannot read ")[2].partition(".")[0] for text in rows.all_inner_texts()]
    assert said == [str(number) for number in reversed(range(50, MOST + 50))]
    assert calls.evaluate("window.same")
    calls.reload()
    calls.get_by_role("link", name="Older").click()
    expect(rows.first).to_contain_text("49.txt")
    expect(rows).to_have_count(51)


def test_a_lost_connection_is_found_again_and_no_call_is_missing(calls, desk):
    rows = calls.locator("#list tr")
    desk.call("read_file", path="0.txt")
    expect(rows).to_have_count(2)
    desk.stop()
    expect(calls.locator("#live")).to_contain_text("Connection lost")
    for number in range(1, 5):
        desk.call("read_file", path=f"{number}.txt")
    desk.serve_again()
    expect(rows).to_have_count(6, timeout=20_000)
    expect(calls.locator("#live")).to_have_text("Live")
    desk.call("read_file", path="5.txt")
    expect(rows).to_have_count(7)


def test_it_fits_a_telephone(calls):
    calls.set_viewport_size({"width": 360, "height": 700})
    width = "document.documentElement.scrollWidth"
    assert calls.evaluate(width) <= 360
    calls.locator("#list a").first.click()
    expect(calls.locator("h1")).to_contain_text("read_file")
    # Its style sheet may come after its text.
    calls.wait_for_load_state("load")
    assert calls.evaluate(width) <= 360


def test_a_lost_connection_is_told_and_misses_nothing_when_it_is_back(calls, desk):
    desk.stop()
    expect(calls.locator("#live")).to_contain_text("Connection lost")
    desk.tools.dispatch(ToolCall("read_file", {"path": "none"}))
    desk.serve_again()
    expect(calls.locator("#list tr")).to_have_count(2, timeout=20_000)
    expect(calls.locator("#live")).to_have_text("Live")
