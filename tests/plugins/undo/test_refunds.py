"""Payments that are not kept are taken back: by rollbacks, by recovery, and by undos."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.undo.bank import Bank
from tests.plugins.undo.desks import CONFIGURATION, STORED, TOOLS, Line

from toolstile import ApprovalAnswer, ConfigurationError, Host, ToolCall, ToolContext, tool
from toolstile_cli.main import main
from toolstile_hookspecs import (
    DefinitionError,
    IdempotencyConfig,
    LedgerError,
    ToolResult,
    TransactionFailed,
)
from toolstile_hookspecs.calls import RECONCILE_TOOL
from toolstile_hookspecs.execution.undo import UndoConflict, UndoNote
from toolstile_hookspecs.services.ledger import EffectState
from toolstile_hookspecs.support.text import noted_for_operator
from toolstile_plugins.ledger import EffectLedger, LedgerSettings, commands, effect_key
from toolstile_plugins.ledger.api import HostLedger
from toolstile_plugins.ledger.entries import Finding, settle, state_of
from toolstile_plugins.ledger.reconcile import reconcile_pass, reconciler_of
from toolstile_plugins.ledger.stores.sqlite import SqlStore
from toolstile_plugins.undo import UndoStore

ONCE = IdempotencyConfig()
LEDGER = '[plugins.ledger]\npath = "{folder}/ledger.db"\nreconcile_every = 0\n'
MEMORY = "[plugins.database]\nmemory = true\n"
NEVER = "[plugins.ledger]\nreconcile_every = 0\n"


class Shop:
    """A host with a tool that pays at a bank, over one folder."""

    def __init__(self, folder: Path, stack: ExitStack, more: str = LEDGER) -> None:
        self.folder = folder
        self.stack = stack
        self.bank = Bank(folder / "bank.txt")
        self.failures = 0
        self.results: list[object] = []
        self.before_refund: Callable[[], object] = lambda: None
        self.before: Callable[[str], object] = lambda key: None
        self.during: Callable[[str], object] = lambda key: None
        text = CONFIGURATION.format(folder=folder) + more.format(folder=folder)
        self.file = folder / "toolstile.toml"
        self.file.write_text(text)
        self.open()

    def open(self) -> None:
        host = Host(config=self.file, tools=[*TOOLS, *self.tools()])
        self.host = self.stack.enter_context(host)
        self.work = self.host.executor(session_id="desk")
        self.store: Any = self.work.resources.get(EffectLedger).store

    def tools(self) -> list[Any]:
        def refund(params: Any, result: object, key: str, context: ToolContext) -> ToolResult[None]:
            if self.failures:
                self.failures -= 1
                return ToolResult.error("The bank is closed.")
            self.before_refund()
            self.results.append(result)
            self.bank.refund(key)
            return ToolResult.ok()

        async def refund_later(params: Any, result: object, key: str, context: Any) -> None:
            await asyncio.sleep(0)
            refund(params, result, key, context)

        def made(name: str, undo: Any, config: IdempotencyConfig) -> Any:
            def pay(purpose: str, *, fails: bool = False, context: ToolContext) -> str:
                """Pay at the bank."""
                key = effect_key(context)
                assert key is not None
                self.before(key)
                receipt = self.bank.pay(key, purpose)
                self.during(key)
                if fails:
                    raise OSError("the line broke")
                return receipt

            timeout = 0.1 if name == "pay_fast" else 10.0
            return tool(name=name, idempotency=config, undo=undo, timeout=timeout)(pay)

        @tool(category="write", contained=True, idempotency=ONCE)
        def add_once(text: str, *, context: ToolContext) -> str:
            """Add a line to the session."""
            context.session[Line].append(Line(text))
            return "Added."

        @tool(category="write")
        def order(purpose: str, *, context: ToolContext) -> str:
            """Pay, then fail."""
            assert context.call("pay", {"purpose": purpose}).success
            raise ValueError("no stock")

        return [
            made("pay", refund, ONCE),
            made("pay_fast", refund, ONCE),
            made("pay_later", refund_later, ONCE),
            made("pay_each", refund, IdempotencyConfig(scope="call")),
            made("give", None, ONCE),
            add_once,
            order,
        ]

    def call(self, name: str, to: Any = None, **arguments: Any) -> Any:
        return (to or self.work).dispatch(ToolCall(name, arguments))

    @property
    def states(self) -> list[str]:
        return [state_of(each) for each in self.store.entries()]

    def wait(self, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < until, self.states
            time.sleep(0.01)


@pytest.fixture
def make_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Shop]]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work").mkdir()
    with ExitStack() as stack:
        yield lambda more=LEDGER: Shop(tmp_path, stack, more)


@pytest.fixture(params=[LEDGER, STORED + NEVER, MEMORY + NEVER], ids=["file", "stored", "memory"])
def shop(request: pytest.FixtureRequest, make_shop: Callable[..., Shop]) -> Shop:
    """A shop with a ledger of each kind: in a file, beside stored sessions, and in memory."""
    return make_shop(request.param)


class TestTransactions:
    def test_a_rollback_takes_back_each_payment_once_the_newest_first(self, shop: Shop) -> None:
        with suppress(ZeroDivisionError), shop.work.transaction("a trip") as trip:
            for name, arguments in [
                ("pay", {"purpose": "rail"}),
                ("write_file", {"path": "a.txt", "content": "x"}),
                ("add_line", {"text": "a line"}),
                ("pay_later", {"purpose": "hotel"}),
                ("pay", {"purpose": "rail"}),
            ]:
                assert trip.dispatch(ToolCall(name, arguments)).success
            assert shop.states == ["claimed", "claimed"]
            raise ZeroDivisionError
        kinds = [line.split(" ")[::2] for line in shop.bank.lines()]
        assert kinds == [["pay", "rail"], ["pay", "hotel"], ["refund"], ["refund"]]
        assert shop.results == ["receipt of hotel", "receipt of rail"]
        assert shop.bank.balance("rail") == shop.bank.balance("hotel") == 0
        assert shop.states == ["undone", "undone"]
        assert shop.work.session[Line].all() == ()
        assert not (shop.folder / "work/a.txt").exists()

    def test_the_decision_deletes_what_is_owed(self, shop: Shop) -> None:
        with shop.work.transaction("a trip") as trip:
            assert trip.dispatch(ToolCall("pay", {"purpose": "rail"})).success
        assert (shop.states, shop.bank.balance("rail")) == (["done"], 1)
        assert shop.call("pay", purpose="rail").event.replayed

    def test_a_savepoint_that_is_rolled_back_takes_back_its_own(self, shop: Shop) -> None:
        with shop.work.transaction("a trip") as trip:
            shop.call("pay", trip, purpose="rail")
            with trip.transaction("a detour") as detour:
                shop.call("pay", detour, purpose="hotel")
                detour.rollback("Too expensive.")
            assert shop.bank.balance("hotel") == 0
        assert shop.bank.balance("rail") == 1

    @pytest.mark.parametrize("kind", ["savepoint", "child"])
    def test_a_payment_of_a_kept_savepoint_is_owed_nothing_while_the_transaction_is_open(
        self, shop: Shop, kind: str
    ) -> None:
        with shop.work.transaction("a trip") as trip:
            with (
                trip.transaction("a day")
                if kind == "savepoint"
                else trip.child("helper", session="fork")
            ) as day:
                assert shop.call("pay", day, purpose="hotel").success
            # Meanwhile the ledger settles the claims of calls that are over.
            time.sleep(0.8)
            assert shop.call("pay", trip, purpose="meal").success
            assert shop.states == ["claimed"] * 2
            if kind == "savepoint":
                trip.rollback("Too expensive.")
        assert shop.states == ["undone" if kind == "savepoint" else "done"] * 2
        refunds = [line for line in shop.bank.lines() if line.startswith("refund")]
        assert len(refunds) == (2 if kind == "savepoint" else 0)

    def test_a_conflict_takes_it_back_and_runs_nothing_again(self, shop: Shop) -> None:
        trip = shop.work.transaction("a trip")
        shop.call("set_lines", trip, texts=["a"])
        shop.call("pay", trip, purpose="rail")
        shop.call("set_lines", texts=["b"])
        with pytest.raises(TransactionFailed):
            trip.commit()
        assert [line.split(" ")[0] for line in shop.bank.lines()] == ["pay", "refund"]

    def test_on_an_event_loop(self, shop: Shop) -> None:
        async def travel() -> None:
            async with shop.work.transaction("a trip") as trip:
                for name in ("pay", "pay_later"):
                    done = await trip.adispatch(ToolCall(name, {"purpose": "rail"}))
                    assert done.success, done.text
                await trip.arollback("No.")

        asyncio.run(travel())
        shop.wait(lambda: shop.states == ["undone", "undone"])
        assert shop.bank.balance("rail") == 0

    def test_only_tools_with_an_undo_run_in_it(self, shop: Shop) -> None:
        with shop.work.transaction("a trip") as trip:
            assert "not contained" in shop.call("give", trip, purpose="rail").text
        with shop.host.executor(dry_run=True) as rehearsal:
            assert "not contained" in shop.call("pay", rehearsal, purpose="rail").text
        assert shop.bank.lines() == []

    def test_a_refund_that_fails_twice_stays_owed_until_it_succeeds(
        self, shop: Shop, capsys: pytest.CaptureFixture[str]
    ) -> None:
        shop.failures = 2
        with shop.work.transaction("a trip") as trip:
            shop.call("pay", trip, purpose="rail")
            trip.rollback()
        assert (shop.states, shop.bank.balance("rail")) == (["owed"], 1)
        (entry,) = shop.store.entries()
        assert entry.reason == "Its undo failed: The bank is closed."

        refused = shop.call("pay", purpose="rail")
        assert "its undo is tried again" in refused.text
        assert refused.event.attributes["ledger.state"] == "owed"
        assert (shop.failures, shop.bank.balance("rail")) == (0, 1)

        again = shop.call("pay", purpose="rail")
        assert again.success
        assert not again.event.replayed
        kinds = [line.split(" ")[0] for line in shop.bank.lines()]
        assert kinds == ["pay", "refund", "pay"]
        assert shop.states == ["done"]


class TestCalls:
    def test_a_failed_call_is_taken_back_and_may_run_again(self, shop: Shop) -> None:
        failed = shop.call("pay", purpose="rail", fails=True)
        assert failed.event.attributes["ledger.state"] == "owed"
        assert (shop.states, shop.results) == (["undone"], [None])
        assert not shop.call("pay", purpose="rail", fails=True).event.replayed
        keys = {line.split(" ")[1] for line in shop.bank.lines()}
        assert (len(keys), shop.bank.balance("rail")) == (2, 0)

    def test_a_payment_within_a_failed_call_is_taken_back(self, shop: Shop) -> None:
        assert not shop.call("order", purpose="rail").success
        assert (shop.states, shop.bank.balance("rail")) == (["undone"], 0)

    def test_a_payment_that_timed_out_is_taken_back_after_its_handler(self, shop: Shop) -> None:
        ended = threading.Event()
        shop.during = lambda key: ended.wait(10)
        assert not shop.call("pay_fast", purpose="rail").success
        assert shop.bank.balance("rail") == 1
        ended.set()
        shop.wait(lambda: shop.states == ["undone"])
        assert shop.bank.balance("rail") == 0

    @pytest.mark.parametrize("moment", ["before", "during"])
    def test_a_call_cannot_record_an_effect_whose_undo_has_begun(
        self, shop: Shop, moment: str
    ) -> None:
        def lose(key: str) -> None:
            # As if its lease had lapsed in a database.
            (entry,) = shop.store.entries()
            assert shop.store.mark_unknown(entry.claim.key, key, "It has lapsed.")
            assert [each.found for each in self.undo_all(shop)] == ["undone"]

        setattr(shop, moment, lose)
        trip = shop.work.transaction("a trip")
        shop.call("add_line", trip, text="a line")
        assert shop.call("pay", trip, purpose="rail").success
        with pytest.raises(TransactionFailed, match="its claim was taken away"):
            trip.commit()
        assert (set(shop.states), shop.bank.balance("rail")) == ({"undone"}, 0)
        assert [line.split(" ")[0] for line in shop.bank.lines()] == ["pay", "refund"]
        assert shop.work.session[Line].all() == ()

    def test_two_processes_do_not_undo_one_effect_twice(self, shop: Shop) -> None:
        shop.failures = 1
        shop.call("pay", purpose="rail", fails=True)
        begun, go_on = threading.Event(), threading.Event()
        shop.before_refund = lambda: (begun.set(), go_on.wait(10))
        first = threading.Thread(target=self.undo_all, args=(shop,))
        first.start()
        assert begun.wait(10)
        assert shop.states == ["undoing"]
        assert self.undo_all(shop) == []
        (entry,) = shop.store.entries()
        stale = entry._replace(claim=entry.claim._replace(effect_id="0" * 32))
        ledger = shop.work.resources.get(EffectLedger)
        undoer = reconciler_of(shop.host.catalog.get("pay"), ledger, LedgerSettings())
        assert undoer is not None
        assert not undoer.hold(stale, "1" * 32)
        go_on.set()
        first.join()
        assert not undoer.hold(stale, "1" * 32)
        assert (len(shop.results), shop.states) == (1, ["undone"])

    @staticmethod
    def undo_all(shop: Shop) -> list[Any]:
        return list(reconcile_pass(shop.host, shop.host.settings("ledger"), at_once=True))

    def test_a_rollback_returns_after_an_undo_that_another_pass_has_begun(self, shop: Shop) -> None:
        begun, go_on = threading.Event(), threading.Event()
        undo = shop.work.resources.get(HostLedger)

        def taken_over(key: str) -> None:
            shop.before_refund = lambda: (begun.set(), go_on.wait(10))
            threading.Thread(target=self.undo_all, args=(shop,)).start()
            assert begun.wait(10)
            threading.Timer(0.2, go_on.set).start()
            own(key)

        own, undo.undo = undo.undo, taken_over
        with shop.work.transaction("a trip") as trip:
            shop.call("pay", trip, purpose="rail")
            trip.rollback()
        assert (shop.states, shop.bank.balance("rail")) == (["undone"], 0)

    def test_an_undo_that_outlives_its_host_ends_quietly(self, shop: Shop) -> None:
        failures: list[Any] = []

        async def travel() -> None:
            async with shop.work.transaction("a trip") as trip:
                await trip.adispatch(ToolCall("pay", {"purpose": "rail"}))
                await trip.arollback("No.")

        begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()
        own = shop.work.resources.get(HostLedger)

        def late(key: str, undo: Callable[[str], None] = own.undo) -> None:
            begun.set()
            go_on.wait(10)
            try:
                undo(key)
            except BaseException as error:
                failures.append(error)
            ended.set()

        own.undo = late
        asyncio.run(travel())
        assert begun.wait(10)
        shop.host.close()
        go_on.set()
        assert ended.wait(10)
        assert failures == []


def test_what_is_owed_is_in_the_claim_and_others_pay_nothing(
    make_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop, sent = make_shop(LEDGER), list[str]()
    change = SqlStore._change

    def tell(store: Any, statement: str, *values: Any) -> int:
        sent.append(statement.partition(" ")[0])
        return change(store, statement, *values)

    monkeypatch.setattr(SqlStore, "_change", tell)
    monkeypatch.setattr(SqlStore, "_read", None)
    for name in ("give", "pay"):
        assert shop.call(name, purpose="rail").success
        assert sent == ["INSERT", "UPDATE"]
        sent.clear()


class TestUndo:
    def test_an_undo_takes_a_kept_payment_back_once(self, shop: Shop) -> None:
        with shop.work.transaction("a trip") as trip:
            paid = shop.call("pay", trip, purpose="rail")
            shop.call("write_file", trip, path="a.txt", content="x")
        undo = shop.work.undo(paid.call.id)
        # When the text is made, the undo has not happened, and it may fail.
        assert "the effect of pay (once its undo has succeeded)" in undo.text
        assert (shop.states, shop.bank.balance("rail")) == (["undone"], 0)
        assert shop.results == ["receipt of rail"]
        assert not (shop.folder / "work/a.txt").exists()

        redo = shop.work.undo(undo.call.id)
        assert "effects outside" in redo.text
        assert (shop.folder / "work/a.txt").exists()
        assert shop.work.undo(paid.call.id).success
        assert len(shop.results) == 1

        assert not shop.call("pay", purpose="rail").event.replayed
        assert (shop.states, shop.bank.balance("rail")) == (["done"], 1)

    def test_a_payment_is_undone_once(self, shop: Shop) -> None:
        paid = shop.call("pay", purpose="rail")
        work = shop.work.transaction("back")
        assert work.undo(paid.call.id).success
        undo = shop.work.undo(paid.call.id)
        assert undo.success
        told = "Another call has undone the effect of pay"
        with pytest.raises(TransactionFailed, match=told):
            work.commit()
        refused = shop.work.undo(paid.call.id)
        assert f"already, by call {undo.call.id}." in refused.text
        assert (shop.states, shop.bank.balance("rail")) == (["undone"], 0)

    @pytest.mark.parametrize("within", ["transaction", "savepoint"])
    @pytest.mark.parametrize(
        ("name", "arguments"), [("pay", {"purpose": "rail"}), ("add_once", {"text": "a"})]
    )
    def test_the_call_is_not_repeated_in_the_transaction_that_undoes_it(
        self, shop: Shop, name: str, arguments: dict[str, str], within: str
    ) -> None:
        made = shop.call(name, **arguments)
        with shop.work.transaction("no more") as trip:
            if within == "savepoint":
                with trip.transaction("a part") as part:
                    assert part.undo(made.call.id).success
            else:
                assert trip.undo(made.call.id).success
            refused = shop.call(name, trip, **arguments)
            assert "was not run" in refused.text
            assert "Make the call again after that." in refused.text
        assert (shop.states, shop.bank.balance("rail")) == (["undone"], 0)
        again = shop.call(name, **arguments)
        assert again.success
        assert not again.event.replayed
        there = (shop.bank.balance("rail"), len(shop.work.session[Line].all()))
        assert there == ((1, 0) if name == "pay" else (0, 1))

    @pytest.mark.parametrize("name", ["pay", "add_once"])
    def test_an_undo_that_is_rolled_back_leaves_the_record(self, shop: Shop, name: str) -> None:
        arguments = {"purpose": "rail"} if name == "pay" else {"text": "a"}
        made = shop.call(name, **arguments)
        with shop.work.transaction("a mistake") as trip:
            trip.undo(made.call.id)
            trip.rollback()
        assert shop.call(name, **arguments).event.replayed
        assert shop.states == ["done"]

    def test_a_contained_call_runs_again_after_its_undo(self, shop: Shop) -> None:
        first = shop.call("add_once", text="a")
        undo = shop.work.undo(first.call.id)
        assert "effect" not in undo.text
        assert shop.states == ["undone"]
        again = shop.call("add_once", text="a")
        assert (again.text, again.event.replayed) == ("Added.", False)
        assert shop.work.session[Line].all() == (Line("a"),)
        # The undo of the second one, and its undo, are about the line alone.
        undo = shop.work.undo(again.call.id)
        assert "cannot be" not in shop.work.undo(undo.call.id).text
        assert shop.work.session[Line].all() == (Line("a"),)
        shop.store.remove()
        assert shop.work.undo(again.call.id).success
        assert shop.work.session[Line].all() == ()

    def test_a_dry_run_names_the_effect_and_keeps_it(self, shop: Shop) -> None:
        stored = "sessions" in shop.file.read_text()
        shop.call("pay", purpose="rail")
        with shop.host.executor(session_id="desk", dry_run=True) as rehearsal:
            rehearsal.undo()
            if stored:
                assert "- the effect of pay" in rehearsal.rehearsed()
        assert (shop.states, shop.bank.balance("rail")) == (["done"], 1)

    def test_an_effect_that_the_ledger_has_forgotten_is_a_conflict(self, shop: Shop) -> None:
        with shop.work.transaction("a trip") as trip:
            paid = shop.call("pay", trip, purpose="rail")
            shop.call("add_line", trip, text="a line")
        shop.store.remove()
        with pytest.raises(UndoConflict) as raised:
            shop.work.undo(paid.call.id)
        (difference,) = raised.value.differences
        assert difference == ("the effect of pay", "done", "the ledger has forgotten it")
        assert len(shop.work.session[Line].all()) == 1

        assert shop.work.undo(paid.call.id, others="keep").success
        assert shop.work.session[Line].all() == ()
        assert shop.bank.balance("rail") == 1

    def test_a_call_of_its_own_key_is_not_repeated(self, shop: Shop) -> None:
        call = ToolCall("pay_each", {"purpose": "rail"})
        assert shop.work.dispatch(call).success
        assert shop.work.undo().success
        refused = shop.work.dispatch(call)
        assert "this call was made before and was undone" in refused.text
        assert (shop.states, shop.bank.balance("rail")) == (["undone"], 0)


def test_payments_of_several_stored_sessions_are_named(
    make_shop: Callable[..., Shop], capsys: pytest.CaptureFixture[str]
) -> None:
    shop = make_shop(STORED + NEVER)
    shop.call("pay", purpose="rail")
    with shop.host.executor(session_id="other") as other:
        shop.call("pay", other, purpose="hotel")
    shop.host.close()
    assert main(["undo", "--since", "1h", "--yes"]) == 2
    told = "The calls changed several sessions: desk, other. Undo them one after the other, with"
    assert told in capsys.readouterr().err


def test_the_list_names_effects_and_resources(shop: Shop) -> None:
    paid = shop.call("pay", purpose="rail")
    (note,) = shop.work.session[UndoNote].all()
    store = UndoStore(shop.host.settings("undo"))
    assert (note.id, store.paths_of(note)) == (paid.call.id, ["the effect of pay"])
    other = replace(note, parts=(("shop.rows:Database", "00ff"), ("shop.rows:Empty", "")))
    assert store.paths_of(other) == ["Database", "Empty"]


class TestResolve:
    """A person's finding about an owed undo is about the undo, not about the payment."""

    def test_not_done_keeps_the_undo_owed_and_done_records_it(
        self, make_shop: Callable[..., Shop], capsys: pytest.CaptureFixture[str]
    ) -> None:
        shop = make_shop(LEDGER)
        paid = shop.call("pay", purpose="rail")
        shop.failures = 2
        shop.work.undo(paid.call.id)
        refused = shop.call("pay", purpose="rail")
        assert "its effect is still to be undone (Its undo failed: The bank is closed)" in (
            refused.text
        )
        assert "unknown" not in refused.text
        (entry,) = shop.store.entries()
        key = entry.claim.key
        told = noted_for_operator(refused.event.error)
        assert f"toolstile ledger reconcile '{key}'" in told
        assert f"if its undo has happened, toolstile ledger resolve '{key}' --done" in told

        for options in (["--not-done"], ["--done", "--value", "1"], ["--done", "--message", "x"]):
            assert main(["ledger", "resolve", key, *options]) == 2
            assert "stays owed: `toolstile ledger reconcile" in capsys.readouterr().err
            assert shop.states == ["owed"]

        assert main(["ledger", "resolve", key, "--done"]) == 0
        assert f"The undo of {key} is recorded" in capsys.readouterr().out
        assert shop.states == ["undone"]
        assert [*reconcile_pass(shop.host, LedgerSettings(), at_once=True)] == []
        assert not shop.call("pay", purpose="rail").event.replayed

    def test_an_undo_that_was_kept_owed_follows(self, shop: Shop) -> None:
        paid = shop.call("pay", purpose="rail")
        shop.failures = 1
        shop.work.undo(paid.call.id)
        (entry,) = shop.store.entries()
        pay, now = shop.host.catalog.get("pay"), shop.host.clock.now()
        with pytest.raises(LedgerError, match="stays owed"):
            settle(shop.store, entry, Finding(has_happened=False), tool=pay, now=now)
        TestCalls.undo_all(shop)
        assert (shop.states, shop.bank.balance("rail")) == (["undone"], 0)


class TestRecovery:
    def test_the_next_host_pays_back_and_until_then_commands_list_it(
        self, make_shop: Callable[..., Shop], capsys: pytest.CaptureFixture[str]
    ) -> None:
        shop = make_shop(LEDGER)
        shop.failures = 1
        shop.call("pay", purpose="rail", fails=True)
        (shop.folder / "plugin.py").write_text(PLUGIN)
        settings = shop.file.read_text()
        shop.file.write_text('plugin_files = ["plugin.py"]\n' + settings)
        assert main(["status"]) == 0
        out = capsys.readouterr().out
        assert "Owed: the undo of pay" in out
        assert "`toolstile ledger reconcile`" in out
        assert main(["--json", "status"]) == 0
        assert json.loads(capsys.readouterr().out)["owed"][0]["state"] == "owed"
        for state in ("owed", "unknown"):
            assert main(["ledger", "list", "--state", state]) == 0
            assert "owed" in capsys.readouterr().out
        assert main(["ledger", "list", "--state", "undone"]) == 0
        assert "is recorded" in capsys.readouterr().out

        shop.file = shop.folder / "again.toml"
        shop.file.write_text(settings.replace("reconcile_every = 0", ""))
        shop.open()
        shop.wait(lambda: shop.states == ["undone"])
        assert shop.bank.balance("rail") == 0
        assert main(["status"]) == 0
        assert "Owed" not in capsys.readouterr().out

    def test_the_command_alone_undoes_what_its_host_would_undo_too(
        self,
        make_shop: Callable[..., Shop],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        shop = make_shop(LEDGER)
        shop.failures = 1
        shop.call("pay", purpose="rail", fails=True)
        (shop.folder / "plugin.py").write_text(PLUGIN.replace("raise AssertionError", "return"))
        settings = shop.file.read_text().replace("reconcile_every = 0", "")
        shop.file.write_text('plugin_files = ["plugin.py"]\n' + settings)

        def late(*args: Any, **options: Any) -> Iterator[Any]:
            time.sleep(0.5)
            return reconcile_pass(*args, **options)

        monkeypatch.setattr(commands, "reconcile_pass", late)
        assert main(["ledger", "reconcile"]) == 0
        assert capsys.readouterr().out.endswith("  pay  undone\n")

    def test_the_command_says_that_an_effect_is_undone_elsewhere(
        self, make_shop: Callable[..., Shop], capsys: pytest.CaptureFixture[str]
    ) -> None:
        shop = make_shop(LEDGER)
        shop.failures = 1
        shop.call("pay", purpose="rail", fails=True)
        (shop.folder / "plugin.py").write_text(PLUGIN)
        shop.file.write_text('plugin_files = ["plugin.py"]\n' + shop.file.read_text())
        (entry,) = shop.store.entries()
        shop.before_refund = lambda: main(["ledger", "reconcile", entry.claim.key])
        TestCalls.undo_all(shop)
        told = capsys.readouterr().out
        assert told == f"The call {entry.claim.key} is undoing, so its tool is not asked.\n"

    def test_the_command_names_the_undo_that_another_host_runs(
        self, make_shop: Callable[..., Shop], capsys: pytest.CaptureFixture[str]
    ) -> None:
        shop = make_shop(LEDGER)
        shop.failures = 1
        shop.call("pay", purpose="rail", fails=True)
        (shop.folder / "plugin.py").write_text(PLUGIN)
        shop.file.write_text('plugin_files = ["plugin.py"]\n' + shop.file.read_text())

        def reconcile() -> None:
            for words in ([], ["--json"]):
                assert main([*words, "ledger", "reconcile"]) == 0
            assert main(["--json", "status"]) == 0

        shop.before_refund = reconcile
        TestCalls.undo_all(shop)
        told, wire, status = capsys.readouterr().out.splitlines()
        assert told.endswith("  pay  its undo runs elsewhere")
        assert [each["state"] for each in json.loads(status)["owed"]] == ["undoing"]
        assert (json.loads(wire)["tool"], json.loads(wire)["found"]) == ("pay", "undoing")

    def test_the_alarm_of_an_owed_undo_says_how_it_is_tried_again(
        self, make_shop: Callable[..., Shop], caplog: pytest.LogCaptureFixture
    ) -> None:
        shop = make_shop(LEDGER)
        shop.failures = 2
        shop.call("pay", purpose="rail", fails=True)
        (entry,) = shop.store.entries()
        settings = LedgerSettings(settle_within=1e-6)
        assert len([*reconcile_pass(shop.host, settings, alarms=set())]) == 1
        key = entry.claim.key
        assert f"Retry it: toolstile ledger reconcile '{key}'; or, if its undo has happened" in (
            caplog.text
        )

    def test_a_stop_lets_refunds_go_on(self, shop: Shop) -> None:
        def stop(key: str) -> None:
            shop.host.stop("The prices are wrong.")

        shop.during = stop
        assert not shop.call("pay", purpose="rail").success
        shop.wait(lambda: shop.states == ["undone"])
        assert shop.bank.balance("rail") == 0

    def test_a_stop_halts_another_tool_with_the_name_of_the_refunds(self, shop: Shop) -> None:
        @tool(name=RECONCILE_TOOL, category="read")
        def look(key: str) -> str:
            """Look."""
            return key

        shop.host.stop("The prices are wrong.")
        with shop.host.executor(tools=[look]) as tools:
            outcome = shop.call(RECONCILE_TOOL, tools, key="k")
        assert outcome.text.startswith("ledger_reconcile was stopped: The prices are wrong.")


class TestDeclarations:
    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ({"undo": lambda params, result: None}, "undo cannot be called with params, result"),
            ({"idempotency": None}, "undo needs the key"),
            ({"idempotency": IdempotencyConfig(strategy="none")}, "undo needs the key"),
            ({"idempotency": IdempotencyConfig(on_unknown="retry")}, "remove reconcile and"),
            ({"contained": True}, "undo only goes with contained=False"),
            ({"undo": "refund"}, "undo is 'refund'"),
        ],
    )
    def test_a_wrong_one_names_the_remedy(self, options: dict[str, Any], told: str) -> None:
        def refund(params: Any, result: object, key: str, context: ToolContext) -> None: ...

        given: dict[str, Any] = {"idempotency": ONCE, "undo": refund, **options}
        with pytest.raises(DefinitionError, match=told):

            @tool(**given)
            def pay(purpose: str) -> str:
                """Pay."""
                return purpose

    def test_it_needs_a_ledger(self) -> None:
        def refund(params: Any, result: object, key: str, context: ToolContext) -> None: ...

        @tool(idempotency=ONCE, undo=refund)
        def pay(purpose: str) -> str:
            """Pay."""
            return purpose

        call = ToolCall("pay", {"purpose": "rail"})
        with Host(discover=False, tools=[pay]) as host, host.executor() as tools:  # noqa: SIM117
            with pytest.raises(ConfigurationError, match="Load the plugin ledger"):
                tools.dispatch(call)

    def test_a_card_says_whether_the_effect_can_be_taken_back(self, shop: Shop) -> None:
        seen: dict[str, tuple[str, ...]] = {}

        def approve(request: Any) -> ApprovalAnswer:
            seen[request.tool.name] = request.reasons
            return ApprovalAnswer.approve()

        @tool(requires_confirmation=True)
        def send(text: str) -> str:
            """Send a text."""
            return text

        def refund(params: Any, result: object, key: str, context: ToolContext) -> None: ...

        @tool(requires_confirmation=True, idempotency=ONCE, undo=refund)
        def pay_asked(purpose: str) -> str:
            """Pay."""
            return purpose

        with shop.host.executor(tools=[send, pay_asked], approver=approve) as tools:
            assert shop.call("send", tools, text="x").success
            assert shop.call("pay_asked", tools, purpose="rail").success
        assert seen["send"] == ("send requires confirmation.",)
        assert seen["pay_asked"][-1] == "Its effect can be taken back."


def test_only_the_expected_state_becomes_owed(shop: Shop) -> None:
    shop.call("pay", purpose="rail")
    (entry,) = shop.store.entries()
    claim = entry.claim._replace(params=b'["x",{},null]')
    assert not shop.store.owe(claim, "No.", EffectState.CLAIMED)
    assert not shop.store.owe(claim._replace(effect_id="0" * 32), "No.", EffectState.DONE)
    assert shop.states == ["done"]
    assert shop.store.owe(claim, "Yes.", EffectState.DONE)
    (entry,) = shop.store.entries()
    assert (entry.claim.params, entry.reason, entry.result) == (claim.params, "Yes.", None)


PLUGIN = '''\
from toolstile_hookspecs import IdempotencyConfig, MarkdownSection, hookimpl, tool


def refund(params, result, key, context):
    raise AssertionError


@tool(idempotency=IdempotencyConfig(), undo=refund)
def pay(purpose: str, fails: bool = False) -> str:
    """Pay at the bank."""
    return purpose


@hookimpl
def toolstile_sections():
    return [MarkdownSection(key="shop", title="Shop", tools=[pay])]
'''
