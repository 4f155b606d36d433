"""A session in a real browser: its timeline grows while it is open, and a person undoes calls."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from toolstile_hookspecs import ToolCall

from .conftest import EVIL
from .test_sessions import Shop

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
expect = sync_api.expect
pytestmark = pytest.mark.slow


@pytest.fixture
def desk(tmp_path: Path, stack: ExitStack) -> Shop:
    return Shop(tmp_path, stack)


def opened(page: Any) -> Any:
    """Open the newest session, and return the rows of its timeline."""
    page.get_by_role("link", name="Sessions").click()
    expect(page.locator("#live")).to_have_text("Live")
    page.locator("#list a").first.click()
    rows = page.locator("#timeline .row")
    expect(rows.first).to_be_visible()
    return rows


def test_the_timeline_grows_and_leaves_the_hands_alone(page: Any, desk: Shop) -> None:
    desk.put("one.txt", "1")
    with desk.host.executor(session_id="other") as other:
        other.dispatch(ToolCall("read_file", {"path": "old.txt"}))
    desk.put("two.txt", "2")
    rows = opened(page)
    expect(rows).to_have_count(2)
    expect(page.locator("#live")).to_have_text("Live")
    page.evaluate("window.same = document.getElementById('timeline').firstChild")
    search = page.get_by_label("Search")
    search.fill("write")
    for key in ("Tab", "Shift+Tab"):
        page.keyboard.press(key)
    desk.put("three.txt", "3")
    with desk.host.executor(session_id="other") as other:
        other.dispatch(ToolCall("read_file", {"path": "old.txt"}))
    expect(rows).to_have_count(3)
    expect(page.locator(".count")).to_have_text("3 of 3 calls")
    expect(search).to_be_focused()
    assert page.evaluate("same === document.getElementById('timeline').firstChild")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    for key in ("j", "Enter"):
        page.keyboard.press(key)
    expect(page.locator(".panel")).to_contain_text("one.txt")
    with desk.tools.transaction("whole") as work:
        work.dispatch(ToolCall("write_file", {"path": "four.txt", "content": "4"}))
        work.rollback("No.")
    expect(page.locator(".row.transaction")).to_contain_text("rolled back")
    expect(page.locator(".panel")).to_contain_text("one.txt")
    assert page.said == []


def test_sessions_come_and_the_newest_is_first(page: Any, desk: Shop) -> None:
    page.get_by_role("link", name="Sessions").click()
    expect(page.locator("#live")).to_have_text("Live")
    names = page.locator("#list a")
    desk.call("read_file", path="old.txt")
    expect(names).to_have_text(["s"])
    with desk.host.executor(session_id="other") as other:
        other.dispatch(ToolCall("read_file", {"path": "old.txt"}))
    expect(names).to_have_text(["other", "s"])
    desk.call("read_file", path="old.txt")
    expect(names).to_have_text(["s", "other"])
    expect(page.locator("#list tr").first).to_contain_text("2 calls")


def test_a_person_undoes_a_call_and_is_asked_about_values_of_others(page: Any, desk: Shop) -> None:
    desk.put("one.txt", "1")
    desk.put("two.txt", "2")
    (desk.workspace / "one.txt").write_text("by another")
    rows = opened(page)
    page.get_by_role("button", name="Undo the calls of turn 0").click()
    expect(page.get_by_role("listitem")).to_contain_text("one.txt")
    page.get_by_role("button", name="Keep these values, undo the rest").click()
    expect(page.get_by_role("status").filter(has_text="two.txt")).to_be_visible()
    assert desk.names() == {"old.txt", "one.txt"}
    expect(rows.filter(has_text="undo_calls")).not_to_have_count(0)
    assert page.said == []


@pytest.mark.parametrize("width", [360, 1280])
def test_a_session_of_markup_fits_and_runs_nothing(page: Any, desk: Shop, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    with desk.host.executor(session_id=EVIL) as tools:
        tools.dispatch(ToolCall("planning_setup_plan", {"objective": EVIL * 3}))
        tools.dispatch(ToolCall(EVIL, {EVIL: EVIL}, id=EVIL))
    opened(page)
    for summary in page.locator("summary").all():
        summary.click()
    for key in ("j", "Enter"):
        page.keyboard.press(key)
    expect(page.locator(".panel")).to_contain_text("<script>")
    assert page.locator("main img, main script, iframe").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.said == []
