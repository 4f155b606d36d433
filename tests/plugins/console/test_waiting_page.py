"""Waiting in a real browser: with the keyboard, on a telephone, live, and without scripts."""

from __future__ import annotations

import pytest

from toolstile_plugins.inbox import resume_pending

from .conftest import EVIL

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
expect = sync_api.expect
pytestmark = pytest.mark.slow


def card_of(page, question):
    return page.locator(f'article[data-href$="/{question["ticket"]}"]')


def test_the_token_leaves_the_address(page, desk):
    assert "#" not in page.url
    assert desk.told
    assert page.evaluate("document.cookie") == ""


def test_a_question_appears_and_is_approved_without_loading_the_page(page, desk):
    page.evaluate("window.same = true")
    question = desk.ask("write", path="new.txt", text="new\n")
    card = card_of(page, question)
    card.get_by_role("button", name="Approve").click()
    expect(card.locator(".end")).to_contain_text("write is approved by bob")
    assert page.evaluate("window.same")
    resume_pending(desk.tools)
    assert (desk.workspace / "new.txt").read_text(encoding="utf-8") == "new\n"


def test_a_diff_is_shown_side_by_side_when_asked(page, desk):
    question = desk.ask("write", path="old.txt", text="one\n2\nthree\n")
    card = card_of(page, question)
    expect(card.locator(".unified")).to_be_visible()
    card.get_by_label("side by side", exact=True).check()
    expect(card.locator(".unified")).to_be_hidden()
    row = card.locator(".split tr", has_text="-two")
    expect(row).to_contain_text("+2")


def test_a_stop_and_its_end_are_shown_live(page, desk):
    desk.host.stop("Too many", by="ada")
    expect(page.get_by_role("alert")).to_contain_text("by ada")
    expect(page.get_by_role("button", name="Go…")).to_be_visible()
    desk.host.go()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_denial_takes_a_reason(page, desk):
    question = desk.ask()
    card = card_of(page, question)
    card.get_by_label("Reason, for the model").fill("Ada has left")
    card.get_by_label("Reason, for the model").press("Enter")
    expect(card.locator(".end")).to_contain_text("pay is denied by bob")
    (outcome,) = resume_pending(desk.tools)
    assert "Ada has left" in outcome.text


def test_an_edit_is_corrected_until_it_fits(page, desk):
    question = desk.ask()
    card = card_of(page, question)
    card.get_by_text("Edit the arguments").click()
    written = card.get_by_label("Arguments as JSON")
    written.fill('{"to": "eve", "amount": "much"}')
    card.get_by_role("button", name="Run with these").click()
    expect(card.get_by_role("alert")).to_contain_text("amount")
    assert written.input_value() == '{"to": "eve", "amount": "much"}'
    written.fill('{"to": "eve", "amount": 2}')
    card.get_by_role("button", name="Run with these").click()
    expect(card.locator(".end")).to_contain_text("pay is edited by bob")
    (outcome,) = resume_pending(desk.tools)
    assert outcome.text == "Paid 2 to eve."


def test_a_grant_lets_the_next_call_run_and_is_revoked(page, desk):
    card = card_of(page, desk.ask())
    card.get_by_text("Approve calls like it from now on").click()
    card.get_by_label("Calls").select_option("tool")
    card.get_by_label("Until").select_option("24")
    card.get_by_role("button", name="Grant it").click()
    expect(card.locator(".end")).to_contain_text("pay, whatever its arguments, in this session")
    resume_pending(desk.tools)
    assert desk.call("pay", to="eve", amount=7).text == "Paid 7 to eve."
    # It appears by itself.
    granted = page.locator("#grants")
    expect(granted).to_contain_text("by bob (console)")
    granted.get_by_role("button", name="Revoke pay").click()
    expect(page.locator(".told")).to_contain_text("is revoked")
    expect(page.locator("#grants button")).to_have_count(0)
    expect(card_of(page, desk.ask(to="eve"))).to_be_visible()


def test_a_grant_is_given_with_the_keyboard(page, desk):
    card = card_of(page, desk.ask())
    expect(page.locator("article")).to_have_count(1)
    for key in ("j", "g"):
        page.keyboard.press(key)
    expect(card.get_by_label("Calls")).to_be_focused()
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(card.locator(".end")).to_contain_text("pay, with the same arguments")


def test_what_is_answered_elsewhere_stays_where_it_is_and_says_so(page, desk, visitor):
    first, second = desk.ask(to="ada"), desk.ask(to="eve")
    expect(page.locator("article")).to_have_count(2)
    card_of(page, second).get_by_text("Edit the arguments").click()
    card_of(page, second).get_by_label("Arguments as JSON").fill("half")
    visitor.answer(first, "deny")
    expect(card_of(page, first).locator(".end")).to_contain_text("denied by bob")
    # What is being written elsewhere on the page is untouched.
    assert card_of(page, second).get_by_label("Arguments as JSON").input_value() == "half"


def test_all_is_done_with_the_keyboard(page, desk):
    first, second, third = (desk.ask(to=name) for name in ("ada", "bob", "eve"))
    expect(page.locator("article")).to_have_count(3)
    press = page.keyboard.press
    for key in ("j", "a"):
        press(key)
    # A key alone answers nothing.
    assert len(desk.inbox.waiting()) == 3
    press("Enter")
    expect(card_of(page, first).locator(".end")).to_contain_text("approved")
    for key in ("j", "d"):
        press(key)
    page.keyboard.type("No")
    press("Enter")
    expect(card_of(page, second).locator(".end")).to_contain_text("denied by bob")
    for key in ("j", "e"):
        press(key)
    expect(card_of(page, third).get_by_label("Arguments as JSON")).to_be_focused()
    press("Control+a")
    page.keyboard.type('{"to": "mia"}')
    press("Tab")
    press("Enter")
    expect(card_of(page, third).locator(".end")).to_contain_text("edited by bob")
    texts = [outcome.text for outcome in resume_pending(desk.tools)]
    assert texts[0] == "Paid 1 to ada."
    assert texts[2] == "Paid 1 to mia."


def test_several_are_chosen_and_denied_at_once(page, desk):
    desk.ask(to="ada")
    desk.ask(to="eve")
    expect(page.locator("article")).to_have_count(2)
    for box in page.get_by_label("Choose pay").all():
        box.check()
    page.locator("#several").get_by_role("button", name="Deny").click()
    expect(page.locator(".told")).to_have_count(2)
    expect(page.locator("article")).to_have_count(0)
    assert not desk.inbox.waiting()
    # The page goes on being live.
    expect(card_of(page, desk.ask(to="mia"))).to_be_visible()


def test_a_lost_connection_is_told_and_misses_nothing_when_it_is_back(page, desk, visitor):
    desk.ask(to="ada")
    expect(page.locator("article")).to_have_count(1)
    desk.stop()
    expect(page.locator("#live")).to_contain_text("Connection lost")
    desk.ask(to="eve")
    desk.serve_again()
    expect(page.locator("article")).to_have_count(2, timeout=20_000)
    expect(page.locator("#live")).to_have_text("Live")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1000])
def test_it_fits_a_telephone_by_day_and_by_night(page, desk, width, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 700})
    desk.ask(to="ada" * 60)
    question = desk.ask("write", path="old.txt", text="one\n" + "2" * 300 + "\nthree\n")
    card_of(page, question).get_by_label("side by side", exact=True).check()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (light == "rgb(246, 247, 249)") == (scheme == "light")


def test_what_a_model_wrote_is_text_in_a_browser_as_well(page, desk):
    desk.ask("evil", text=EVIL + "\n" + EVIL)
    desk.ask("write", path=f"{EVIL.replace('/', '')}.txt", text=EVIL + "\n")
    expect(page.locator("article")).to_have_count(2)
    assert page.locator("article img, article script").count() == 0
    assert page.said == []


def test_no_other_page_shows_it_in_a_frame(page, desk, browser):
    other = browser.new_page()
    other.route(
        "http://127.0.0.1:1/",
        lambda route: route.fulfill(
            content_type="text/html", body=f'<iframe src="{desk.address}/"></iframe>'
        ),
    )
    other.goto("http://127.0.0.1:1/")
    other.wait_for_timeout(300)
    assert all("Toolstile" not in frame.content() for frame in other.frames[1:])
    other.close()


def test_a_page_of_another_port_cannot_answer_in_the_persons_name(page, desk):
    question = desk.ask()
    other = page.context.new_page()
    target = f"{page.url}questions/{question['ticket']}"
    form = f"""<form id=f method=post action="{target}"><input name=answer value=approve>
      <input name=digest value="{question["digest"]}"></form><script>f.submit()</script>"""
    other.route(
        "http://127.0.0.1:1/", lambda route: route.fulfill(content_type="text/html", body=form)
    )
    other.goto("http://127.0.0.1:1/")
    other.wait_for_url(target)
    expect(other.locator("body")).to_contain_text("Another page sent this request.")
    assert desk.inbox.waiting()


def test_it_is_read_and_answered_without_scripts(desk, browser):
    question = desk.ask()
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(desk.address)
    page.get_by_label("The part of the address behind #").fill(desk.console.url.partition("#")[2])
    page.get_by_role("button", name="Open").click()
    card_of(page, question).get_by_role("button", name="Approve").click()
    expect(page.locator(".end")).to_contain_text("pay is approved by bob")
    context.close()
