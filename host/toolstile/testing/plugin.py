"""The fixtures that pytest finds wherever Toolyard is installed.

Nothing of Toolyard is imported before a fixture is used: pytest imports this module in every run,
before coverage is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from toolyard.testing.clock import FakeClock
    from toolyard.testing.hosts import Hosts
    from toolyard.testing.workbench import Driver, Workbenches


@pytest.fixture
def toolyard_clock() -> FakeClock:
    """A clock that stands still until `advance(seconds)` is called; give it as `clock=`."""
    from toolyard.testing.clock import FakeClock

    return FakeClock()


@pytest.fixture
def toolyard_host() -> Iterator[Hosts]:
    """What opens hosts with chosen plugins, and closes them with the test.

    `host = toolyard_host("vfs", my_plugin)`; see `toolyard.testing.Hosts`.
    """
    from toolyard.testing.hosts import Hosts

    hosts = Hosts()
    try:
        yield hosts
    finally:
        hosts.close()


@pytest.fixture
def toolyard_driver() -> Driver:
    """The driver that `toolyard_tools` calls through; parametrize it with "sync" and "async"."""
    return "sync"


@pytest.fixture
def toolyard_tools(toolyard_host: Hosts, toolyard_driver: Driver) -> Iterator[Workbenches]:
    """What makes ready to call the tools of chosen plugins.

    `toolyard_tools(my_plugin).call("add", a=1, b=2)`; see `toolyard.testing.Workbenches`.
    """
    from toolyard.testing.workbench import Workbenches

    if toolyard_driver not in ("sync", "async"):
        msg = f'toolyard_driver is {toolyard_driver!r}; parametrize it with "sync" and "async".'
        raise pytest.UsageError(msg)
    benches = Workbenches(toolyard_host, toolyard_driver)
    unexpected: list[str] = []
    try:
        yield benches
    finally:
        unexpected += benches.close()
    if unexpected:
        pytest.fail("\n".join(unexpected), pytrace=False)
