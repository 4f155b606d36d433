"""Calls of a script beside the plugins that govern, keep and count calls."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.code.suite import note, notes, run, sign

from toolstile import Host, Settings
from toolstile_hookspecs import Answer, IdempotencyConfig, Principal, Status, hookimpl, tool
from toolstile_plugins.inbox import Inbox

PATIENCE = 30.0


def hosting(*tools: Any, approver: str | None = None, **plugins: Any) -> Host:
    settings = Settings(approver=approver, plugins={"code": {}, **plugins})
    return Host(tools=tools, settings=settings)


@pytest.mark.parametrize("answer", [Answer.APPROVED, Answer.DENIED])
def test_a_script_waits_for_the_answer_of_an_inbox(tmp_path, answer):
    inbox = {"path": str(tmp_path / "inbox.db"), "wait": "answer", "interval": 0.02}
    with (
        hosting(note, sign, approver="inbox", inbox=inbox) as host,
        host.executor() as executor,
    ):
        kept: Inbox = executor.resources.get(Inbox)

        def decide() -> None:
            until = time.monotonic() + PATIENCE
            while not (waiting := kept.waiting()) and time.monotonic() < until:
                time.sleep(0.01)
            kept.answer(waiting[0].ticket, answer, Principal("os", "ada"), via="test")

        person = threading.Thread(target=decide)
        person.start()
        outcome = run(executor, "note('a')\nsign('b')")
        person.join(PATIENCE)
        assert outcome.success is (answer is Answer.APPROVED), outcome.text
        assert notes(executor) == (["a", "signed b"] if outcome.success else [])


def test_a_nested_call_has_its_effect_once_over_scripts(tmp_path):
    made: list[str] = []

    @tool(category="side_effect", idempotency=IdempotencyConfig(scope="global"))
    def order(item: str) -> str:
        """Order something."""
        made.append(item)
        return f"ordered {item}"

    with (
        hosting(order, ledger={"path": str(tmp_path / "ledger.db")}) as host,
        host.executor() as executor,
    ):
        for _ in range(2):
            assert run(executor, "order('mug')").result.value.value == "ordered mug"
        failed = run(executor, "order('kettle')\n1 / 0")
        assert not failed.success
        assert run(executor, "order('kettle')").success
    assert made == ["mug", "kettle"]


def test_a_record_has_each_call_of_a_script_and_each_is_told(tmp_path):
    file = tmp_path / "calls.jsonl"
    heard: list[str] = []

    class Hearing:
        @hookimpl
        def toolstile_telemetry(self, event):
            heard.append(event.tool_name)

    with hosting(note, record={"file": str(file)}) as host, host.executor() as executor:
        host.register(Hearing(), "hearing")
        run(executor, "for text in 'ab': note(text)")
    assert heard == ["note", "note", "run_python"]
    lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
    calls = [line for line in lines if line["kind"] == "call"]
    assert [call["envelope"]["tool"] for call in calls] == ["note", "note", "run_python"]


def test_a_conflict_runs_a_contained_script_once_more():
    ran: list[int] = []

    @tool(category="write", contained=True)
    def meanwhile() -> int:
        """Let another call come first, once."""
        ran.append(1)
        if len(ran) == 1:
            other.start()
            other.join(PATIENCE)
        return len(ran)

    with hosting(note, meanwhile) as host, host.executor() as executor:
        other = threading.Thread(target=lambda: run(executor, "note('other')"))
        outcome = run(executor, "first = note('a')\n[first, meanwhile()]")
        assert outcome.status is Status.SUCCEEDED, outcome.text
        assert outcome.result.value.value == [2, 2]
        assert notes(executor) == ["other", "a"]
