"""Workers of calls through DBOS."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest

from toolstile_hookspecs.testing.dispatch_processes import PATIENCE, Processes
from toolstile_hookspecs.testing.dispatcher import submitted

from .with_database import WithDatabase

pytest.importorskip("dbos")
pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_a_worker_that_ends_removes_what_nobody_will_ask_for(database: str, tmp_path: Path) -> None:
    with (
        closing(Processes(partial(WithDatabase, database), tmp_path)) as processes,
        closing(WithDatabase(database)) as dispatcher,
    ):
        worker = processes.worker()
        submitted(dispatcher, *map(processes.call, ("old", "new")))
        # Withdrawn long ago, it must not run, however late its workflow is seen.
        dispatcher.withdraw("withdrawn")
        with psycopg.connect(database, autocommit=True) as connection:
            for key, days in (("old", 8), ("withdrawn", 8), ("new", 6)):
                connection.execute(
                    "UPDATE toolstile_starts SET started_at = now() - %s * INTERVAL '1 day' "
                    "WHERE key = %s",
                    (days, key),
                )
            connection.execute(
                "INSERT INTO toolstile_starts (key, token, started_at) VALUES "
                "('lost', 't', now() - INTERVAL '8 days')"
            )
            worker.terminate()
            worker.join(PATIENCE)
            assert worker.exitcode == 0
            kept = connection.execute("SELECT key FROM toolstile_starts ORDER BY key").fetchall()
            assert kept == [("lost",), ("new",)]
            workflows = connection.execute(
                "SELECT workflow_uuid FROM toolstile_dbos.workflow_status"
            )
            assert workflows.fetchall() == [("new",)]
