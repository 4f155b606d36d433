"""A contained call that conflicts is run once more: checked again, claimed once, at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from toolstile_hookspecs import (
    Binding,
    PolicyDecision,
    ResourceBusyError,
    Stage,
    Status,
    Tool,
    ToolContext,
    ToolResult,
    hookimpl,
    tool,
)

# Only what never comes takes this long.
PATIENCE = 60.0


class Till:
    """An exclusive resource."""

    def begin(self) -> None:
        return None

    def commit(self, savepoint: None) -> None:
        return None

    def rollback(self, savepoint: None) -> None:
        return None


class Counting:
    """A plugin that counts how often it is asked, and denies what comes after the application."""

    def __init__(self, mark: Any, *, denies: bool = False) -> None:
        self.mark = mark
        self.denies = denies
        self.checks = 0
        self.claims = 0

    @hookimpl
    def toolstile_check(self, context: ToolContext) -> PolicyDecision | None:
        self.checks += 1
        if self.denies and context.session[self.mark].latest() is not None:
            return PolicyDecision.deny("The application has been here.")
        return None

    @hookimpl
    def toolstile_execute(self) -> None:
        self.claims += 1


def conflicting(yard: Any, mark: Any, runs: list[int], then: Any = lambda context: None) -> Any:
    @tool(contained=True)
    def conflicts(*, context: ToolContext) -> None:
        """Read what the application changes meanwhile, the first time."""
        context.session[mark].latest()
        runs.append(len(runs))
        if len(runs) == 1:
            yard.session[mark].append(mark("application"))
        then(context)
        context.session[mark].append(mark("call"))

    made: Tool[Any, Any] = conflicts
    return made


def test_it_is_checked_again_and_claimed_once(yard: Any, mark: Any) -> None:
    counting, runs = Counting(mark), list[int]()
    yard.open(conflicting(yard, mark, runs), plugins=(counting,))

    outcome = yard.call("conflicts")

    assert outcome.success
    assert (len(runs), outcome.event.reruns) == (2, 1)
    assert (counting.checks, counting.claims) == (2, 1)
    assert yard.marks == ["application", "call"]
    assert len(yard.events) == 1


def test_what_is_not_allowed_any_more_is_not_run_again(yard: Any, mark: Any) -> None:
    counting, runs = Counting(mark, denies=True), list[int]()
    yard.open(conflicting(yard, mark, runs), plugins=(counting,))

    outcome = yard.call("conflicts")

    assert (outcome.status, outcome.stage) == (Status.DENIED, Stage.CHECK)
    assert outcome.text == "The application has been here."
    assert len(runs) == 1
    assert outcome.event.rolled_back
    assert yard.marks == ["application"]


class Asking:
    """A policy that asks in every run, or in all but the first."""

    name = "asking"

    def __init__(self, *, at_first: bool) -> None:
        self.asks = at_first

    def check(self, tool: Any, params: Any, *, context: Any) -> PolicyDecision:
        asks, self.asks = self.asks, True
        return PolicyDecision.ask("Mind the till.") if asks else PolicyDecision.allow()

    def on_result(self, tool: Any, params: Any, result: Any, *, context: Any) -> None:
        return None


def test_what_a_person_has_approved_is_not_asked_for_again(yard: Any, mark: Any) -> None:
    asked, runs = list[str](), list[int]()
    yard.open(
        conflicting(yard, mark, runs),
        policies=(Asking(at_first=True),),
        approver=lambda request: asked.append(request.call.name) or True,
    )

    assert yard.call("conflicts").success
    assert (len(asked), len(runs)) == (1, 2)


def test_a_policy_that_asks_only_now_refuses_the_second_run(yard: Any, mark: Any) -> None:
    runs: list[int] = []
    yard.open(
        conflicting(yard, mark, runs),
        policies=(Asking(at_first=False),),
        approver=lambda request: True,
    )

    outcome = yard.call("conflicts")

    assert (outcome.status, len(runs)) == (Status.DENIED, 1)
    assert outcome.text == (
        "conflicts needs a person's approval now (Mind the till). Retry it, to have it asked."
    )


def test_the_second_run_waits_for_no_exclusive_resource(yard: Any, mark: Any) -> None:
    runs: list[int] = []
    held, release = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    @tool(timeout=None)
    def holds(*, context: ToolContext) -> None:
        """Have the till for as long as the test wants."""
        context.resources.get(Till)
        held.set()
        release.wait(PATIENCE)

    def then(context: ToolContext) -> None:
        if len(runs) == 1:
            threads.append(threading.Thread(target=yard.call, args=("holds",), daemon=True))
            threads[0].start()
            assert held.wait(PATIENCE)
        else:
            context.resources.get(Till)

    yard.open(
        conflicting(yard, mark, runs, then),
        holds,
        resources=(Binding.instance(Till, Till()),),
    )

    outcome = yard.call("conflicts")
    release.set()
    threads[0].join(PATIENCE)

    assert outcome.status is Status.ERROR
    assert isinstance(outcome.event.error, ResourceBusyError)
    assert len(runs) == 2
    assert yard.marks == ["application"]


class Keeping:
    """A plugin whose participants note what they keep, beside which the application works."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.meanwhile = meanwhile
        self.log: list[str] = []

    @hookimpl
    def toolstile_snapshot(self) -> Keeping:
        return self

    def join(self) -> None:
        self.log.append("join")
        self.meanwhile()

    def prepare(self) -> None:
        self.log.append("prepare")
        self.meanwhile()

    def commit(self) -> None:
        self.log.append("commit")

    def rollback(self) -> None:
        self.log.append("rollback")


def test_a_conflict_after_all_was_prepared_puts_that_back_and_runs_the_call_again(
    yard: Any, mark: Any
) -> None:
    runs: list[int] = []

    @tool(contained=True)
    def reads(*, context: ToolContext) -> None:
        """Read what the application changes when this has run."""
        context.session[mark].latest()
        runs.append(1)
        context.session[mark].append(mark("call"))

    def writes_once() -> None:
        if len(runs) == 1:
            yard.session[mark].append(mark("application"))

    keeping = Keeping(writes_once)
    yard.open(reads, plugins=(keeping,))

    outcome = yard.call("reads")

    assert outcome.success
    assert keeping.log == ["prepare", "rollback", "prepare", "commit"]
    assert (len(runs), outcome.event.reruns) == (2, 1)
    assert yard.marks == ["application", "call"]


def test_a_second_conflict_of_that_kind_ends_the_call(yard: Any, mark: Any) -> None:
    @tool(contained=True)
    def reads(*, context: ToolContext) -> None:
        """Read what the application changes whenever this has run."""
        context.session[mark].latest()
        context.session[mark].append(mark("call"))

    keeping = Keeping(lambda: yard.session[mark].append(mark("application")))
    yard.open(reads, plugins=(keeping,))
    assert yard.call("reads").status == Status.CONFLICT
    assert keeping.log == ["prepare", "rollback"] * 2
    assert yard.marks == ["application"] * 2


def test_what_a_participant_has_decided_by_itself_is_not_run_again(yard: Any, mark: Any) -> None:
    runs: list[int] = []

    @tool(contained=True)
    def reads(*, context: ToolContext) -> None:
        """Read what the application changes when this has run."""
        context.session[mark].latest()
        runs.append(1)
        context.session[mark].append(mark("call"))

    keeping = Keeping(lambda: yard.session[mark].append(mark("application")))
    keeping.decides = True  # type: ignore[attr-defined]
    yard.open(reads, plugins=(keeping,))

    outcome = yard.call("reads")

    assert (outcome.status, outcome.stage) == (Status.CONFLICT, Stage.COMMIT)
    assert (len(runs), outcome.event.reruns) == (1, 0)


def test_nor_is_a_nested_call_that_they_have_heard_of(yard: Any, mark: Any) -> None:
    runs: list[int] = []
    around: list[ToolContext] = []

    @tool(contained=True)
    def reads(*, context: ToolContext) -> None:
        """Read what the caller changes when this has run."""
        context.session[mark].latest()
        runs.append(1)

    @tool
    async def calls(*, context: ToolContext) -> str:
        """Change beside a nested call what that has read."""
        around.append(context)
        return (await context.acall("reads")).status

    keeping = Keeping(lambda: around[0].session[mark].append(mark("caller")))
    keeping.prepare = lambda: None  # type: ignore[method-assign]
    yard.open(reads, calls, plugins=(keeping,))

    assert yard.call("calls").result.value == Status.CONFLICT
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("again", "text", "data"),
    [
        (ToolResult.ok({"run": 2}, message="Done again."), 'Done again.\n{"run":2}', b'{"run":2}'),
        (ToolResult.ok(message="Done again."), "Done again.", None),
    ],
)
def test_nothing_of_the_first_run_is_told_after_the_second(
    yard: Any, mark: Any, again: ToolResult[Any], text: str, data: bytes | None
) -> None:
    results = [ToolResult.ok({"run": 1}), again]

    @tool(contained=True)
    def conflicts(*, context: ToolContext) -> ToolResult[dict[str, int]]:
        """Read what the application changes meanwhile, the first time."""
        context.session[mark].latest()
        if len(results) == 2:
            yard.session[mark].append(mark("application"))
        return results.pop(0)

    yard.open(conflicts)
    outcome = yard.call("conflicts")

    assert outcome.event.reruns == 1
    assert (outcome.text, outcome.data) == (text, data)
