"""Calls of idempotent tools: what runs, what is answered, what is refused."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Event
from typing import Annotated, Any

import pytest
from pydantic import PlainSerializer, SecretStr

from toolstile import Session
from toolstile_hookspecs import (
    ApprovalRequest,
    Binding,
    Cancellation,
    EffectUnknownError,
    IdempotencyConfig,
    LedgerError,
    PolicyDecision,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    append_all,
    hookimpl,
    tool,
)
from toolstile_hookspecs.services.ledger import Claim, LedgerEntry
from toolstile_plugins.ledger import MemoryStore
from toolstile_plugins.policies import SequentialDependencyPolicy

from .conftest import Bench

pytestmark = [pytest.mark.slow, pytest.mark.much_alike(6)]


@dataclass(frozen=True)
class Order:
    item: str
    number: int

    def render(self) -> str:
        return f"order {self.number}: {self.item}"


def ordering(config: IdempotencyConfig | None = None, **options: Any):
    """Return a tool with an effect outside, and what it has done."""
    done: list[Order] = []

    @tool(name="order", idempotency=config or IdempotencyConfig(), **options)
    def order(item: str, note: str = "", *, context: ToolContext) -> ToolResult[Order]:
        """Order something."""
        done.append(Order(item, len(done) + 1))
        return ToolResult.ok(done[-1], message="Ordered.")

    return order, done


def refuse(*args: Any, **kwargs: Any) -> Any:
    raise LedgerError("The ledger is out of reach.")


class TestRepeating:
    def test_the_second_call_gets_the_first_ones_result_and_nothing_runs(self, bench):
        order, done = ordering()
        bench.open(order)
        first, second = bench.call("order", item="tea"), bench.call("order", item="tea")
        assert done == [Order("tea", 1)]
        assert second.result == first.result == ToolResult.ok(Order("tea", 1), message="Ordered.")
        assert second.text == first.text == "Ordered.\norder 1: tea"
        assert second.data == first.data
        assert not first.event.replayed
        assert second.event.replayed
        assert second.event.handler_duration is None
        assert first.event.attributes["ledger.state"] == "recorded"
        assert second.event.attributes["ledger.state"] == "hit"
        assert first.event.attributes["ledger.key"] == second.event.attributes["ledger.key"]

    def test_other_params_are_another_effect(self, bench):
        order, done = ordering()
        bench.open(order)
        bench.call("order", item="tea")
        bench.call("order", item="milk")
        assert [each.item for each in done] == ["tea", "milk"]

    @pytest.mark.parametrize("of_schema", [False, True])
    def test_whole_numbers_are_the_same_however_they_are_written(self, bench, of_schema):
        done: list[Any] = []

        @tool(name="count", idempotency=IdempotencyConfig())
        def count(number: int, share: Any = 1) -> str:
            """Count."""
            done.append(number)
            return "counted"

        if of_schema:
            count = Tool(
                name="count",
                description="Count.",
                handler=lambda params, *, context: ToolResult.ok(done.append(params["number"])),
                params_schema=count.params_codec.schema(),
                idempotency=IdempotencyConfig(),
            )
        bench.open(count)
        for text in ('{"number": 3.0, "share": 2}', '{"number": 3, "share": 2.0}'):
            assert bench.dispatch(ToolCall("count", text)).success
        assert done == [3]

    def test_tools_without_it_are_none_of_its_business(self, bench):
        done = []

        @tool
        def plain() -> str:
            """Do something."""
            done.append(1)
            return "x"

        none, none_done = ordering(IdempotencyConfig(strategy="none"))
        bench.open(plain, none)
        for _ in range(2):
            bench.call("plain")
            outcome = bench.call("order", item="tea")
        assert (len(done), len(none_done)) == (2, 2)
        assert outcome.event.attributes == {}
        assert bench.states() == []

    def test_an_excluded_value_stays_excluded_and_is_there(self, bench):
        @tool(idempotency=IdempotencyConfig())
        def fetch() -> ToolResult[Order]:
            """Fetch something big."""
            return ToolResult.ok(Order("big", 1), "Fetched.", exclude_value_from_context=True)

        bench.open(fetch)
        bench.call("fetch")
        again = bench.call("fetch")
        assert again.event.replayed
        assert again.result.value == Order("big", 1)
        assert (again.text, again.data) == ("Fetched.", None)

    def test_a_result_without_a_value_is_recorded_too(self, bench):
        @tool(idempotency=IdempotencyConfig())
        def ping() -> None:
            """Ping."""

        bench.open(ping)
        bench.call("ping")
        assert bench.call("ping").event.replayed

    def test_on_result_still_runs_so_that_a_policy_waiting_for_the_tool_is_satisfied(self, bench):
        order, done = ordering(IdempotencyConfig(scope="global"))

        @tool
        def pay() -> str:
            """Pay."""
            return "paid"

        def policies():
            return (SequentialDependencyPolicy(dependencies={"pay": frozenset({"order"})}),)

        bench.open(order, pay, policies=policies())
        bench.call("order", item="tea")
        bench.open(order, pay, policies=policies(), session=Session(id="s2"))
        assert bench.call("pay").status is Status.DENIED
        assert bench.call("order", item="tea").event.replayed
        assert bench.call("pay").success
        assert len(done) == 1


class TestScopes:
    @pytest.mark.parametrize(
        ("scope", "merged"), [("session", False), ("global", True), ("team-a", True)]
    )
    def test_another_session(self, bench, scope, merged):
        order, done = ordering(IdempotencyConfig(scope=scope))
        bench.open(order)
        bench.call("order", item="tea")
        bench.open(order, session=Session(id="s2"))
        assert bench.call("order", item="tea").event.replayed is merged
        assert len(done) == (1 if merged else 2)

    def test_names_of_ones_own_are_apart(self, bench):
        one, done = ordering(IdempotencyConfig(scope="a"))
        two, done_too = ordering(IdempotencyConfig(scope="b"))
        bench.open(one)
        bench.call("order", item="tea")
        bench.open(two)
        bench.call("order", item="tea")
        assert (len(done), len(done_too)) == (1, 1)

    def test_a_session_whose_id_is_a_scopes_name_is_not_that_scope(self, bench):
        one, _ = ordering(IdempotencyConfig(scope="global"))
        two, done = ordering(IdempotencyConfig(scope="session"))
        bench.open(one)
        bench.call("order", item="tea")
        bench.open(two, session=Session(id="global"))
        bench.call("order", item="tea")
        assert len(done) == 1

    def test_a_providers_retry_is_recognised_by_its_call_id(self, bench):
        order, done = ordering(IdempotencyConfig(scope="call"))
        bench.open(order)
        for _ in range(2):
            outcome = bench.dispatch(ToolCall("order", {"item": "tea"}, id="call_1"))
        assert outcome.event.replayed
        bench.dispatch(ToolCall("order", {"item": "tea"}, id="call_2"))
        assert len(done) == 2

    def test_a_providers_retry_is_recognised_in_sessions_of_the_same_id_only(self, bench):
        order, done = ordering(IdempotencyConfig(scope="call"))
        for session, made in (("a", 1), ("a", 1), ("b", 2)):
            bench.open(order, session=Session(id=session))
            bench.dispatch(ToolCall("order", {"item": "tea"}, id="call_1"))
            assert len(done) == made

    def test_a_call_that_is_dispatched_again_is_the_same_and_one_made_like_it_is_not(self, bench):
        order, done = ordering(IdempotencyConfig(scope="call"))
        bench.open(order)
        call = ToolCall("order", {"item": "tea"})
        bench.dispatch(call)
        assert bench.dispatch(call).event.replayed
        assert len(done) == 1
        bench.dispatch(ToolCall("order", {"item": "tea"}))
        assert len(done) == 2


class TestStrategies:
    def test_params_counts_the_named_fields_and_no_others(self, bench):
        order, done = ordering(IdempotencyConfig(strategy="params", param_keys=("item",)))
        bench.open(order)
        first = bench.call("order", item="tea", note="hot")
        other = bench.call("order", item="tea", note="cold")
        assert other.event.replayed
        assert other.text == first.text
        assert other.event.attributes["ledger.state"] == "hit"
        assert bench.call("order", item="milk", note="cold").success
        assert len(done) == 2

    def test_it_refuses_other_params_where_they_have_to_be_the_same(self, bench):
        config = IdempotencyConfig(strategy="params", param_keys=("item",), same_params=True)
        order, done = ordering(config)
        bench.open(order)
        bench.call("order", item="tea", note="hot")
        assert bench.call("order", item="tea", note="hot").event.replayed
        other = bench.call("order", item="tea", note="cold")
        assert other.status is Status.ERROR
        assert "other arguments" in other.text
        assert other.event.attributes["ledger.state"] == "mismatch"
        assert bench.call("order", item="milk", note="cold").success
        assert len(done) == 2

    @pytest.mark.parametrize("strategy", ["auto", "params"])
    def test_another_major_version_is_not_answered_where_that_is_wanted(self, bench, strategy):
        keys = ("item",) if strategy == "params" else ()
        config = IdempotencyConfig(strategy=strategy, param_keys=keys, version=True)
        order, done = ordering(config, version="1.9.0")
        ran: list[int] = []
        for version in ("1.9.0", "1.10.0", "2.0.0-rc.1", "2.0.0"):
            bench.open(replace(order, version=version))
            bench.call("order", item="tea")
            ran.append(len(done))
        assert ran == [1, 1, 2, 2]

    def test_the_version_does_not_count_by_itself(self, bench):
        order, done = ordering(version="1.0.0")
        for version in ("1.0.0", "2.0.0"):
            bench.open(replace(order, version=version))
            bench.call("order", item="tea")
        assert len(done) == 1

    def test_custom_asks_the_function(self, bench):
        config = IdempotencyConfig(strategy="custom", key_fn=lambda p: p.item.lower())
        order, done = ordering(config)
        bench.open(order)
        bench.call("order", item="tea")
        assert bench.call("order", item="tea").event.replayed
        assert bench.call("order", item="TEA").event.replayed
        assert len(done) == 1

    def test_it_refuses_other_params_with_a_function_too(self, bench):
        config = IdempotencyConfig(
            strategy="custom", key_fn=lambda p: p.item.lower(), same_params=True
        )
        order, done = ordering(config)
        bench.open(order)
        bench.call("order", item="tea")
        assert "other arguments" in bench.call("order", item="TEA").text
        assert len(done) == 1

    def test_a_function_that_returns_no_string_is_named(self, bench):
        order, done = ordering(IdempotencyConfig(strategy="custom", key_fn=lambda p: 7))
        bench.open(order)
        outcome = bench.call("order", item="tea")
        assert "key_fn of order returned int" in outcome.text
        assert done == []

    def test_what_can_be_changed_is_the_functions_own(self, bench):
        def spoil(params: Any) -> str:
            params.items.append("spoilt")
            return "key"

        seen = []

        @tool(idempotency=IdempotencyConfig(strategy="custom", key_fn=spoil))
        def take(items: list[str]) -> None:
            """Take some."""
            seen.append(list(items))

        bench.open(take)
        assert bench.call("take", items=["a"]).success
        assert bench.call("take", items=["a"]).event.replayed
        assert seen == [["a"]]

    def test_calls_that_cannot_be_told_apart_do_not_run(self, bench):
        paid: list[str] = []

        @tool(idempotency=IdempotencyConfig())
        def pay(number: Annotated[str, PlainSerializer(lambda number: number[-4:])]) -> str:
            """Pay with a card."""
            paid.append(number)
            return "paid"

        bench.open(pay)
        outcome = bench.call("pay", number="4111111111111111")
        assert "the params of pay do not equal the params that are read" in outcome.text
        assert paid == []
        assert bench.states() == []


@dataclass(frozen=True)
class Payment:
    password: SecretStr
    amount: float
    labels: frozenset[str] = frozenset({"a", "b"})


PAID = {"password": "correct horse", "amount": 2, "labels": ["a", "b"]}


class TestRecorded:
    """The entry that a program has recorded under the key of a call."""

    @pytest.fixture
    def pay(self) -> Tool[Any, Any]:
        def handle(params: Payment, *, context: ToolContext) -> ToolResult[str]:
            return ToolResult.ok("by a call")

        return Tool[Payment, str](
            name="pay",
            description="Pay.",
            handler=handle,
            idempotency=IdempotencyConfig(
                strategy="params", param_keys=("password",), same_params=True
            ),
        )

    @staticmethod
    def record(bench: Bench, params: object) -> None:
        key = bench.call("pay", **PAID).event.attributes["ledger.key"]
        result = ToolResult.ok("by hand")
        bench.ledger.record(idempotency_key=key, tool_name="pay", params=params, result=result)

    @pytest.mark.parametrize(
        "params",
        [
            PAID,
            dict(reversed(PAID.items())),
            PAID | {"password": SecretStr("correct horse"), "labels": {"b", "a"}, "amount": 2.0},
            Payment(SecretStr("correct horse"), 2),
        ],
        ids=["as given", "in another order", "typed", "as the tool takes them"],
    )
    def test_it_answers_calls_with_equal_params(self, bench, pay, params):
        bench.open(pay)
        self.record(bench, params)
        assert bench.call("pay", **PAID).text == "by hand"

    def test_it_does_so_whatever_the_order_in_which_the_tool_has_them(self, bench):
        @tool(idempotency=IdempotencyConfig())
        def pay(invoice: int, amount: int) -> str:
            """Pay an invoice."""
            return "by a call"

        bench.open(pay)
        given = {"amount": 2, "invoice": 7}
        key = bench.call("pay", **given).event.attributes["ledger.key"]
        result = ToolResult.ok("by hand")
        bench.ledger.record(idempotency_key=key, tool_name="pay", params=given, result=result)
        assert bench.call("pay", **given).text == "by hand"

    @pytest.mark.parametrize("change", [{"amount": 3}, {"password": "battery"}])
    def test_calls_with_other_params_are_refused(self, bench, pay, change):
        bench.open(pay)
        self.record(bench, PAID | change)
        outcome = bench.call("pay", **PAID)
        assert "had other arguments" in outcome.text
        assert outcome.event.attributes["ledger.state"] == "mismatch"

    def test_that_of_a_tool_without_params_answers_its_calls(self, bench):
        @tool(idempotency=IdempotencyConfig())
        def stop() -> str:
            """Stop."""
            return "by a call"

        bench.open(stop)
        key = bench.call("stop").event.attributes["ledger.key"]
        result = ToolResult.ok("by hand")
        bench.ledger.record(idempotency_key=key, tool_name="stop", params=None, result=result)
        assert bench.call("stop").text == "by hand"


class TestExpiry:
    def test_after_its_time_it_runs_again(self, bench):
        order, done = ordering(IdempotencyConfig(ttl=timedelta(hours=1)))
        bench.open(order)
        bench.call("order", item="tea")
        bench.clock.move(minutes=59)
        assert bench.call("order", item="tea").event.replayed
        bench.clock.move(minutes=1)
        assert not bench.call("order", item="tea").event.replayed
        assert bench.call("order", item="tea").event.replayed
        assert len(done) == 2

    def test_it_is_a_day_unless_said_otherwise(self, bench):
        order, done = ordering()
        bench.open(order)
        bench.call("order", item="tea")
        bench.clock.move(hours=23, minutes=59)
        bench.call("order", item="tea")
        assert len(done) == 1
        bench.clock.move(minutes=1)
        bench.call("order", item="tea")
        assert len(done) == 2

    def test_none_is_for_ever(self, bench):
        order, _done = ordering(IdempotencyConfig(ttl=None))
        bench.open(order)
        bench.call("order", item="tea")
        bench.clock.move(days=10_000)
        assert bench.call("order", item="tea").event.replayed

    def test_a_time_beyond_all_dates_is_for_ever(self, bench):
        order, _done = ordering(IdempotencyConfig(ttl=timedelta.max))
        bench.open(order)
        assert bench.call("order", item="tea").success
        assert bench.call("order", item="tea").event.replayed


class TestFailures:
    """Calls that came to nothing give their key back, or leave it unknown."""

    @staticmethod
    def failing(bench, how: str, **options: Any):
        ran: list[str] = []

        @tool(name="fail", **{"idempotency": IdempotencyConfig(), **options})
        def fail() -> ToolResult[None]:
            """Fail."""
            ran.append(how)
            if how == "return":
                return ToolResult.error("It cannot be done.")
            if how == "raise":
                raise ValueError("broken")
            return ToolResult.ok()

        return fail, ran

    @pytest.mark.parametrize("how", ["return", "raise"])
    def test_a_failure_of_its_own_is_not_recorded_and_gives_the_key_back(self, bench, how):
        fail, ran = self.failing(bench, how)
        bench.open(fail)
        first = bench.call("fail")
        assert first.event.attributes["ledger.state"] == "released"
        assert bench.states() == []
        bench.call("fail")
        assert len(ran) == 2

    @pytest.mark.parametrize("how", ["return", "raise"])
    def test_unless_the_tool_says_that_it_may_fail_after_its_effect(self, bench, how):
        fail, ran = self.failing(bench, how, idempotency=IdempotencyConfig(on_error="unknown"))
        bench.open(fail)
        bench.call("fail")
        assert bench.states() == ["unknown"]
        again = bench.call("fail")
        assert "may have happened" in again.text
        assert again.text.endswith("This requires human intervention.")
        told = again.event.attributes["toolstile.for_operator"]
        assert told.startswith("toolstile ledger resolve '")
        assert told.endswith("--done [--value JSON], or --not-done.")
        assert again.event.attributes["ledger.state"] == "unknown"
        assert len(ran) == 1

    def test_a_handler_that_cannot_tell_leaves_it_unknown(self, bench):
        @tool(idempotency=IdempotencyConfig())
        def send() -> str:
            """Send."""
            raise EffectUnknownError("The line went dead. Find out whether it was sent.")

        bench.open(send)
        first = bench.call("send")
        assert first.text == "The line went dead. Find out whether it was sent."
        assert first.status is Status.FAILED
        assert bench.states() == ["unknown"]
        assert "may have happened" in bench.call("send").text

    def test_a_veto_leaves_it_unknown(self, bench):
        class Veto:
            @hookimpl
            def toolstile_on_result(self) -> None:
                raise ValueError("vetoed")

        fail, ran = self.failing(bench, "")
        bench.open(fail, plugins=(Veto(),))
        assert not bench.call("fail").success
        assert bench.states() == ["unknown"]
        bench.call("fail")
        assert len(ran) == 1

    def test_so_does_a_participant_that_fails_in_prepare(self, bench):
        class Participant:
            def prepare(self) -> None:
                raise OSError("no room")

            def commit(self) -> None: ...

            def rollback(self) -> None: ...

        class Plugin:
            @hookimpl
            def toolstile_snapshot(self) -> Participant:
                return Participant()

        fail, _ = self.failing(bench, "")
        bench.open(fail, plugins=(Plugin(),))
        assert not bench.call("fail").success
        assert bench.states() == ["unknown"]

    def test_so_does_a_timeout(self, bench):
        released = threading.Event()

        @tool(idempotency=IdempotencyConfig(), timeout=0.05)
        def hang() -> None:
            """Hang."""
            released.wait(10)

        bench.open(hang)
        outcome = bench.call("hang")
        assert outcome.status is Status.TIMED_OUT
        assert outcome.event.attributes["ledger.state"] == "unknown"
        assert bench.states() == ["unknown"]
        released.set()

    def test_so_does_a_cancellation(self, bench):
        cancellation = Cancellation()

        @tool(idempotency=IdempotencyConfig())
        def work() -> ToolResult[None]:
            """Work until cancelled."""
            cancellation.cancel()
            return ToolResult.error("stopped")

        bench.open(work)
        outcome = bench.dispatch(ToolCall("work", cancellation=cancellation))
        assert outcome.event.attributes["ledger.state"] == "unknown"
        assert bench.states() == ["unknown"]

    def test_so_does_a_conflict(self, bench):
        @tool(idempotency=IdempotencyConfig())
        def work(*, context: ToolContext) -> None:
            """Read what somebody else changes meanwhile."""
            context.session[Order].latest()
            bench.session[Order].append(Order("other", 1))

        bench.open(work)
        assert bench.call("work").status is Status.CONFLICT
        assert bench.states() == ["unknown"]

    @pytest.mark.parametrize("how", ["veto", "timeout"])
    def test_a_contained_call_that_is_rolled_back_gives_it_back(self, bench, how):
        released = threading.Event()

        class Veto:
            @hookimpl
            def toolstile_on_result(self) -> None:
                raise ValueError("vetoed")

        @tool(idempotency=IdempotencyConfig(), contained=True, timeout=0.05)
        def work() -> None:
            """Work within the call only."""
            if how == "timeout":
                released.wait(10)

        bench.open(work, plugins=(Veto(),) if how == "veto" else ())
        assert not bench.call("work").success
        assert bench.states() == []
        released.set()

    def test_a_contained_call_that_is_run_again_keeps_its_claim(self, bench):
        runs: list[int] = []

        @tool(idempotency=IdempotencyConfig(), contained=True)
        def work(*, context: ToolContext) -> None:
            """Read what somebody else changes meanwhile, once."""
            runs.append(1)
            context.session[Order].latest()
            assert bench.states() == ["claimed"]
            if len(runs) == 1:
                bench.session[Order].append(Order("other", 1))

        bench.open(work)
        outcome = bench.call("work")
        assert outcome.success
        assert (outcome.event.reruns, len(runs)) == (1, 2)
        assert bench.states() == ["done"]

    def test_a_call_that_is_refused_before_its_handler_gives_it_back(self, bench):
        class Refusing:
            @hookimpl(trylast=True)
            def toolstile_execute(self) -> None:
                raise ValueError("not today")

        fail, ran = self.failing(bench, "")
        bench.open(fail, plugins=(Refusing(),))
        assert not bench.call("fail").success
        assert (bench.states(), ran) == ([], [])

    def test_a_denied_call_never_claims(self, bench):
        class Denying:
            @hookimpl
            def toolstile_check(self) -> PolicyDecision:
                return PolicyDecision.deny("No.")

        fail, _ = self.failing(bench, "")
        bench.open(fail, plugins=(Denying(),))
        assert bench.call("fail").event.attributes == {}
        assert bench.states() == []

    def test_reading_tools_and_those_that_say_so_run_again_when_unknown(self, bench):
        for options in ({"category": "read", "contained": False}, {"retry": True}):
            retry = options.pop("retry", False)
            config = IdempotencyConfig(
                on_error="unknown", on_unknown="retry" if retry else "fail", scope=str(retry)
            )
            fail, ran = self.failing(bench, "raise", idempotency=config, **options)
            bench.open(fail)
            bench.call("fail")
            bench.call("fail")
            assert len(ran) == 2


class TestNesting:
    @staticmethod
    def around(bench, inner, *, then: str = "return", **options: Any):
        if bench.driver == "async":

            @tool(name="outer", **options)
            async def aouter(*, context: ToolContext) -> str:
                """Call another tool."""
                outcome = await context.acall("order", {"item": "tea"})
                if then == "raise":
                    raise ValueError(outcome.text)
                return outcome.text

            return aouter

        @tool(name="outer", **options)
        def outer(*, context: ToolContext) -> str:
            """Call another tool."""
            outcome = context.call("order", {"item": "tea"})
            if then == "raise":
                raise ValueError(outcome.text)
            return outcome.text

        return outer

    def test_a_nested_call_is_recorded_at_its_own_success(self, bench):
        order, done = ordering()
        bench.open(order, self.around(bench, order, then="raise"))
        bench.call("outer")
        assert bench.states() == ["done"]
        bench.call("outer")
        assert len(done) == 1

    def test_a_contained_nested_call_is_forgotten_with_its_callers_changes(self, bench):
        order, _done = ordering(contained=True)
        bench.open(order, self.around(bench, order, then="raise"))
        bench.call("outer")
        assert bench.states() == []

    def test_a_nested_call_whose_record_cannot_be_written_fails_and_is_unknown(self, bench):
        order, _ = ordering()
        bench.open(order, self.around(bench, order))
        finish, bench.ledger.store.finish = bench.ledger.store.finish, refuse
        outcome = bench.call("outer")
        bench.ledger.store.finish = finish
        assert "could not be recorded" in outcome.text
        assert bench.states() == ["unknown"]

    @pytest.mark.parametrize("recorded", [False, True])
    def test_only_the_top_level_call_decides_on_what_is_committed(self, bench, recorded):
        noted: list[str | None] = []

        class Journalled:
            key: str | None = None

            def branch(self, context: ToolContext, parent: Any) -> Journalled:
                return Journalled()

            @property
            def resource(self) -> Journalled:
                return self

            def prepare(self) -> None:
                noted.append(self.key)

            def commit(self) -> None: ...

            def rollback(self) -> None: ...

        order, _ = ordering()
        options = {"idempotency": IdempotencyConfig()} if recorded else {}
        outer = self.around(bench, order, **options)

        @tool(name="order", idempotency=IdempotencyConfig())
        def nested(item: str, *, context: ToolContext) -> None:
            """Use the journal, within another call."""
            context.resources.get(Journalled)

        journal = Binding(Journalled, lambda resources: Journalled())
        bench.open(nested, outer, resources=(journal,))
        assert bench.call("outer").success
        top = {each.claim.tool_name: each.claim for each in bench.ledger.store.entries()}
        expected = f"ledger:{top['outer'].effect_id}:{top['outer'].key}" if recorded else None
        assert noted[-1] == expected

    def test_it_never_waits_for_a_claim(self, bench):
        order, done = ordering()
        outer = self.around(bench, order)
        bench.open(order, outer)
        begun, release = threading.Event(), threading.Event()

        @tool(name="order", idempotency=IdempotencyConfig())
        def slow(item: str, note: str = "") -> str:
            """Order slowly."""
            begun.set()
            release.wait(10)
            return "slow"

        bench_tools = bench.tools
        other = bench.open(slow, outer)
        thread = threading.Thread(target=other.dispatch, args=(ToolCall("order", {"item": "tea"}),))
        thread.start()
        begun.wait(10)
        bench.tools = bench_tools
        told = bench.call("outer")
        assert "already in progress" in told.text
        release.set()
        thread.join()
        assert done == []


class TestSessions:
    def test_another_session_gets_the_changes_once(self, bench):
        order, _ = ordering(IdempotencyConfig(scope="global"))
        sessions = [Session(id=f"s{n}") for n in range(2)]
        for session in sessions:
            session[Order].register(Order, append_all)
            bench.open(order, session=session)
            for _ in range(2):
                bench.call("order", item="tea")
        assert [list(each[Order].all()) for each in sessions] == [[Order("tea", 1)]] * 2

    def test_a_dry_run_of_a_repeated_call_shows_what_it_would_change_and_no_more(self, bench):
        order, done = ordering(IdempotencyConfig(scope="global"), contained=True)
        bench.session[Order].register(Order, append_all)
        bench.open(order)
        bench.call("order", item="tea")
        dry = Session(id="s2")
        dry[Order].register(Order, append_all)
        bench.open(order, session=dry, dry_run=True)
        outcome = bench.call("order", item="tea")
        shown = "session:\n  Order: added Order(item='tea', number=1)"
        assert outcome.event.replayed
        assert outcome.event.attributes["toolstile.diff"] == shown
        assert bench.tools.rehearsed() == shown
        assert done == [Order("tea", 1)]

    def test_a_session_that_is_read_again_in_another_process_has_them(self, bench):
        order, _done = ordering()
        bench.session[Order].register(Order, append_all)
        bench.open(order)
        bench.call("order", item="tea")
        fresh = Session(id="s1")
        fresh[Order].register(Order, append_all)
        bench.open(order, session=fresh)
        assert bench.call("order", item="tea").event.replayed
        assert list(fresh[Order].all()) == [Order("tea", 1)]


class TestBatches:
    def test_equal_calls_of_a_batch_have_one_effect(self, bench):
        order, done = ordering()
        bench.open(order)
        outcomes = bench.dispatch_all([ToolCall("order", {"item": "tea"}) for _ in range(5)])
        assert len(done) == 1
        assert [each.text for each in outcomes] == [outcomes[0].text] * 5
        assert [each.event.replayed for each in outcomes] == [False, True, True, True, True]

    def test_the_session_hears_once_of_one_effect(self, bench):
        order, _done = ordering()
        bench.session[Order].register(Order, append_all)
        bench.open(order)
        bench.dispatch_all([ToolCall("order", {"item": "tea"}) for _ in range(5)])
        assert list(bench.session[Order].all()) == [Order("tea", 1)]

    def test_keys_are_claimed_in_call_order(self, bench):
        order, _done = ordering()
        bench.open(order)
        calls = [ToolCall("order", {"item": item}) for item in ("tea", "milk", "tea", "milk")]
        outcomes = bench.dispatch_all(calls)
        assert [each.event.replayed for each in outcomes] == [False, False, True, True]

    def test_a_nested_call_claims_no_key_before_the_earlier_calls(self, bench):
        order, done = ordering()

        @tool(timeout=0.2)
        async def buy(item: str, *, context: ToolContext) -> bool:
            """Order something."""
            return (await context.acall("order", {"item": item})).success

        class Slow:
            @hookimpl
            def toolstile_snapshot(self, tool: Any, context: ToolContext) -> Any:
                return asyncio.sleep(0.4) if tool.name == "order" and not context.parent else None

        bench.ledger.wait = 1
        bench.session[Order].register(Order, append_all)
        bench.open(order, buy, plugins=(Slow(),))
        tea = {"item": "tea"}
        first, later = bench.dispatch_all([ToolCall("order", tea), ToolCall("buy", tea)])
        assert first.success, first.text
        assert not first.event.replayed
        assert later.success, later.text
        assert done == list(bench.session[Order].all()) == [Order("tea", 1)]

    def test_a_failing_first_lets_the_next_one_try(self, bench):
        ran: list[int] = []

        @tool(idempotency=IdempotencyConfig())
        def shaky() -> str:
            """Fail the first time."""
            ran.append(1)
            if len(ran) == 1:
                raise ValueError("broken")
            return "fine"

        bench.open(shaky)
        outcomes = bench.dispatch_all([ToolCall("shaky") for _ in range(3)])
        assert [each.success for each in outcomes] == [False, True, True]
        assert len(ran) == 2


def test_a_result_that_tells_a_secret_is_marked(bench):
    @tool(idempotency=IdempotencyConfig())
    def send(password: SecretStr, item: str) -> ToolResult[str]:
        """Send something with a secret."""
        told = password.get_secret_value()
        return ToolResult.ok(item if item != "value" else told, told if item == "message" else "")

    @tool(idempotency=IdempotencyConfig())
    def badge() -> ToolResult[dict[str, SecretStr]]:
        """Tell a key."""
        return ToolResult.ok({"key": SecretStr("battery")}, "The key is battery.")

    bench.open(send, badge)
    for item in ("message", "value", "neither"):
        first = bench.call("send", password="correct horse", item=item)
        again = bench.call("send", password="correct horse", item=item)
        assert (again.text, again.event.replayed) == (first.text, True)
    first = bench.call("badge")
    assert first.text.startswith("The key is ***.")
    assert first.result.message == "The key is battery."
    # Its value is masked in the ledger, so that nobody could find the secret in the message.
    again = bench.call("badge")
    assert again.result.message == "The key is ***."
    assert again.event.replayed
    marked = [each.result.secret for each in bench.ledger.store.entries() if each.result]
    assert sorted(marked) == [False, False, True, True]


def test_no_secret_of_the_params_is_stored_or_told(bench, tmp_path):
    @tool(idempotency=IdempotencyConfig(on_error="unknown"))
    def send(password: SecretStr, item: str) -> str:
        """Send something with a secret."""
        if item == "bad":
            raise ValueError(f"wrong password {password.get_secret_value()}")
        return item

    bench.open(send)
    told = ""
    for item in ("good", "bad"):
        for _ in range(2):
            outcome = bench.call("send", password="correct horse battery", item=item)
            told += f"{outcome.text} {dict(outcome.event.attributes)} {outcome.envelope()}"
    told += str(list(bench.ledger.store.entries()))
    bench.ledger.store.close()
    told += "".join(path.read_bytes().decode("latin-1") for path in tmp_path.glob("ledger.db*"))
    assert sorted(bench.states()) == ["done", "unknown"]
    assert "battery" not in told


class Hesitant(MemoryStore):
    """A store behind a network, that claims when it is told to."""

    waits = True

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_claim, self.released = Event(), Event(), Event()
        self.refusals: list[LedgerError] = []

    def claim(self, claim: Claim, **how: Any) -> LedgerEntry | None:
        self.asked.set()
        assert self.may_claim.wait(30)
        return super().claim(claim, **how)

    def release(self, key: str, effect_id: str) -> bool:
        if self.refusals:
            raise self.refusals.pop()
        released = super().release(key, effect_id)
        self.released.set()
        return released


@pytest.mark.parametrize("refusals", [0, 1], ids=["at once", "when it can be written"])
def test_a_claim_that_comes_after_its_call_was_cancelled_is_given_back(refusals):
    order, done = ordering()
    store, cancellation = Hesitant(), Cancellation()
    store.refusals += [LedgerError("The ledger is out of reach.")] * refusals

    async def main(bench: Bench) -> None:
        call = ToolCall("order", {"item": "tea"}, cancellation=cancellation)
        calling = asyncio.create_task(bench.tools.adispatch(call))
        assert await asyncio.to_thread(store.asked.wait, 30)
        cancellation.cancel()
        assert (await calling).status is Status.CANCELLED
        store.may_claim.set()
        assert await asyncio.to_thread(store.released.wait, 30)

    with ExitStack() as stack:
        bench = Bench("async", store, stack)
        bench.open(order)
        asyncio.run(main(bench))
        assert list(store.entries()) == []
        assert done == []


class TestApproval:
    """A person decides on effects; a recorded one has happened, so there is nothing to decide."""

    @pytest.fixture
    def asked(self, bench) -> list[str]:
        questions: list[str] = []

        def approve(request: ApprovalRequest) -> bool:
            questions.append(request.arguments)
            return True

        bench.approver = approve
        return questions

    def test_a_call_that_the_ledger_answers_is_not_asked_about_again(self, bench, asked):
        order, done = ordering(requires_confirmation=True)
        bench.open(order)
        assert bench.call("order", item="tea").success
        again = bench.call("order", item="tea")
        assert again.event.replayed
        assert again.text == "Ordered.\norder 1: tea"
        assert bench.call("order", item="milk").success
        assert len(asked) == 2
        assert [each.item for each in done] == ["tea", "milk"]

    def test_nor_where_nobody_is_there_to_ask(self, bench, asked):
        order, _ = ordering(IdempotencyConfig(scope="global"), requires_confirmation=True)
        bench.open(order)
        assert bench.call("order", item="tea").success
        bench.approver = None
        bench.open(order, session=Session(id="s2"))
        assert bench.call("order", item="tea").event.replayed
        assert bench.call("order", item="milk").status is Status.DENIED

    def test_nor_with_a_diff(self, bench, asked):
        order, _ = ordering(requires_confirmation=True, contained=True, timeout=None)
        bench.approves_diff = True
        bench.open(order)
        assert bench.call("order", item="tea").success
        assert bench.call("order", item="tea").event.replayed
        assert len(asked) == 1

    def test_one_that_has_expired_is_asked_about(self, bench, asked):
        config = IdempotencyConfig(ttl=timedelta(hours=1))
        order, done = ordering(config, requires_confirmation=True)
        bench.open(order)
        bench.call("order", item="tea")
        bench.clock.move(hours=2)
        bench.call("order", item="tea")
        assert len(asked) == len(done) == 2

    def test_what_a_policy_denies_is_denied_all_the_same(self, bench, asked):
        order, _ = ordering(requires_confirmation=True)
        denies = False

        class Guard:
            @hookimpl
            def toolstile_check(self, tool: Tool[Any, Any]) -> PolicyDecision | None:
                return PolicyDecision.deny("Not now.") if denies else None

        bench.open(order, plugins=(Guard(),))
        bench.call("order", item="tea")
        denies = True
        assert bench.call("order", item="tea").status is Status.DENIED

    def test_a_result_that_is_gone_meanwhile_lets_nothing_run_unasked(self, bench, asked):
        order, done = ordering(requires_confirmation=True)
        forgets = False

        class Forgetful:
            @hookimpl
            def toolstile_snapshot(self, context: ToolContext) -> None:
                if forgets:
                    bench.ledger.invalidate_by_tool("order")

        bench.open(order, plugins=(Forgetful(),))
        bench.call("order", item="tea")
        forgets = True
        gone = bench.call("order", item="tea")
        assert gone.status is Status.DENIED
        assert "the earlier result that was to answer is gone. Retry it" in gone.text
        forgets = False
        assert bench.call("order", item="tea").success
        assert len(asked) == len(done) == 2

    @pytest.mark.parametrize("same_params", [False, True])
    def test_nor_is_one_with_the_key_and_other_params(self, bench, asked, same_params):
        """It is answered, or refused where they have to be the same; it never runs."""
        keys = ("item",)
        config = IdempotencyConfig(strategy="params", param_keys=keys, same_params=same_params)
        order, done = ordering(config, requires_confirmation=True)
        bench.open(order)
        bench.call("order", item="tea")
        other = bench.call("order", item="tea", note="other")
        assert other.success is not same_params
        assert len(asked) == len(done) == 1
