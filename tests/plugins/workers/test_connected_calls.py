"""Handlers on workers that use the session, the workspace and other tools of their host."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pydantic import SecretStr
from tests.hookspecs.failing_services import failing

from toolstile import Host, Status, ToolCall
from toolstile_hookspecs import Binding, Heartbeat, Outcome, StateError
from toolstile_hookspecs.services.dispatcher import DispatchedCall, Dispatcher, DispatchOutcome
from toolstile_hookspecs.testing.dispatch_processes import PATIENCE
from toolstile_plugins.workers.connections import HostAddress

from . import connected_tools
from .conftest import Site
from .connected_tools import Entry
from .test_calls import lives, until

pytestmark = pytest.mark.slow

MODULE = "tests.plugins.workers.connected_tools"
NAMES = [tool.name for tool in connected_tools.ON_WORKERS]


@pytest.fixture(scope="module", params=["local", pytest.param("dbos", marks=pytest.mark.long)])
def worker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Site]:
    database = None
    if request.param == "dbos":
        pytest.importorskip("dbos")
        database = request.getfixturevalue("postgres").make()
    # No test ends this worker, and a busy machine may stop it for longer than a short lease.
    with closing(Site(tmp_path_factory.mktemp("worker"), database, lease=30)) as site:
        site.start(concurrency=3, tools=MODULE)
        yield site


def host_of(site: Site, **more: Any) -> Host:
    tools = [*connected_tools.ON_WORKERS, connected_tools.local, connected_tools.peek]
    return site.host(tools, runs={"tools": NAMES}, **more)


@pytest.fixture
def host(shared: Site) -> Generator[Host]:
    with host_of(shared) as host:
        yield host


def entries(session: Any) -> list[int]:
    return [entry.order for entry in session[Entry].all()]


def test_the_session_and_the_workspace_are_those_of_the_call(host: Host):
    with host.executor() as tools:
        first = tools.dispatch(ToolCall("book", {"order": 1}))
        failed = tools.dispatch(ToolCall("book", {"order": 2, "fails": True}))
        second = tools.dispatch(ToolCall("book", {"order": 3}))
        assert [first.result.value, second.result.value] == [1, 2]
        assert failed.text == "Internal error in book: Order 2 is gone."
        # What the failed one changed is undone.
        assert entries(tools.session) == [1, 3]
        assert {entry.process == os.getpid() for entry in tools.session[Entry].all()} == {False}
        assert tools.dispatch(ToolCall("peek", {"path": "3.txt"})).text == "2 booked"
        assert tools.dispatch(ToolCall("peek", {"path": "2.txt"})).text == "no file"


@pytest.mark.parametrize("name", ["local", "book"])
def test_a_handler_calls_other_tools(host: Host, name: str):
    reports: list[Any] = []

    def report(call: ToolCall, *told: Any) -> None:
        reports.append((call.name, *told))

    with host.executor(on_progress=report) as tools:
        outcome = tools.dispatch(ToolCall("relay", {"name": name, "order": 4}))
        assert outcome.text.startswith("relayed by ")
        assert f"relayed by {os.getpid()}" not in outcome.text
        expected = {"local": f"4 in {os.getpid()}", "book": "1"}
        assert outcome.result.value == expected[name]
        assert entries(tools.session) == ([4] if name == "book" else [])
    assert reports == [("relay", 1, 2, "half")]


@pytest.mark.parametrize(("fault", "state"), [("refused", "released"), ("closed", "unknown")])
def test_what_it_raises_says_whether_something_was_sent(
    host: Host, tmp_path: Path, fault: str, state: str
):
    with failing(fault, tmp_path) as url, host.executor() as tools:
        outcome = tools.dispatch(ToolCall("charge_booked", {"url": url}))
    assert "The payment failed" in outcome.text
    assert outcome.event.attributes["ledger.state"] == state


def test_heartbeats_reach_the_host(host: Host):
    beats: list[None] = []
    with host.executor(heartbeat=Heartbeat(lambda: beats.append(None))) as tools:
        assert tools.dispatch(ToolCall("beat")).success
    assert len(beats) >= 2


def stored_calls(site: Site) -> str:
    """Return all that the way of the calls has stored."""
    if "database" not in site.plugins:
        files = site.folder.glob("calls.db*")
        return "".join(file.read_bytes().decode("latin-1") for file in files)
    psycopg = pytest.importorskip("psycopg")
    with closing(psycopg.connect(site.plugins["database"]["url"])) as connection:
        tables = connection.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables "
            "WHERE schemaname IN ('public', 'toolstile_dbos')"
        ).fetchall()
        rows = [
            connection.execute(f"SELECT t::text FROM {name} t").fetchall() for (name,) in tables
        ]
    return str(rows)


def test_secrets_come_back_in_clear_and_are_not_stored_on_their_way(host: Host, shared: Site):
    with host.executor() as tools:
        outcome = tools.dispatch(ToolCall("log_in", {"password": "hunter2"}))
    assert outcome.result.value == SecretStr("token of hunter2")
    stored = stored_calls(shared)
    assert "log_in" in stored
    assert "hunter2" not in stored


def test_a_portable_resource_is_made_where_the_handler_runs(host: Host):
    made = Binding(connected_tools.Tariff, connected_tools.make_tariff, portable=True)
    with host.executor(resources=[made]) as tools:
        assert tools.dispatch(ToolCall("tariff")).text == "7 True"


def test_a_tool_that_is_no_function_runs_on_workers(host: Host):
    with host.executor() as tools:
        outcome = tools.dispatch(ToolCall("add", {"left": 1, "right": 2}))
        assert (outcome.result.value, outcome.result.message) == (3, tools.session.id)


def test_a_result_that_is_too_large_is_told(host: Host):
    with host.executor() as tools:
        told = tools.dispatch(ToolCall("large")).text
    assert "its result cannot be sent to its host: it takes 135," in told


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (None, "real"),
        ("127.0.0.1", "runs on another machine. Read and write its files instead."),
    ],
)
def test_the_real_directory_is_used_on_the_machine_of_the_host_alone(
    shared: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, expected: str
):
    monkeypatch.setattr(shared, "plugins", {**shared.plugins, "vfs": {"root": str(tmp_path)}})
    with host_of(shared, address=address) as host, host.executor() as tools:
        assert expected in tools.dispatch(ToolCall("directory")).text


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost:0", "[::1]"])
def test_workers_of_other_machines_connect_over_tls(shared: Site, address: str):
    with host_of(shared, address=address) as host, host.executor() as tools:
        assert tools.dispatch(ToolCall("book", {"order": 1})).text == "1"
        assert entries(tools.session) == [1]


def test_a_handler_is_part_of_its_callers_trace(
    shared: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    spans = tmp_path / "spans.jsonl"
    monkeypatch.setattr(shared, "plugins", {**shared.plugins, "otel": {"trace": str(spans)}})
    with host_of(shared) as host, host.executor() as tools:
        seen = tools.dispatch(ToolCall("trace_id")).text
        tools.dispatch(ToolCall("relay", {"name": "local", "order": 1}))
    written = [json.loads(line) for line in spans.read_text().splitlines()]
    assert written[0]["context"]["trace_id"] == f"0x{seen}"
    inner, outer = written[1:]
    assert inner["parent_id"] == outer["context"]["span_id"]


def while_running(
    host: Host, site: Site, do: Callable[[Any], object], name: str, **arguments: Any
) -> tuple[Outcome | None, list[int]]:
    """Call a tool, do something with the task once its handler runs; return outcome and orders."""
    before = len(site.noted())

    async def run() -> Any:
        with host.executor() as tools:
            running = asyncio.ensure_future(tools.adispatch(ToolCall(name, arguments)))
            await asyncio.to_thread(until, lambda: len(site.noted()) > before)
            do(running)
            await asyncio.wait([running], timeout=PATIENCE)
            outcome = None if running.cancelled() else running.result()
            return outcome, entries(tools.session)

    return asyncio.run(run())


def test_a_call_that_is_cancelled_ends_its_handler(host: Host, shared: Site):
    cancelled = while_running(
        host, shared, lambda running: running.cancel(), "pay_booked", order=1, seconds=60
    )
    assert cancelled == (None, [])
    process = int(shared.noted()[-1].split()[-1])
    until(lambda: not lives(process))


def test_a_handler_that_takes_too_long_is_killed(shared: Site):
    hasty = replace(connected_tools.look_long, timeout=0.8)
    with shared.host([hasty]) as host, host.executor() as tools:
        told = tools.dispatch(ToolCall("look_long", {"seconds": 60}))
    assert told.status is Status.TIMED_OUT
    process = int(shared.noted()[-1].split()[-1])
    until(lambda: not lives(process))


def test_an_effect_of_a_killed_worker_is_unknown_and_changes_nothing(any_site: Site):
    worker = any_site.start(tools=MODULE)
    with host_of(any_site) as host:
        told, booked = while_running(
            host, any_site, lambda _: worker.kill(), "pay_booked", order=1, seconds=60
        )
        assert told is not None
        assert "its outcome is unknown: Its worker was lost while it ran." in told.text
        assert booked == []
        any_site.start(tools=MODULE)
        with host.executor() as tools:
            again = tools.dispatch(ToolCall("pay_booked", {"order": 1}))
            assert "its outcome is unknown" in again.text
            assert tools.dispatch(ToolCall("pay_booked", {"order": 2})).text == "2"
    assert [line.rpartition(" ")[0] for line in any_site.noted()] == ["paid 1", "paid 2"]


def test_a_worker_that_stands_still_is_told_though_its_handler_is_connected(any_site: Site):
    worker = any_site.start(tools=MODULE)

    def stop(_: object) -> None:
        for process in (worker.pid, int(any_site.noted()[0].split()[-1])):
            os.kill(process, signal.SIGSTOP)

    with host_of(any_site) as host:
        told, booked = while_running(host, any_site, stop, "pay_booked", order=1, seconds=60)
    # It has the streams of its worker, and nobody else ends it.
    os.kill(int(any_site.noted()[0].split()[-1]), signal.SIGKILL)
    assert told is not None
    assert "its outcome is unknown: Its worker was lost while it ran." in told.text
    assert booked == []


def test_a_read_of_a_killed_worker_may_be_repeated(any_site: Site):
    worker = any_site.start(tools=MODULE)
    with host_of(any_site) as host:
        told, _ = while_running(host, any_site, lambda _: worker.kill(), "look_long", seconds=60)
    assert told is not None
    assert told.text == (
        "look_long gave no result: Its worker was lost while it ran. It only reads, so the call "
        "may be repeated."
    )


def test_a_host_that_cannot_be_reached_is_told_and_its_call_does_not_begin(
    shared: Site, monkeypatch: pytest.MonkeyPatch
):
    with TemporaryDirectory() as folder, host_of(shared) as host, host.executor() as tools:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        assert tools.dispatch(ToolCall("beat")).success
        # As where the folder is on another machine.
        (place,) = Path(folder).glob("toolstile-*/host")
        place.unlink()
        told = tools.dispatch(ToolCall("pay_booked", {"order": 9}))
    assert told.text == ("pay_booked was not run: its worker cannot reach its host. Retry later.")
    assert told.event.attributes["toolstile.for_operator"] == (
        f"The worker cannot reach the host at {place} ([Errno 2] No such file or directory). For "
        "workers on other machines, set address in [plugins.workers] of the host."
    )
    assert shared.noted() == []


class Failing:
    """A dispatcher whose worker is lost before it answers, and which cannot be asked then."""

    def __init__(self, connects: bool) -> None:
        self._connects = connects

    async def submit(self, call: DispatchedCall) -> DispatchOutcome:
        if not self._connects:
            raise StateError("The database is away.")
        self._connects = False
        assert call.connection is not None
        HostAddress(*json.loads(call.connection)).connect().close()
        await asyncio.Event().wait()
        raise AssertionError

    def close(self) -> None:
        """Hold nothing."""


UNKNOWN = "may have had its effect, but its outcome is unknown: The database is away."


def test_the_time_in_the_queue_does_not_count_against_the_timeout(site: Site):
    late = replace(connected_tools.pay_booked, timeout=1)
    with site.host([late]) as host:
        start = threading.Timer(1.5, partial(site.start, tools=MODULE))
        start.start()
        with host.executor() as tools:
            assert tools.dispatch(ToolCall("pay_booked", {"order": 1})).success
        start.join()


@pytest.mark.parametrize(
    ("connects", "name", "text"),
    [
        (False, "pay_booked", "pay_booked could not be submitted: The database is away."),
        (True, "pay_booked", f"{UNKNOWN} Do not repeat the call until its outcome is known."),
        (True, "mark_booked", f"{UNKNOWN} The call may be repeated."),
    ],
)
def test_a_dispatcher_that_fails_is_told(site: Site, connects: bool, name: str, text: str):
    failing: Any = Failing(connects)
    bound = [Binding.instance(Dispatcher, failing)]
    with host_of(site) as host, host.executor(resources=bound) as tools:
        assert text in tools.dispatch(ToolCall(name, {"order": 1})).text
