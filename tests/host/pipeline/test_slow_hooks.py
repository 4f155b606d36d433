"""A hook that blocks the event loop is logged with its plugin's name, whatever its stage."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest

from toolstile_hookspecs import hookimpl, tool

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def noisy_machine() -> None:
    """Here it is a subject."""


@tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


class Slow:
    """A plugin whose one hook takes its time without letting others run."""

    def __init__(self, stage: str) -> None:
        self.stage = stage

    def _take_time(self, stage: str) -> None:
        if stage == self.stage:
            time.sleep(0.08)

    @hookimpl
    def toolstile_trace(self) -> Any:
        self._take_time("trace")

    @hookimpl
    def toolstile_lookup(self) -> Any:
        self._take_time("lookup")

    @hookimpl
    def toolstile_parse(self) -> Any:
        self._take_time("parse")

    @hookimpl
    def toolstile_check(self) -> Any:
        self._take_time("check")

    @hookimpl
    def toolstile_snapshot(self) -> Any:
        self._take_time("snapshot")

    @hookimpl
    def toolstile_execute(self) -> Any:
        self._take_time("execute")

    @hookimpl
    def toolstile_render(self) -> Any:
        self._take_time("render")

    @hookimpl
    def toolstile_on_result(self) -> Any:
        self._take_time("on_result")

    @hookimpl
    def toolstile_telemetry(self) -> Any:
        self._take_time("telemetry")


STAGES = (
    *("trace", "lookup", "parse", "check", "snapshot"),
    *("execute", "render", "on_result", "telemetry"),
)


@pytest.mark.parametrize("stage", STAGES)
def test_a_hook_that_blocks_the_event_loop_is_logged_with_its_plugins_name(
    yard: Any, stage: str, caplog: pytest.LogCaptureFixture
) -> None:
    yard.open(add, plugins=(Slow(stage),))
    with caplog.at_level(logging.WARNING, "toolstile"):
        assert yard.call("add", a=1, b=2).success

    if yard.driver == "async":
        assert "Slow blocked the event loop" in caplog.text
    else:
        assert caplog.records == []
