"""Every page is for everybody: axe finds no fault, and the keyboard reaches all that is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
sync_playwright = pytest.importorskip("axe_playwright_python.sync_playwright")
pytestmark = pytest.mark.slow


def opened(page: Any) -> Iterator[str]:
    """Open all that a page hides, one after another; yields a name of each state."""
    yield "as it is"
    for details in page.locator("summary").all():
        details.click()
    for box in page.get_by_label("side by side", exact=True).all():
        box.check()
    yield "opened"


def objections(page: Any) -> list[str]:
    """Return what axe finds, with the elements in which it does."""
    found = sync_playwright.Axe().run(page).response["violations"]
    return [
        f"{fault['impact']}: {fault['id']} in {node['html'][:120]}"
        for fault in found
        for node in fault["nodes"]
    ]


@pytest.mark.long_if(width=1000, scheme="light")
@pytest.mark.long_if(width=1000, scheme="dark")
@pytest.mark.long_if(width=360, scheme="light")
@pytest.mark.parametrize("width", [1000, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_read_by_everybody(page, desk, links, width, scheme):
    room = page.url.rstrip("/")
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    found = {}
    for name, path in links.items():
        page.goto(room + path)
        for state in opened(page):
            found[name, state] = objections(page)
    page.goto(f"{desk.address}/")
    found["the door", ""] = objections(page)
    page.get_by_label("The part of the address behind #").fill("wrong")
    page.get_by_role("button", name="Open").click()
    page.get_by_role("alert").wait_for()
    found["the door, to a stranger", ""] = objections(page)
    assert {where: faults for where, faults in found.items() if faults} == {}


def test_faults_are_read_by_everybody(page, desk, links):
    room = page.url.rstrip("/")
    faults: dict[str, Callable[[], None]] = {
        "a question": lambda: page.get_by_label("Arguments as JSON").fill("{"),
        "an unknown effect": lambda: page.get_by_label("Value, as JSON").fill("{"),
    }
    for name, write in faults.items():
        page.goto(room + links[name])
        page.locator("summary").first.click()
        write()
        page.locator("button[value=edit], button[value=happened]").click()
        page.get_by_role("alert").wait_for()
        assert objections(page) == []


FOCUSABLE = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']"
SHOWN = f"""[...document.querySelectorAll({FOCUSABLE!r})]
  .filter((item) => item.checkVisibility() && !(item.type === "radio" && !item.checked))
  .map((item) => item.outerHTML)"""
FOCUSED = """() => {
  const item = document.activeElement;
  const style = getComputedStyle(item);
  return item === document.body ? null : [item.outerHTML, style.outlineStyle !== "none"];
}"""


def test_the_keyboard_alone_reaches_all_of_every_page_and_shows_where_it_is(page, links):
    room = page.url.rstrip("/")
    for name, path in links.items():
        page.goto(room + path)
        for _ in opened(page):
            pass
        page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
        page.mouse.click(0, 0)
        shown = page.evaluate(SHOWN)
        reached = {}
        # A field of a time takes several steps.
        for _ in range(10 * len(shown)):
            page.keyboard.press("Tab")
            if (focused := page.evaluate(FOCUSED)) is None:
                break
            reached |= dict([focused])
        assert (name, [html for html, is_outlined in reached.items() if not is_outlined]) == (
            name,
            [],
        )
        assert (name, set(shown) - set(reached)) == (name, set())


def test_the_keyboard_alone_goes_from_a_question_to_a_call_to_its_effect(page, links):
    press = page.keyboard.press
    for title in ("Calls", "Ledger", "Waiting", "Ledger"):
        page.get_by_role("link", name=title).focus()
        press("Enter")
        page.locator("h1", has_text=title).wait_for()
        page.get_by_text("Live", exact=True).wait_for()
    for key in ("j", "Enter"):
        press(key)
    page.get_by_role("heading", name="Has it happened?").wait_for()
    assert page.url.endswith(links["an unknown effect"])


def test_no_host_but_this_machine_is_asked(page, links):
    room = page.url.rstrip("/")
    asked = set()

    def note(route: Any) -> None:
        asked.add(urlsplit(route.request.url).hostname)
        route.continue_()

    page.context.route("**/*", note)
    for path in links.values():
        page.goto(room + path, wait_until="load")
    assert asked == {"127.0.0.1"}


def test_what_a_model_wrote_runs_on_no_page(page, evil_links):
    room = page.url.rstrip("/")
    for path in evil_links.values():
        page.goto(room + path, wait_until="load")
        assert page.locator("main img, main script, iframe").count() == 0
    assert page.said == []
