"""Many tabs of a real browser, which opens six connections to a server, share one stream."""

from __future__ import annotations

import pytest

from .conftest import until

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
expect = sync_api.expect
pytestmark = pytest.mark.slow

HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
PATHS = ("/", "/", "/", "/ledger", "/calls", "/calls?tool=read_*", "/calls?tool=none", "/calls")


@pytest.fixture
def tabs(page):
    """The first tab, and more than the browser opens connections to a server."""
    room = page.url.rstrip("/")
    tabs = [page]
    for path in PATHS:
        tabs.append(page.context.new_page())
        tabs[-1].goto(room + path, timeout=10_000)
    for tab in tabs:
        expect(tab.locator("#live")).to_have_text("Live")
    return tabs


def test_every_tab_loads_and_hears_of_changes(tabs, desk):
    desk.ask()
    desk.call("read_file", path="old.txt")
    for tab, path in zip(tabs, ("/", *PATHS), strict=True):
        items = tab.locator("#list > *")
        if path == "/":
            expect(items).to_have_count(1)
        elif path.startswith("/calls"):
            expect(items.filter(has_text="old.txt")).to_have_count(0 if "none" in path else 1)
        assert tab.evaluate("document.hidden") is False


def test_a_tab_that_comes_and_goes_leaves_the_others_their_stream(tabs, desk):
    for tab in tabs[1:]:
        tab.close()
    desk.ask()
    expect(tabs[0].locator("#list > *")).to_have_count(1)
    assert desk.feed_of("waiting").is_looking
    until(lambda: not desk.feed_of("calls").is_looking)


def test_hidden_tabs_have_no_stream_and_show_all_when_they_are_seen_again(page, desk):
    page.evaluate(HIDE, True)
    until(lambda: not desk.feed_of("waiting").is_looking)
    desk.ask()
    expect(page.locator("#list > *")).to_have_count(0)
    page.evaluate(HIDE, False)
    expect(page.locator("#list > *")).to_have_count(1)
    desk.ask(to="bob")
    expect(page.locator("#list > *")).to_have_count(2)


def test_without_shared_workers_a_page_has_a_stream_itself(page, desk):
    page.add_init_script("delete window.SharedWorker")
    page.reload()
    expect(page.locator("#live")).to_have_text("Live")
    desk.ask()
    expect(page.locator("#list > *")).to_have_count(1)
    assert page.said == []
