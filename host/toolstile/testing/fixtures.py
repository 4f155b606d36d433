"""The fixtures that pytest finds wherever Toolstile is installed.

Nothing else of Toolstile is imported before a fixture is used, because pytest imports this module
in every run, before coverage is measured: `testing` loads a name when a fixture asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from toolstile import testing

if TYPE_CHECKING:
    from toolstile.testing.doubles import FakeClock
    from toolstile.testing.hosts import Hosts
    from toolstile.testing.workbench import Driver, Workbenches


@pytest.fixture
def toolstile_clock() -> FakeClock:
    """A clock that stands still until `advance(seconds)` is called; give it as `clock=`."""
    return testing.FakeClock()


@pytest.fixture
def toolstile_host() -> Iterator[Hosts]:
    """The fixture that opens hosts with chosen plugins, and closes them with the test.

    `host = toolstile_host("vfs", my_plugin)`; see `toolstile.testing.Hosts`.
    """
    hosts = testing.Hosts()
    try:
        yield hosts
    finally:
        hosts.close()


@pytest.fixture
def toolstile_driver() -> Driver:
    """The driver that `toolstile_tools` calls through; parametrize it with "sync" and "async"."""
    return "sync"


@pytest.fixture
def toolstile_tools(toolstile_host: Hosts, toolstile_driver: Driver) -> Iterator[Workbenches]:
    """The fixture that prepares the tools of chosen plugins.

    `toolstile_tools(my_plugin).call("add", a=1, b=2)`; see `toolstile.testing.Workbenches`.
    """
    if toolstile_driver not in ("sync", "async"):
        msg = f'toolstile_driver is {toolstile_driver!r}; parametrize it with "sync" and "async".'
        raise pytest.UsageError(msg)
    benches = testing.Workbenches(toolstile_host, toolstile_driver)
    unexpected: list[str] = []
    try:
        yield benches
    finally:
        unexpected += benches.close()
    if unexpected:
        pytest.fail("\n".join(unexpected), pytrace=False)
