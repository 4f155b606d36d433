"""A coding session of the documentation, whose dangerous call is approved on a telephone."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
from contextlib import ExitStack
from pathlib import Path
from struct import unpack
from typing import Any

import pytest
import uvicorn

from toolstile import Host
from toolstile_hookspecs import Principal
from toolstile_plugins.console import Console

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
expect = sync_api.expect
pytestmark = pytest.mark.slow

GUIDES = Path(__file__).parents[3] / "docs" / "guides"
# `TOOLSTILE_PICTURES=docs/guides pytest ...` makes the pictures of the page anew.
PICTURES = os.environ.get("TOOLSTILE_PICTURES")
WIDTH = 390
MIN_TARGET = 24
"""Pixels, as WCAG 2.2 asks of what is touched."""


def blocks() -> list[str]:
    """Return the two halves of the session, between which a person answers."""
    page = (GUIDES / "console.md").read_text(encoding="utf-8")
    section = page.partition("### A coding session\n")[2].partition("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def serve(host: Host, stack: ExitStack) -> str:
    """Serve the console of a host until the stack is left; return the address that opens it."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    console = Console(host, f"http://127.0.0.1:{port}", person=Principal("os", "ada"))
    config = uvicorn.Config(console, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True
    )
    serving.start()
    stack.callback(serving.join, 10)
    stack.callback(setattr, server, "should_exit", True)
    return console.url


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def telephone(browser: Any, stack: ExitStack) -> Any:
    telephone = browser.new_context(
        viewport={"width": WIDTH, "height": 844}, is_mobile=True, has_touch=True
    )
    stack.callback(telephone.close)
    return telephone.new_page()


def test_a_change_is_approved_and_a_deletion_denied_on_a_telephone(telephone, stack, tmp_path):
    before, after = blocks()
    session: dict[str, Any] = {}
    exec(before, session)

    host = stack.enter_context(Host(settings=session["settings"]))
    telephone.goto(serve(host, stack))
    cards = telephone.locator("article")
    change, deletion = cards.filter(has_text="write_file"), cards.filter(has_text="delete_file")
    expect(change.locator(".unified")).to_contain_text("-from discounts import discount")
    expect(deletion.locator(".unified")).to_contain_text("deleted discounts.py")
    approve = change.get_by_role("button", name="Approve")
    # Nothing is cut off, and a thumb finds the button.
    assert telephone.evaluate("document.documentElement.scrollWidth") == WIDTH
    assert approve.bounding_box()["height"] >= MIN_TARGET
    for scheme in ("light", "dark"):
        telephone.emulate_media(color_scheme=scheme)
        picture = Path(PICTURES or tmp_path, f"telephone-{scheme}.png")
        telephone.screenshot(path=picture, full_page=True)
        pictures = picture, GUIDES / picture.name
        assert [unpack(">I", each.read_bytes()[16:20]) for each in pictures] == [(WIDTH,)] * 2

    approve.tap()
    expect(change.locator(".end")).to_contain_text("write_file is approved by ada")
    deletion.get_by_label("Reason, for the model").fill("The tills import it.")
    deletion.get_by_role("button", name="Deny").tap()
    expect(deletion.locator(".end")).to_contain_text("delete_file is denied by ada")
    exec(after, session)
    told = [answer.text for message in session["done"].messages for answer in message.answers]
    assert any("The tills import it." in text for text in told)
