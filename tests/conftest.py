"""Settings and fixtures of all tests."""

from __future__ import annotations

import gc
import logging
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

from .node import Npm, find_npm

pytest.register_assert_rewrite("toolstile_hookspecs.testing")

# Machines are noisy: how long an example took says nothing about the code.
settings.register_profile(
    "toolstile", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("toolstile")


LONG: Final = {
    "adapters/test_claude_sessions.py": 99,
    "adapters/test_mutants.py": 99,
    "adapters/test_other_process.py": 99,
    "cli/test_help.py": 2,
    "cli/test_main.py": 2,
    "cli/test_reader.py": 2,
    "failures/test_interrupting.py": 2,
    "gateway/test_rules.py": 2,
    "inbox/test_killed.py": 2,
    "isolation/test_isolation.py": 2,
    "ledger/test_commands.py": 2,
    "record/test_commands.py": 2,
    "sandbox/test_escapes.py": 2,
    "sandbox/test_kills.py": 2,
    "server/test_hostile_clients.py": 2,
    "server/test_http.py": 2,
    "server/test_patience.py": 2,
}
"""Files with slow tests that start many processes: but for every so many, these are long."""

MANY: Final = 4
"""The most cases of one slow test that are all in the default run: of more it has every fourth."""


@pytest.fixture(autouse=True)
def noisy_machine() -> Iterator[None]:
    """Keep the news that something blocked the event loop out of the logs that tests compare.

    A machine may stop for longer than that takes at any time. A test whose subject it is has a
    fixture of this name that does nothing.
    """

    def says_something_else(record: logging.LogRecord) -> bool:
        return "blocked the event loop" not in record.msg

    logger = logging.getLogger("toolstile.pipeline")
    logger.addFilter(says_something_else)
    yield
    logger.removeFilter(says_something_else)


# The plugin that runs tests again connects in its own.
@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Hear Ctrl-C, as programs at a terminal do; a shell that runs tests behind takes it away."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Workers tell the controller of each test, and ask it of the next one, in two small packets.
    # Without this the second waits until the first is acknowledged: 40 ms a test.
    connection = getattr(getattr(config, "failures_db", None), "sock", None)
    if connection is not None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is long with the parameters it has; begin with the file that takes longest."""
    alike: Counter[Path] = Counter()
    for item in items:
        mark = item.get_closest_marker("much_alike")
        number = mark.args[0] if mark else LONG.get("/".join(item.path.parts[-2:]), 1)
        if number > 1 and item.get_closest_marker("slow"):
            if alike[item.path] % number:
                item.add_marker("long")
            alike[item.path] += 1
        has = (
            item.callspec.params
            if isinstance(item, pytest.Function) and hasattr(item, "callspec")
            else {}
        )
        for mark in item.iter_markers("long_if"):
            if all(name in has and has[name] == value for name, value in mark.kwargs.items()):
                item.add_marker("long")
        if item.get_closest_marker("long"):
            item.add_marker("slow")
    _leave_cases_to_the_long_runs(items)
    # So that workers end together.
    items.sort(key=lambda item: "third_party" not in item.path.parts)


def _leave_cases_to_the_long_runs(items: list[pytest.Item]) -> None:
    """Mark most cases of slow tests with many of them, since they are much alike."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("long"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for several in cases.values():
        for number, item in enumerate(several if len(several) > MANY else ()):
            if number % 4:
                item.add_marker("long")


def pytest_collection_finish() -> None:
    """Spare the garbage collector all that lives as long as the tests run."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show why a test had to be run again: a machine that stood still, or a race to be fixed."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.write_sep("_", f"run again: {report.nodeid}")
        terminalreporter.line(report.longreprtext)


@pytest.fixture(scope="session")
def npm() -> Npm:
    """The installer of programs that npm has; skips where there is no npm."""
    return find_npm()
