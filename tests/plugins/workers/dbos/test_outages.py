"""Calls on workers through DBOS while the database goes away and comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from toolstile_hookspecs import StateError
from toolstile_hookspecs.services.dispatcher import DispatchOutcome, DispatchState
from toolstile_hookspecs.testing.dispatch_processes import PATIENCE, Processes

from .with_database import WithDatabase

pytest.importorskip("dbos")
pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture
def processes(database: str, tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(partial(WithDatabase, database), tmp_path)
    yield processes
    processes.close()


async def _submit_all(dispatcher: WithDatabase, calls: list[Any]) -> list[Any]:
    async def later(number: int) -> DispatchOutcome:
        await asyncio.sleep(number * 0.05)
        return await dispatcher.submit(calls[number])

    waiting = map(later, range(len(calls)))
    return list(await asyncio.gather(*waiting, return_exceptions=True))


@pytest.mark.parametrize("seconds", [0.2, 4])
def test_a_database_that_restarts_doubles_and_loses_nothing(
    database: str, postgres: Any, processes: Processes, seconds: float
) -> None:
    processes.worker(4)
    calls = [processes.call(f"k{number}", seconds=0.1) for number in range(60)]

    def restart() -> None:
        processes.await_note("k5")
        postgres.stop()
        time.sleep(seconds)
        postgres.start()

    with closing(WithDatabase(database)) as dispatcher, ThreadPoolExecutor(1) as pool:
        restarting = pool.submit(restart)
        told = asyncio.run(_submit_all(dispatcher, calls))
        restarting.result()
        assert {type(one) for one in told} <= {DispatchOutcome, StateError}
        final = {
            call.key: one if _is_known(one) else _asked_later(dispatcher, call.key)
            for call, one in zip(calls, told, strict=True)
        }
    ran = [key for key, outcome in final.items() if outcome.state is DispatchState.RESULT]
    assert sorted(processes.noted()) == sorted(ran)
    assert {final[key].state for key in final.keys() - ran} <= {DispatchState.NOT_RUN}


def _is_known(told: Any) -> bool:
    return isinstance(told, DispatchOutcome) and told.state is not DispatchState.UNKNOWN


def _asked_later(dispatcher: WithDatabase, key: str) -> DispatchOutcome:
    until = time.monotonic() + PATIENCE
    while not _is_known(outcome := dispatcher.withdraw(key)):
        assert time.monotonic() < until, f"{key} stays {outcome}"
        time.sleep(0.05)
    assert outcome is not None
    return outcome
