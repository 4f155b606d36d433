"""Stops one thread for a moment, somewhere in each test: `pytest -p pausing --pause-seed 1`.

Machines do that at any time. What waits for time where it should wait for an event then fails, and
so does code that believes nothing can happen between two of its lines. The thread is stopped where
a function of Toolstile, of a test, or of what threads and event loops are made of begins, goes on
or returns. Where that is depends on the seed and the test; what other threads do meanwhile does not
stay the same, so that a failure need not come again.
"""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Final

import pytest

from pausing.pauses import Pauses

PLUGIN: Final = pytest.StashKey[Pauses]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--pause-seed`."""
    parser.addoption(
        "--pause-seed", default="1", metavar="SEED", help="decides where threads are stopped"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Watch functions, from now on."""
    config.stash[PLUGIN] = Pauses()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Watch no more."""
    config.stash[PLUGIN].close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Stop a thread during the test."""
    chance = Random(f"{item.config.getoption('--pause-seed')} {item.nodeid}")
    with item.config.stash[PLUGIN].one(chance):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say in the report of a failure what was stopped, and where."""
    report = yield
    if report.failed and call.when == "call":
        report.sections.append(("paused", item.config.stash[PLUGIN].told))
    return report
