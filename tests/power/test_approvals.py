"""A question, its answer and the resumed call outlive a loss of power after each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .mirrored_disk import MirroredDisk

PROGRAM = """
import json, os, sys
from toolstile import Host, Settings, ToolCall, tool
from toolstile_hookspecs import Answer, IdempotencyConfig, Principal
from toolstile_plugins.inbox import Inbox, resume_pending

@tool(requires_confirmation=True, idempotency=IdempotencyConfig(scope="global"))
def pay(to: str) -> str:
    '''Pay somebody.'''
    with open("../effects.txt", "a") as effects:
        effects.write(to + chr(10))
    return f"Paid {to}."

settings = Settings.durable("new/desk.db", key="a key of the tests, 32 letters long")
tools = Host(settings=settings, tools=[pay]).open().executor(session_id="s").__enter__()
inbox = tools.resources.get(Inbox)

def call():
    return tools.dispatch(ToolCall("pay", {"to": "ada"}))

def approve():
    (question,) = inbox.waiting()
    inbox.answer(question.ticket, Answer.APPROVED, Principal("chat", "bob"), via="test")

def resumed():
    return [outcome.text for outcome in resume_pending(tools)]

sys.stdout.write(json.dumps(%s))
sys.stdout.flush()
os._exit(0)  # nothing is closed
"""

STEPS: list[tuple[str, Any]] = [
    ("call().status", "pending"),
    ("[each.tool for each in inbox.waiting()]", ["pay"]),
    ("approve()", None),
    ("resumed()", ["Paid ada."]),
    ("resumed()", []),
    ("call().status", "succeeded"),
]


@pytest.mark.slow
def test_each_step_finds_the_one_before(disk: MirroredDisk) -> None:
    for step, said in STEPS:
        assert json.loads(disk.run(PROGRAM % step)) == said, step
        disk.cut()
    assert (disk.root.parent / "effects.txt").read_text() == "ada\n"
    records = sorted(disk.root.glob("new/desk.records/*.jsonl"))
    assert any('"status":"succeeded"' in record.read_text() for record in records)
