"""A caller that fails while others commit: each finds kept what it heard was kept, and no more."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from toolstile_hookspecs.services.ledger import EffectState
from toolstile_plugins.ledger.stores.sqlite import SqliteStore
from toolstile_plugins.sessions.sqlite import SqliteSessions

DRIVER = Path(__file__).with_name("neighbours_driver.py")
CALLERS = 8

FAULTS = {
    "raise": {"Refused"},
    "interrupt": {"KeyboardInterrupt"},
    "full": {"StateError", "LedgerError"},
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="it limits the size of files, and kills"),
]


def kept_in(file: Path) -> tuple[list[str], list[str]]:
    """Return the keys that are decided, by the sessions and by the ledger."""
    with closing(SqliteSessions(file)) as sessions, closing(SqliteStore(file)) as ledger:
        entries = [entry for info in sessions.sessions() for entry in sessions.after(info.id, 0)]
        for info in sessions.sessions():
            numbers = [entry.number for entry in sessions.after(info.id, 0)]
            assert numbers == [*range(1, info.number + 1)]
        done = [each.claim.key for each in ledger.entries() if each.state is EffectState.DONE]
        return [key for entry in entries for key in json.loads(entry.changes)], done


@pytest.mark.parametrize("way", FAULTS)
def test_their_outcomes_are_true(tmp_path: Path, way: str) -> None:
    done = subprocess.run(
        [sys.executable, DRIVER, tmp_path, way],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {fault for faults in told["failed"].values() for fault in faults} <= FAULTS[way]
    assert told["failed"]
    in_sessions, in_ledger = kept_in(tmp_path / "state.db")
    assert sorted(in_sessions) == sorted(in_ledger)
    assert len({*in_sessions}) == len(in_sessions)
    kept, interrupted = {*told["kept"]}, {*told["failed"]} if way == "interrupt" else set[str]()
    # An interruption may come after the commit, as the caller is told of it.
    assert kept <= {*in_sessions} <= kept | interrupted
    assert {f"{session}-40" for session in range(CALLERS)} <= kept
