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
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from toolyard.state.session import Session
from toolyard_hookspecs.errors import CallClosed, ConflictError
from toolyard_hookspecs.policies import PolicyState
from toolyard_hookspecs.sessions import Append, SlicePolicy, append_all


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
        return isinstance(self.base, Root) and self.epoch != self.root.epoch


def items_of(kind, values):
    return [kind(value) for value in values]


def values_of(view):
    return [each.value for each in view.all()]


small = st.integers(0, 8)
kinds = st.sampled_from(KINDS)
which = st.integers(0, 20)


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
        return self.open[number % len(self.open)]

    def end(self, node, status):
        node.status = status
        self.open.remove(node)
        self.closed.append(node)
        for other in [each for each in self.open if each.base is node]:
            self.end(other, "dropped")

    has_open = precondition(lambda self: self.open)

    # Branches come and go.

    @precondition(lambda self: len(self.open) < 6)
    @rule()
    def fork(self):
        self.open.append(Node(self.session.fork(), self.root, self.root))

    @precondition(lambda self: self.open and len(self.open) < 6)
    @rule(number=which)
    def fork_nested(self, number):
        parent = self.pick(number)
        self.open.append(Node(parent.real.fork(), parent, self.root))

    @has_open
    @rule(number=which)
    def validate(self, number):
        self.is_valid(self.pick(number))

    def is_valid(self, node):
        try:
            node.real.validate()
        except ConflictError:
            assert node.may_conflict(), "nothing moved that this call had read or replaced"
            return False
        assert not node.must_conflict()
        node.stand_on_base()
        return True

    @has_open
    @rule(number=which, again=st.booleans())
    def commit(self, number, again):
        node = self.pick(number)
        if not self.is_valid(node):
            if not again:
                self.fail(node)
                return
            node.real.refork()
            for other in [each for each in self.open if each.base is node]:
                self.end(other, "dropped")
            node.start_again()
            return
        node.real.commit()
        self.end(node, "committed")
        base = node.base
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

    @has_open
    @rule(number=which)
    def rollback(self, number):
        self.fail(self.pick(number))

    def fail(self, node):
        node.real.rollback()
        self.end(node, "failed")
        if isinstance(node.base, Node):
            node.base.reads |= node.reads
            node.base.whole |= node.whole

    @has_open
    @rule(number=which)
    def abandon(self, number):
        node = self.pick(number)
        node.real.close("abandoned")
        self.end(node, "dropped")

    # Calls read and write; `number` 0 stands for direct use of the session.

    @rule(number=which, kind=kinds, value=small)
    def append(self, number, kind, value):
        real, model = self.target(number)
        real[kind].append(kind(value))
        model.do(("append", kind, value))

    @rule(number=which, value=small)
    def dispatch(self, number, value):
        real, model = self.target(number)
        real.dispatch(Add(value))
        model.do(("event", value))
        (model.events if isinstance(model, Node) else self.expected).append(value)

    @rule(number=which, kind=kinds, values=st.lists(small, max_size=4))
    def seed(self, number, kind, values):
        real, model = self.target(number)
        real[kind].seed(*items_of(kind, values))
        model.do(("seed", kind, values))
        self.note_replaced(model, {kind})

    @rule(number=which, kind=kinds, rest_by=st.none() | st.integers(0, 2))
    def clear(self, number, kind, rest_by):
        real, model = self.target(number)
        if rest_by is None:
            real[kind].clear()
        else:
            real[kind].clear(lambda each: each.value % 3 == rest_by)
        model.do(("clear", kind, rest_by))
        self.note_replaced(model, {kind})
        if model is self.root:
            self.root.epoch += 1

    def note_replaced(self, model, kinds):
        if isinstance(model, Node):
            model.replaced |= kinds

    def target(self, number):
        if not self.open or number % 3 == 0:
            return self.session, self.root
        node = self.pick(number)
        return node.real, node

    @has_open
    @rule(number=which, kind=kinds)
    def read(self, number, kind):
        node = self.pick(number)
        node.do(("read", kind, values_of(node.real[kind])))
        node.reads.add(kind)

    @has_open
    @rule(number=which, kind=st.sampled_from([Note, Total, Recent]))
    def read_modify_write(self, number, kind):
        node = self.pick(number)
        latest = node.real[kind].latest()
        value = latest.value + 1 if latest else 0
        node.real[kind].append(kind(value))
        node.do(("read", kind, node.view()[kind]))
        node.do(("append", kind, value))
        node.reads.add(kind)

    @has_open
    @rule(number=which)
    def change_in_place(self, number):
        node = self.pick(number)
        node.reads.add(Basket)
        basket = node.real[Basket].latest()
        if basket is not None:
            basket.things.append(IN_PLACE)
            seen = [self.session[Basket].all()]
            seen += [self.peek(each, Basket) for each in self.open if each is not node]
            seen.append(node.real.fork()[Basket].all())
            basket.things.pop()
            assert not any(basket.things for baskets in seen for basket in baskets)

    @rule(number=which, value=small)
    def log_something(self, number, value):
        real, _ = self.target(number)
        real[Audit].append(Audit(value))
        real.dispatch(Audit(value))
        self.session.log(Audit(value))
        self.log += [value] * 3

    @rule(number=which, name=st.sampled_from("pqr"), value=small)
    def save_a_record(self, number, name, value):
        real, model = self.target(number)
        real[PolicyState].append(PolicyState(name, data={"value": value}))
        if model is self.root:
            self.root.records.pop(name, None)
            self.root.records[name] = value
        else:
            model.put({name: value})

    # State is put back.

    @rule()
    def take_a_snapshot(self):
        kept = self.root.view(), dict(self.root.records)
        self.snapshots.append((self.session.snapshot(), *kept))

    @rule(number=which, which_one=which, to_nothing=st.booleans())
    def put_back(self, number, which_one, to_nothing):
        real, model = self.target(number)
        state, records = {kind: [] for kind in KINDS}, {}
        if to_nothing or not self.snapshots:
            real.reset()
        else:
            snapshot, state, records = self.snapshots[which_one % len(self.snapshots)]
            real.restore(snapshot)
        model.do(("all", state))
        if model is self.root:
            self.root.records = dict(records)
            self.root.epoch += 1
        else:
            model.put({**dict.fromkeys(model.seen_records()), **records})
            model.replaced |= set(KINDS)
            model.whole = True

    # What holds at any time.

    def peek(self, node, kind):
        node.real.freeze()
        items = node.real[kind].all()
        node.real.thaw()
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
            assert node.real.closed
            with pytest.raises(CallClosed):
                node.real[Note].append(Note(1))


Branches.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestBranches = Branches.TestCase
