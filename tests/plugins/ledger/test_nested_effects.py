"""Idempotent calls within idempotent calls: what the records of the outer ones hold of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from toolstile import Session
from toolstile_hookspecs import IdempotencyConfig, LedgerError, ToolContext, append_all, tool

from .conftest import Bench

ONCE = IdempotencyConfig(scope="global")


@dataclass(frozen=True)
class Note:
    text: str


class Office:
    """`check_out` pays, `serve` checks out, each of them once; `visit` has others called."""

    def __init__(self, bench: Bench, *, contained: bool = False) -> None:
        self.bench = bench
        self.ran: list[str] = []
        self.fails = False
        self.after: Callable[[ToolContext], object] = lambda context: None
        self.looks: Callable[[], object] = lambda: None
        self.tools = (
            self._caller("serve", "check_out"),
            self._caller("check_out", "pay"),
            self._payer(contained=contained),
            self._visitor(),
        )
        self.enter(bench.session)

    def enter(self, session: Session) -> None:
        """Go on in a session."""
        session[Note].register(Note, append_all)
        self.bench.open(*self.tools, session=session)
        self.session = session

    def call(self, name: str) -> Any:
        return self.bench.call(name)

    def notes(self) -> list[str]:
        return [each.text for each in self.session[Note].all()]

    def _caller(self, name: str, other: str) -> Any:
        @tool(name=name, idempotency=ONCE)
        async def acalls(*, context: ToolContext) -> None:
            """Call another tool."""
            self._begin(name, context)
            assert (await context.acall(other)).success
            self._end(name, context)

        @tool(name=name, idempotency=ONCE)
        def calls(*, context: ToolContext) -> None:
            """Call another tool."""
            self._begin(name, context)
            assert context.call(other).success
            self._end(name, context)

        return calls if self.bench.driver == "sync" else acalls

    def _begin(self, name: str, context: ToolContext) -> None:
        self.ran.append(name)
        context.session.dispatch(Note(f"{name} begins"))

    def _end(self, name: str, context: ToolContext) -> None:
        self.after(context)
        context.session[Note].append(Note(f"{name} ends"))

    def _payer(self, *, contained: bool) -> Any:
        @tool(contained=contained, idempotency=ONCE)
        def pay(*, context: ToolContext) -> None:
            """Pay."""
            self.ran.append("pay")
            context.session.dispatch(Note("paid"))

        return pay

    def _visitor(self) -> Any:
        @tool(name="visit", contained=False)
        async def avisits(*, context: ToolContext) -> None:
            """Have somebody checked out."""
            assert (await context.acall("check_out")).success
            await asyncio.to_thread(self.looks)
            if self.fails:
                raise ValueError("no time")

        @tool(name="visit", contained=False)
        def visits(*, context: ToolContext) -> None:
            """Have somebody checked out."""
            assert context.call("check_out").success
            self.looks()
            if self.fails:
                raise ValueError("no time")

        return visits if self.bench.driver == "sync" else avisits


CHECKED_OUT = ["check_out begins", "paid", "check_out ends"]
SERVED = ["serve begins", *CHECKED_OUT, "serve ends"]


class TestAnotherSession:
    @pytest.fixture
    def office(self, bench):
        office = Office(bench)
        assert office.call("serve").success
        assert office.notes() == SERVED
        office.enter(Session(id="s2"))
        return office

    def test_a_hit_does_all_again_in_its_order(self, office):
        assert office.call("serve").event.replayed
        assert office.notes() == SERVED
        assert office.ran == ["serve", "check_out", "pay"]

    @pytest.mark.parametrize(
        ("order", "notes"),
        [
            (
                ("pay", "check_out", "serve"),
                ["paid", "check_out begins", "check_out ends", "serve begins", "serve ends"],
            ),
            (
                ("pay", "serve", "check_out"),
                ["paid", "serve begins", "check_out begins", "check_out ends", "serve ends"],
            ),
            (("check_out", "serve", "pay"), [*CHECKED_OUT, "serve begins", "serve ends"]),
            (("check_out", "pay", "serve"), [*CHECKED_OUT, "serve begins", "serve ends"]),
            (("serve", "check_out", "pay"), SERVED),
            (("serve", "pay", "check_out"), SERVED),
        ],
    )
    def test_each_effect_changes_it_once_whatever_was_hit_first(self, office, order, notes):
        for name in order:
            assert office.call(name).event.replayed
            office.enter(Session.from_json(office.session.to_json(), kinds=(Note,)))
        assert office.notes() == notes

    def test_effects_carried_over_by_a_hit_are_told_apart_in_a_record_around_it(self, bench):
        office = Office(bench)
        assert office.call("check_out").success
        office.enter(Session(id="s2"))
        assert not office.call("serve").event.replayed
        assert office.notes() == SERVED
        office.enter(Session(id="s3"))
        for name in ("pay", "serve", "check_out"):
            assert office.call(name).event.replayed
        assert office.notes() == [
            *("paid", "serve begins", "check_out begins", "check_out ends", "serve ends")
        ]

    def test_effects_in_calls_that_are_not_recorded_are_told_apart_too(self, bench):
        office = Office(bench)
        through = office._caller("through", "visit")
        office.tools = (*office.tools, through)
        office.enter(office.session)
        assert office.call("through").success
        office.enter(Session(id="s2"))
        for name in ("pay", "check_out", "through"):
            assert office.call(name).event.replayed
        assert office.notes() == [
            *("paid", "check_out begins", "check_out ends", "through begins", "through ends")
        ]

    def test_a_slice_that_was_thinned_out_afterwards_comes_to_the_same(self, bench):
        office = Office(bench)
        office.after = lambda context: context.session[Note].clear(
            lambda note: note.text.endswith("begins")
        )
        assert office.call("check_out").success
        assert office.notes() == ["paid", "check_out ends"]
        for first in ([], ["pay"]):
            office.enter(Session(id=f"s{first}"))
            for name in (*first, "check_out"):
                assert office.call(name).event.replayed
            assert office.notes() == ["paid", "check_out ends"]


def test_a_session_that_went_back_to_between_two_effects_is_told_of_the_other_only(bench):
    office = Office(bench)
    office.call("pay")
    before = office.session.snapshot()
    assert office.call("check_out").success
    office.session.restore(before)
    assert office.call("check_out").event.replayed
    assert office.notes() == ["paid", "check_out begins", "check_out ends"]


class TestPutBack:
    """A contained call is put back with its caller's caller; the call around it has happened."""

    @pytest.fixture
    def office(self, bench):
        return Office(bench, contained=True)

    def test_a_hit_of_the_one_does_not_bring_the_changes_of_the_other(self, office):
        office.fails = True
        assert not office.call("visit").success
        assert office.notes() == []
        assert office.call("check_out").event.replayed
        assert office.notes() == ["check_out begins", "check_out ends"]
        assert not office.call("pay").event.replayed
        assert office.notes() == ["check_out begins", "check_out ends", "paid"]
        assert office.ran == ["check_out", "pay", "pay"]

    def test_until_all_is_committed_the_record_is_without_them(self, office):
        seen: list[list[str]] = []
        here = office.session

        def look() -> None:
            office.enter(Session(id="s2"))
            assert office.call("check_out").event.replayed
            seen.append(office.notes())

        office.looks = look
        assert office.call("visit").success
        assert seen == [["check_out begins", "check_out ends"]]
        assert [each.text for each in here[Note].all()] == CHECKED_OUT
        assert office.call("pay").event.replayed
        assert office.notes() == ["check_out begins", "check_out ends", "paid"]
        assert office.ran == ["check_out", "pay"]

    @pytest.mark.parametrize("order", [["check_out", "pay"], ["pay", "check_out"]])
    def test_afterwards_it_is_with_them(self, office, order):
        assert office.call("visit").success
        office.enter(Session(id="s2"))
        for name in order:
            assert office.call(name).event.replayed
        assert sorted(office.notes()) == sorted(CHECKED_OUT)
        assert office.ran == ["check_out", "pay"]

    def test_a_record_that_cannot_be_written_whole_refuses_the_call_around_it(self, office):
        store = office.bench.ledger.store
        finish = store.finish

        def look() -> None:
            store.finish = refuse

        def refuse(*args: Any) -> bool:
            raise LedgerError("The disk is full.")

        office.looks = look
        refused = office.call("visit")
        assert not refused.success
        assert "The disk is full." in refused.text
        assert office.notes() == []
        store.finish = finish
        assert office.bench.states() == ["done"]
        assert office.call("check_out").event.replayed
        assert not office.call("pay").event.replayed

    def test_a_record_that_was_removed_meanwhile_stays_removed(self, office, caplog):
        office.looks = lambda: office.bench.ledger.invalidate_by_tool("check_out")
        assert office.call("visit").success
        assert office.bench.states() == ["done"]
        assert "toolstile.ledger" not in caplog.text
