"""Whatever hosts, people and transactions do, all that is kept and told is as in the model."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import seed, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from tests.plugins.transactions.model import Layer, World

from toolstile import Host, Settings
from toolstile_hookspecs import (
    IdempotencyConfig,
    PolicyDecision,
    ToolCall,
    ToolContext,
    ToolError,
    TransactionFailed,
    hookimpl,
    tool,
)

ONCE = IdempotencyConfig(scope="global")
RAN: Counter[str] = Counter()
PATHS = ("a.txt", "b/c.txt")


@dataclass(frozen=True)
class Note:
    text: str


@dataclass(frozen=True)
class Total:
    text: str


@tool(contained=True)
def add(arg: str, context: ToolContext) -> str:
    """Add a note."""
    context.session[Note].append(Note(arg))
    return arg


@tool(contained=True)
def notes(arg: str, context: ToolContext) -> str:
    """Return the notes."""
    return ",".join(each.text for each in context.session[Note].all())


@tool(contained=True)
def swap(arg: str, context: ToolContext) -> str:
    """Replace the total."""
    context.session[Total].replace(Total(arg))
    return arg


@tool(contained=True)
def total(arg: str, context: ToolContext) -> str:
    """Return the total."""
    return ",".join(each.text for each in context.session[Total].all())


@tool(contained=True)
def fail(arg: str, context: ToolContext) -> str:
    """Read the notes, add one and fail."""
    read = notes(arg, context)
    context.session[Note].append(Note(arg))
    raise ToolError(read or "nothing")


@tool(contained=True)
def get(arg: str, context: ToolContext) -> str:
    """Return the content of a file."""
    files = context.filesystem
    return files.read(arg) if files.exists(arg) else "-"


@tool(contained=True)
def put(arg: str, context: ToolContext) -> str:
    """Write a file."""
    context.filesystem.write(arg, "put")
    return arg


@tool(contained=True, idempotency=ONCE)
def once(arg: str) -> str:
    """Run once."""
    RAN[arg] += 1
    return arg


class Closing:
    """A policy that denies `add`, while it is closed."""

    name = "closing"
    closed = False

    def check(self, tool, params, *, context):
        if self.closed and tool.name == "add":
            return PolicyDecision.deny("It is closed.")
        return PolicyDecision.allow()

    def on_result(self, tool, params, result, *, context):
        return None


class Watcher:
    def __init__(self):
        self.told = []

    @hookimpl
    def toolstile_transaction(self, event):
        self.told.append((event.title, str(event.status), event.reruns))


ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["add", "swap"]), st.sampled_from("xyz")),
    st.tuples(st.sampled_from(["notes", "total", "fail"]), st.just("")),
    st.tuples(st.sampled_from(["get", "put"]), st.sampled_from(PATHS)),
    st.tuples(st.just("once"), st.sampled_from("kl")),
)
WHO = st.sampled_from([0, 0, 0, 1, 1, 1, 2])


class Transactions(RuleBasedStateMachine):
    """Two hosts on one store, three executors on two sessions, a person at the disk."""

    steps = 0

    def __init__(self):
        super().__init__()
        RAN.clear()
        self.stack, self.number = ExitStack(), 0
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.root = self.folder / "work"
        (self.root / "b").mkdir(parents=True)
        self.closing, self.watcher, self.world = Closing(), Watcher(), World()
        self.hosts = [self.stack.enter_context(self.host()) for _ in "ab"]
        places = ((0, "s"), (1, "s"), (0, "t"))
        self.tools = [self.hosts[host].executor(session_id=session) for host, session in places]
        self.sessions = [session for _, session in places]
        self.works = [[], [], []]
        self.layers = [[], [], []]

    def host(self):
        plugins = {
            "vfs": {"root": str(self.root)},
            "sessions": {"path": str(self.folder / "state.db")},
            "ledger": {"wait": 0.001, "path": str(self.folder / "state.db")},
        }
        return Host(
            settings=Settings(plugins=plugins, durability="process"),
            discover=("vfs", "sessions", "ledger"),
            tools=[add, notes, swap, total, fail, get, put, once],
            plugins=[self.watcher],
            policies=[self.closing],
        )

    def end_of(self, tools, name, arg):
        outcome = tools.dispatch(ToolCall(name, {"arg": arg}))
        status = str(outcome.status)
        if status == "failed":
            return status, outcome.text.replace("nothing", "")
        return status, outcome.text if status == "succeeded" else None

    @rule(who=WHO)
    def begin(self, who):
        works, layers = self.works[who], self.layers[who]
        if len(works) < 3:
            self.number += 1
            title = f"t{self.number}"
            works.append((works[-1] if works else self.tools[who]).transaction(title))
            below = layers[-1] if layers else None
            if below is not None:
                below.catch_up()
            layers.append(Layer(self.world, self.sessions[who], below, title))

    @rule(who=WHO, actions=st.lists(ACTIONS, min_size=1, max_size=4), is_outer=st.integers(0, 4))
    def call_within(self, who, actions, is_outer):
        if not self.works[who]:
            self.begin(who)
        place = 0 if is_outer == 0 else -1
        for action in actions:
            expected = self.layers[who][place].call(*action)
            assert self.end_of(self.works[who][place], *action) == expected

    @rule(who=WHO, actions=st.lists(ACTIONS, min_size=1, max_size=3))
    def call_beside(self, who, actions):
        for action in actions:
            layer = Layer(self.world, self.sessions[who])
            expected = layer.call(*action)
            assert self.end_of(self.tools[who], *action) == expected
            if expected[0] == "succeeded":
                layer.commit()
            else:
                layer.roll_back("")

    @rule(
        who=WHO,
        how=st.sampled_from(["commit"] * 8 + ["rollback"] * 2 + ["close"]),
        is_outer=st.integers(0, 4),
    )
    def end(self, who, how, is_outer):
        works, layers = self.works[who], self.layers[who]
        if not works:
            return
        place = 0 if is_outer == 0 or how == "close" else len(works) - 1
        for layer in reversed(layers[place + 1 :]):
            layer.roll_back("rolled_back")
        work, layer = works[place], layers[place]
        del works[place:], layers[place:]
        if how != "commit":
            if how == "close":
                self.tools[who].close()
                host = self.hosts[1 if who == 1 else 0]
                self.tools[who] = host.executor(session_id=self.sessions[who])
            else:
                work.rollback()
            layer.roll_back("rolled_back")
            return
        expected = layer.commit()
        with nullcontext() if expected == "committed" else pytest.raises(TransactionFailed):
            work.commit()
        assert str(work.ended.status) == expected, work.ended

    @rule(path=st.sampled_from(PATHS))
    def person_writes(self, path):
        self.world.files[path] = self.world.new(f"person {self.world.stamp}")
        (self.root / path).write_text(self.world.files[path][1])

    @rule(closed=st.sampled_from([True, False, False, False]))
    def close_or_open(self, closed):
        self.closing.closed = self.world.closed = closed

    @invariant()
    def all_is_as_in_the_model(self):
        type(self).steps += 1
        assert self.watcher.told == self.world.told
        assert self.world.ran == RAN
        for path in PATHS:
            file = self.root / path
            found = file.read_text() if file.exists() else "-"
            assert found == self.world.files.get(path, (0, "-"))[1]
        for tools, session in zip(self.tools, self.sessions, strict=True):
            for name in ("notes", "total"):
                _, items = self.world.slices.get((session, name), (0, ()))
                assert self.end_of(tools, name, "") == ("succeeded", ",".join(items))

    def teardown(self):
        for tools in self.tools:
            tools.close()
        self.stack.close()


@pytest.mark.slow
@pytest.mark.much_alike(1)
def test_transactions_are_as_in_the_model():
    run_state_machine_as_test(
        Transactions, settings=settings(max_examples=8, stateful_step_count=25)
    )


@pytest.mark.slow
@pytest.mark.long
def test_transactions_are_as_in_the_model_over_ten_thousand_steps():
    many = seed(20_261_129)(type("Many", (Transactions,), {"steps": 0}))
    run_state_machine_as_test(many, settings=settings(max_examples=250, stateful_step_count=50))
    assert many.steps >= 10_000
