"""A session and its branches in any interleaving, against plain lists.

Every branch of the model keeps the operations of its call, with what each read returned. When a
top-level branch commits, they are repeated on the plain state: every read must return there what
it returned to the call, and the outcome must be the session's. So the committed history is
equivalent to the serial one in the order of the commits.
"""

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from toolstile.state.session import Session
from toolstile_hookspecs.errors import CallClosed, ConflictError
from toolstile_hookspecs.policies import PolicyState
from toolstile_hookspecs.sessions import Append, SlicePolicy, append_all

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Note:
    value: int


@dataclass(frozen=True)
class Total:
    value: int


@dataclass(frozen=True)
class Recent:
    value: int


@dataclass
class Basket:
    value: int
    things: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Add:
    value: int


@dataclass(frozen=True)
class Audit:
    value: int


KINDS = [Note, Total, Recent, Basket]
IN_PLACE = 999
MOST_OPEN = 5


def add_up(items, event):
    return Append([Total((items[-1].value if items else 0) + event.value)])


def keep_three(items, event):
    return [*items, Recent(event.value)][-3:]


def apply(op, state):
    """Repeat one operation on plain lists."""
    name, *rest = op
    if name == "append":
        kind, value = rest
        state[kind] = [*state[kind], value]
    elif name == "event":
        (value,) = rest
        totals = state[Total]
        state[Total] = [*totals, (totals[-1] if totals else 0) + value]
        state[Recent] = [*state[Recent], value][-3:]
    elif name == "seed":
        kind, values = rest
        state[kind] = list(values)
    elif name == "clear":
        kind, rest_by = rest
        state[kind] = [v for v in state[kind] if rest_by is not None and v % 3 != rest_by]
    elif name == "all":
        state.update(deepcopy(rest[0]))
    elif name == "read":
        kind, seen = rest
        assert state[kind] == seen, "a call was told what is not in the serial history"
    elif name == "child" and rest[0].status == "failed":
        replay(rest[0].ops, deepcopy(state))


def replay(ops, state):
    for op in ops:
        apply(op, state)
    return state


def written_by(op):
    name, *rest = op
    if name in {"append", "seed", "clear"}:
        return [rest[0]]
    return {"event": [Total, Recent], "all": KINDS}.get(name, [])


@dataclass(eq=False)
class Root:
    state: dict = field(default_factory=lambda: {kind: [] for kind in KINDS})
    records: dict = field(default_factory=dict)
    versions: Counter = field(default_factory=Counter)
    epoch: int = 0

    def view(self):
        return deepcopy(self.state)

    def seen_records(self):
        return self.records

    def do(self, op):
        apply(op, self.state)
        self.versions.update(written_by(op))


@dataclass(eq=False)
class Node:
    real: object
    base: "Root | Node"
    root: Root
    status: str = "open"

    def __post_init__(self):
        self.marker = ("child", self)
        self.versions = Counter()
        self.start_again()

    def start_again(self):
        self.ops, self.events, self.overlay = [], [], {}
        self.reads, self.replaced, self.whole = set(), set(), False
        self.stand_on_base()

    def stand_on_base(self):
        self.start = self.base.view()
        self.base_versions = Counter(self.base.versions)
        self.epoch = self.root.epoch
        self.versions.update(KINDS)
        if isinstance(self.base, Node):
            if self.marker in self.base.ops:
                self.base.ops.remove(self.marker)
            self.base.ops.append(self.marker)

    def view(self):
        return replay(self.ops, deepcopy(self.start))

    def seen_records(self):
        below = {k: v for k, v in self.base.seen_records().items() if k not in self.overlay}
        return {**below, **{k: v for k, v in self.overlay.items() if v is not None}}

    def do(self, op):
        self.ops.append(op)
        self.versions.update(written_by(op))

    def put(self, update):
        for name, value in update.items():
            self.overlay.pop(name, None)
            self.overlay[name] = value

    def may_conflict(self):
        moved = {kind for kind in KINDS if self.base.versions[kind] != self.base_versions[kind]}
        if isinstance(self.base, Root) and self.epoch != self.root.epoch:
            return True
        return bool(moved & (self.reads | self.replaced)) or (self.whole and bool(moved))

    def must_conflict(self):
        if isinstance(self.base, Root) and self.epoch != self.root.epoch:
            return True
        now = self.base.view()
        return any(now[kind] != self.start[kind] for kind in self.reads | self.replaced)


def values_of(view):
    return [each.value for each in view.all()]


small = st.integers(0, 8)
kinds = st.sampled_from([*KINDS, Basket])
which = st.integers(0, 20)
rarely = st.integers(0, 4).map(lambda number: number == 4)
operations = st.tuples(
    st.sampled_from(
        ["append", "dispatch", "seed", "clear", "read", "read", "modify", "log", "save"]
    ),
    kinds,
    small,
)


class Branches(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.session = Session(id="s")
        self.session[Total].register(Add, add_up)
        self.session[Recent].register(Add, keep_three)
        self.session[Audit].register(Audit, append_all, SlicePolicy.LOG)
        self.root = Root()
        self.open = []
        self.closed = []
        self.snapshots = []
        self.log = []
        self.heard = []
        self.expected = []
        self.session.dispatcher.subscribe(Add, lambda event: self.heard.append(event.value))

    def pick(self, number):
        if not self.open:
            self.fork_from(self.root)
        return self.open[number % len(self.open)]

    def end(self, node, status):
        node.status = status
        self.open.remove(node)
        self.closed.append(node)
        for other in [each for each in self.open if each.base is node]:
            self.end(other, "dropped")

    # Branches come and go.

    @rule(number=which)
    def fork(self, number):
        if len(self.open) < MOST_OPEN:
            self.fork_from(self.base(number))

    def fork_from(self, base):
        real = self.session if base is self.root else base.real
        node = Node(real.fork(), base, self.root)
        self.open.append(node)
        return node

    def base(self, number):
        return self.pick(number) if self.open and number % 3 else self.root

    @rule(number=which)
    def validate(self, number):
        self.is_valid(self.pick(number))

    def is_valid(self, node):
        due = node.must_conflict()
        for other in [each for each in self.open if each.base is node]:
            self.end(other, "dropped")
        try:
            node.real.validate()
        except ConflictError:
            assert node.may_conflict(), "nothing moved that this call had read or replaced"
            return False
        assert not due, "what this call had read or replaced is not what it was"
        node.stand_on_base()
        return True

    @rule(number=which, again=st.booleans())
    def commit(self, number, again):
        self.finish(self.pick(number), again=again)

    def finish(self, node, *, again):
        if self.is_valid(node):
            node.real.commit()
            self.end(node, "committed")
            self.join(node, node.base)
        elif again:
            node.real.refork()
            node.start_again()
        else:
            self.fail(node)

    def join(self, node, base):
        for op in node.ops:
            base.do(op)
        if isinstance(base, Node):
            base.put(node.overlay)
            base.events += node.events
            base.reads |= node.reads
            base.replaced |= node.replaced
            base.whole |= node.whole
        else:
            base.records = node.seen_records()
            self.expected += node.events

    @rule(number=which)
    def rollback(self, number):
        self.fail(self.pick(number))

    def fail(self, node):
        node.real.rollback()
        self.end(node, "failed")
        if isinstance(node.base, Node):
            node.base.reads |= node.reads
            node.base.whole |= node.whole

    @rule(number=which)
    def abandon(self, number):
        node = self.pick(number)
        node.real.close("abandoned")
        self.end(node, "dropped")

    @rule(
        number=which,
        first=st.lists(operations, max_size=4),
        second=st.lists(operations, min_size=1, max_size=4),
        late=st.lists(operations, max_size=2),
    )
    def two_calls_at_once(self, number, first, second, late):
        base = self.base(number)
        one, two = self.fork_from(base), self.fork_from(base)
        self.operate_all(one, first)
        self.operate_all(two, second)
        self.finish(two, again=False)
        self.operate_all(one, late)
        self.finish(one, again=True)

    @rule(
        before=st.lists(operations, max_size=2),
        nested=st.lists(operations, min_size=1, max_size=4),
        between=st.lists(operations, max_size=2),
        good=st.booleans(),
        end=st.booleans(),
    )
    def a_call_that_calls_another(self, before, nested, between, good, end):
        outer = self.fork_from(self.root)
        self.operate_all(outer, before)
        inner = self.fork_from(outer)
        self.operate_all(inner, nested)
        if good:
            self.finish(inner, again=False)
        else:
            self.fail(inner)
        self.operate_all(outer, between)
        if end:
            self.finish(outer, again=False)

    # Calls read and write.

    @rule(number=which, operation=operations)
    def work(self, number, operation):
        self.operate_all(self.pick(number), [operation])

    @rule(operation=operations)
    def use_the_session_directly(self, operation):
        if operation[0] not in {"read", "modify", "clear"}:
            self.operate_all(self.root, [operation])

    def operate_all(self, model, planned):
        real = self.session if model is self.root else model.real
        for name, kind, value in planned:
            getattr(self, f"do_{name}")(real, model, kind, value)

    def do_append(self, real, model, kind, value):
        real[kind].append(kind(value))
        model.do(("append", kind, value))

    def do_dispatch(self, real, model, kind, value):
        real.dispatch(Add(value))
        model.do(("event", value))
        (model.events if isinstance(model, Node) else self.expected).append(value)

    def do_seed(self, real, model, kind, value):
        values = list(range(value % 4))
        real[kind].seed(*[kind(each) for each in values])
        model.do(("seed", kind, values))
        if isinstance(model, Node):
            model.replaced.add(kind)

    def do_clear(self, real, model, kind, value):
        rest_by = None if value > 2 else value
        if rest_by is None:
            real[kind].clear()
        else:
            real[kind].clear(lambda each: each.value % 3 == rest_by)
        model.do(("clear", kind, rest_by))
        if isinstance(model, Node):
            model.replaced.add(kind)

    def do_read(self, real, model, kind, value):
        model.do(("read", kind, values_of(real[kind])))
        model.reads.add(kind)
        if kind is Basket and real[Basket].latest() is not None:
            self.change_in_place(model)

    def change_in_place(self, node):
        basket = node.real[Basket].latest()
        basket.things.append(IN_PLACE)
        seen = [self.session[Basket].all()]
        seen += [self.peek(each, Basket) for each in self.open if each is not node]
        seen.append(node.real.fork()[Basket].all())
        # The sequences copy as they are looked at, so before the change is taken back.
        leaked = any(other.things for baskets in seen for other in baskets)
        basket.things.pop()
        assert not leaked

    def do_modify(self, real, model, kind, value):
        latest = real[kind].latest()
        value = latest.value + 1 if latest else 0
        real[kind].append(kind(value))
        model.do(("read", kind, model.view()[kind]))
        model.do(("append", kind, value))
        model.reads.add(kind)

    def do_log(self, real, model, kind, value):
        real[Audit].append(Audit(value))
        real.dispatch(Audit(value))
        self.session.log(Audit(value))
        self.log += [value] * 3

    def do_save(self, real, model, kind, value):
        name = "pqr"[value % 3]
        real[PolicyState].append(PolicyState(name, data={"value": value}))
        if isinstance(model, Node):
            model.put({name: value})
        else:
            model.records.pop(name, None)
            model.records[name] = value

    # State is put back.

    @rule()
    def take_a_snapshot(self):
        kept = self.root.view(), dict(self.root.records)
        self.snapshots.append((self.session.snapshot(), *kept))

    @rule(number=which, to=which)
    def put_back(self, number, to):
        node = self.pick(number)
        state, records = self.put_back_to(node.real, to)
        node.do(("all", state))
        node.put({**dict.fromkeys(node.seen_records()), **records})
        node.replaced |= set(KINDS)
        node.whole = True

    @rule(to=which, really=rarely)
    def put_back_from_outside(self, to, really):
        if not really:
            return
        state, records = self.put_back_to(self.session, to)
        self.root.do(("all", state))
        self.root.records = dict(records)
        self.root.epoch += 1

    @rule(kind=kinds, value=small, really=rarely)
    def clear_from_outside(self, kind, value, really):
        if not really:
            return
        self.do_clear(self.session, self.root, kind, value)
        self.root.epoch += 1

    def put_back_to(self, real, to):
        if not self.snapshots or to % 4 == 0:
            real.reset()
            return {kind: [] for kind in KINDS}, {}
        snapshot, state, records = self.snapshots[to % len(self.snapshots)]
        real.restore(snapshot)
        return state, records

    # What holds at any time.

    def peek(self, node, kind):
        node.real.frozen = True
        items = node.real[kind].all()
        node.real.frozen = False
        return items

    @invariant()
    def the_session_is_what_the_serial_history_makes(self):
        for kind in KINDS:
            assert values_of(self.session[kind]) == self.root.state[kind]
        assert self.session.epoch == self.root.epoch
        assert values_of(self.session[Audit]) == self.log
        assert self.heard == self.expected

    @invariant()
    def every_branch_sees_its_fork_and_its_own_changes(self):
        for node in self.open:
            view = node.view()
            for kind in KINDS:
                assert [each.value for each in self.peek(node, kind)] == view[kind]

    @invariant()
    def records_are_the_newest(self):
        for real, model in [(self.session, self.root), *((n.real, n) for n in self.open)]:
            seen = {each.policy_name: each.data["value"] for each in real[PolicyState].all()}
            assert list(seen.items()) == list(model.seen_records().items())

    @invariant()
    def a_branch_that_is_over_can_do_nothing(self):
        for node in self.closed[-2:]:
            with pytest.raises(CallClosed):
                node.real[Note].append(Note(1))


Branches.TestCase.settings = settings(max_examples=75, stateful_step_count=30, deadline=None)
TestBranches = Branches.TestCase
