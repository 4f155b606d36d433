"""Calls of a host that run on workers, which the command has started."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.hookspecs.failing_services import failing

from toolstile import ConfigurationError, Host, Settings, Status, ToolCall
from toolstile_hookspecs import Outcome, ToolContext, tool
from toolstile_hookspecs.testing.dispatch_processes import PATIENCE, PAUSE

from . import remote_tools
from .conftest import Site

pytestmark = pytest.mark.slow


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(PAUSE)


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def call(host: Host, tool: str, /, **arguments: Any) -> Outcome:
    with host.executor() as tools:
        return tools.dispatch(ToolCall(tool, arguments))


def while_paying(host: Host, site: Site, do: Callable[[Any], object], **arguments: Any) -> Outcome:
    """Call `pay`, and do something with the task once its handler runs."""
    before = len(site.noted())

    async def pay() -> Any:
        with host.executor() as tools:
            paying = asyncio.ensure_future(tools.adispatch(ToolCall("pay", arguments)))
            await asyncio.to_thread(until, lambda: len(site.noted()) > before)
            do(paying)
            await asyncio.wait([paying])
            return None if paying.cancelled() else paying.result()

    return asyncio.run(pay())


def test_handlers_run_in_processes_of_the_worker(shared: Site):
    """Results and failures come back as they would from a handler of the host's own."""
    with shared.host() as host:
        first, second = call(host, "where"), call(host, "where")
        assert first.result.value == second.result.value != os.getpid()
        greeted = call(host, "greet", name="Ada")
        assert (greeted.text, greeted.result.value) == ("Said.", "Hello Ada")
        told = {how: call(host, "fail", how=how).text for how in ("returned", "contract", "other")}
        assert told == {
            "returned": "No such order. Check it, then retry.",
            "contract": "Too much.",
            "other": "Internal error in fail: It is gone.",
        }
        advised = call(host, "fail", how="advised")
        assert advised.text == "Internal error in fail: It is gone."
        assert advised.event.attributes["toolstile.for_operator"] == "Mend /srv/till."


def test_what_it_raises_says_whether_something_was_sent(shared: Site, tmp_path: Path):
    """The worker sees the whole chain, of which only a text comes back."""

    def state(**arguments: Any) -> str:
        outcome = call(host, "charge", **arguments)
        return f"{outcome.event.attributes['ledger.state']}: {outcome.text}"

    with shared.host() as host:
        with failing("refused", tmp_path) as url:
            assert state(url=url) == "released: Internal error in charge: The payment failed."
        with failing("closed", tmp_path) as url:
            declined = "released: Not charged. Ask for another card."
            assert state(url=url, declines=True) == declined
            assert state(url=url) == (
                "unknown: Internal error in charge: The payment failed. No answer came, so its "
                "effect may have happened. Find out before you retry."
            )


def test_a_handler_that_takes_too_long_is_killed(shared: Site):
    with shared.host() as host:
        assert call(host, "linger").status is Status.TIMED_OUT
        process = int(shared.noted()[0].split()[-1])
        until(lambda: not lives(process))
        assert call(host, "where").success


def test_a_call_that_is_cancelled_ends_its_handler(shared: Site):
    with shared.host() as host:
        while_paying(host, shared, lambda paying: paying.cancel(), order=1, seconds=60)
        process = int(shared.noted()[0].split()[-1])
        until(lambda: not lives(process))


def test_what_dies_or_cannot_be_written_is_unknown(shared: Site):
    with shared.host() as host:
        assert "The process of its handler died while it ran." in call(host, "die").text
        assert "its result cannot be sent to its host: value" in call(host, "lost").text
        assert call(host, "where").success
    assert len(shared.noted()) == 2


def test_a_result_that_does_not_fit_is_unknown_and_its_call_is_not_repeated(shared: Site):
    @tool(name="pay", category="write", idempotency=remote_tools.pay.idempotency)
    def pay(order: int) -> list[str]:
        """Pay."""
        return [str(order)]

    ledger = {"path": str(shared.folder / "other.db")}
    workers = {**shared.workers, "runs": {"tools": ["pay"]}}
    with Host(
        tools=[pay], settings=Settings(plugins={"workers": workers, "ledger": ledger})
    ) as host:
        told = [call(host, "pay", order=4).text for _ in range(2)]
    assert "its worker's result does not fit here" in told[0]
    assert "outcome is unknown" in told[1]
    assert len(shared.noted()) == 1


def test_a_handler_is_part_of_its_callers_trace(shared: Site, tmp_path: Path):
    spans = tmp_path / "spans.jsonl"
    settings = Settings(
        plugins={
            "workers": {**shared.workers, "runs": {"tools": ["current_trace"]}},
            "otel": {"trace": str(spans)},
        }
    )
    with Host(tools=remote_tools.TOOLS, settings=settings) as host:
        seen = call(host, "current_trace").text
    traces = [json.loads(line)["context"]["trace_id"] for line in spans.read_text().splitlines()]
    assert [f"0x{seen}"] == traces


def test_versions_that_do_not_match_are_refused(shared: Site):
    newer = replace(remote_tools.versioned, version="3.0.0")
    settings = Settings(plugins={"workers": {**shared.workers, "runs": {}}})
    with Host(tools=[newer], settings=settings) as host:
        assert call(host, "versioned").text == (
            "versioned was not run: it is 3.0.0 here, and its workers have 2.0.0. This requires "
            "human intervention."
        )


def test_an_effect_of_a_killed_worker_is_unknown_and_not_repeated(any_site: Site):
    site = any_site
    worker = site.start()
    with site.host() as host:
        assert call(host, "pay", order=1).text == call(host, "pay", order=1).text == "1"
        told = while_paying(host, site, lambda _: worker.kill(), order=2, seconds=60)
        assert told.status is Status.FAILED
        assert "its outcome is unknown: Its worker was lost while it ran." in told.text
        site.start()
        assert "its outcome is unknown" in call(host, "pay", order=2).text
        assert call(host, "pay", order=3).text == "3"
    assert [line.rpartition(" ")[0] for line in site.noted()] == ["paid 1", "paid 2", "paid 3"]


def test_a_worker_that_is_asked_to_end_ends_its_calls_first(any_site: Site):
    site = any_site
    worker = site.start()
    with site.host() as host:
        end = partial(worker.send_signal, signal.SIGTERM)
        told = while_paying(host, site, lambda _: end(), order=1, seconds=0.5)
    assert told.text == "1"
    assert worker.wait(PATIENCE) == 0


def test_a_later_call_gets_the_result_of_a_host_that_was_killed(site: Site):
    """Its worker goes on, and the dispatcher is asked before the effect is called unknown."""
    site.start()
    first = site.start_host(1, seconds=1)
    until(site.noted)
    first.kill()
    first.wait()
    with site.host() as host:
        until(lambda: call(host, "pay", order=1).success)
        assert call(host, "pay", order=1).text == "1"
    assert [line.rpartition(" ")[0] for line in site.noted()] == ["paid 1"]


def test_a_call_of_a_killed_host_that_no_worker_took_runs_when_it_comes_again(site: Site):
    first = site.start_host(1, patience=1)
    until(lambda: waits_in(site))
    first.kill()
    first.wait()
    with site.host(patience=0.2) as host:
        until(lambda: "no worker took it in time" in call(host, "pay", order=1).text)
    site.start()
    with site.host() as host:
        assert call(host, "pay", order=1).text == "1"


def waits_in(site: Site) -> bool:
    """Tell whether a call waits for a worker."""
    file = site.folder / "calls.db"
    if not file.exists():
        return False
    with closing(sqlite3.connect(file)) as connection:
        try:
            return bool(connection.execute("SELECT * FROM toolstile_calls").fetchall())
        except sqlite3.OperationalError:
            # Its tables are just being made.
            return False


def test_without_a_worker_the_text_says_so_and_the_event_how_to_start_one(
    any_site: Site, caplog: pytest.LogCaptureFixture
):
    """Its tool's timeout is shorter than the time for which it waits."""
    with any_site.host([replace(remote_tools.pay, timeout=0.1)], patience=0.5) as host:
        told = call(host, "pay", order=1)
        assert told.text == (
            "pay was not run: no worker took it in time (workers: 0, none for it). This requires "
            "human intervention."
        )
        advice = "`toolstile worker --tools MODULE --concurrency N`, or raise plugins.workers."
        assert advice in told.event.attributes["toolstile.for_operator"]
        assert advice in caplog.text
        # It has not happened, so it may be tried again.
        assert call(host, "pay", order=1).text == told.text


def test_a_call_that_finds_its_workers_busy_says_so(any_site: Site):
    any_site.start()
    with any_site.host() as host, any_site.host(patience=0.5) as hasty:

        def wait_behind(paying: object) -> None:
            told = call(hasty, "where")
            assert told.text == (
                "where was not run: no worker took it in time (workers for it: 1, all busy). "
                "Retry later."
            )
            assert "that are there run: charge, " in told.event.attributes["toolstile.for_operator"]

        while_paying(host, any_site, wait_behind, order=1, seconds=3.5)


def test_the_time_in_the_queue_does_not_count_against_the_timeout(any_site: Site):
    """Neither that of the tool, nor that of its caller; the handler has all of its own."""

    @tool(timeout=1.5)
    def outer(*, context: ToolContext) -> str:
        """Call another tool."""
        return context.call("pay", {"order": 1, "seconds": 0.3}).text

    tools = [
        outer,
        replace(remote_tools.pay, timeout=1.5),
        replace(remote_tools.linger, timeout=0.5),
    ]
    with any_site.host(tools, runs={"tools": ["pay", "linger"]}) as host:
        start = threading.Timer(2.5, any_site.start)
        start.start()
        assert call(host, "outer").text == "1"
        start.join()
        assert call(host, "linger").status is Status.TIMED_OUT


def test_a_file_that_cannot_be_used_is_named_to_the_model(
    site: Site, caplog: pytest.LogCaptureFixture
):
    with site.host(path=str(site.folder)) as host:
        told = [call(host, "pay", order=1).text for _ in range(2)]
    assert told[0].startswith(
        f"pay could not be submitted: The calls of workers in {site.folder.name} cannot be used: "
    )
    assert told[1] == told[0]
    assert str(site.folder) in caplog.text
    assert {record.exc_info for record in caplog.records} <= {None}


def test_a_dispatcher_that_nobody_offers_is_refused(site: Site):
    with pytest.raises(ConfigurationError, match="'locl' is not known; did you mean 'local'"):
        site.host(dispatcher="locl").open()
