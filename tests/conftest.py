"""Settings and fixtures of all tests."""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
import socket
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

from .node import Npm, find_npm
from .postgres_server import Server

pytest.register_assert_rewrite("toolstile_hookspecs.testing")

# Waiting for the disk shows nothing but the disk; tests of `power` ask for it.
os.environ["TOOLSTILE_DURABILITY"] = "process"

# Machines are noisy: how long an example took says nothing about the code.
settings.register_profile(
    "toolstile", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("toolstile")


HERE: Final = Path(__file__).parent

LONG: Final = {
    "adapters/test_claude_sessions.py": 99,
    "adapters/test_mutants.py": 99,
    "adapters/test_other_process.py": 99,
    "agent/test_killed.py": 2,
    "console/test_accessibility.py": 2,
    "database/test_away.py": 2,
    "database/test_crash.py": 1,
    "database/test_racing.py": 1,
    "inbox/test_killed.py": 4,
    "ledger/test_crash.py": 4,
    "ledger/test_reconcile_crash.py": 1,
    "power/test_power_cuts.py": 1,
    "server/test_conformance.py": 2,
    "shell/test_canaries.py": 1,
    "sessions/test_crash.py": 2,
    "tests/test_house.py": 1,
    "tests/test_stored_names.py": 3,
    "workers/test_calls.py": 3,
    "workers/test_connected_calls.py": 3,
}
"""Files of whose slow tests one in so many is in the default run; the others are long."""

SOME: Final = 8
"""Of the slow tests of any other file, one in so many is in the default run."""

MANY: Final = 4
"""The cases of one slow test in the default run, about; the others are long."""

ALL_SLOW: Final = re.compile(r"^pytestmark = \[?pytest\.mark\.(slow|long)\b", re.MULTILINE)
"""The mark of a file without a test that is not slow."""

SOME_SLOW: Final = re.compile(r"\b(slow|long|long_if|much_alike)\b")
"""A file without such a word marks no test as slow."""

LONGEST: Final = ("test_bfcl.py", "test_house.py", "test_stored_names.py", "test_types.py")
"""The files that take longest."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer to leave out most cases of tests that have many."""
    parser.addoption(
        "--cases",
        type=int,
        metavar="N",
        help="of each test with more cases than N, carry out about N, evenly apart",
    )
    parser.addoption("--no-caches", action="store_true", help="let hosts share no cached results")


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
    if config.getoption("no_caches"):
        os.environ["TOOLSTILE_NO_CACHE"] = "1"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Workers tell the controller of each test, and ask it of the next one, in two small packets.
    # Without this the second waits until the first is acknowledged: 40 ms a test.
    connection = getattr(getattr(config, "failures_db", None), "sock", None)
    if connection is not None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files in which `-m` chooses nothing; each process imports every file."""
    chosen = str(config.option.markexpr)
    if collection_path.suffix != ".py" or not chosen.startswith(("slow", "long", "not slow")):
        return None
    if chosen.startswith("not"):
        leaves_out = ALL_SLOW.search(collection_path.read_text(encoding="utf-8")) is not None
    else:
        # A fixture of a folder may mark some of its parameters.
        near = [path for path in collection_path.parents if path.is_relative_to(HERE)]
        leaves_out = not (_has_slow(collection_path) or any(map(_has_slow_fixtures, near)))
    return leaves_out or None


@cache
def _has_slow_fixtures(folder: Path) -> bool:
    support = (path for path in folder.glob("*.py") if not path.name.startswith("test_"))
    return folder != HERE and any(map(_has_slow, support))


def _has_slow(path: Path) -> bool:
    return SOME_SLOW.search(path.read_text(encoding="utf-8")) is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is long with the parameters it has; begin with the file that takes longest."""
    alike: Counter[Path] = Counter()
    for item in items:
        mark = item.get_closest_marker("much_alike")
        number = mark.args[0] if mark else LONG.get("/".join(item.path.parts[-2:]), SOME)
        is_slow = item.get_closest_marker("slow") and not item.get_closest_marker("packaging")
        if number > 1 and is_slow:
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
    brief = (
        item
        for item in items
        if item.get_closest_marker("slow") and not item.get_closest_marker("long")
    )
    for item in _most_cases(brief, MANY):
        item.add_marker("long")
    # So that workers end together.
    items.sort(key=lambda item: item.path.name not in LONGEST)
    if config.option.cases:
        left_out = _most_cases(items, config.option.cases)
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


def _most_cases(items: Iterable[pytest.Item], number: int) -> dict[pytest.Item, None]:
    """Return the cases of tests with many, but for about so many that lie evenly apart."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return {
        item: None
        for several in cases.values()
        for place, item in enumerate(several)
        if place % -(-len(several) // number)
    }


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


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server; skips where none is installed."""
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def database(postgres: Server) -> str:
    """The connection string of an empty database."""
    return postgres.make()


FOR_OPERATORS = re.compile(
    r"`?\btoolstile (?:approvals|ask|call|database|doctor|ledger|mcp|record|run|sessions|worker)\b"
    r"|(?<![\w:/.])/(?:etc|home|opt|private|root|srv|tmp|usr|var|work)/"
    r"|\bapproval_(?:key|spent)\b|(?<![\w.])plugins\.[a-z]|\bTOOLSTILE_|\bpip install\b"
    r"|\b[0-9a-f]{64}\b"
)
"""Commands, folders of a machine, settings, and keys of the ledger."""


@pytest.fixture(autouse=True)
def model_texts(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    """Collect every text that a call gives to a model, and refuse those for an operator.

    A test whose tool itself returns such a text is marked with ``operator_text(reason)``.
    """
    texts = list[str]()
    if request.node.get_closest_marker("operator_text"):
        yield texts
        return
    from toolstile.pipeline import event

    publish = event.publish

    def collect(run: Any, table: Any) -> None:
        publish(run, table)
        text = run.outcome.text
        found = [match[0] for match in FOR_OPERATORS.finditer(text)]
        # The model knows the words of its own call.
        if not found or any(each not in str(run.call_made.arguments) for each in found):
            texts.append(text)

    monkeypatch.setattr(event, "publish", collect)
    yield texts
    assert [text for text in texts if FOR_OPERATORS.search(text)] == []
