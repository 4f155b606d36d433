"""Resources with `snapshot()` and `restore()` take part in calls as exclusive ones do."""

import asyncio
import threading

import pytest

from toolstile import Host, Status, ToolCall
from toolstile_hookspecs import Binding, ToolContext, ToolResult, tool


class Board:
    """A resource that can be put back, and counts how often."""

    def __init__(self):
        self.cards = []
        self.restored = 0

    def snapshot(self):
        return tuple(self.cards)

    def restore(self, snapshot):
        self.restored += 1
        self.cards[:] = snapshot


@tool
def pin(card: str, fails: bool = False, *, context: ToolContext) -> ToolResult[None]:
    """Pin a card to the board."""
    context.resources.get(Board).cards.append(card)
    return ToolResult.error("no") if fails else ToolResult.ok()


@tool
def pin_two(*, context: ToolContext) -> ToolResult[None]:
    """Pin a card, and another one through a call that fails."""
    board = context.resources.get(Board)
    board.cards.append("first")
    context.call("pin", {"card": "second", "fails": True})
    board.cards.append("third")
    return ToolResult.ok()


@pytest.fixture(params=["given", "built"])
def desk(request):
    board = Board()
    bound = {Board: board} if request.param == "given" else [Binding(Board, lambda _: board)]
    with (
        Host(discover=False, tools=[pin, pin_two]) as host,
        host.executor(resources=bound) as tools,
    ):
        yield tools, board


def dispatch(tools, driver, name, **arguments):
    if driver == "sync":
        return tools.dispatch(ToolCall(name, arguments))
    return asyncio.run(tools.adispatch(ToolCall(name, arguments)))


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_a_failed_call_is_put_back_and_a_success_stays(desk, driver):
    tools, board = desk
    assert dispatch(tools, driver, "pin", card="a").success
    assert not dispatch(tools, driver, "pin", card="b", fails=True).success
    assert board.cards == ["a"]
    assert dispatch(tools, driver, "pin", card="c").success
    assert (board.cards, board.restored) == (["a", "c"], 1)


def test_a_nested_call_that_fails_takes_its_own_changes_back(desk):
    tools, board = desk
    assert tools.dispatch(ToolCall("pin_two")).success
    assert board.cards == ["first", "third"]


def test_calls_of_a_batch_have_it_one_after_the_other_in_their_order(desk):
    tools, board = desk
    calls = [ToolCall("pin", {"card": str(n), "fails": n % 2 == 1}) for n in range(8)]
    outcomes = tools.dispatch_all(calls)
    assert [outcome.status is Status.SUCCEEDED for outcome in outcomes] == [True, False] * 4
    assert board.cards == ["0", "2", "4", "6"]


def test_a_call_that_was_given_up_is_put_back_when_its_handler_ends():
    board, go_on, ended = Board(), threading.Event(), threading.Event()

    @tool(timeout=0.05)
    def linger(*, context: ToolContext) -> ToolResult[None]:
        """Pin a card when it is too late."""
        cards = context.resources.get(Board).cards
        go_on.wait(10)
        cards.append("late")
        ended.set()
        return ToolResult.ok()

    with (
        Host(discover=False, tools=[linger, pin]) as host,
        host.executor(resources={Board: board}) as tools,
    ):
        assert tools.dispatch(ToolCall("linger")).status is Status.TIMED_OUT
        go_on.set()
        assert ended.wait(10)
        # It has the board when the late changes are gone.
        assert tools.dispatch(ToolCall("pin", {"card": "a"})).success
    assert board.cards == ["a"]
