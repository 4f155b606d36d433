"""A failed call gives its key back only if nothing shows that its effect may have happened."""

from __future__ import annotations

import asyncio
import importlib
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.hookspecs.failing_services import failing

from toolstile import Host, Settings
from toolstile_hookspecs import (
    EffectUnknownError,
    ForeignTool,
    IdempotencyConfig,
    Interrupt,
    Reconciled,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    ToolValidationError,
    tool,
)

from .conftest import Bench

pytestmark = [pytest.mark.slow, pytest.mark.much_alike(6)]


class Lost(Exception):
    """An exception of an application, raised from that of its client."""


def charging(url: str) -> object:
    with urllib.request.urlopen(url, b"{}", timeout=0.3) as answer:
        return answer.read()


def wrapped(url: str) -> None:
    try:
        charging(url)
    except OSError as error:
        raise Lost("The payment failed.") from error


def declined(url: str) -> None:
    try:
        charging(url)
    except OSError as error:
        raise ToolError("The charge was not made. Ask for another card.") from error


def cannot_tell(params: Any, key: str, context: ToolContext) -> Reconciled:
    return Reconciled.cannot_tell("It is on its way.")


HOWS = {
    "returned": lambda url: ToolResult.error("The card was declined."),
    "ToolError": declined,
    "ValueError": int,
    "ToolValidationError": lambda url: _raise(ToolValidationError("No such card.")),
    "EffectUnknownError": lambda url: _raise(EffectUnknownError("No answer came.")),
    "client": charging,
    "wrapped": wrapped,
}


def _raise(error: Exception) -> None:
    raise error


RELEASED, UNKNOWN = "released", "unknown"
# How the handler fails, the service, and the state of the key: by default, with `reconcile`, and
# with `on_error` set to `release` and to `unknown`.
TABLE = [
    ("returned", "refused", RELEASED, RELEASED, RELEASED, UNKNOWN),
    ("ToolError", "silent", RELEASED, RELEASED, RELEASED, UNKNOWN),
    ("client", "refused", RELEASED, RELEASED, RELEASED, UNKNOWN),
    ("wrapped", "refused", RELEASED, RELEASED, RELEASED, UNKNOWN),
    ("client", "no such name", RELEASED, RELEASED, RELEASED, UNKNOWN),
    ("client", "TLS with a plain service", RELEASED, RELEASED, RELEASED, UNKNOWN),
    ("ValueError", "refused", RELEASED, UNKNOWN, RELEASED, UNKNOWN),
    ("ToolValidationError", "refused", RELEASED, UNKNOWN, RELEASED, UNKNOWN),
    ("client", "silent", UNKNOWN, UNKNOWN, RELEASED, UNKNOWN),
    ("client", "reset", UNKNOWN, UNKNOWN, RELEASED, UNKNOWN),
    ("wrapped", "closed", UNKNOWN, UNKNOWN, RELEASED, UNKNOWN),
    ("EffectUnknownError", "refused", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
]
CONFIGS: list[dict[str, Any]] = [
    {},
    {"reconcile": cannot_tell},
    {"on_error": "release", "reconcile": cannot_tell},
    {"on_error": "unknown"},
]


def pay(name: str, **options: Any) -> Tool[Any, Any]:
    @tool(name=name, **options)
    def handler(how: str, url: str) -> ToolResult[Any]:
        """Pay."""
        return HOWS[how](url) or ToolResult.ok()

    return handler


def test_each_failure_gives_its_key_back_or_leaves_the_effect_unknown(
    bench: Bench, tmp_path: Path
) -> None:
    names = ["plain", "asked", "released", "kept"]
    bench.open(
        *(
            pay(name, idempotency=IdempotencyConfig(scope="global", **config))
            for name, config in zip(names, CONFIGS, strict=True)
        )
    )
    found = []
    for how, fault, *_ in TABLE:
        with failing(fault, tmp_path) as url:
            outcomes = [bench.call(name, how=how, url=url) for name in names]
        assert all(outcome.status is not Status.SUCCEEDED for outcome in outcomes)
        states = [outcome.event.attributes["ledger.state"] for outcome in outcomes]
        found.append((how, fault, *states))
    assert found == TABLE


def test_a_second_call_charges_only_if_the_first_was_not_sent(bench: Bench, tmp_path: Path) -> None:
    """The service takes each payment; its answer to the first is lost."""
    payments: list[str] = []

    def find(params: Any, key: str, context: ToolContext) -> Reconciled:
        return Reconciled.happened("receipt 1") if payments else Reconciled.did_not()

    @tool(idempotency=IdempotencyConfig(scope="global", reconcile=find))
    def charge(url: str) -> str:
        """Charge."""
        payments.append(url)
        wrapped(url)
        return "receipt"

    bench.open(charge)
    with failing("closed", tmp_path) as url:
        lost = bench.call("charge", url=url)
        found = bench.call("charge", url=url)
    assert lost.text == (
        "Internal error in charge: The payment failed. No answer came, so its effect may have "
        "happened. Find out before you retry."
    )
    assert (found.text, found.event.replayed, len(payments)) == ("receipt 1", True, 1)


@pytest.mark.parametrize(
    ("options", "state"),
    [
        ({"category": "write"}, UNKNOWN),
        ({"category": "delete"}, UNKNOWN),
        # A tool that reads runs again in either case, and a contained one was rolled back.
        ({"category": "read"}, RELEASED),
        ({"contained": True}, RELEASED),
    ],
    ids=str,
)
def test_it_is_so_for_every_tool_with_an_effect(
    bench: Bench, tmp_path: Path, options: dict[str, Any], state: str
) -> None:
    bench.open(pay("pay", idempotency=IdempotencyConfig(), **options))
    with failing("closed", tmp_path) as url:
        outcome = bench.call("pay", how="client", url=url)
    assert outcome.event.attributes["ledger.state"] == state
    assert ("may have happened" in outcome.text) is (state == UNKNOWN)


def test_a_tool_that_another_one_reconciles_declares_it_as_well(tmp_path: Path) -> None:
    """The configuration names the other tool."""

    @tool(category="read")
    def find(key: str) -> dict[str, Any]:
        """Find a payment."""
        return {"happened": None, "reason": "It is on its way."}

    made = pay("pay", idempotency=IdempotencyConfig(scope="global"))
    settings = {"path": str(tmp_path / "l.db"), "reconcile": {"pay": {"tool": "find"}}}
    with (
        Host(tools=[made, find], settings=Settings(plugins={"ledger": settings})) as host,
        host.executor() as tools,
    ):
        outcome = tools.dispatch(ToolCall("pay", {"how": "ValueError", "url": "x"}))
    assert outcome.event.attributes["ledger.state"] == UNKNOWN


def test_a_pause_is_no_failure(bench: Bench) -> None:
    """The same call is made again once the run continues."""
    answers: list[str] = []

    @tool(idempotency=IdempotencyConfig(scope="global", reconcile=cannot_tell))
    def order(item: str) -> str:
        """Order."""
        if not answers:
            raise Interrupt("Ask the person.")
        return item

    bench.open(order)
    with pytest.raises(Interrupt):
        bench.call("order", item="tea")
    answers.append("yes")
    assert bench.call("order", item="tea").success


def test_a_tool_error_reads_as_a_failure_that_was_returned(bench: Bench) -> None:
    class CardError(ToolError):
        """An application's own."""

    @tool
    def fail(how: str) -> ToolResult[Any]:
        """Fail."""
        if how == "raised":
            raise CardError("The card was declined. Ask for another one.")
        return ToolResult.error("The card was declined. Ask for another one.")

    bench.open(fail)
    raised, returned = bench.call("fail", how="raised"), bench.call("fail", how="returned")
    assert (raised.status, raised.text) == (returned.status, returned.text)
    assert raised.status is Status.FAILED
    assert raised.result.success is False


def test_calls_of_a_batch_and_within_a_call_go_by_their_own_failure(
    bench: Bench, tmp_path: Path
) -> None:
    @tool(idempotency=IdempotencyConfig(scope="global", reconcile=cannot_tell))
    def shop(url: str, *, context: ToolContext) -> ToolResult[Any]:
        """Pay within."""
        paid = context.call("pay", {"how": "client", "url": url})
        return ToolResult.error(f"Not bought: {paid.text}")

    bench.open(pay("pay", idempotency=IdempotencyConfig(scope="global")), shop)
    with failing("closed", tmp_path) as lost, failing("refused", tmp_path) as refused:
        calls = [ToolCall("pay", {"how": "client", "url": url}) for url in (lost, refused)]
        outcomes = bench.dispatch_all(calls)
        assert [each.event.attributes["ledger.state"] for each in outcomes] == [UNKNOWN, RELEASED]
        bench.ledger.clear()
        outer = bench.call("shop", url=lost)
    assert outer.event.attributes["ledger.state"] == RELEASED
    assert bench.states() == [UNKNOWN]
    assert "may have happened" in outer.text


def test_a_tool_of_another_framework_goes_by_its_exception(bench: Bench, tmp_path: Path) -> None:
    def run(arguments: Any, context: ToolContext) -> object:
        return charging(arguments["url"])

    schema = {"type": "object", "properties": {"url": {"type": "string"}}}
    once = IdempotencyConfig(scope="global")
    given = ForeignTool("given", "Charge.", schema, idempotency=once)
    bench.open(ForeignTool("charge", "Charge.", schema, run, idempotency=once), given)
    for fault, state in (("refused", RELEASED), ("silent", UNKNOWN)):
        with failing(fault, tmp_path) as url:
            outcome = bench.call("charge", url=url)
            assert outcome.event.attributes["ledger.state"] == state
            using = bench.tools.dispatch(ToolCall("given", {"url": url}), using=run)
            assert using.event.attributes["ledger.state"] == state


def test_a_time_limit_of_the_handlers_own_goes_by_what_it_ended(
    bench: Bench, tmp_path: Path
) -> None:
    httpx = importlib.import_module("httpx2")

    @tool(idempotency=IdempotencyConfig(scope="global"))
    async def charge(url: str) -> str:
        """Charge."""
        async with asyncio.timeout(0.3), httpx.AsyncClient(timeout=None) as client:
            await client.post(url, content=b"{}")
        return "receipt"

    bench.open(charge)
    for fault, state in (("connect timeout", RELEASED), ("silent", UNKNOWN)):
        with failing(fault, tmp_path) as url:
            outcome = bench.call("charge", url=url)
        assert outcome.event.attributes["ledger.state"] == state, fault


def test_a_failure_that_nobody_waits_for_any_more_stays_unknown(bench: Bench) -> None:
    """The handler is refused a connection only after its call has timed out."""
    may_end, ended = threading.Event(), threading.Event()

    @tool(idempotency=IdempotencyConfig(scope="global"), timeout=0.1)
    def charge() -> str:
        """Charge."""
        may_end.wait(10)
        ended.set()
        raise ConnectionRefusedError

    bench.open(charge)
    outcome = bench.call("charge")
    may_end.set()
    assert ended.wait(10)
    assert outcome.status is Status.TIMED_OUT
    assert outcome.event.attributes["ledger.state"] == UNKNOWN
