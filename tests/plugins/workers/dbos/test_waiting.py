"""The calls for which a host waits."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import pytest

from toolstile_hookspecs import StateError
from toolstile_hookspecs.services.dispatcher import DispatchedCall, DispatchOutcome, DispatchState
from toolstile_plugins.workers.dbos.tables import PostgresStarts

from .with_database import WithDatabase

pytest.importorskip("dbos")
pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_who_joins_a_call_while_the_database_is_away_waits_with_the_others(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = DispatchedCall("k", "pay", None, "{}")

    def fail(*_: Any) -> Any:
        raise StateError("The database is away.")

    async def run(dispatcher: WithDatabase) -> list[DispatchOutcome]:
        first = asyncio.ensure_future(dispatcher.submit(call))
        # It is submitted, and no worker is there.
        await asyncio.sleep(1)
        with monkeypatch.context() as patch:
            patch.setattr(PostgresStarts, "find", fail)
            second = asyncio.ensure_future(dispatcher.submit(call))
            await asyncio.sleep(0.1)
        await asyncio.to_thread(dispatcher.withdraw, "k")
        async with asyncio.timeout(30):
            return [await first, await second]

    with closing(WithDatabase(database)) as dispatcher:
        told = asyncio.run(run(dispatcher))
    assert [outcome.state for outcome in told] == [DispatchState.NOT_RUN] * 2
