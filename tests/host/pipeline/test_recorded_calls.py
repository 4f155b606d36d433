"""Plugins that record calls hear of them, and a replayed call repeats its changes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import SecretStr

from toolstile import Session
from toolstile_hookspecs import (
    Append,
    Binding,
    CallRecord,
    CallRefused,
    Cancellation,
    Decider,
    HandlerState,
    IdempotencyConfig,
    Replay,
    SlicePolicy,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolResult,
    append_all,
    applies_to,
    hookimpl,
    tool,
)


@dataclass(frozen=True)
class Order:
    number: int


@dataclass(frozen=True)
class Stock:
    left: int


@dataclass(frozen=True)
class Note:
    text: str


def sold(stock: Any, order: Order) -> Any:
    return [Stock(stock[-1].left - 1)]


def with_reducers(session: Session) -> Session:
    session[Order].register(Order, append_all)
    session[Stock].register(Order, sold)
    session[Stock].seed(Stock(10))
    return session


@tool(name="order", idempotency=IdempotencyConfig())
def order(number: int, *, context: ToolContext) -> Order:
    """Order something."""
    context.session[Note].append(Note("ordering"))
    context.session[Note].append(Note(f"number {number}"))
    return Order(number)


class Odd:
    """Something that cannot be written as JSON."""


@tool(name="odd", idempotency=IdempotencyConfig())
def odd(*, context: ToolContext) -> None:
    """Keep something odd."""
    context.session[Odd].append(Odd())


@tool(name="add")
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


class PolicyStore:
    """A plugin that keeps the record of the one call, and answers with it from then on."""

    def __init__(self) -> None:
        self.record: CallRecord | None = None
        self.states: list[HandlerState] = []
        self.steps: list[str] = []
        self.asked: list[str] = []
        self.context: ToolContext
        self.refuse: str | None = None

    @hookimpl
    @applies_to(lambda tool: tool.idempotency is not None)
    def toolstile_snapshot(self, context: ToolContext, tool: Tool[Any, Any]) -> PolicyStore:
        self.context = context
        return self

    @hookimpl
    @applies_to(lambda tool: tool.idempotency is not None)
    def toolstile_execute(self, tool: Tool[Any, Any]) -> Replay | None:
        self.asked.append(tool.name)
        record = self.record
        if record is None:
            return None
        return Replay(record.result, "effect", record.changes, record.unportable)

    @hookimpl
    def toolstile_rollback(self, context: ToolContext) -> None:
        assert context.control is not None
        self.states.append(context.control.handler_state)

    decides = True
    key = "the key"

    def join(self) -> None:
        self.steps.append("join")
        self._keep()

    def prepare(self) -> None:
        if self.refuse is not None:
            raise CallRefused(self.refuse)
        self.steps.append("prepare")
        self._keep()

    def _keep(self) -> None:
        assert self.context.control is not None
        if self.record is None:
            self.record = self.context.control.keep("effect")

    def commit(self) -> None:
        self.steps.append("commit")

    def rollback(self) -> None:
        self.steps.append("rollback")


@pytest.fixture
def keeper() -> PolicyStore:
    return PolicyStore()


class TestReplays:
    def test_a_session_that_holds_the_changes_is_not_changed_again(self, yard, keeper):
        with_reducers(yard.session)
        yard.open(order, plugins=(keeper,))
        yard.call("order", number=1)
        again = yard.call("order", number=1)
        assert again.success
        assert again.event.replayed
        assert again.envelope()["replayed"] is True
        assert again.result.value == Order(1)
        assert yard.session[Stock].latest() == Stock(9)
        assert list(yard.session[Order].all()) == [Order(1)]
        assert len(yard.session[Note].all()) == 2

    def test_another_session_is_told_of_all_that_was_changed(self, yard, keeper):
        with_reducers(yard.session)
        yard.open(order, plugins=(keeper,))
        yard.call("order", number=1)
        yard.session = with_reducers(Session(id="other"))
        yard.open(order, plugins=(keeper,))
        for _ in range(2):
            assert yard.call("order", number=1).event.replayed
        assert yard.session[Stock].latest() == Stock(9)
        assert list(yard.session[Order].all()) == [Order(1)]
        assert [each.text for each in yard.session[Note].all()] == ["ordering", "number 1"]

    def test_a_session_that_went_back_is_told_again(self, yard, keeper):
        with_reducers(yard.session)
        yard.open(order, plugins=(keeper,))
        before = yard.session.snapshot()
        yard.call("order", number=1)
        yard.session.restore(before)
        assert yard.call("order", number=1).event.replayed
        assert list(yard.session[Order].all()) == [Order(1)]

    def test_a_session_read_from_json_still_holds_them(self, yard, keeper):
        with_reducers(yard.session)
        yard.open(order, plugins=(keeper,))
        yard.call("order", number=1)
        text = yard.session.to_json()
        yard.session = Session.from_json(text, kinds=(Order, Stock, Note))
        yard.open(order, plugins=(keeper,))
        yard.call("order", number=1)
        assert list(yard.session[Order].all()) == [Order(1)]

    def test_what_cannot_be_carried_over_is_refused_elsewhere_and_not_run_again(self, yard, keeper):
        yard.open(odd, plugins=(keeper,))
        assert yard.call("odd").success
        assert yard.call("odd").event.replayed
        yard.session = Session(id="other")
        yard.open(odd, plugins=(keeper,))
        outcome = yard.call("odd")
        assert outcome.status is Status.ERROR
        assert "in another session" in outcome.text
        assert "Odd" in outcome.text
        assert list(yard.session[Odd].all()) == []

    def test_a_type_that_is_not_known_there_is_named(self, yard, keeper):
        keeper.record = CallRecord(
            ToolResult.ok(), changes='[{"do":"append","type":"nowhere:Gone","items":[{}]}]'
        )
        yard.open(order, plugins=(keeper,))
        outcome = yard.call("order", number=1)
        assert not outcome.success
        assert "nowhere:Gone" in outcome.text

    def test_writes_keep_their_order_within_each_slice(self, yard, keeper):
        @tool(name="many", idempotency=IdempotencyConfig())
        def many(*, context: ToolContext) -> None:
            """Change several slices in turns."""
            session = context.session
            session.dispatch(Order(1))
            session[Note].append(Note("a"))
            session.dispatch(Order(2))
            session[Note].seed(Note("b"))
            session[Stock].append(Stock(5))
            session.dispatch(Order(3))
            session[Note].append(Note("c"))

        with_reducers(yard.session)
        yard.open(many, plugins=(keeper,))
        yard.call("many")
        first = [list(yard.session[kind].all()) for kind in (Order, Stock, Note)]
        yard.session = with_reducers(Session(id="other"))
        yard.open(many, plugins=(keeper,))
        yard.call("many")
        assert [list(yard.session[kind].all()) for kind in (Order, Stock, Note)] == first

    def test_logs_are_written_once(self, yard, keeper):
        yard.session[Note].register(Order, as_note, SlicePolicy.LOG)
        yard.open(plain_order, plugins=(keeper,))
        for _ in range(2):
            yard.call("order", number=1)
        assert len(yard.session[Note].all()) == 1


@tool(name="order", idempotency=IdempotencyConfig())
def plain_order(number: int) -> Order:
    """Order something."""
    return Order(number)


def as_note(items: Any, event: Order) -> Any:
    return Append([Note(str(event.number))])


class TestRecords:
    """The record of one call, as a plugin is given it."""

    def test_a_value_that_the_model_does_not_see_is_there(self, yard, keeper):
        @tool(name="order", idempotency=IdempotencyConfig(), exclude_value_from_context=True)
        def hidden_order(number: int) -> Order:
            """Order something."""
            return Order(number)

        yard.open(hidden_order, plugins=(keeper,))
        assert yard.call("order", number=1).event.data is None
        assert keeper.record.value == b'{"number":1}'
        assert yard.call("order", number=1).result.value == Order(1)

    def test_what_its_value_masks_stands_nowhere_else(self, yard, keeper):
        @tool(name="login", idempotency=IdempotencyConfig())
        def login(*, context: ToolContext) -> ToolResult[SecretStr]:
            """Get a key."""
            context.session[Note].append(Note("got hunter22"))
            return ToolResult.ok(SecretStr("hunter22"), message="The key is hunter22.")

        yard.open(login, plugins=(keeper,))
        yard.call("login")
        assert "The key is" in keeper.record.result.message
        assert '"text": "got ' in keeper.record.changes
        assert "hunter22" not in f"{keeper.record.result.message} {keeper.record.changes}"


class TestHandlerState:
    @pytest.fixture
    def state_after(self, yard, keeper) -> Iterator[Callable[..., HandlerState]]:
        def run(handler: Tool[Any, Any], call: ToolCall | None = None, **plugins: Any):
            yard.open(handler, plugins=(keeper, *plugins.get("plugins", ())))
            assert not yard.dispatch(call or ToolCall(handler.name)).success
            return keeper.states[-1]

        return run

    def test_a_failure_that_it_returned_is_its_own(self, state_after):
        @tool
        def fails() -> ToolResult[None]:
            """Fail."""
            return ToolResult.error("No.")

        assert state_after(fails) is HandlerState.FAILED

    def test_an_exception_that_says_nothing_of_its_effect_is_another_state(self, state_after):
        @tool
        async def fails() -> None:
            """Fail."""
            raise ValueError("no")

        assert state_after(fails) is HandlerState.RAISED

    def test_a_veto_comes_after_it_returned(self, state_after):
        class Veto:
            @hookimpl
            def toolstile_on_result(self) -> None:
                raise ValueError("vetoed")

        @tool
        def works() -> None:
            """Work."""

        assert state_after(works, plugins=(Veto(),)) is HandlerState.RETURNED

    def test_a_timeout_leaves_it_open(self, state_after):
        released = threading.Event()

        @tool(timeout=0.05)
        def hangs() -> None:
            """Hang."""
            released.wait(10)

        assert state_after(hangs) is HandlerState.BEGUN
        released.set()

    def test_so_does_a_cancellation_that_the_handler_answers_itself(self, state_after):
        cancellation = Cancellation()

        @tool
        def gives_up() -> ToolResult[None]:
            """Give up when cancelled."""
            cancellation.cancel()
            return ToolResult.error("I was told to stop.")

        call = ToolCall("gives_up", cancellation=cancellation)
        assert state_after(gives_up, call) is HandlerState.BEGUN

    def test_a_refusal_before_it_means_that_it_never_began(self, state_after):
        class Refusing:
            @hookimpl(tryfirst=True)
            def toolstile_execute(self) -> None:
                raise CallRefused("Not now. Retry tomorrow.")

        @tool
        def works() -> None:
            """Work."""

        assert state_after(works, plugins=(Refusing(),)) is HandlerState.NOT_BEGUN


class TestParticipants:
    def test_tools_that_it_does_not_concern_are_not_put_to_it(self, yard, keeper):
        yard.open(add, order, plugins=(keeper,))
        assert yard.call("add", a=1, b=2).text == "3"
        assert (keeper.asked, keeper.steps) == ([], [])
        yard.call("order", number=1)
        assert keeper.asked == ["order"]

    def test_its_refusal_is_told_as_it_is_and_keeps_nothing(self, yard, keeper):
        keeper.refuse = "The ledger is full. This requires human intervention."
        yard.open(order, plugins=(keeper,))
        outcome = yard.call("order", number=1)
        assert (outcome.status, outcome.text) == (Status.ERROR, keeper.refuse)
        assert list(yard.session[Note].all()) == []

    def test_a_nested_call_joins_before_the_call_around_it_is_prepared(self, yard, keeper):
        @tool(name="outer")
        def outer(*, context: ToolContext) -> str:
            """Order through another tool."""
            inner = context.call("order", {"number": 1})
            keeper.steps.append("ordered")
            return inner.text

        yard.open(outer, order, plugins=(keeper,))
        if yard.driver == "sync":
            assert yard.call("outer").success
            assert keeper.steps == ["join", "ordered", "prepare", "commit"]

    def test_the_deciders_key_reaches_whoever_notes_it(self, yard, keeper):
        noted: list[str | None] = []

        class Journalled:
            key: str | None = None

            def branch(self, context: ToolContext, parent: Any) -> Journalled:
                return self

            @property
            def resource(self) -> Journalled:
                return self

            def prepare(self) -> Awaitable[None] | None:
                noted.append(self.key)
                return None

            def commit(self) -> None:
                return None

            rollback = commit

        @tool(name="order", idempotency=IdempotencyConfig())
        def uses(*, context: ToolContext) -> None:
            """Use the resource."""
            context.resources.get(Journalled)

        resource = Binding(Journalled, lambda resources: Journalled())
        yard.open(uses, plugins=(keeper,), resources=(resource,))
        assert yard.call("order").success
        assert noted == ["the key"]


def test_a_resource_that_recovers_asks_the_decider_that_is_bound(yard):
    answers: list[bool | None] = []

    class Ledger:
        def decided(self, key: str) -> bool | None:
            return {"done": True, "dropped": False}.get(key)

    class Journal:
        def recover(self, decided: Callable[[str], bool | None]) -> None:
            answers.extend(map(decided, ("done", "dropped", "unheard of")))

    @tool
    def uses(*, context: ToolContext) -> None:
        """Use the journal."""
        context.resources.get(Journal)

    bindings = (
        Binding(Journal, lambda resources: Journal()),
        Binding(Decider, lambda resources: Ledger()),
    )
    yard.open(uses, resources=bindings)
    assert yard.call("uses").success
    assert answers == [True, False, None]


def test_calls_of_a_batch_wait_for_no_claim_that_does_not_concern_them(yard):
    claimed = threading.Event()

    class Slow:
        @hookimpl
        @applies_to(lambda tool: tool.idempotency is not None)
        def toolstile_execute(self) -> Awaitable[None]:
            return self._wait()

        async def _wait(self) -> None:
            await asyncio.to_thread(claimed.wait, 10)

    @tool(name="free")
    def free() -> str:
        """Run without waiting, and let the other one go on."""
        claimed.set()
        return "ran"

    yard.open(plain_order, free, plugins=(Slow(),))
    outcomes = yard.dispatch_all([ToolCall("order", {"number": 1}), ToolCall("free")])
    assert [each.success for each in outcomes] == [True, True]
