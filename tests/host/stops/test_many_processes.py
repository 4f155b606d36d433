"""A stop in a storm: nothing is committed after it has returned, in any process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from toolstile import Host
from toolstile_hookspecs.services.ledger import EffectState
from toolstile_plugins.ledger.stores.sqlite import SqliteStore
from toolstile_plugins.sessions.sqlite import SqliteSessions

DRIVER = Path(__file__).with_name("stop_driver.py")
sys.path.append(str(DRIVER.parent))
from stop_driver import read, settings  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="a stop reaches no other process there"),
]
PROCESSES = 4


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def kept(folder):
    """Return the entries of all sessions, and the keys of the ledger by their states."""
    with closing(SqliteSessions(folder / "calls.db")) as sessions:
        entries = {info.id: info.number for info in sessions.sessions()}
    states = {state: set() for state in EffectState}
    with closing(SqliteStore(folder / "calls.db")) as ledger:
        for entry in ledger.entries():
            states[entry.state].add(entry.claim.call_id)
    return entries, states


@pytest.mark.parametrize(
    ("rounds", "durability", "rate"),
    [
        pytest.param(4, "process", 0),
        pytest.param(20, "process", 200, marks=pytest.mark.long),
        pytest.param(20, "power", 0, marks=pytest.mark.long),
    ],
)
def test_nothing_is_committed_after_a_stop_has_returned(tmp_path, rounds, durability, rate):
    names = [f"p{number}" for number in range(PROCESSES)]
    running = [
        subprocess.Popen(
            [sys.executable, DRIVER, tmp_path, name, durability],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a pipe would be full of the notes of refused calls
            text=True,
        )
        for name in names
    ]
    until(lambda: all((tmp_path / f"{name}.ready").exists() for name in names))
    started, late, stopped_for = time.monotonic(), set(), 0.0
    with Host(settings=settings(tmp_path, durability)) as host:
        for number in range(rounds):
            time.sleep(0.3)
            host.stop(f"round {number}")
            returned, began = time.time_ns(), time.monotonic()
            before, states = kept(tmp_path)
            time.sleep(0.3)
            after, _ = kept(tmp_path)
            assert after == before
            lines = read(tmp_path / "bank.log")
            late |= {key for written, key in lines if written > returned}
            # Also a payment that was written before: it is committed, or it is unknown.
            assert not states[EffectState.DONE] & late
            host.go()
            stopped_for += time.monotonic() - began
        time.sleep(0.3)
    seconds = time.monotonic() - started - stopped_for
    (tmp_path / "done").touch()
    found = [json.loads(process.communicate(timeout=120)[0]) for process in running]
    _, states = kept(tmp_path)
    calls = {state: len(keys) for state, keys in states.items()}
    with closing(SqliteStore(tmp_path / "calls.db")) as ledger:
        entries = [*ledger.entries()]
    lines = [key for _, key in read(tmp_path / "bank.log")]
    assert len(lines) == len(set(lines)) == len(entries)
    assert set(calls) >= {EffectState.DONE}
    for each in found:
        assert {f"round {number}" for number in range(rounds)} <= {*each["reasons"]}
        assert set(each["statuses"]) <= {"succeeded", "denied", "cancelled"}
    succeeded = sum(each["statuses"]["succeeded"] for each in found)
    assert succeeded == calls[EffectState.DONE]
    assert calls[EffectState.DONE] + calls[EffectState.UNKNOWN] == len(lines)
    told = f"{succeeded} calls in {seconds:.1f} s, {len(late)} lines after a stop, all unknown"
    sys.stdout.write(f"{told}\n")
    assert succeeded / seconds >= rate, told
