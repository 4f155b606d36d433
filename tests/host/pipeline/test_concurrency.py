"""Many calls at once on one session: counters, conflicts, quotas."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest

from toolstile_hookspecs import (
    Outcome,
    PolicyDecision,
    PolicyState,
    Status,
    Tool,
    ToolCall,
    ToolContext,
    ToolInvoked,
    ToolResult,
    tool,
)

pytestmark = pytest.mark.slow

THREADS = 8
# Long enough for the slowest machine; only a deadlock takes it.
PATIENCE = 240.0
MakeYard = Callable[[str], Any]


@dataclass(frozen=True)
class Count:
    """The state of the counter; each item builds on the one before."""

    number: int


@pytest.fixture(autouse=True)
def restless_threads() -> Iterator[None]:
    """Let threads change so often that calls meet in the middle."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def increment(context: ToolContext) -> int:
    latest = context.session[Count].latest()
    number = (latest.number if latest is not None else 0) + 1
    context.session[Count].append(Count(number))
    return number


@tool(contained=True)
def bump(fail: bool, *, context: ToolContext) -> ToolResult[int]:
    """Count one further, then fail where asked to."""
    number = increment(context)
    if fail:
        return ToolResult.error("Nothing is to be kept.")
    return ToolResult.ok(number)


@tool(contained=True)
async def abump(fail: bool, *, context: ToolContext) -> ToolResult[int]:
    """Count one further, with others in between, then fail where asked to."""
    latest = context.session[Count].latest()
    await asyncio.sleep(0)
    number = (latest.number if latest is not None else 0) + 1
    context.session[Count].append(Count(number))
    if fail:
        msg = "Nothing is to be kept."
        raise ValueError(msg)
    return ToolResult.ok(number)


@tool(contained=True)
def bump_within(fail: bool, *, context: ToolContext) -> ToolResult[int]:
    """Let a nested call count."""
    told = context.call("bump", {"fail": fail})
    if not told.success:
        return ToolResult.error(told.text)
    return ToolResult.ok(told.result.value)


@tool(contained=True)
async def abump_within(fail: bool, *, context: ToolContext) -> ToolResult[int]:
    """Let a nested call count."""
    told = await context.acall("abump", {"fail": fail})
    if not told.success:
        return ToolResult.error(told.text)
    return ToolResult.ok(told.result.value)


def in_threads(work: Callable[[int], None], count: int = THREADS) -> None:
    """Run `work` side by side; no thread may raise, and all must end."""
    raised: list[BaseException] = []

    def kept(place: int) -> None:
        try:
            work(place)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=kept, args=(i,), daemon=True) for i in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(PATIENCE)
    assert not any(each.is_alive() for each in threads), "deadlock"
    assert raised == []


def dispatched_by_threads(tools: Any, names: tuple[str, ...], per_thread: int) -> list[Outcome]:
    outcomes: list[list[Outcome]] = [[] for _ in range(THREADS)]

    def work(place: int) -> None:
        for index in range(per_thread):
            name = names[(place + index) % len(names)]
            arguments = {"fail": index % 3 == 0}
            outcomes[place].append(tools.dispatch(ToolCall(name, arguments)))

    in_threads(work)
    return [each for own in outcomes for each in own]


def dispatched_by_tasks(tools: Any, names: tuple[str, ...], per_task: int) -> list[Outcome]:
    async def work(place: int) -> list[Outcome]:
        return [
            await tools.adispatch(
                ToolCall(names[(place + index) % len(names)], {"fail": index % 3 == 0})
            )
            for index in range(per_task)
        ]

    async def together() -> list[list[Outcome]]:
        return await asyncio.gather(*(work(place) for place in range(THREADS)))

    return [each for own in in_time(together()) for each in own]


def in_time(work: Coroutine[Any, Any, Any]) -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(work, PATIENCE)

    return asyncio.run(bounded())


def assert_exact(yard: Any, outcomes: list[Outcome]) -> None:
    """The counter counted every success once, each told the model its own number."""
    told = sorted(each.result.value for each in outcomes if each.success)
    assert told == list(range(1, len(told) + 1))
    history = [each.number for each in yard.session[Count].all()]
    assert history == told


def assert_all_told(yard: Any, outcomes: list[Outcome]) -> None:
    """The session's log has the one event of every call."""
    logged = Counter(each.call.id for each in yard.session[ToolInvoked].all() if not each.parent_id)
    assert logged == Counter(each.event.call.id for each in outcomes)
    assert set(logged.values()) == {1}


@pytest.mark.parametrize(
    ("names", "per_thread"),
    [
        (("bump",), 40),
        (("bump", "bump_within"), 40),
        pytest.param(("bump",), 2000, marks=pytest.mark.long),
        pytest.param(("bump", "bump_within"), 2000, marks=pytest.mark.long),
    ],
)
def test_threads_lose_no_increment(
    make_yard: MakeYard, names: tuple[str, ...], per_thread: int
) -> None:
    yard = make_yard("sync")
    tools = yard.open(bump, bump_within)

    outcomes = dispatched_by_threads(tools, names, per_thread)

    failed = THREADS * len(range(0, per_thread, 3))
    assert Counter(each.status for each in outcomes) == {
        Status.FAILED: failed,
        Status.SUCCEEDED: THREADS * per_thread - failed,
    }
    assert_exact(yard, outcomes)
    assert_all_told(yard, outcomes)


@pytest.mark.parametrize(
    ("names", "per_task"),
    [
        (("abump",), 40),
        (("abump", "abump_within"), 40),
        (("bump", "bump_within"), 20),
        pytest.param(("abump", "abump_within"), 2000, marks=pytest.mark.long),
        pytest.param(("bump", "abump", "bump_within"), 500, marks=pytest.mark.long),
    ],
)
def test_tasks_lose_no_increment(
    make_yard: MakeYard, names: tuple[str, ...], per_task: int
) -> None:
    yard = make_yard("async")
    tools = yard.open(bump, abump, bump_within, abump_within)

    outcomes = dispatched_by_tasks(tools, names, per_task)

    wanted = [index % 3 != 0 for _ in range(THREADS) for index in range(per_task)]
    assert [each.success for each in outcomes] == wanted
    assert_exact(yard, outcomes)
    assert_all_told(yard, outcomes)


@tool
async def agather(name: str, calls: int, *, context: ToolContext) -> list[int]:
    """Let nested calls count side by side, as tasks."""
    made = [context.acall(name, {"fail": index % 3 == 0}) for index in range(calls)]
    return [each.result.value for each in await asyncio.gather(*made) if each.success]


@tool
def gather(name: str, calls: int, *, context: ToolContext) -> list[int]:
    """Let nested calls count side by side, on threads."""
    with ThreadPoolExecutor(THREADS) as pool:
        made = pool.map(lambda index: context.call(name, {"fail": index % 3 == 0}), range(calls))
        return [each.result.value for each in made if each.success]


@pytest.mark.parametrize(
    ("outer", "inner"), [("agather", "abump"), ("agather", "bump"), ("gather", "bump")]
)
def test_nested_calls_side_by_side_lose_no_increment(yard: Any, outer: str, inner: str) -> None:
    yard.open(gather, agather, bump, abump)

    outcomes = [yard.call(outer, name=inner, calls=30) for _ in range(2)]

    assert sorted(outcomes[0].result.value) == list(range(1, 21))
    assert sorted(outcomes[1].result.value) == list(range(21, 41))
    assert [each.number for each in yard.session[Count].all()] == list(range(1, 41))
    assert_all_told(yard, outcomes)
    nested = [each for each in yard.session[ToolInvoked].all() if each.parent_id is not None]
    assert Counter(each.success for each in nested) == {True: 40, False: 20}
    assert len({each.call_id for each in nested}) == 60
    assert all(each.pending_parent is each.success for each in nested)


def uncontained(barrier: threading.Barrier) -> Tool[Any, Any]:
    @tool(name="bump")
    def bump(*, context: ToolContext) -> ToolResult[int]:
        """Count one further, once all others have read."""
        latest = context.session[Count].latest()
        barrier.wait(PATIENCE)
        number = (latest.number if latest is not None else 0) + 1
        context.session[Count].append(Count(number))
        return ToolResult.ok(number)

    return bump


def test_of_uncontained_calls_that_read_the_same_one_is_kept(make_yard: MakeYard) -> None:
    yard = make_yard("sync")
    tools = yard.open(uncontained(threading.Barrier(THREADS)))
    rounds: list[list[Outcome]] = [[] for _ in range(THREADS)]

    def work(place: int) -> None:
        rounds[place] += [tools.dispatch(ToolCall("bump")) for _ in range(5)]

    in_threads(work)

    for outcomes in zip(*rounds, strict=True):
        statuses = Counter(each.status for each in outcomes)
        # Late in a round, a call may fork from what the round before has committed already.
        assert set(statuses) <= {Status.SUCCEEDED, Status.CONFLICT}
        assert statuses[Status.SUCCEEDED] >= 1
    everything = [each for own in rounds for each in own]
    assert_exact(yard, everything)
    conflicts = [each for each in everything if each.status is Status.CONFLICT]
    assert conflicts
    assert all("Count" in each.text and each.event.rolled_back for each in conflicts)


class Quota:
    """Admits so many calls in all."""

    name = "quota"

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def check(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        return PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: ToolContext) -> None:
        return None

    def reserve(self, tool: Any, params: Any, *, context: ToolContext) -> PolicyDecision:
        record = PolicyState.reserved(context, self.name)
        used = record.data.get("used", 0)
        if used >= self.limit:
            return PolicyDecision.deny("The quota is used up. It cannot be called any more.")
        replace(record, data={"used": used + 1}).save(context)
        return PolicyDecision.allow()


@tool
def ping() -> str:
    """Answer."""
    return "pong"


@tool
async def aping() -> str:
    """Answer after a turn of the loop."""
    await asyncio.sleep(0)
    return "pong"


def by_threads(tools: Any) -> list[Any]:
    start = threading.Barrier(50)
    outcomes: list[Any] = []

    def work(_: int) -> None:
        start.wait(PATIENCE)
        outcomes.extend(tools.dispatch(ToolCall("ping")) for _ in range(10))

    in_threads(work, 50)
    return outcomes


def by_tasks(tools: Any) -> list[Any]:
    async def together() -> list[Any]:
        return await asyncio.gather(*(tools.adispatch(ToolCall("aping")) for _ in range(500)))

    return list(in_time(together()))


def by_batch(tools: Any) -> list[Any]:
    return list(tools.dispatch_all([ToolCall("ping") for _ in range(500)]))


def by_async_batch(tools: Any) -> list[Any]:
    return list(in_time(tools.adispatch_all([ToolCall("aping") for _ in range(500)])))


@pytest.mark.parametrize("dispatch", [by_threads, by_tasks, by_batch, by_async_batch])
def test_a_quota_of_100_admits_exactly_100_of_500(
    make_yard: MakeYard, dispatch: Callable[[Any], list[Any]]
) -> None:
    yard = make_yard("sync")
    tools = yard.open(ping, aping, policies=(Quota(100),))

    outcomes = dispatch(tools)

    assert Counter(each.status for each in outcomes) == {
        Status.SUCCEEDED: 100,
        Status.DENIED: 400,
    }
    (record,) = yard.session[PolicyState].where(lambda each: each.policy_name == "quota/reserved")
    assert record.data == {"used": 100}


@pytest.mark.parametrize("dispatch", [by_batch, by_async_batch])
def test_a_batch_admits_its_first_calls(
    make_yard: MakeYard, dispatch: Callable[[Any], list[Any]]
) -> None:
    yard = make_yard("sync")
    tools = yard.open(ping, aping, policies=(Quota(100),))

    outcomes = dispatch(tools)

    assert [each.success for each in outcomes] == [True] * 100 + [False] * 400
