"""Pipelines side by side on one thread, whatever interrupts it."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from toolstile.drivers import sync_driver
from toolstile.drivers.background_loop import Background
from toolstile.drivers.job import Run, Step
from toolstile.drivers.sync_driver import SyncDriver
from toolstile.pipeline.hook_calls import ENDLESS
from toolstile_hookspecs.support.event_loop import Workers

PATIENCE = 60.0


class Nobody:
    """An owner whom nothing concerns."""

    def abandon(self, reason: str) -> None:
        del reason

    def ended_late(self) -> None:
        pass


class Interrupted:
    """A queue in which an interruption comes when the first message was just taken out."""

    def __init__(self) -> None:
        self._messages: SimpleQueue[int] = SimpleQueue()
        self._interrupts = True

    def put(self, message: int) -> None:
        self._messages.put(message)

    def get(self, timeout: float | None = None) -> int:
        message = self._messages.get(timeout=timeout)
        if self._interrupts:
            self._interrupts = False
            raise KeyboardInterrupt
        return message


@pytest.fixture
def driver() -> Iterator[SyncDriver]:
    workers, background = Workers(), Background()
    yield SyncDriver(workers, background)
    workers.close()
    background.close()


def test_an_interruption_does_not_make_it_forget_what_has_ended(
    driver: SyncDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_driver, "SimpleQueue", Interrupted)
    given: list[Any] = []
    raised: list[BaseException] = []

    async def keep() -> str:
        return "kept"

    def pipeline() -> Generator[Step, Any, None]:
        given.append((yield Run(keep, True, ENDLESS, Nobody(), False, uninterruptible=True)))

    def drive() -> None:
        try:
            driver.drive_all([pipeline()], lambda _: None)
        except KeyboardInterrupt as error:
            raised.append(error)

    driving = threading.Thread(target=drive, daemon=True)
    driving.start()
    driving.join(PATIENCE)

    assert not driving.is_alive()
    assert given == ["kept"]
    assert len(raised) == 1


class LosingOnce:
    """A pipeline whose first step gets lost, as where Ctrl-C comes when it is just returned."""

    def __init__(self, pipeline: Generator[Step, Any, Any]) -> None:
        self._pipeline = pipeline
        self._loses = True

    def send(self, answer: Any) -> Step:
        step = self._pipeline.send(answer)
        if self._loses:
            self._loses = False
            raise KeyboardInterrupt
        return step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pipeline, name)


def test_a_pipeline_whose_step_gets_lost_in_an_interruption_is_interrupted(
    driver: SyncDriver,
) -> None:
    ended: list[str] = []

    def pipeline() -> Generator[Step, Any, None]:
        try:
            yield Run(lambda: None, False, ENDLESS, Nobody(), inline=False)
        except KeyboardInterrupt:
            ended.append("interrupted")
            raise

    losing: Any = LosingOnce(pipeline())
    with pytest.raises(KeyboardInterrupt):
        driver.drive_all([losing], lambda _: None)

    assert ended == ["interrupted"]
