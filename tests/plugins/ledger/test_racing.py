"""Many processes and threads call every key at once: each effect happens once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

DRIVER = Path(__file__).with_name("racing_driver.py")
PROCESSES, KEYS = 8, 1_000

pytestmark = pytest.mark.slow


def race(place: str, effects: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, DRIVER, place, effects, str(KEYS), str(number)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    told: dict[str, set[str]] = {str(key): set() for key in range(KEYS)}
    for process in processes:
        out, _ = process.communicate(timeout=900)
        assert process.returncode == 0
        for thread in json.loads(out):
            assert len(thread) == KEYS
            for key, text in thread.items():
                told[key].add(text)
    happened = Counter(effects.read_text().splitlines())
    assert happened == Counter({str(key): 1 for key in range(KEYS)})
    assert [key for key, texts in told.items() if len(texts) != 1] == []
    assert all(text.startswith(f"{key} by ") for key, (text,) in told.items())


@pytest.mark.long
def test_on_sqlite(tmp_path):
    race(str(tmp_path / "ledger.db"), tmp_path / "effects.txt")


@pytest.mark.long
def test_on_postgres(tmp_path, database):
    race(database, tmp_path / "effects.txt")
