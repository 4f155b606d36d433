"""Parallel calls, interleaved step by step, against a model that runs them one by one."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from toolstile import Executor, Host, Session
from toolstile_hookspecs import (
    Append,
    CallClosed,
    Cancellation,
    MarkdownSection,
    Outcome,
    Prompt,
    SlicePolicy,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolInvoked,
    ToolResult,
    tool,
)

pytestmark = pytest.mark.slow

# Only what never comes takes this long.
PATIENCE = 60.0


@dataclass(frozen=True)
class Left:
    """An item of one slice."""

    text: str


@dataclass(frozen=True)
class Right:
    """An item of another slice."""

    text: str


@dataclass(frozen=True)
class Note:
    """An item of a log."""

    text: str


@dataclass(frozen=True)
class RecordedChange:
    """The observations of a call; a reducer counts them where it succeeds."""

    seen: tuple[str, ...]


@dataclass(frozen=True)
class Tally:
    """The number of calls that have succeeded, nested ones too."""

    number: int


@dataclass(frozen=True)
class Op:
    """One thing that a handler does."""

    what: str
    kind: type[Any]


@dataclass(frozen=True)
class Nest:
    """A nested call, which may fail."""

    ops: tuple[Op, ...]
    fails: bool


@dataclass(frozen=True)
class ToolPlan:
    """The work of one call, its end, and the driver that carries it out."""

    tool: str
    ops: tuple[Op | Nest, ...]
    end: str
    driver: str


State = dict[type[Any], list[Any]]
frequent = ("read", "append", "bump", "seed", "clear", "note")
ops = st.builds(
    Op,
    st.sampled_from([*frequent, *frequent, "restore", "reset"]),
    st.sampled_from([Left, Right]),
)
nests = st.builds(Nest, st.lists(ops, min_size=1, max_size=2).map(tuple), st.booleans())
plans = st.builds(
    ToolPlan,
    st.sampled_from(["contained", "parallel"]),
    st.lists(st.one_of(ops, ops, nests), max_size=4).map(tuple),
    st.sampled_from(["ok", "ok", "ok", "ok", "error", "raise", "cancel"]),
    st.sampled_from(["sync", "async"]),
)


class Puppet:
    """One call on a thread of its own, moved on step by step from the test's."""

    def __init__(self, index: int, plan: ToolPlan, executor: Executor) -> None:
        self.plan = plan
        self.runs = 0
        self.outcome: Outcome | None = None
        self.escaped: BaseException | None = None
        self.over = False
        self.leaked: list[str] = []
        self._cancellation = Cancellation()
        self._executor = executor
        self._go = threading.Semaphore(0)
        self._arrived = threading.Semaphore(0)
        self._call = ToolCall(plan.tool, {"index": index}, cancellation=self._cancellation)
        self._thread = threading.Thread(target=self._dispatch, daemon=True)
        self._started = False

    def move(self) -> None:
        """Let the call go on until its next step, or to its end."""
        if self._started:
            self._go.release()
        else:
            self._started = True
            self._thread.start()
        assert self._arrived.acquire(timeout=PATIENCE), "a call neither goes on nor ends"

    def cancel(self) -> None:
        """Cancel the call, wait until it has ended, then let its handler go on."""
        self._cancellation.cancel()
        self._thread.join(PATIENCE)
        assert self.outcome is not None, "a cancelled call does not end"
        self.over = True
        while not self._gone.is_set():
            self._go.release()
            self._gone.wait(0.01)

    def step(self) -> None:
        """Wait, within the handler, until the test moves the call on."""
        if self.runs == 1:
            self._arrived.release()
            assert self._go.acquire(timeout=PATIENCE), "a handler was never moved on"

    def begin(self) -> None:
        self.runs += 1
        self._gone = threading.Event()

    def gone(self) -> None:
        self._gone.set()

    def _dispatch(self) -> None:
        try:
            if self.plan.driver == "sync":
                self.outcome = self._executor.dispatch(self._call)
            else:
                self.outcome = asyncio.run(self._executor.adispatch(self._call))
        except BaseException as error:
            self.escaped = error
        finally:
            self._arrived.release()


class Theatre:
    """The puppets and the tools whose handlers they are."""

    def __init__(self, plans: Sequence[ToolPlan], session: Session) -> None:
        self.plans = plans
        self.session = session
        self.start = session.snapshot()
        self.notes: list[str] = []
        self.puppets: list[Puppet] = []

    def tools(self) -> list[Tool[Any, Any]]:
        return [
            self._outer("contained", contained=True),
            self._outer("parallel", contained=False),
            self._inner(),
        ]

    def _outer(self, name: str, *, contained: bool) -> Tool[Any, Any]:
        @tool(name=name, contained=contained, timeout=None)
        def work(index: int, *, context: ToolContext) -> ToolResult[RecordedChange]:
            """Do what the plan says."""
            puppet, seen = self.puppets[index], list[str]()
            puppet.begin()
            try:
                for place, op in enumerate(puppet.plan.ops):
                    if isinstance(op, Nest):
                        seen.append(self._nest(puppet, index, place, context))
                    else:
                        self._act(puppet, op, f"{index}.{place}", context, seen)
                puppet.step()
            finally:
                puppet.gone()
            return ended(puppet.plan.end, seen)

        return work

    def _inner(self) -> Tool[Any, Any]:
        @tool(name="inner", timeout=None)
        def inner(index: int, place: int, *, context: ToolContext) -> ToolResult[RecordedChange]:
            """Do what the plan says, within another call."""
            puppet, seen = self.puppets[index], list[str]()
            nest: Any = puppet.plan.ops[place]
            for number, op in enumerate(nest.ops):
                self._act(puppet, op, f"{index}.{place}.{number}", context, seen)
            return ended("error" if nest.fails else "ok", seen)

        return inner

    def _nest(self, puppet: Puppet, index: int, place: int, context: ToolContext) -> str:
        try:
            return context.call("inner", {"index": index, "place": place}).result.message
        except CallClosed:
            assert puppet.over
            return "closed"

    def _act(
        self, puppet: Puppet, op: Op, text: str, context: ToolContext, seen: list[str]
    ) -> None:
        puppet.step()
        try:
            if op.what == "note":
                context.session[Note].append(Note(f"{text} run {puppet.runs}"))
                self.notes.append(f"{text} run {puppet.runs}")
            else:
                act(op, text, context.session, seen, self.start)
        except CallClosed:
            assert puppet.over
        else:
            if puppet.over:
                puppet.leaked.append(text)


def act(op: Op, text: str, session: Any, seen: list[str], start: Any) -> None:
    items = session[op.kind]
    if op.what == "restore":
        session.restore(start)
    elif op.what == "reset":
        session.reset()
    elif op.what == "read":
        seen.append(" ".join(each.text for each in items.all()))
    elif op.what == "append":
        items.append(op.kind(text))
    elif op.what == "bump":
        latest = items.latest()
        items.append(op.kind(f"{latest.text if latest else ''}+"))
    elif op.what == "seed":
        items.seed(op.kind(text))
    elif op.what == "clear":
        items.clear()


def ended(how: str, seen: list[str]) -> ToolResult[RecordedChange]:
    if how == "error":
        return ToolResult.error(f"Failed after {seen}.")
    if how == "raise":
        msg = f"Failed after {seen}."
        raise LookupError(msg)
    return ToolResult.ok(RecordedChange(tuple(seen)), message=f"Saw {seen}.")


class Model:
    """The session, as it would be if the calls that were kept had come one by one."""

    def __init__(self) -> None:
        self.state: State = {}
        self.restore(START)

    def __getitem__(self, kind: type[Any]) -> _ModelSlice:
        return _ModelSlice(self.state[kind])

    def restore(self, state: State) -> None:
        self.state = {kind: list(items) for kind, items in state.items()}

    def reset(self) -> None:
        self.restore({kind: [] for kind in START})

    def carry_out(self, index: int, plan: ToolPlan) -> str:
        """Return what the model is told."""
        seen: list[str] = []
        for place, op in enumerate(plan.ops):
            if isinstance(op, Op):
                act(op, f"{index}.{place}", self, seen, START)
            else:
                seen.append(self._nest(op, f"{index}.{place}"))
        self._count()
        return f"Saw {seen}."

    def _nest(self, nest: Nest, text: str) -> str:
        kept = {kind: list(items) for kind, items in self.state.items()}
        seen: list[str] = []
        for number, op in enumerate(nest.ops):
            act(op, f"{text}.{number}", self, seen, START)
        if nest.fails:
            self.state = kept
            return f"Failed after {seen}."
        self._count()
        return f"Saw {seen}."

    def _count(self) -> None:
        self.state[Tally] = counted(self.state[Tally])


START: State = {Left: [Left("start")], Right: [], Tally: [Tally(0)]}


def counted(items: Sequence[Tally]) -> list[Tally]:
    return [Tally(items[-1].number + 1 if items else 1)]


@dataclass
class _ModelSlice:
    items: list[Any] = field(default_factory=list[Any])

    def all(self) -> list[Any]:
        return self.items

    def latest(self) -> Any:
        return self.items[-1] if self.items else None

    def append(self, item: Any) -> None:
        self.items.append(item)

    def seed(self, item: Any) -> None:
        self.items[:] = [item]

    def clear(self) -> None:
        self.items.clear()


def make_session() -> Session:
    session = Session()
    session[Left].append(Left("start"))
    session[Note].register(Note, lambda _, event: Append([event]), SlicePolicy.LOG)
    session[Tally].register(RecordedChange, lambda items, _: counted(items))
    session[Tally].seed(Tally(0))
    return session


Play = tuple[tuple[ToolPlan, ...], list[int | str]]


@st.composite
def plays(draw: st.DrawFn) -> Play:
    """Draw what some calls do, and an order of all their steps and of what the application does."""
    drawn = tuple(draw(st.lists(plans, min_size=2, max_size=4)))
    steps = [index for index, plan in enumerate(drawn) for _ in range(2 + steps_of(plan))]
    outside = draw(st.lists(st.sampled_from(["restore", "reset"]), max_size=1))
    return drawn, draw(st.permutations([*steps, *outside]))


def steps_of(plan: ToolPlan) -> int:
    return sum(len(op.ops) if isinstance(op, Nest) else 1 for op in plan.ops)


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Leave the failures that a play plans out of the test's own output."""
    caplog.set_level("CRITICAL", logger="toolstile")


@pytest.mark.usefixtures("quiet")
@settings(max_examples=75, deadline=None)
@given(play=plays())
def test_what_is_kept_could_have_come_one_by_one(play: Play) -> None:
    drawn, order = play
    session = make_session()
    theatre = Theatre(drawn, session)
    section = MarkdownSection(key="tools", title="Tools", tools=theatre.tools())
    with (
        Host(discover=False) as host,
        host.executor(session=session, prompt=Prompt.of("tests", "play", (section,))) as executor,
    ):
        theatre.puppets = [Puppet(i, plan, executor) for i, plan in enumerate(drawn)]
        happened = perform(theatre, order)

    model = Model()
    for each in happened:
        if isinstance(each, str):
            outside(each, model, START)
        else:
            check_outcome(theatre.puppets[each], model, each)
    assert {kind: list(session[kind].all()) for kind in START} == model.state
    assert Counter(each.text for each in session[Note].all()) == Counter(theatre.notes)
    top_level = [each for each in session[ToolInvoked].all() if each.parent_id is None]
    ended_in_order = [each for each in happened if isinstance(each, int)]
    assert [each.call.arguments["index"] for each in top_level] == ended_in_order  # type: ignore[index, call-overload]


def outside(what: str, session: Any, start: Any) -> None:
    if what == "restore":
        session.restore(start)
    else:
        session.reset()


def perform(theatre: Theatre, order: list[int | str]) -> list[int | str]:
    """Move the calls on in order; return in which order they, and the application's acts, ended."""
    left = Counter(order)
    happened: list[int | str] = []
    for index in order:
        if isinstance(index, str):
            outside(index, theatre.session, theatre.start)
            happened.append(index)
            continue
        puppet = theatre.puppets[index]
        left[index] -= 1
        if left[index] == 0 and puppet.plan.end == "cancel":
            puppet.cancel()
        else:
            puppet.move()
        if left[index] == 0:
            happened.append(index)
            assert puppet.escaped is None
            assert puppet.outcome is not None, "a call goes on after its last step"
    return happened


def check_outcome(puppet: Puppet, model: Model, index: int) -> None:
    outcome = puppet.outcome
    assert outcome is not None
    assert puppet.leaked == []
    wanted = {"error": Status.FAILED, "raise": Status.ERROR, "cancel": Status.CANCELLED}
    if puppet.plan.end != "ok":
        assert outcome.status is wanted[puppet.plan.end]
    elif puppet.plan.tool == "contained":
        assert outcome.status is Status.SUCCEEDED
        assert outcome.event.reruns == puppet.runs - 1
    else:
        assert outcome.status in (Status.SUCCEEDED, Status.CONFLICT)
        assert puppet.runs == 1
    if outcome.success:
        assert outcome.result.message == model.carry_out(index, puppet.plan)
