"""The page of a report in a real browser, from a file, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import look
import pytest

from toolstile import Host, Settings, ToolCall
from toolstile_hookspecs import ToolContext, tool
from toolstile_plugins.record.report import STATIC

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
pytestmark = pytest.mark.slow
expect = sync_api.expect

EVIL = "</script><!--<img src=x onerror=alert(1)>\u202e'\""
MANY = 10_000
MOST_ROWS = 400
LONGEST_TASK = 0.1


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if look.chromium_path() is None:
        pytest.skip("There is no Chromium here (on Debian: chromium)")
    with look.chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page whose scripts raise nothing, and that asks for no file but itself."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(10_000)
    said: list[str] = []
    page.on("request", lambda request: said.append(request.url))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda message: said.append(message.text))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    yield page
    context.close()
    assert [each for each in said if not each.startswith("file:")] == []


@pytest.fixture(scope="module")
def report(tmp_path_factory: Any) -> str:
    folder = tmp_path_factory.mktemp("report") / "session"
    return look.write_report(look.record_session(folder)).as_uri()


def names(page: Any) -> list[str]:
    found: list[str] = page.locator(".row .name").all_inner_texts()
    return found


def test_it_shows_nested_calls_batches_transactions_and_their_fates(page: Any, report: str) -> None:
    page.goto(report)
    assert names(page)[:6] == ["look_up"] * 3 + ["refactor", "look_up", "put_file"]
    assert page.locator(".row.beside").count() == 3
    inner = page.locator(".row.transaction", has_text="inner")
    assert inner.locator(".frame").count() == 2
    dropped = page.locator(".row.transaction", has_text="The tests failed.")
    expect(dropped).to_contain_text("rolled back")
    struck = page.evaluate(
        """() => [...document.querySelectorAll(".row")].filter((row) => getComputedStyle(
          row.querySelector(".name")).textDecorationLine === "line-through").map(
          (row) => row.querySelector(".outcome").textContent)"""
    )
    assert struck.count("not kept") == 4
    assert struck.count("undone") == 1
    assert page.locator(".chart rect").count() > 1


def test_a_call_shows_all_that_is_recorded_of_it(page: Any, report: str) -> None:
    page.goto(report)
    panel = page.locator(".panel")
    page.locator(".row.call", has_text="not kept").first.click()
    expect(panel).to_contain_text("Changes, not kept")
    assert panel.locator(".diff.gone .added").count() == 1
    page.locator(".row.call.denied", has_text="look_up").click()
    expect(panel).to_contain_text("Secrets stay where they are.")
    expect(panel).to_contain_text("Decisions")
    page.locator(".row.call.denied", has_text="pay").click()
    expect(panel).to_contain_text("denied, after")
    expect(panel).to_contain_text("Ask for less than 100.")
    page.locator(".row.succeeded", has_text="undo_calls").click()
    expect(panel).to_contain_text("undoes")


def test_filters_and_search_leave_the_calls_that_fit(page: Any, report: str) -> None:
    page.goto(report)
    page.get_by_label("tools").select_option("pay")
    assert names(page) == ["pay"] * 4
    page.get_by_label("outcomes").select_option("denied")
    assert names(page) == ["pay"]
    page.get_by_label("tools").select_option("")
    page.get_by_label("rules").select_option(index=1)
    assert names(page) == ["look_up"]
    page.get_by_label("rules").select_option("")
    page.get_by_label("outcomes").select_option("not kept")
    expect(page.locator(".row.transaction")).to_have_count(1)
    page.get_by_label("outcomes").select_option("")
    page.get_by_label("Search").fill("ADA")
    expect(page.locator(".count")).to_have_text("1 of 22 calls")
    page.get_by_label("Scale of the bars").select_option("all")
    assert names(page) == ["pay"]


def test_the_keyboard_reaches_everything(page: Any, report: str) -> None:
    page.goto(report)
    for key in "jjjk":
        page.keyboard.press(key)
    chosen = page.locator(".row[aria-selected=true]")
    assert chosen.get_attribute("id") == "row-1"
    page.keyboard.press("Enter")
    expect(page.locator(".panel h2")).to_have_text("look_up")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator(".panel h2")).to_have_text("refactor")
    page.keyboard.press("Escape")
    expect(page.locator(".panel")).to_be_hidden()
    page.keyboard.press("/")
    page.keyboard.type("jk")
    expect(page.locator(".count")).to_have_text("0 of 22 calls")
    page.keyboard.press("Escape")
    expect(page.locator(".count")).to_have_text("22 of 22 calls")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.className") == "rows"


def test_no_text_of_a_call_is_ever_markup(page: Any, tmp_path: Path) -> None:
    record = look.record_session(tmp_path / "evil", EVIL)
    page.goto(look.write_report(record).as_uri())
    rows = page.locator(".row").count()
    for _ in range(rows):
        page.keyboard.press("j")
        page.keyboard.press("Enter")
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    expect(page.locator(".row", has_text="<img src=x onerror=alert(1)>").first).to_be_visible()
    assert "\u202e" not in page.inner_text("body")
    assert "\\u{202e}" in page.inner_text("body")


def test_the_script_writes_no_markup() -> None:
    script = (STATIC / "timeline.js").read_text(encoding="utf-8")
    assert not {word for word in ("innerHTML", "outerHTML", "insertAdjacent") if word in script}


def test_it_prints_with_its_rows_and_says_which_are_left_out(page: Any, report: str) -> None:
    page.goto(report)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".filters").is_hidden()
    boxes = [row.bounding_box() for row in page.locator(".row").all()]
    tops = [box["y"] for box in boxes]
    assert tops == sorted(tops)
    assert len(set(tops)) == len(boxes)
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_it_is_read_by_everybody(browser: Any, report: str, tmp_path: Path) -> None:
    pytest.importorskip("axe_playwright_python.sync_playwright")
    found = dict(look.look(browser, report, "report", tmp_path, look.open_call))
    assert len(found) == len(look.WIDTHS) * len(look.SCHEMES) * 2
    assert {title: faults for title, faults in found.items() if faults} == {}
    assert len([*tmp_path.glob("*.png")]) == len(found)


@tool(category="read")
def read_page(number: int, *, context: ToolContext) -> str:
    """Read a page."""
    return f"Page {number}. " + "All work and no play makes a long text. " * 6


@tool(category="read", depends_on=["read_page"])
def read_two(number: int, *, context: ToolContext) -> str:
    """Read two pages."""
    return "".join(context.call("read_page", {"number": number + i}).text for i in range(2))


@pytest.fixture(scope="module")
def long(tmp_path_factory: Any) -> Path:
    """A report of 10,000 calls: batches, transactions, nested and single calls."""
    folder = tmp_path_factory.mktemp("long")
    plugins = {"record": {"file": folder / "calls.jsonl", "diff": True}}
    settings = Settings.model_validate({"durability": "process", "plugins": plugins})
    with (
        Host(settings=settings, tools=[read_page, read_two]) as host,
        host.executor() as executor,
    ):
        for number in range(MANY // 10):
            executor.dispatch_all([ToolCall("read_page", {"number": i}) for i in range(3)])
            with executor.transaction(f"work {number}") as work:
                work.dispatch(ToolCall("read_two", {"number": number}))
                work.dispatch(ToolCall("read_page", {"number": "wrong"}))
            for i in range(3):
                executor.dispatch(ToolCall("read_page", {"number": i}))
    return look.write_report(folder / "calls.jsonl")


LOAD = "performance.getEntriesByType('navigation')[0].loadEventEnd"
STEPS = 200
SCROLL = """(part) => {
  const rows = document.querySelector(".rows");
  rows.scrollTop = (rows.scrollHeight - rows.clientHeight) * part;
  return new Promise((done) => requestAnimationFrame(() => setTimeout(
    () => done(document.querySelectorAll(".row").length))));
}"""


def test_a_report_of_ten_thousand_calls_is_small_and_quick(page: Any, long: Path) -> None:
    assert long.stat().st_size < 8_000_000
    empty = long.with_name("empty.html")
    empty.write_text("<!doctype html><title>Empty</title>", encoding="utf-8")
    page.goto(empty.as_uri())
    before = page.evaluate(LOAD)
    page.goto(long.as_uri())
    taken = page.evaluate(LOAD) - before
    assert taken < 2_000
    expect(page.locator(".count")).to_have_text("10,000 of 10,000 calls")
    # Because other processes may hold the core, count the processor's time, not the clock's. The
    # tasks of a step together take longer than each of them.
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
    spent: list[float] = []
    for step in range(STEPS + 1):
        assert 0 < page.evaluate(SCROLL, step / STEPS) < MOST_ROWS
        metrics = devtools.send("Performance.getMetrics")["metrics"]
        spent.append(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))
    assert max(after - before for before, after in pairwise(spent)) <= LONGEST_TASK
    expect(page.locator("#row-10999")).to_be_visible()


def test_a_long_report_prints_as_many_rows_as_it_draws(page: Any, long: Path) -> None:
    page.goto(long.as_uri())
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".row").count() == 390
    left = page.locator(".rows").get_attribute("data-left")
    assert left == "10,610 more rows are not printed. Filter to print others."
