"""Log records made within a call carry the ids of its trace, its span and itself."""

from __future__ import annotations

import functools
import logging
from typing import Any

import pytest

from toolstile_hookspecs import tool
from toolstile_plugins.otel.propagation import ids_in_logs

log = logging.getLogger("tests.otel")


@tool
def quiet() -> None:
    """Log a line."""
    log.info("at work")


@tool(timeout=30)
def elsewhere() -> None:
    """Log a line on a thread of its own."""
    log.info("at work")


@tool(timeout=30)
async def later() -> None:
    """Log a line on an event loop."""
    log.info("at work")


@pytest.mark.parametrize("made", [quiet, elsewhere, later], ids=lambda each: each.name)
def test_handlers_log_with_ids(traced: Any, made: Any, caplog: pytest.LogCaptureFixture) -> None:
    traced.open(made)
    with ids_in_logs(), caplog.at_level(logging.INFO):
        log.info("before")
        traced.call(made.name)

    before, within = [each for each in caplog.records if each.name == "tests.otel"]
    ids = traced.span.context
    assert vars(before)["otelTraceID"] == vars(before)["otelSpanID"] == "0"
    assert vars(before)["toolstileCallID"] == ""
    assert vars(within)["otelTraceID"] == f"{ids.trace_id:032x}"
    assert vars(within)["otelSpanID"] == f"{ids.span_id:016x}"
    assert vars(within)["otelTraceSampled"] is True
    assert vars(within)["toolstileCallID"] == "call_1"


def test_the_host_logs_a_failure_with_ids(traced: Any, caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def fail() -> None:
        """Fail."""
        raise ValueError("no paper")

    traced.open(fail)
    with ids_in_logs(), caplog.at_level(logging.ERROR):
        traced.call("fail")
    (record,) = [each for each in caplog.records if "no paper" in each.getMessage()]
    assert vars(record)["toolstileCallID"] == "call_1"


def test_afterwards_records_are_made_as_before() -> None:
    before = logging.getLogRecordFactory()
    with ids_in_logs():
        assert logging.getLogRecordFactory() is not before
    assert logging.getLogRecordFactory() is before


def test_a_factory_that_others_wrapped_is_left_in_place_without_effect() -> None:
    before = logging.getLogRecordFactory()
    try:
        with ids_in_logs():
            inner = logging.getLogRecordFactory()
            logging.setLogRecordFactory(functools.partial(inner))
            wrapping = logging.getLogRecordFactory()
        assert logging.getLogRecordFactory() is wrapping
        record = log.makeRecord("tests", logging.INFO, "f", 1, "text", (), None)
        assert "otelTraceID" not in vars(record)
    finally:
        logging.setLogRecordFactory(before)
