# ruff: noqa: PT012, SIM117 - a transaction is a block of several statements
"""Threads, tasks, signals and limits meet a transaction at its end: it is kept whole, or not."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import pytest
from pydantic import SecretStr

from toolstile import Host
from toolstile_hookspecs import (
    ApprovalAnswer,
    Binding,
    PolicyDecision,
    PromptEvaluationError,
    StateError,
    Status,
    ToolCall,
    ToolContext,
    TransactionFailed,
    TransactionStatus,
    hookimpl,
    tool,
)


@dataclass(frozen=True)
class Note:
    text: str


class Till:
    """An exclusive resource; `at` is called at its commit."""

    def __init__(self):
        self.rows, self.log = [], []
        self.at = lambda: None

    def begin(self):
        return len(self.rows)

    def commit(self, savepoint):
        self.log.append("commit")
        self.at()

    def rollback(self, savepoint):
        del self.rows[savepoint:]


class Slow:
    """The gate of a slow handler."""

    def __init__(self):
        self.entered, self.gate = threading.Event(), threading.Event()


@tool(contained=True)
def note(text: str, context: ToolContext) -> str:
    """Add a note without reading the others."""
    context.session[Note].append(Note(text))
    return text


@tool(contained=True)
def ring(text: str, context: ToolContext) -> str:
    """Put a row in the till."""
    till = context.resources.get(Till)
    till.rows.append(text)
    return f"{len(till.rows)} rows"


@tool(contained=True)
def count(context: ToolContext) -> int:
    """Count the notes."""
    return len(context.session[Note].all())


@tool(contained=True, timeout=None)
def slow(text: str, context: ToolContext) -> str:
    """Add a note and a row, then wait."""
    wait = context.resources.get(Slow)
    context.session[Note].append(Note(text))
    if text == "with a row":
        context.resources.get(Till).rows.append(text)
    wait.entered.set()
    wait.gate.wait(5)
    return text


@tool(contained=True, requires_confirmation=True)
def sign(text: str, context: ToolContext) -> str:
    """Add a note that a person agrees to."""
    context.session[Note].append(Note(text))
    return f"signed {text}"


@tool(contained=True)
def whisper(text: SecretStr, context: ToolContext) -> str:
    """Add a note with a secret."""
    context.session[Note].append(Note(text.get_secret_value()))
    return "whispered"


class Watcher:
    """A plugin that notes what it hears."""

    def __init__(self):
        self.ended, self.rolled_back = [], []

    @hookimpl
    def toolstile_transaction(self, event):
        self.ended.append(str(event.status))

    @hookimpl
    def toolstile_rollback(self, context):
        self.rolled_back.append(context.tool_call.arguments.get("text"))


TOOLS = [note, ring, count, slow, sign, whisper]


@pytest.fixture
def watcher():
    return Watcher()


@pytest.fixture
def till():
    return Till()


@pytest.fixture
def waiting():
    return Slow()


@pytest.fixture
def host(watcher, till, waiting):
    bound = [Binding.instance(Till, till), Binding.instance(Slow, waiting)]
    with Host(discover=False, tools=TOOLS, plugins=[watcher], resources=bound) as host:
        yield host


@pytest.fixture
def tools(host):
    with host.executor() as tools:
        yield tools


def call(name, **arguments):
    return ToolCall(name, arguments)


def notes(tools):
    return [each.text for each in tools.session[Note].all()]


def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread


# --- interrupted at the end


def test_interrupted_after_its_decision_it_is_told_as_kept(tools, watcher, till):
    till.at = lambda: signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), tools.transaction("x") as work:
        work.dispatch(call("note", text="a"))
        work.dispatch(call("ring", text="b"))
    till.at = lambda: None
    assert (notes(tools), till.rows) == (["a"], ["b"])
    assert work.ended.status == "committed"
    assert watcher.ended == ["committed"]
    assert tools.dispatch(call("ring", text="c")).text == "2 rows"


def test_cancelled_while_it_commits_it_is_told_as_kept(tools, watcher, till, waiting):
    def wait():
        waiting.entered.set()
        waiting.gate.wait(5)

    till.at = wait

    async def body():
        async with tools.transaction("x") as work:
            await work.adispatch(call("ring", text="a"))

    async def main():
        task = asyncio.create_task(body())
        await asyncio.to_thread(waiting.entered.wait)
        task.cancel()
        await asyncio.sleep(0.05)
        waiting.gate.set()
        with suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()

    asyncio.run(main())
    assert (till.rows, watcher.ended) == (["a"], ["committed"])


def test_an_interrupted_savepoint_is_rolled_back_with_its_calls(tools, watcher, monkeypatch):
    from toolstile.pipeline import transaction_root

    joining = transaction_root.join

    def interrupted(call, parent):
        yield from joining(call, parent)
        if isinstance(call, transaction_root.TransactionRoot):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(transaction_root, "join", interrupted)
    with pytest.raises(KeyboardInterrupt), tools.transaction("outer") as outer:
        with outer.transaction("inner") as inner:
            inner.dispatch(call("note", text="a"))
    assert notes(tools) == []
    assert watcher.rolled_back == ["a"]
    assert watcher.ended == ["rolled_back", "rolled_back"]


@pytest.mark.parametrize("end", ["rollback", "conflict"])
def test_interrupted_while_it_is_rolled_back_its_end_is_told(tools, watcher, end, monkeypatch):
    undo = Till.rollback

    def interrupted(till, savepoint):
        undo(till, savepoint)
        signal.raise_signal(signal.SIGINT)

    work = tools.transaction("x")
    work.dispatch(call("ring", text="a"))
    work.dispatch(call("count"))
    monkeypatch.setattr(Till, "rollback", interrupted)
    if end == "conflict":
        tools.dispatch(call("note", text="other"))
    with pytest.raises(KeyboardInterrupt):
        work.rollback() if end == "rollback" else work.commit()
    monkeypatch.undo()
    assert watcher.rolled_back == [None, "a"]
    assert watcher.ended == ["rolled_back"]
    assert tools.dispatch(call("ring", text="b")).text == "1 rows"


def test_a_rollback_during_its_commit_comes_too_late(tools, watcher, till, waiting):
    def wait():
        waiting.entered.set()
        waiting.gate.wait(5)

    till.at = wait
    work = tools.transaction("x")
    work.dispatch(call("ring", text="a"))
    committing = in_thread(work.commit)
    waiting.entered.wait(5)
    rolling_back = in_thread(work.rollback)
    waiting.gate.set()
    for thread in (committing, rolling_back):
        thread.join(5)
    assert (till.rows, watcher.ended) == (["a"], ["committed"])


def test_its_own_thread_does_not_wait_for_its_end(tools, till, watcher):
    work = tools.transaction("x")
    work.dispatch(call("ring", text="a"))
    refused = []

    def handle(number, frame):
        work.rollback()
        with pytest.raises(StateError, match="is ending here already") as caught:
            work.commit()
        refused.append(caught)

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        till.at = lambda: signal.raise_signal(signal.SIGUSR1)
        work.commit()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert refused
    assert (till.rows, watcher.ended) == (["a"], ["committed"])


class Hanging:
    """A participant that never comes to the end of its `prepare` by itself."""

    def __init__(self):
        self.rolled_back = threading.Event()

    async def prepare(self):
        await asyncio.sleep(1_000)

    async def commit(self):
        pass

    def rollback(self):
        self.rolled_back.set()


class Joining:
    def __init__(self, participant):
        self.participant = participant

    @hookimpl
    def toolstile_snapshot(self, tool):
        return self.participant if tool.name == "note" else None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_whose_event_loop_has_gone_is_rolled_back(watcher, till):
    hanging = Hanging()
    bound, plugins = [Binding.instance(Till, till)], [watcher, Joining(hanging)]
    with Host(discover=False, tools=TOOLS, plugins=plugins, resources=bound) as host:
        tools = host.executor()
        work, loop = tools.transaction("x"), asyncio.new_event_loop()
        loop.run_until_complete(work.adispatch(call("ring", text="a")))
        loop.run_until_complete(work.adispatch(call("note", text="b")))
        task = loop.create_task(work.acommit())
        loop.run_until_complete(asyncio.sleep(0.05))
        loop.close()
        del task
        gc.collect()
        assert hanging.rolled_back.wait(5)
        work.rollback()  # does nothing
        assert (watcher.ended, till.rows, notes(tools)) == (["rolled_back"], [], [])
        assert tools.dispatch(call("ring", text="c")).text == "1 rows"


# --- the state that it begins with


def test_it_begins_with_the_state_at_its_first_call(tools):
    with tools.transaction("outer") as outer, outer.transaction("inner") as inner:
        tools.dispatch(call("note", text="before"))
        assert inner.dispatch(call("count")).result.value == 1
    assert outer.ended.reruns == 0


@pytest.mark.parametrize("levels", [1, 2])
def test_its_state_does_not_move_below_a_savepoint_that_has_read_it(tools, levels):
    outer = inner = tools.transaction("outer")
    for _ in range(levels):
        inner = inner.transaction("inner")
    assert inner.dispatch(call("count")).result.value == 0
    tools.dispatch(call("note", text="other"))
    assert outer.dispatch(call("count")).result.value == 0
    inner.rollback()
    with pytest.raises(TransactionFailed, match="Note"):
        outer.commit()


@pytest.mark.parametrize("levels", [1, 2])
def test_no_second_run_forgets_the_texts_of_a_savepoint(tools, levels):
    with pytest.raises(TransactionFailed, match="Note"), tools.transaction("outer") as outer:
        with pytest.raises(KeyError), ExitStack() as stack:
            inner = outer
            for _ in range(levels):
                inner = stack.enter_context(inner.transaction("inner"))
            read = inner.dispatch(call("count")).text
            raise KeyError
        outer.dispatch(call("note", text=f"there were {read}"))
        tools.dispatch(call("note", text="other"))
    assert notes(tools) == ["other"]
    assert outer.ended.reruns == 0


# --- time


def test_its_time_never_ends_half_of_it(host, watcher, till):
    ends = set()
    for number in range(40):
        del till.rows[:], watcher.ended[:]
        with host.executor() as tools:
            try:
                with tools.transaction("x", timeout=0.004) as work:
                    work.dispatch(call("note", text="n"))
                    work.dispatch(call("ring", text="a"))
                    time.sleep(number * 0.0001)
            except (TransactionFailed, PromptEvaluationError, StateError):
                assert (notes(tools), till.rows, watcher.ended) == ([], [], ["rolled_back"])
                ends.add("rolled back")
            else:
                assert (notes(tools), till.rows, watcher.ended) == (["n"], ["a"], ["committed"])
                ends.add("committed")
    assert ends


def test_one_with_a_timeout_leaves_no_thread(tools):
    for _ in range(5):
        with tools.transaction("x", timeout=600) as work:
            work.dispatch(call("note", text="a"))
    timers = [each for each in threading.enumerate() if isinstance(each, threading.Timer)]
    for each in timers:
        each.join(5)
    assert [each for each in timers if each.is_alive()] == []


def test_a_forgotten_one_with_a_timeout_is_rolled_back(tools, watcher, till):
    work = tools.transaction("x", timeout=600)
    work.dispatch(call("ring", text="a"))
    del work
    gc.collect()
    until = time.monotonic() + 5
    while not watcher.ended and time.monotonic() < until:
        time.sleep(0.01)
    assert (watcher.ended, till.rows) == (["rolled_back"], [])


# --- calls that still run


@pytest.mark.parametrize("end", ["commit", "rollback", "close of the executor"])
def test_a_call_that_still_runs_at_the_end_leaves_nothing(tools, watcher, waiting, end):
    outcomes = []
    with suppress(TransactionFailed), tools.transaction("x") as work:
        work.dispatch(call("note", text="a"))
        thread = in_thread(lambda: outcomes.append(work.dispatch(call("slow", text="late"))))
        waiting.entered.wait(5)
        if end == "rollback":
            work.rollback()
        elif end != "commit":
            tools.close()
    kept = ["a"] if end == "commit" else []
    assert notes(tools) == kept
    waiting.gate.set()
    thread.join(5)
    assert notes(tools) == kept
    [outcome] = outcomes
    assert outcome.status is Status.CANCELLED
    assert outcome.text == "slow was abandoned: the transaction 'x' has ended."


def test_a_call_that_still_has_the_till_keeps_it_from_being_kept(tools, till, waiting):
    with pytest.raises(TransactionFailed, match="Till is still used by"):
        with tools.transaction("x") as work:
            work.dispatch(call("ring", text="a"))
            thread = in_thread(lambda: work.dispatch(call("slow", text="with a row")))
            waiting.entered.wait(5)
    waiting.gate.set()
    thread.join(5)
    assert till.rows == []
    assert tools.dispatch(call("ring", text="b")).text == "1 rows"


# --- a dry run


def test_a_transaction_of_a_dry_run_is_shown_and_not_kept(watcher):
    class Quota:
        name, left = "quota", 2

        def check(self, tool, params, *, context):
            return PolicyDecision.allow()

        def reserve(self, tool, params, *, context):
            self.left -= 1
            return PolicyDecision.allow()

        def on_result(self, tool, params, result, *, context):
            return None

        def on_rollback(self, tool, params, *, context):
            self.left += 1

    quota = Quota()
    with Host(discover=False, tools=TOOLS, plugins=[watcher], policies=[quota]) as host:
        with host.executor(dry_run=True) as tools:
            with tools.transaction("outer") as work:
                work.dispatch(call("note", text="a"))
                with work.transaction("inner") as inner:
                    inner.dispatch(call("note", text="b"))
            assert quota.left == 2
            assert tools.dispatch(call("count")).result.value == 2
            assert "Note: added 2" in tools.rehearsed()
            assert work.ended.status is TransactionStatus.ROLLED_BACK
        assert notes(tools) == []
    assert watcher.ended == ["rolled_back", "rolled_back"]
    assert watcher.rolled_back == ["b", "a", None]


def test_a_secret_of_a_savepoint_is_hidden_from_the_changes_of_all(tools):
    with tools.transaction("outer") as outer:
        with outer.transaction("inner") as inner:
            inner.dispatch(call("whisper", text="hush-hush"))
        assert "Note: added" in outer.changes()
        assert "hush-hush" not in outer.changes()


# --- approvals


def test_a_pending_call_is_resumed_within_it(watcher):
    later = lambda request: ApprovalAnswer.pending()  # noqa: E731
    with Host(discover=False, tools=TOOLS, plugins=[watcher], approver=later) as host:
        with host.executor() as tools:
            with tools.transaction("x") as work:
                asked = work.dispatch(call("sign", text="a"))
                assert asked.status is Status.PENDING
                assert work.resume(asked.call, asked.approval_token, True).success
                assert notes(tools) == []
            assert notes(tools) == ["a"]
            again = tools.resume(asked.call, asked.approval_token, True)
            assert again.status is Status.DENIED
