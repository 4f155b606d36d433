"""Hosts that share a database share its inbox, whoever answers and whatever dies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.plugins.inbox.kill_driver import opened as host_in
from tests.plugins.inbox.test_killed import DRIVER, UNKNOWN, kill_once, what_came_of_it

from toolstile_hookspecs import ToolCall
from toolstile_hookspecs.services.approval_store import ANSWERED
from toolstile_plugins.inbox import Inbox

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, url: str) -> Path:
    (tmp_path / "url").write_text(url)
    return tmp_path


@pytest.mark.parametrize(
    "step", ["after the claim of the ledger", "after the record of the ledger"]
)
def test_a_call_killed_between_its_claim_and_its_decision_is_known_as_unknown(folder, step):
    kill_once(folder, "pending", step)
    assert what_came_of_it(folder) == UNKNOWN


def test_of_two_people_in_two_processes_the_first_counts_for_both(folder):
    with host_in(folder, "pending") as host, host.executor(session_id="s") as tools:
        for number in range(8):
            tools.dispatch(ToolCall("pay", {"to": f"p{number}"}, id=f"call-{number}"))
        people = [
            subprocess.Popen(
                [sys.executable, DRIVER, folder, "person", "", name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for name in ("ada", "bob")
        ]
        for person in people:
            assert person.stdout is not None
            assert person.stdout.readline() == "ready\n"
        told = [person.communicate("\n", timeout=30)[0].split() for person in people]
        answered = tools.resources.get(Inbox).store.questions(ANSWERED)
        given = {found.ticket: found.answer.by.id for found in answered if found.answer}
    assert len(given) == 8
    assert told == [
        [ticket for ticket in given if given[ticket] == name] for name in ("ada", "bob")
    ]
