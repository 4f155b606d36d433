"""Exclusive resources against a plain model: trees of calls, savepoints, queues, abandonment."""

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from toolstile.resources.bindings import ResourceRegistry
from toolstile.resources.call_scope import CallScope
from toolstile.resources.exclusive import lock_of
from toolstile_hookspecs import CallClosed, ResourceBusyError

pytestmark = pytest.mark.slow


class Stack:
    """An exclusive list that insists on savepoints being ended newest first."""

    def __init__(self) -> None:
        self.items: list[int] = []
        self.savepoints: list[int] = []

    def begin(self) -> int:
        self.savepoints.append(len(self.items))
        return len(self.savepoints)

    def commit(self, savepoint: int) -> None:
        assert savepoint == len(self.savepoints)
        self.savepoints.pop()

    def rollback(self, savepoint: int) -> None:
        assert savepoint == len(self.savepoints)
        del self.items[self.savepoints.pop() :]


class Left(Stack):
    pass


class Right(Stack):
    pass


KINDS = (Left, Right)


@dataclass(eq=False)
class Call:
    """A call and what the model knows of it."""

    resources: Any
    parent: "Call | None" = None
    children: list["Call"] = field(default_factory=list)
    wrote: dict[type, list[int]] = field(default_factory=lambda: {Left: [], Right: []})
    holds: set[type] = field(default_factory=set)
    state: str = "running"
    deadline: Any = None
    cancellation: Any = None
    context: Any = None

    def __post_init__(self) -> None:
        self.root: Call = self if self.parent is None else self.parent.root
        self.root_id = id(self.root)
        self.scope = CallScope(
            self.resources, parent=self.parent.scope if self.parent else None, owner=self
        )
        self.scope.fail_fast = True

    def __hash__(self) -> int:
        return id(self)

    def __str__(self) -> str:
        return "a call"

    def check_open(self) -> None: ...
    def paused(self) -> Any:
        return nullcontext()

    def before_exclusive(self, kind: type) -> None: ...

    def undo(self) -> None:
        for part in self.scope.undoing():
            part.rollback()

    def within(self, other: "Call") -> bool:
        return self is other or (self.parent is not None and self.parent.within(other))

    @property
    def leaf(self) -> bool:
        return all(child.state == "over" for child in self.children)


class Exclusives(RuleBasedStateMachine):
    """Calls that may not wait, so that every answer is known at once."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = ResourceRegistry.build({kind: kind() for kind in KINDS})
        self.resources = self.registry.open()
        self.calls: list[Call] = []
        self.kept: dict[type, list[int]] = {Left: [], Right: []}
        # Per resource the calls that hold it, each standing on the one before.
        self.stacks: dict[type, list[Call]] = {Left: [], Right: []}
        self.number = 0

    def fitting(self, *states: str, leaf: bool = False) -> list[Call]:
        return [call for call in self.calls if call.state in states and (call.leaf or not leaf)]

    @initialize(data=st.data())
    def begin_some(self, data: st.DataObject) -> None:
        for _ in range(4):
            self.begin_call(data)

    @precondition(lambda self: len(self.fitting("running")) < 8)
    @rule(data=st.data())
    def begin_call(self, data: st.DataObject) -> None:
        # The newest first, so that Hypothesis tries depth before breadth.
        running = self.fitting("running")[::-1]
        parent = data.draw(st.sampled_from([*running, None]))
        call = Call(self.resources, parent)
        if parent is not None:
            parent.children.append(call)
        self.calls.append(call)

    @precondition(lambda self: self.fitting("running", "abandoned"))
    @rule(data=st.data(), kind=st.sampled_from(KINDS))
    def write(self, data: st.DataObject, kind: type[Stack]) -> None:
        call = data.draw(st.sampled_from(self.fitting("running", "abandoned")))
        if call.state == "abandoned":
            with pytest.raises(CallClosed):
                call.scope.get(kind)
            return
        stack = self.stacks[kind]
        has_begun = kind in call.holds
        admitted = not stack or (stack[-1].state == "running" and call.within(stack[-1]))
        if not has_begun and not admitted:
            with pytest.raises(ResourceBusyError):
                call.scope.get(kind)
            return
        resource = call.scope.get(kind)
        if call not in stack:
            stack.append(call)
        call.holds.add(kind)
        # What is written while a nested call stands above belongs to that one's savepoint.
        if stack[-1] is call:
            self.number += 1
            resource.items.append(self.number)
            call.wrote[kind].append(self.number)

    @precondition(lambda self: self.fitting("running", leaf=True))
    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.fitting("running", leaf=True)))
        if call.parent is not None:
            for part in call.scope.preparing_to_join():
                part.prepare()
            call.scope.hand_over()
            for kind in KINDS:
                call.parent.wrote[kind] += call.wrote[kind]
            self.hand_up(call)
        else:
            parts = call.scope.participants()
            for part in parts:
                part.prepare()
            for part in parts:
                part.commit()
            for kind in KINDS:
                self.kept[kind] += call.wrote[kind]
            self.let_go(call)
        self.end(call)

    @precondition(lambda self: self.fitting("running", leaf=True))
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.fitting("running", leaf=True)))
        call.undo()
        if call.parent is not None:
            self.hand_up(call)
        else:
            self.let_go(call)
        self.end(call)

    @precondition(lambda self: self.fitting("running", leaf=True))
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.fitting("running", leaf=True)))
        call.scope.abandon()
        call.undo()
        call.scope.close()
        call.state = "abandoned"

    @precondition(lambda self: self.fitting("abandoned"))
    @rule(data=st.data())
    def abandoned_thread_ends(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.fitting("abandoned")))
        call.scope.release_abandoned()
        if call.parent is not None:
            self.hand_up(call)
        else:
            self.let_go(call)
        call.state = "over"

    def hand_up(self, call: Call) -> None:
        for stack in self.stacks.values():
            if call in stack:
                place = stack.index(call)
                follows = call.parent not in stack
                stack[place : place + 1] = [call.parent] if call.parent and follows else []

    def let_go(self, call: Call) -> None:
        for stack in self.stacks.values():
            if call in stack:
                stack.remove(call)

    def end(self, call: Call) -> None:
        call.scope.close()
        call.state = "over"

    @invariant()
    def the_locks_are_held_by_those_who_should(self) -> None:
        for kind, stack in self.stacks.items():
            lock = lock_of(self.resources.get(kind))
            assert [claim.call for claim in lock.claims] == stack
            assert lock.queue == []

    @invariant()
    def nothing_is_lost_and_nothing_is_left(self) -> None:
        for kind in KINDS:
            open_calls = [call for call in self.calls if call.state != "over"]
            pending = [number for call in open_calls for number in call.wrote[kind]]
            assert sorted(self.resources.get(kind).items) == sorted(self.kept[kind] + pending)

    def teardown(self) -> None:
        for call in reversed(self.calls):
            if call.state == "abandoned":
                call.scope.release_abandoned()
            elif call.state == "running":
                call.undo()
                call.scope.close()
        for kind in KINDS:
            assert lock_of(self.resources.get(kind)).claims == []
            assert self.resources.get(kind).items == self.kept[kind]


TestExclusives = Exclusives.TestCase
TestExclusives.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
