"""Two processes race on one session and one workspace: nothing is lost, nothing is there twice."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from toolstile_plugins.sessions.sqlite import SqliteSessions

from .racing_driver import Note

DRIVER = Path(__file__).with_name("racing_driver.py")
PROCESSES, CALLS = 2, 200


@pytest.mark.slow
def test_two_processes_on_one_session_and_one_workspace(hosts, tmp_path):
    (hosts.workspace / "count.txt").write_text("0")
    # Made by both at once it would be a conflict, of calls that may have had effects outside.
    (hosts.workspace / "own").mkdir()
    processes = [
        subprocess.Popen(
            [sys.executable, DRIVER, tmp_path, name, str(CALLS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in "ab"[:PROCESSES]
    ]
    for process in processes:
        _, errors = process.communicate(timeout=500)
        assert process.returncode == 0, errors
    wanted = [f"{name}-{number}" for name in "ab" for number in range(CALLS)]
    counted = [text for text in wanted if int(text[2:]) % 2]
    session = hosts.executor().session
    notes = [note.text for note in session[Note].all()]
    assert Counter(notes) == Counter(wanted)
    for name in "ab":
        own = [text for text in notes if text.startswith(name)]
        assert own == [f"{name}-{number}" for number in range(CALLS)]
    assert (hosts.workspace / "count.txt").read_text() == str(len(counted))
    own_files = {path.stem for path in (hosts.workspace / "own").iterdir()}
    assert own_files == set(wanted) - set(counted)
    assert list((hosts.workspace / ".toolstile").glob("commit-*")) == []
    store: SqliteSessions = hosts.store()
    (info,) = store.sessions()
    assert info.number == PROCESSES * CALLS
