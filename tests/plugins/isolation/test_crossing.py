"""Traces go along into the process of an isolated handler."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from toolstile_hookspecs import CrossingTrace, hookimpl


class Crossing:
    """A plugin whose traces go along into the processes of isolated handlers."""

    def __init__(self, crossing: Any) -> None:
        self._crossing = crossing

    @hookimpl
    def toolstile_trace(self) -> Any:
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def crossing(self) -> Any:
        return self._crossing


@pytest.mark.slow
def test_they_go_along_into_the_process_of_an_isolated_handler(
    yard: Any, handlers: Any, tmp_path: Path
) -> None:
    plugin = Crossing(handlers.Leaving(tmp_path / "trace"))
    yard.open(handlers.add, plugins=(plugin,))

    assert isinstance(plugin, CrossingTrace)
    process = yard.call("add", a=1).result.value.process
    assert process != os.getpid()
    assert (tmp_path / "trace").read_text().split() == [f"in:{process}", f"out:{process}"]


@pytest.mark.slow
@pytest.mark.parametrize("crossing", [lambda: None, None])
def test_one_that_cannot_go_along_is_logged_and_changes_nothing(
    yard: Any, handlers: Any, crossing: Any, caplog: pytest.LogCaptureFixture
) -> None:
    yard.open(handlers.add, plugins=(Crossing(crossing),))

    with caplog.at_level(logging.ERROR):
        assert yard.call("add", a=1).success
    assert ("cannot go along" in caplog.text) is (crossing is not None)
