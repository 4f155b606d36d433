"""A resource that a call conflicted over is held while the call runs once more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from toolstile import Executor, Host
from toolstile_hookspecs import (
    Binding,
    Cancellation,
    ConflictError,
    Outcome,
    Scope,
    Status,
    ToolCall,
    ToolContext,
    tool,
)


class Shelf:
    """A stranger's resource: a list whose branches notice that others have put something there."""

    waits = False

    def __init__(self) -> None:
        self.items: list[str] = []
        self.log: list[str] = []
        self.is_async = False
        self.fault: Exception | None = None
        self.never = False

    def branch(self, context: ToolContext, parent: Any | None) -> ShelfBranch:
        return ShelfBranch(self, parent)


class ShelfBranch:
    """A call's own version of a shelf."""

    waits = False

    def __init__(self, shelf: Shelf, parent: Any | None) -> None:
        self.shelf = shelf
        self.base: list[str] = shelf.items if parent is None else parent.added
        self.seen = len(self.base)
        self.added: list[str] = []
        self.conflicted = False

    @property
    def resource(self) -> list[str]:
        return self.added

    def prepare(self) -> None:
        if self.seen != len(self.base):
            self.conflicted = True
            raise ConflictError("Somebody has put something on the shelf; then retry.")

    def commit(self) -> None:
        self.base.extend(self.added)

    def rollback(self) -> None:
        self.shelf.log.append("rolled back")

    def hold_for_rerun(self) -> HeldShelf | None:
        return HeldShelf(self.shelf) if self.conflicted else None


class HeldShelf:
    """A shelf that nobody else uses."""

    waits = False

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf

    def acquire(self) -> Awaitable[None] | None:
        self.shelf.log.append("acquired")
        if self.shelf.fault is not None:
            raise self.shelf.fault
        return self._wait() if self.shelf.is_async or self.shelf.never else None

    async def _wait(self) -> None:
        if self.shelf.never:
            await asyncio.Event().wait()

    def branch(self, context: ToolContext, parent: Any | None) -> ShelfBranch:
        self.shelf.log.append("branched")
        return self.shelf.branch(context, parent)

    def release(self) -> None:
        self.shelf.log.append("released")


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture(params=["sync", "async"])
def dispatch(request: pytest.FixtureRequest) -> Callable[..., Outcome]:
    def made(executor: Executor, call: ToolCall) -> Outcome:
        if request.param == "sync":
            return executor.dispatch(call)
        return asyncio.run(executor.adispatch(call))

    return made


def put_with(
    shelf: Shelf,
    dispatch: Callable[..., Outcome],
    then: Callable[[ToolContext], object] = lambda context: None,
    *,
    cancellation: Cancellation | None = None,
    binding: Binding[Shelf] | None = None,
) -> Outcome:
    """Make a call that conflicts once, and whose rerun does something more."""
    runs: list[int] = []

    @tool(contained=True)
    def put(*, context: ToolContext) -> str:
        """Put something on the shelf."""
        context.resources.get(Shelf).append("mine")  # type: ignore[attr-defined]
        runs.append(1)
        if len(runs) == 1:
            shelf.items.append("theirs")
        else:
            then(context)
        return ""

    with (
        Host(discover=False, tools=[put]) as host,
        host.executor(resources=(binding or Binding.instance(Shelf, shelf),)) as executor,
    ):
        return dispatch(executor, ToolCall("put", cancellation=cancellation))


@pytest.mark.parametrize("is_async", [False, True])
def test_it_is_acquired_after_the_rollback_and_gives_the_rerun_its_branch(
    shelf: Shelf, dispatch: Callable[..., Outcome], *, is_async: bool
) -> None:
    shelf.is_async = is_async
    assert put_with(shelf, dispatch).success
    assert shelf.items == ["theirs", "mine"]
    assert shelf.log == ["rolled back", "acquired", "branched", "released"]


def test_it_is_released_when_the_rerun_fails_or_conflicts_again(
    shelf: Shelf, dispatch: Callable[..., Outcome]
) -> None:
    outcome = put_with(shelf, dispatch, lambda context: 1 / 0)
    assert outcome.status is Status.ERROR
    assert shelf.log[1:] == ["acquired", "branched", "rolled back", "released"]
    shelf.log.clear()
    outcome = put_with(shelf, dispatch, lambda context: shelf.items.append("again"))
    assert outcome.status is Status.CONFLICT
    assert shelf.log[1:] == ["acquired", "branched", "rolled back", "released"]


def test_it_is_released_though_it_could_not_be_acquired(
    shelf: Shelf, dispatch: Callable[..., Outcome]
) -> None:
    shelf.fault = ConflictError("The shelf is gone; then retry.")
    assert put_with(shelf, dispatch).status is Status.CONFLICT
    assert shelf.log == ["rolled back", "acquired", "released"]


def test_it_is_released_when_the_call_is_cancelled_while_it_waits(
    shelf: Shelf, dispatch: Callable[..., Outcome]
) -> None:
    shelf.never = True
    cancellation = Cancellation()

    def acquire(held: HeldShelf) -> Awaitable[None] | None:
        cancellation.cancel()
        return held._wait()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(HeldShelf, "acquire", acquire)
        outcome = put_with(shelf, dispatch, cancellation=cancellation)
    assert outcome.status is Status.CANCELLED
    assert shelf.log == ["rolled back", "released"]


def test_a_resource_of_one_call_is_another_one_in_the_rerun_and_not_held(
    shelf: Shelf, dispatch: Callable[..., Outcome]
) -> None:
    class Own(Shelf):
        """A shelf of one call, on the same items."""

        def __init__(self) -> None:
            super().__init__()
            self.items, self.log = shelf.items, shelf.log

    binding = Binding[Shelf](Shelf, lambda resources: Own(), Scope.TOOL_CALL)
    assert put_with(shelf, dispatch, binding=binding).success
    assert "acquired" not in shelf.log


def test_a_nested_call_that_conflicted_with_one_beside_it_holds_nothing(shelf: Shelf) -> None:
    """Its rerun forks at its caller's turn; others it meets only where its root commits."""
    runs: list[str] = []
    callers: list[ToolContext] = []

    @tool(contained=True)
    def put(text: str, *, context: ToolContext) -> str:
        """Put something on the shelf, and have another call do so first."""
        context.resources.get(Shelf).append(text)  # type: ignore[attr-defined]
        runs.append(text)
        if len(runs) == 1:
            assert callers[0].call("put", {"text": "beside"}).success
        return text

    @tool
    def outer(*, context: ToolContext) -> str:
        """Call it."""
        callers.append(context)
        return context.call("put", {"text": "mine"}).text

    with (
        Host(discover=False, tools=[put, outer]) as host,
        host.executor(resources=[Binding.instance(Shelf, shelf)]) as executor,
    ):
        assert executor.dispatch(ToolCall("outer")).success
    assert runs == ["mine", "beside", "mine"]
    assert shelf.items == ["beside", "mine"]
    assert shelf.log == ["rolled back"]
