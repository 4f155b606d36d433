"""Whatever hosts, people and transactions do, all that is kept and told is as in the model."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import Phase, seed, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from tests.plugins.transactions.model import NONE, PATHS, TOOLS, Layer, World

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
from toolstile_hookspecs.execution.undo import UndoConflict

ONCE = IdempotencyConfig(scope="global")
RAN: Counter[str] = Counter()


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
    return files.read(arg) if files.exists(arg) else ""


@tool(contained=True)
def put(arg: str, context: ToolContext) -> str:
    """Write a file."""
    context.filesystem.write(arg, arg)
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


ACTION = st.one_of(
    st.tuples(st.sampled_from(["add", "swap"]), st.sampled_from("xxy")),
    st.tuples(st.sampled_from(["notes", "total", "fail"]), st.just("")),
    st.tuples(st.sampled_from(["get", "put"]), st.sampled_from(PATHS)),
    st.tuples(st.just("once"), st.sampled_from("kl")),
)
WHO = st.sampled_from([0, 0, 0, 1, 1, 1, 2])
ACTIONS = st.lists(ACTION, min_size=1, max_size=4)
PLACE = st.sampled_from([0, -1, -1, -1])
GLOB = st.sampled_from([None, None, None, "*", "*t*", "*o*", "add", "?[edt]*"])
SESSION = st.sampled_from(["share", "share", "own"])
LAST = st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True)
END = st.sampled_from(["commit"] * 8 + ["rollback"] * 2 + ["close"])
STOP = st.sampled_from(["add", "put", "s", "all", *["go"] * 6])
STEPS = {
    "begin": (2, WHO, GLOB),
    "call_within": (4, WHO, ACTIONS, PLACE, GLOB),
    "call_beside": (2, WHO, ACTIONS, GLOB, SESSION),
    "undo": (2, WHO, LAST, st.booleans(), st.booleans()),
    "end": (2, WHO, END, PLACE),
    "person_writes": (1, st.sampled_from(PATHS)),
    "close_or_open": (1, st.sampled_from([True, False, False, False])),
    "stop_or_go": (1, st.sampled_from([0, 1]), STOP),
}
"""The steps with their weights. One rule has all, because Hypothesis leaves rules out of runs."""
STEP = st.one_of(
    st.tuples(st.just(name), *given)
    for name, (weight, *given) in STEPS.items()
    for _ in range(weight)
)


def named_by(glob):
    """Return the tools that a child with this glob has, of all tools."""
    return frozenset(name for name in TOOLS if glob is None or fnmatchcase(name, glob))


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
        # The ids of the noted calls, in the order of the model's notes.
        self.noted = []

    def host(self):
        database = str(self.folder / "state.db")
        plugins = {
            "vfs": {"root": str(self.root)},
            "sessions": {"path": database},
            "ledger": {"wait": 0.001, "path": database},
            "undo": {"path": str(self.folder / "undo")},
        }
        return Host(
            settings=Settings(plugins=plugins, durability="process"),
            discover=("vfs", "sessions", "ledger", "undo"),
            tools=[add, notes, swap, total, fail, get, put, once],
            plugins=[self.watcher],
            policies=[self.closing],
        )

    def end_of(self, tools, name, arg):
        if name == "undo":
            numbers, keeps = arg
            ids = [self.noted[each] for each in numbers]
            try:
                outcome = tools.undo(*ids, others="keep" if keeps else "conflict")
            except UndoConflict as conflict:
                names = {"Note": "notes", "Total": "total"}
                found = [names.get(each.name, each.name) for each in conflict.differences]
                self.last = None
                return "failed", sorted(found)
        else:
            outcome = tools.dispatch(ToolCall(name, {"arg": arg}))
        status, self.last = str(outcome.status), outcome.call.id
        if name == "undo":
            return status, [] if status in ("succeeded", "failed") else None
        if status == "failed":
            return status, outcome.text.replace("nothing", "")
        return status, outcome.text if status == "succeeded" else None

    def note(self, id_):
        if len(self.world.notes) > len(self.noted):
            self.noted.append(id_)
        assert len(self.world.notes) == len(self.noted)

    @rule(step=STEP)
    def step(self, step):
        name, *args = step
        getattr(self, name)(*args)

    def begin(self, who, glob):
        """Begin a transaction, or have a child fork."""
        works, layers = self.works[who], self.layers[who]
        if len(works) == 3:
            return
        self.number += 1
        title, below = f"t{self.number}", layers[-1] if layers else None
        tools, around = named_by(glob), works[-1] if works else self.tools[who]
        tools &= below.tools if below else TOOLS
        if glob is None:
            work = around.transaction(title)
        else:
            work = around.child(title, tools=[glob], session="fork")
            title = f"agent {around.agent}/{title}"
        works.append(work)
        if below is not None:
            below.catch_up()
        layers.append(Layer(self.world, self.sessions[who], below, title, tools))

    def speaker(self, tools, glob, session="share"):
        """Return an executor, or a child of it."""
        return (
            nullcontext(tools)
            if glob is None
            else tools.child("kid", tools=[glob], session=session)
        )

    def call_within(self, who, actions, place, glob):
        if not self.works[who]:
            self.begin(who, None)
        work, layer, only = self.works[who][place], self.layers[who][place], named_by(glob)
        with self.speaker(work, glob) as tools:
            for action in actions:
                expected = layer.call(*action, only)
                assert (found := self.end_of(tools, *action)) == expected, (action, found, expected)

    def call_beside(self, who, actions, glob, session):
        self.number += 1
        is_own = session == "own" and glob is not None
        name = f"{self.sessions[who]}/{self.number}" if is_own else self.sessions[who]
        with self.speaker(self.tools[who], glob, session) as tools:
            for action in actions:
                self.call_alone(tools, Layer(self.world, name, tools=named_by(glob)), action)

    def call_alone(self, tools, layer, action):
        expected = layer.call(*action)
        assert (found := self.end_of(tools, *action)) == expected, (action, found, expected)
        if expected[0] == "succeeded":
            layer.commit()
        else:
            layer.end("")
        self.note(self.last)

    def undo(self, who, of, keeps, is_within):
        """Undo some of the last calls, which may be undos."""
        if not self.noted:
            return
        # The newest first.
        numbers = sorted({max(0, len(self.noted) - each) for each in of}, reverse=True)
        action = "undo", (numbers, keeps)
        if not (self.works[who] and is_within):
            self.call_alone(self.tools[who], Layer(self.world, self.sessions[who]), action)
            return
        expected = self.layers[who][-1].call(*action)
        assert (found := self.end_of(self.works[who][-1], *action)) == expected, (
            action,
            found,
            expected,
        )

    def end(self, who, how, place):
        works, layers = self.works[who], self.layers[who]
        if not works:
            return
        place = 0 if how == "close" else place % len(works)
        for layer in reversed(layers[place + 1 :]):
            layer.end("rolled_back")
        # Those within end with it, not because they are forgotten.
        ending = works[place:]
        work, layer = ending[0], layers[place]
        del works[place:], layers[place:]
        if how != "commit":
            if how == "close":
                self.tools[who].close()
                host = self.hosts[1 if who == 1 else 0]
                self.tools[who] = host.executor(session_id=self.sessions[who])
            else:
                work.rollback()
            layer.end("rolled_back")
            return
        expected = layer.commit()
        with nullcontext() if expected == "committed" else pytest.raises(TransactionFailed):
            work.commit()
        assert str(work.ended.status) == expected, work.ended
        self.note(work.id)

    def person_writes(self, path):
        # As often as not the content that a call writes.
        text = path if self.world.stamp % 2 else f"person {self.world.stamp}"
        self.world.values[path] = self.world.new(text)
        (self.root / path).write_text(self.world.values[path][1][0])

    def close_or_open(self, closed):
        self.closing.closed = self.world.is_closed = closed

    def stop_or_go(self, host, what):
        if what == "go":
            self.world.stops.clear()
            self.hosts[host].go()
            return
        for met in (self.world.stops, *(each.met for each in chain.from_iterable(self.layers))):
            met.add(what)
        scope = {"all": {}, "s": {"session": "s"}}
        self.hosts[host].stop("Halt.", **scope.get(what, {"tool": what}))

    @invariant()
    def all_is_as_in_the_model(self):
        type(self).steps += 1
        assert self.watcher.told == self.world.told
        assert self.world.ran == RAN
        for path in PATHS:
            file = self.root / path
            found = (file.read_text(),) if file.exists() else ()
            assert found == self.world.values.get(path, NONE)[1]
        for tools, session in zip(self.tools, self.sessions, strict=True):
            for name in ("notes", "total"):
                expected = Layer(self.world, session).call(name, "")
                assert self.end_of(tools, name, "") == expected

    def teardown(self):
        for tools in self.tools:
            tools.close()
        self.stack.close()


@pytest.mark.slow
@pytest.mark.much_alike(1)
def test_transactions_are_as_in_the_model():
    # To shrink an example takes longer than a test may.
    found_first = settings(max_examples=8, stateful_step_count=25, phases=[Phase.generate])
    run_state_machine_as_test(Transactions, settings=found_first)


@pytest.mark.slow
@pytest.mark.long
def test_transactions_are_as_in_the_model_over_ten_thousand_steps():
    many = seed(20_261_129)(type("Many", (Transactions,), {"steps": 0}))
    run_state_machine_as_test(many, settings=settings(max_examples=215, stateful_step_count=50))
    assert many.steps >= 10_000
