"""A coding session, whose dangerous call is decided on a telephone."""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from toolstile import Host, Settings
from toolstile.testing import ScriptedModel
from toolstile_hookspecs import Principal
from toolstile_plugins.agent import Agent, RunState
from toolstile_plugins.console import Console
from toolstile_plugins.inbox import Inbox, answers_to

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
expect = sync_api.expect
pytestmark = pytest.mark.slow

WIDTH = 390
MIN_TARGET = 24
"""Pixels, as WCAG 2.2 asks of what is touched."""


PRICES = "from discounts import discount\n\n\ndef net(price):\n    return price - discount(price)\n"
SIMPLER = "def net(price):\n    return price * 0.9\n"


def settings_of(folder: Path) -> Settings:
    """Return the settings of an agent that neither overwrites nor deletes a file unseen."""
    return Settings.model_validate(
        {
            "approver": "inbox",
            "approve_diff": True,
            "approval_key": secrets.token_hex(32),
            "approval_spent": folder / "approvals.db",
            "plugins": {
                "inbox": {"path": folder / "inbox.db", "wait": "pending"},
                "vfs": {"root": folder / "project"},
            },
            "tools": {"write_file": {"requires_confirmation": True}},
        }
    )


def waiting_state(settings: Settings) -> str:
    """Run the agent until its two calls wait; return its state."""
    model = ScriptedModel(
        [("read_file", {"path": "prices.py"}), ("read_file", {"path": "discounts.py"})],
        [
            ("write_file", {"path": "prices.py", "content": SIMPLER, "overwrite": True}),
            ("delete_file", {"path": "discounts.py"}),
        ],
    )
    with Host(settings=settings) as host:
        run = Agent(host.prompt, adapter=model, host=host).run("Make the prices simpler.")
    assert run.stop_reason == "pending"
    assert run.state is not None
    return run.state.to_json()


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
    project = tmp_path / "project"
    project.mkdir()
    (project / "prices.py").write_text(PRICES)
    (project / "discounts.py").write_text("def discount(price):\n    return price * 0.1\n")
    settings = settings_of(tmp_path)
    waits = waiting_state(settings)
    assert (project / "prices.py").read_text() == PRICES

    host = stack.enter_context(Host(settings=settings))
    telephone.goto(serve(host, stack))
    cards = telephone.locator("article")
    change, deletion = cards.filter(has_text="write_file"), cards.filter(has_text="delete_file")
    expect(change.locator(".unified")).to_contain_text("-from discounts import discount")
    expect(deletion.locator(".unified")).to_contain_text("deleted discounts.py")
    approve = change.get_by_role("button", name="Approve")
    # Nothing is cut off, and a thumb finds the button.
    assert telephone.evaluate("document.documentElement.scrollWidth") == WIDTH
    assert approve.bounding_box()["height"] >= MIN_TARGET

    approve.tap()
    expect(change.locator(".end")).to_contain_text("write_file is approved by ada")
    deletion.get_by_label("Reason, for the model").fill("The tills import it.")
    deletion.get_by_role("button", name="Deny").tap()
    expect(deletion.locator(".end")).to_contain_text("delete_file is denied by ada")

    with Host(settings=settings) as other, other.executor() as tools:
        agent = Agent(other.prompt, adapter=ScriptedModel("prices.py is simpler."), host=other)
        state = RunState.from_json(waits)
        done, _ = agent.resume(state, answers_to(tools.resources.get(Inbox), state))
    assert done.text == "prices.py is simpler."
    assert (project / "prices.py").read_text() == SIMPLER
    assert (project / "discounts.py").exists()
    told = [answer.text for message in done.messages for answer in message.answers]
    assert any("The tills import it." in text for text in told)
