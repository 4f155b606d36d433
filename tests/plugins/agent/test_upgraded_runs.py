"""A run that an earlier release stored goes on under the ids of its calls, and its effect is one.

`stored_runs` has what the release before calls had ids of the host's left behind, as `run_driver`
did its work: one run that waits for a person, one that was killed in the approved handler after its
effect, and one that was killed after the commit.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="the driver kills")]

HERE = Path(__file__).parent
STORED = HERE / "stored_runs"


def resumed(folder: Path, asked: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, HERE / "run_driver.py", "resume", folder],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize(
    ("stored", "text"),
    [("waiting", "refunded r"), ("handler", "may have happened"), ("committed", "refunded r")],
)
def test_a_stored_run_keeps_the_id_of_its_call(tmp_path: Path, stored: str, text: str) -> None:
    asked = json.loads((STORED / f"{stored}.json").read_text())
    (tmp_path / "effects.txt").write_text("".join(f"{each}\n" for each in asked["effects"]))
    with closing(sqlite3.connect(tmp_path / "state.db")) as database:
        database.executescript((STORED / f"{stored}.sql").read_text())
        # The clock of its machine may have been ahead of the one here.
        database.execute("UPDATE toolstile_effects SET lease = 0")
        database.commit()

    told = [resumed(tmp_path, asked) for _ in range(2)]

    effects = (tmp_path / "effects.txt").read_text().split()
    assert effects.count("r") == 1
    answers = {call_id: said for call_id, name, said in told[0]["answered"] if name == "refund"}
    assert [*answers] == ["call_1_1"]
    assert text in answers["call_1_1"]
    assert told[0]["text"] == "All is charged."
    assert told[1]["answered"] == told[0]["answered"]
    # The calls that were made since have ids of the host's.
    made = [call_id for call_id in told[0]["made"] if not call_id.startswith("call_")]
    assert len({*made}) == len(made) == 12
