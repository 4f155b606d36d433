"""A nested call becomes part of the call that made it as a whole, or not at all."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from toolstile.pipeline import commit as committing
from toolstile.resources.call_scope import CallScope
from toolstile_hookspecs import (
    Binding,
    CallClosed,
    Cancellation,
    Outcome,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolInvoked,
    hookimpl,
    tool,
)

PATIENCE = 30.0
Wait = Callable[[], Awaitable[None]]


async def at_once() -> None:
    """Wait for nothing."""


@dataclass
class InstanceCache:
    """A branchable resource whose branches are prepared and committed when they are let."""

    items: list[str] = field(default_factory=list)
    before_prepare: Wait = at_once
    before_commit: Wait = at_once

    def branch(self, context: ToolContext, parent: Any) -> ShelfBranch:
        return ShelfBranch(self, parent)


class ShelfBranch:
    summary = None

    def __init__(self, shelf: InstanceCache, parent: ShelfBranch | None) -> None:
        self.resource = self
        self.items: list[str] = []
        self._shelf, self._parent = shelf, parent

    async def prepare(self) -> None:
        await self._shelf.before_prepare()

    async def commit(self) -> None:
        await self._shelf.before_commit()
        (self._parent or self._shelf).items.extend(self.items)

    def rollback(self) -> None:
        self.items.clear()


class Refusing:
    """A plugin that takes part in the nested call, and does not let it join."""

    def prepare(self) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...

    def join(self) -> None:
        msg = "no"
        raise OSError(msg)

    @hookimpl
    def toolstile_snapshot(self, tool: Tool[Any, Any]) -> Refusing | None:
        return self if tool.name == "inner" else None


class Scene:
    """A call that makes another one, and does something to it while it joins."""

    def __init__(self, yard: Any, mark: Any) -> None:
        self.shelf = InstanceCache()
        self.yard = yard
        self.mark = mark

    def run(
        self,
        meanwhile: Callable[[asyncio.Task[Any], ToolContext], None] = lambda *_: None,
        *,
        at: str = "before_prepare",
        contained: bool = False,
        plugins: tuple[object, ...] = (),
    ) -> ToolInvoked:
        """Return what became of the nested call."""

        @tool(contained=contained)
        async def inner(*, context: ToolContext) -> None:
            """Change both the session, which it reads, and the shelf."""
            context.session[self.mark].all()
            context.session[self.mark].append(self.mark("inner"))
            context.resources.get(InstanceCache).items.append("inner")

        @tool
        async def outer(*, context: ToolContext) -> None:
            """Make the call."""
            nested = asyncio.ensure_future(context.acall("inner"))

            async def joins() -> None:
                self.shelf.before_prepare = self.shelf.before_commit = at_once
                meanwhile(nested, context)
                await asyncio.sleep(0)

            setattr(self.shelf, at, joins)
            await asyncio.wait([nested])

        resources = (Binding.instance(InstanceCache, self.shelf),)
        self.yard.open(inner, outer, resources=resources, plugins=plugins)
        assert self.yard.call("outer").success
        event: ToolInvoked = self.yard.events[0]
        return event


def cancel(nested: asyncio.Task[Any], context: ToolContext) -> None:
    nested.cancel()


def refuse(nested: asyncio.Task[Any], context: ToolContext) -> None:
    msg = "no room"
    raise OSError(msg)


@pytest.fixture
def scene(make_yard: Any, mark: Any) -> Scene:
    return Scene(make_yard("async"), mark)


def test_one_that_conflicts_as_it_joins_leaves_nothing(scene: Scene, mark: Any) -> None:
    told = scene.run(lambda _, context: context.session[mark].append(mark("outer")))

    assert (told.status, told.rolled_back) == (Status.CONFLICT, True)
    assert (scene.yard.marks, scene.shelf.items) == (["outer"], [])


def test_a_contained_one_that_conflicts_as_it_joins_is_kept_once(scene: Scene, mark: Any) -> None:
    told = scene.run(lambda _, context: context.session[mark].append(mark("outer")), contained=True)

    assert (told.status, told.reruns) == (Status.SUCCEEDED, 1)
    assert (scene.yard.marks, scene.shelf.items) == (["outer", "inner"], ["inner"])


def test_one_that_a_plugin_keeps_from_joining_leaves_nothing(scene: Scene) -> None:
    told = scene.run(plugins=(Refusing(),))

    assert (told.status, told.rolled_back) == (Status.ERROR, True)
    assert (scene.yard.marks, scene.shelf.items) == ([], [])


def test_one_that_is_cancelled_while_it_joins_is_kept(scene: Scene) -> None:
    told = scene.run(cancel, at="before_commit")

    assert (told.status, told.rolled_back) == (Status.RAISED, False)
    assert (scene.yard.marks, scene.shelf.items) == (["inner"], ["inner"])


def test_one_of_which_not_all_can_be_joined_says_so(scene: Scene) -> None:
    told = scene.run(refuse, at="before_commit")

    assert (told.status, told.rolled_back) == (Status.COMMIT_FAILED, False)
    assert "Kept: the session. Not kept: InstanceCache (no room)." in told.text
    assert (scene.yard.marks, scene.shelf.items) == (["inner"], [])


@pytest.mark.parametrize("levels", [2, 3])
def test_one_that_its_caller_does_not_wait_for_is_kept_as_a_whole(
    scene: Scene, mark: Any, levels: int
) -> None:
    joins = asyncio.Event()

    @tool
    async def inner(*, context: ToolContext) -> None:
        """Change both the session and the shelf."""
        context.session[mark].append(mark("inner"))
        context.resources.get(InstanceCache).items.append("inner")

    @tool
    async def outer(*, context: ToolContext) -> None:
        """Make the call, and return while it joins."""

        async def slowly() -> None:
            scene.shelf.before_commit = at_once
            joins.set()
            await asyncio.sleep(0.05)

        scene.shelf.before_commit = slowly
        nested = asyncio.ensure_future(context.acall("inner"))
        await joins.wait()
        assert not nested.done()

    @tool
    async def outermost(*, context: ToolContext) -> None:
        """Make the call that makes the call."""
        await context.acall("outer")

    resources = (Binding.instance(InstanceCache, scene.shelf),)
    scene.yard.open(inner, outer, outermost, resources=resources)

    assert scene.yard.call("outer" if levels == 2 else "outermost").success
    assert (scene.yard.marks, scene.shelf.items) == (["inner"], ["inner"])


@pytest.mark.parametrize("levels", [1, 2])
def test_one_that_begins_when_what_its_caller_did_is_being_kept_keeps_nothing(
    scene: Scene, mark: Any, levels: int
) -> None:
    kept: list[ToolContext] = []
    ended: list[Outcome] = []

    @tool
    async def inner(*, context: ToolContext) -> None:
        """Change both the session and the shelf."""
        context.session[mark].append(mark("inner"))
        context.resources.get(InstanceCache).items.append("inner")

    @tool
    async def outer(*, context: ToolContext) -> None:
        """Leave its context to others."""
        context.session[mark].append(mark("outer"))
        context.resources.get(InstanceCache).items.append("outer")
        scene.shelf.before_prepare = calls
        kept.append(context)

    @tool
    async def outermost(*, context: ToolContext) -> None:
        """Make the call."""
        await context.acall("outer")

    async def calls() -> None:
        scene.shelf.before_prepare = at_once
        with suppress(CallClosed):
            ended.append(await kept[0].acall("inner"))

    resources = (Binding.instance(InstanceCache, scene.shelf),)
    scene.yard.open(inner, outer, outermost, resources=resources)

    assert scene.yard.call("outer" if levels == 1 else "outermost").success
    assert (scene.yard.marks, scene.shelf.items) == (["outer"], ["outer"])
    assert not any(each.success for each in ended)


class Slow:
    """A branchable resource that is called while a branch is put back, and counts the others."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.meanwhile = meanwhile
        self.open = 0

    def branch(self, context: ToolContext, parent: object) -> SlowBranch:
        return SlowBranch(self)


class Other(Slow):
    """One more."""


class SlowBranch:
    summary = None

    def __init__(self, base: Slow) -> None:
        self.resource = self
        self._base = base
        base.open += 1

    def prepare(self) -> None: ...
    def commit(self) -> None: ...

    async def rollback(self) -> None:
        self._base.meanwhile()
        self._base.open -= 1


@pytest.mark.parametrize("levels", [1, 2])
def test_one_that_its_caller_does_not_wait_for_leaves_it_no_branch_while_it_is_put_back(
    scene: Scene, levels: int
) -> None:
    late: list[ToolContext] = []
    begun = asyncio.Event()

    @tool
    async def inner(*, context: ToolContext) -> None:
        """Do nothing for long."""
        late.append(context)
        begun.set()
        await asyncio.sleep(PATIENCE)

    @tool
    async def outer(*, levels: int, context: ToolContext) -> None:
        """Make the call, or one that makes it, and fail before it ends."""
        context.resources.get(Slow)
        nested = ("outer", {"levels": levels - 1}) if levels > 1 else ("inner", {})
        asyncio.ensure_future(context.acall(*nested))  # noqa: RUF006 - nobody awaits it
        await begun.wait()
        raise AssertionError

    def use_other() -> None:
        with suppress(CallClosed):
            late[0].resources.get(Other)

    slow, other = Slow(use_other), Other(lambda: None)
    resources = (Binding.instance(Slow, slow), Binding.instance(Other, other))
    scene.yard.open(inner, outer, resources=resources)

    assert not scene.yard.call("outer", levels=levels).success
    assert (slow.open, other.open) == (0, 0)


class Desk:
    """An exclusive resource that keeps everything."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def begin(self) -> None: ...

    def commit(self, savepoint: None) -> None:
        self.ended.append("commit")

    def rollback(self, savepoint: None) -> None:
        self.ended.append("rollback")


def test_one_that_its_caller_does_not_wait_for_is_handed_over_before_that_is_kept(
    make_yard: Any, mark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, joins, threads = Desk(), threading.Event(), []

    @tool
    def inner(*, context: ToolContext) -> None:
        """Change the session, and use the desk."""
        context.session[mark].append(mark("inner"))
        context.resources.get(Desk)

    @tool
    def outer(*, context: ToolContext) -> None:
        """Make the call, and return while it joins."""
        threads.append(threading.Thread(target=context.call, args=("inner",)))
        threads[0].start()
        assert joins.wait(PATIENCE)

    def slowly(scope: CallScope) -> None:
        joins.set()
        time.sleep(0.05)
        hand_over(scope)

    hand_over = CallScope.hand_over
    monkeypatch.setattr(CallScope, "hand_over", slowly)
    yard = make_yard("sync")
    yard.open(inner, outer, resources=(Binding.instance(Desk, desk),))

    assert yard.call("outer").success
    threads[0].join(PATIENCE)

    assert (yard.marks, desk.ended) == (["inner"], ["commit"])


def test_what_plugins_keep_for_one_is_rolled_back_where_its_caller_was_given_up_meanwhile(
    make_yard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancellation = Cancellation()
    undone = {"inner": threading.Event(), "outer": threading.Event()}

    class SupportsNotes:
        """Takes part, and notes what is rolled back."""

        def __init__(self, of: str) -> None:
            self.of = of

        def prepare(self) -> None: ...
        def commit(self) -> None: ...

        def rollback(self) -> None:
            assert not undone[self.of].is_set()
            undone[self.of].set()

    class Plugin:
        @hookimpl
        def toolstile_snapshot(self, tool: Tool[Any, Any]) -> SupportsNotes:
            return SupportsNotes(tool.name)

    @tool
    def inner() -> None:
        """Do nothing."""

    @tool
    def outer(*, context: ToolContext) -> None:
        """Make the call."""
        context.call("inner")

    def given_up_after(run: Any) -> None:
        commit_into_parent(run)
        cancellation.cancel()
        assert undone["outer"].wait(PATIENCE)

    commit_into_parent = committing.commit_into_parent
    monkeypatch.setattr(committing, "commit_into_parent", given_up_after)
    yard = make_yard("sync")
    yard.open(inner, outer, plugins=(Plugin(),))

    assert not yard.dispatch(ToolCall("outer", {}, cancellation=cancellation)).success
    assert undone["inner"].wait(PATIENCE)
