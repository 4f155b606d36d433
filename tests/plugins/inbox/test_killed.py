"""Whenever the process of a call is killed, the call runs once and has one result."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from toolstile import Executor
from toolstile_hookspecs import Answer, Principal, StateError, ToolCall
from toolstile_plugins.inbox import Inbox, resume_pending

from .kill_driver import LEASE, note, opened

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="SIGKILL"),
]
BOTH = pytest.mark.parametrize("kept", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
DRIVER = Path(__file__).with_name("kill_driver.py")
LONGEST = 0.4
"""Seconds of calls before the kill: some twenty of them."""


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str, str], Path]:
    """Makes a folder of hosts that keep what they share in it, or in a database of its own."""

    def made(kept: str, name: str = "0") -> Path:
        found = tmp_path / name
        found.mkdir()
        if kept == "postgres":
            (found / "url").write_text(request.getfixturevalue("postgres").make())
        return found

    return made


def approve_all(inbox: Inbox, way: str, until: threading.Event) -> None:
    """Approve what waits; another way does so at the same time."""
    while not until.is_set():
        for question in inbox.waiting():
            # The other way may be first, and the call may have been given up.
            with suppress(StateError):
                inbox.answer(question.ticket, Answer.APPROVED, Principal("os", way), via=way)
        time.sleep(0.001)


def go_on(folder: Path, tools: Executor) -> None:
    """Answer and resume whatever is left, once nobody holds it any more."""
    inbox = tools.resources.get(Inbox)
    # A call that waited keeps others off for half a minute; so long after the kill.
    for question in inbox.store.questions():
        inbox.store.claim(question.ticket, "", question.expires, question.created)
    deadline = time.monotonic() + 30
    while inbox.store.questions():
        assert time.monotonic() < deadline
        for question in inbox.waiting():
            inbox.answer(question.ticket, Answer.APPROVED, Principal("os", "late"), via="late")
        for outcome in resume_pending(tools):
            note(folder, outcome)
        time.sleep(LEASE / 10)


def kill_once(folder: Path, wait: str, step: str | None = None) -> int:
    """Kill the process at a step or a random instant, go on; return the number of results."""
    with opened(folder, "pending") as host, host.executor(session_id="s") as tools:
        inbox, ended = tools.resources.get(Inbox), threading.Event()
        people = [
            threading.Thread(target=approve_all, args=[inbox, way, ended])
            for way in ("card", "console")
        ]
        command = [sys.executable, DRIVER, folder, wait, *([step] if step else [])]
        child = subprocess.Popen(command, stdout=subprocess.PIPE)
        with child:
            assert child.stdout is not None
            child.stdout.readline()
            for person in people:
                person.start()
            if step is None:
                time.sleep(random.uniform(0, LONGEST))
                child.send_signal(signal.SIGKILL)
            try:
                assert child.wait(20) == -signal.SIGKILL, f"it never came to {step}"
            finally:
                child.kill()
        ended.set()
        for person in people:
            person.join()
        go_on(folder, tools)
    with opened(folder, "pending") as host, host.executor(session_id="s") as tools:
        return assert_whole(folder, tools)


def assert_whole(folder: Path, tools: Executor) -> int:
    effects = Counter(lines_of(folder / "effects.txt"))
    assert set(effects.values()) <= {1}, effects
    results = [line.split(" ", 2) for line in lines_of(folder / "results.txt")]
    told = Counter(call_id for call_id, _, _ in results)
    assert set(told.values()) <= {1}, results
    paid = {text for _, status, text in results if status == "succeeded"}
    kept = list(tools.session[str].all())
    assert len(set(kept)) == len(kept)
    assert paid <= {f"Paid {name}." for name in kept}
    unknown = [text for _, status, text in results if status != "succeeded"]
    assert all("may have happened" in text or "unknown" in text for text in unknown), unknown
    return len(results)


def lines_of(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


NOTHING, RAN, UNKNOWN, KEPT = "nothing", "ran", "unknown", "kept"
STEPS = {
    "before the question": NOTHING,
    "after the question": RAN,
    "before the claim": RAN,
    "after the claim": RAN,
    "policies asked anew": RAN,
    "snapshot": RAN,
    "before the claim of the ledger": RAN,
    "after the claim of the ledger": UNKNOWN,
    "in the handler": UNKNOWN,
    "after the effect": UNKNOWN,
    "before the record of the ledger": UNKNOWN,
    "after the record of the ledger": UNKNOWN,
    "before the entry of the session": UNKNOWN,
    "after the entry of the session": UNKNOWN,
    "before the end of the question": RAN,
    "after the end of the question": KEPT,
}
BY_WAIT = {
    # The result of a call that waited dies with the one that waited for it.
    "answer": {
        "before the hold": RAN,
        "after the hold": RAN,
        "before the line of the record": KEPT,
        "after the line of the record": KEPT,
        "before the result": KEPT,
    },
    "pending": {
        "before the line of the record": RAN,
        "after the line of the record": RAN,
        "before the result": RAN,
    },
}


@pytest.mark.parametrize(
    ("wait", "step", "expected"),
    [
        pytest.param(wait, step, expected, id=f"{wait}-{step}")
        for wait, more in BY_WAIT.items()
        for step, expected in {**STEPS, **more}.items()
    ],
)
@BOTH
def test_killed_at_a_step(folder, kept, wait, step, expected):
    killed = folder(kept)
    kill_once(killed, wait, step)
    assert what_came_of_it(killed) == expected


def what_came_of_it(folder: Path) -> str:
    """Return what came of the first call, of which all else was seen to be whole."""
    effects, results = (lines_of(folder / name) for name in ("effects.txt", "results.txt"))
    if not results:
        return KEPT if effects else NOTHING
    _, status, text = results[0].split(" ", 2)
    if status != "succeeded":
        assert "may have happened" in text
        return UNKNOWN
    assert effects.count("p0") == 1
    return RAN


@pytest.mark.parametrize("step", ["before the answer", "after the answer"])
def test_of_a_person_whose_process_dies_the_answer_counts_or_another_can_be_given(tmp_path, step):
    with opened(tmp_path, "pending") as host, host.executor(session_id="s") as tools:
        tools.dispatch(ToolCall("pay", {"to": "p0"}, id="call-0"))
        inbox = tools.resources.get(Inbox)
        (question,) = inbox.waiting()
        person = subprocess.run(
            [sys.executable, DRIVER, tmp_path, "person", step, "ada"], input=b"\n", check=False
        )
        assert person.returncode == -signal.SIGKILL
        is_given = inbox.store.get(question.ticket).answer is not None
        assert is_given is (step == "after the answer")
        go_on(tmp_path, tools)
        assert inbox.store.get(question.ticket).answer.via == ("driver" if is_given else "late")
    assert what_came_of_it(tmp_path) == RAN


SHOWN = {
    "before the claim": RAN,
    "after the claim": RAN,
    "policies asked anew": RAN,
    "snapshot": RAN,
    # What was shown is not there, and the ledger leaves it to a person, as with any other call.
    "before the entry of the session": UNKNOWN,
    "after the entry of the session": UNKNOWN,
    "before the line of the record": RAN,
    "after the line of the record": RAN,
    "before the end of the question": RAN,
    "after the end of the question": KEPT,
}


@pytest.mark.parametrize("step", SHOWN)
def test_what_a_person_was_shown_is_kept_at_most_once_and_never_made_again(tmp_path, step):
    with opened(tmp_path, "pending") as host, host.executor(session_id="s") as tools:
        tools.dispatch(ToolCall("generate", {"path": "a.txt"}, id="call-0"))
        inbox = tools.resources.get(Inbox)
        (question,) = inbox.waiting()
        inbox.answer(question.ticket, Answer.APPROVED, Principal("os", "ada"), via="test")
        process = subprocess.run([sys.executable, DRIVER, tmp_path, "shown", step], check=False)
        assert process.returncode == -signal.SIGKILL
        go_on(tmp_path, tools)
    kept = [text in question.diff for text in lines_of(tmp_path / "work" / "a.txt")]
    assert kept == [True] * (SHOWN[step] != UNKNOWN)
    assert lines_of(tmp_path / "runs.txt") == ["a.txt"]
    results = [line.split(" ", 2)[2] for line in lines_of(tmp_path / "results.txt")]
    told = {RAN: ["Generated."], KEPT: []}.get(SHOWN[step])
    assert results == told if told is not None else "may have happened" in results[0]


@BOTH
@pytest.mark.parametrize("wait", ["answer", "pending"])
def test_a_killed_process_leaves_every_call_whole(folder, kept, wait):
    calls = [kill_once(folder(kept, str(number)), wait) for number in range(4)]
    assert sum(calls) > 0


@pytest.mark.long
@pytest.mark.parametrize("kept", ["sqlite", "postgres"])
@pytest.mark.parametrize("wait", ["answer", "pending"])
def test_three_hundred_killed_processes_leave_every_call_whole(folder, kept, wait):
    calls = [kill_once(folder(kept, str(number)), wait) for number in range(150)]
    assert sum(calls) > 0
