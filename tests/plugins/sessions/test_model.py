"""Whatever hosts do to one stored session, they come to what one session would have come to."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from toolstile import Executor
from toolstile_hookspecs import (
    IdempotencyConfig,
    PolicyDecision,
    PolicyState,
    SlicePolicy,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    tool,
)
from toolstile_hookspecs.policies import RESERVED
from toolstile_hookspecs.services.counter import Counter
from toolstile_hookspecs.sessions import append_all

from .conftest import Hosts, Note


@dataclass(frozen=True, slots=True)
class Seen:
    """An item of a LOG slice."""

    text: str


@dataclass(frozen=True, slots=True)
class Total:
    """The one item of a slice that is replaced."""

    amount: int


class Places:
    """A policy that admits so many calls of a tool, over all hosts."""

    name = "places"
    most = 5

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        return PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        return None

    def reserve(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        if tool.name != "scarce":
            return PolicyDecision.allow()
        record = PolicyState.reserved(context, self.name)
        taken = record.data.get("taken", 0)
        if taken >= self.most:
            return PolicyDecision.deny("No place is left.")
        replace(record, data={"taken": taken + 1}).save(context)
        return PolicyDecision.allow()


class Pool:
    """A policy that counts amounts over hosts, and gives back what a failed call has reserved."""

    name = "pool"
    most = 12

    def check(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        return PolicyDecision.allow()

    def reserve(self, tool: Tool[Any, Any], params: Any, *, context: ToolContext) -> PolicyDecision:
        if tool.name != "draw":
            return PolicyDecision.allow()
        place = counter_of(context).reserve(
            "pool", params.amount, self.most, None, self._id(context), now=context.clock.now()
        )
        return PolicyDecision.allow() if place.granted else PolicyDecision.deny("It is empty.")

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        if tool.name == "draw":
            counter_of(context).settle(self._id(context), params.uses)

    def on_rollback(self, tool: Any, params: Any, *, context: ToolContext) -> None:
        if tool.name == "draw":
            counter_of(context).settle(self._id(context), 0)

    def _id(self, context: ToolContext) -> str:
        assert context.tool_call is not None
        return f"pool {context.tool_call.id}"


def counter_of(holder: Any) -> Counter:
    counter: Counter = holder.resources.get(Counter)
    return counter


HOSTS = 3
TIMELESS: dict[str, Any] = {"timeout": None, "contained": True}


@tool(**TIMELESS)
def add(text: str, *, context: ToolContext) -> str:
    """Add a note, and log it."""
    context.session[Note].append(Note(text))
    context.session[Seen].append(Seen(text))
    return text


@tool(**TIMELESS)
def scarce(text: str, *, context: ToolContext) -> str:
    """Add a note, as long as there are places."""
    context.session[Note].append(Note(text))
    return text


@tool(**TIMELESS)
def draw(amount: int, uses: int, fails: bool, *, context: ToolContext) -> str:
    """Draw an amount from the pool, add a note, and fail where told to."""
    context.session[Note].append(Note(f"{uses} of {amount}"))
    if fails:
        raise ValueError(amount)
    return str(uses)


@tool(**TIMELESS)
def count(*, context: ToolContext) -> str:
    """Replace the total by the number of notes."""
    number = len(context.session[Note].all())
    context.session[Total].seed(Total(number))
    return str(number)


@tool(**TIMELESS, idempotency=IdempotencyConfig(scope="global"))
def once(text: str, *, context: ToolContext) -> str:
    """Add a note, once for each text."""
    context.session[Note].append(Note(text))
    return text


@tool(**TIMELESS)
def nested(text: str, fails: bool, *, context: ToolContext) -> str:
    """Add a note, have another added within, and fail where told to."""
    context.session[Note].append(Note(f"{text} begins"))
    context.call("once", {"text": text})
    context.call("add", {"text": f"{text} within"})
    if fails:
        raise ValueError(text)
    return text


@tool(**TIMELESS)
def interrupted(text: str, times: int, by: int, *, context: ToolContext) -> str:
    """Read the notes, have another host add one so many times, and add one."""
    context.session[Note].latest()
    if context.session.id in left:
        left[context.session.id] -= 1
        if left[context.session.id] >= 0:
            others[by].dispatch(ToolCall("add", {"text": f"{text} other"}))
    context.session[Note].append(Note(text))
    return str(times)


left: dict[str, int] = {}
others: list[Executor] = []

WORDS = st.sampled_from(["a", "b", "c", "d"])
WHO = st.integers(0, HOSTS - 1)


def saved_in(executor: Executor) -> dict[str, Any]:
    """Return the state of a session as JSON values, by the names of its slices."""
    saved = json.loads(executor.session.to_json())
    return {each["type"]: each["items"] for each in saved["slices"] if each["items"]}


class Model(RuleBasedStateMachine):
    """Several hosts, beside lists that say what the session holds."""

    @initialize()
    def begin(self) -> None:
        self.stack = ExitStack()
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.hosts = self._made_hosts(Path(folder))
        self.executors: list[Executor] = []
        self.notes: list[str] = []
        self.logged: list[str] = []
        self.total: list[int] = []
        self.paid: set[str] = set()
        self.records: dict[str, int] = {}
        self.snapshots: list[tuple[int, Any, Any]] = []
        self.taken = 0
        self.reserved: dict[str, int] = {}
        for _ in range(HOSTS):
            self.executors.append(self._opened())
        others[:] = self.executors

    def _made_hosts(self, folder: Path) -> Hosts:
        return Hosts(folder, self.stack)

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.stack.close()

    def _opened(self) -> Executor:
        tools = (add, scarce, draw, count, once, nested, interrupted)
        executor = self.hosts.executor(*tools, policies=[Pool(), Places()])
        executor.session[Seen].register(Seen, append_all, SlicePolicy.LOG)
        return executor

    def _call(self, who: int, name: str, **arguments: Any) -> Any:
        return self.executors[who].dispatch(ToolCall(name, arguments))

    @rule(who=WHO, text=WORDS)
    def adds(self, who: int, text: str) -> None:
        assert self._call(who, "add", text=text).success
        self.notes.append(text)
        self.logged.append(text)

    @rule(who=WHO)
    def counts(self, who: int) -> None:
        assert self._call(who, "count").text == str(len(self.notes))
        self.total = [len(self.notes)]

    @rule(who=WHO, text=WORDS)
    def has_an_effect_once(self, who: int, text: str) -> None:
        outcome = self._call(who, "once", text=text)
        assert outcome.event.replayed == (text in self.paid)
        self._had_effect(text)

    def _had_effect(self, text: str) -> None:
        if text not in self.paid:
            self.paid.add(text)
            self.notes.append(text)
            self.applied.add(text)
        elif text not in self.applied:
            # The session went back behind the effect, which a hit brings again.
            self.applied.add(text)
            self.notes.append(text)

    @property
    def applied(self) -> set[str]:
        return self.__dict__.setdefault("_applied", set())

    @rule(who=WHO, text=WORDS, fails=st.booleans())
    def nests(self, who: int, text: str, fails: bool) -> None:
        before = [*self.notes], {*self.paid}, {*self.applied}
        self.logged.append(f"{text} within")
        self.notes.append(f"{text} begins")
        self._had_effect(text)
        self.notes.append(f"{text} within")
        assert self._call(who, "nested", text=text, fails=fails).success is not fails
        if fails:
            self.notes, self.paid, applied = before
            self.__dict__["_applied"] = applied

    @rule(who=WHO, text=WORDS, times=st.integers(0, 2))
    def conflicts(self, who: int, text: str, times: int) -> None:
        by = (who + 1) % HOSTS
        left["s"] = times
        outcome = self._call(who, "interrupted", text=text, times=times, by=by)
        del left["s"]
        self.notes += [f"{text} other"] * times
        self.logged += [f"{text} other"] * times
        assert outcome.status == (Status.SUCCEEDED if times < 2 else Status.CONFLICT)
        if times < 2:
            self.notes.append(text)

    @rule(who=WHO, texts=st.lists(WORDS, min_size=1, max_size=4))
    def adds_in_a_batch(self, who: int, texts: list[str]) -> None:
        calls = [ToolCall("add", {"text": text}) for text in texts]
        outcomes: Any = self.executors[who].dispatch_all(calls)
        assert all(outcome.success for outcome in outcomes)
        self.notes += texts
        self.logged += sorted(texts)

    @rule(who=WHO, text=WORDS)
    def tries_without_keeping(self, who: int, text: str) -> None:
        host = self.hosts.open(add)
        with host.executor(session_id="s", dry_run=True) as dry:
            dry.session[Seen].register(Seen, append_all, SlicePolicy.LOG)
            assert dry.dispatch(ToolCall("add", {"text": text})).success
        self.logged.append(text)

    @rule(who=WHO, text=WORDS)
    def writes_directly(self, who: int, text: str) -> None:
        self.executors[who].session[Note].append(Note(text))
        self.notes.append(text)

    @rule(who=WHO, text=WORDS)
    def logs_directly(self, who: int, text: str) -> None:
        self.executors[who].session[Seen].append(Seen(text))
        self.logged.append(text)

    @rule(who=WHO, text=WORDS)
    def clears_some(self, who: int, text: str) -> None:
        self.executors[who].session[Note].clear(lambda note: note.text == text)
        self.notes = [each for each in self.notes if each != text]

    @rule(who=WHO, name=WORDS, amount=st.integers(0, 9))
    def keeps_a_record(self, who: int, name: str, amount: int) -> None:
        record = PolicyState(name, data={"n": amount})
        self.executors[who].session[PolicyState].append(record)
        self.records[name] = amount

    @rule(who=WHO)
    def resets(self, who: int) -> None:
        self.executors[who].session.reset()
        self.notes, self.total, self.records = [], [], {}
        self.applied.clear()

    @rule(who=WHO)
    def closes_and_opens_again(self, who: int) -> None:
        self.executors[who].close()
        self.executors[who] = self._opened()
        self.snapshots = [each for each in self.snapshots if each[0] != who]
        others[:] = self.executors

    @rule(who=WHO)
    def condenses(self, who: int) -> None:
        journal = self.executors[who].session.journal
        assert journal is not None
        journal.catch_up()
        with patch("toolstile.state.journal.MANY", 1):
            journal.condense()

    @rule(who=WHO)
    def condenses_what_it_opens(self, who: int) -> None:
        with patch("toolstile.state.journal.MANY", 1):
            self.closes_and_opens_again(who)

    @rule(who=WHO, text=WORDS)
    def takes_a_place(self, who: int, text: str) -> None:
        outcome = self._call(who, "scarce", text=text)
        assert outcome.success == (self.taken < Places.most)
        if outcome.success:
            self.taken += 1
            self.notes.append(text)

    @rule(who=WHO, amount=st.integers(0, 5), uses=st.integers(0, 5), fails=st.booleans())
    def draws_from_the_pool(self, who: int, amount: int, uses: int, fails: bool) -> None:
        is_let = sum(self.reserved.values()) + amount <= Pool.most
        outcome = self._call(who, "draw", amount=amount, uses=uses, fails=fails)
        assert outcome.status == (
            Status.DENIED if not is_let else Status.ERROR if fails else Status.SUCCEEDED
        )
        if outcome.success:
            self.reserved[f"pool {outcome.call.id}"] = uses
            self.notes.append(f"{uses} of {amount}")

    @rule(who=WHO, name=WORDS, amount=st.integers(0, 5))
    def reserves_by_itself(self, who: int, name: str, amount: int) -> None:
        now = datetime.now(UTC)
        answer = counter_of(self.executors[who]).reserve("pool", amount, 12, None, name, now=now)
        used = sum(self.reserved.values())
        assert answer.is_new == (name not in self.reserved)
        assert answer.granted == (not answer.is_new or used + amount <= 12)
        if answer.granted:
            self.reserved.setdefault(name, amount)
        assert answer.used == sum(self.reserved.values())

    @rule(who=WHO, name=WORDS, amount=st.integers(0, 5))
    def settles(self, who: int, name: str, amount: int) -> None:
        counter_of(self.executors[who]).settle(name, amount)
        if name in self.reserved:
            self.reserved[name] = amount
            if not amount:
                del self.reserved[name]

    @rule(who=WHO)
    def takes_a_snapshot(self, who: int) -> None:
        journal = self.executors[who].session.journal
        assert journal is not None
        journal.catch_up()
        kept = (
            [*self.notes],
            [*self.total],
            {**self.records},
            {*self.applied},
        )
        self.snapshots.append((who, self.executors[who].session.snapshot(), kept))

    @rule(which=st.integers(0, 99))
    def goes_back_to_a_snapshot(self, which: int) -> None:
        if self.snapshots:
            who, snapshot, kept = self.snapshots[which % len(self.snapshots)]
            self.executors[who].session.restore(snapshot)
            notes, total, records, applied = kept
            self.notes, self.total, self.records = [*notes], [*total], {**records}
            self.__dict__["_applied"] = {*applied}

    @invariant()
    def every_host_sees_what_the_model_has(self) -> None:
        for executor in getattr(self, "executors", ()):
            session = executor.session
            journal = session.journal
            assert journal is not None
            journal.catch_up()
            assert [note.text for note in session[Note].all()] == self.notes
            assert [each.amount for each in session[Total].all()] == self.total
            reserved = counter_of(executor).read("pool", now=datetime.now(UTC))
            assert reserved == sum(self.reserved.values())
            logged = [each.text for each in session[Seen].all()]
            assert sorted(logged) == sorted(self.logged)
            kept = {each.policy_name: dict(each.data) for each in session[PolicyState].all()}
            taken = kept.pop(f"places{RESERVED}", {"taken": 0})
            assert taken == {"taken": self.taken}
            assert kept == {name: {"n": amount} for name, amount in self.records.items()}
        seen = [saved_in(executor) for executor in getattr(self, "executors", ())]
        assert all(each == seen[0] for each in seen)


@pytest.mark.slow
class TestModel(Model.TestCase):  # type: ignore[name-defined, misc]
    settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
