# ruff: noqa: PT012, SIM117 - a transaction is a block of several statements
"""A transaction keeps the changes of all its calls by one decision, or of none."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

import pytest

from toolstile import Host
from toolstile_hookspecs import (
    Binding,
    MarkdownSection,
    PolicyDecision,
    Prompt,
    PromptEvaluationError,
    StateError,
    Status,
    ToolCall,
    ToolContext,
    ToolError,
    TransactionFailed,
    TransactionStatus,
    Visibility,
    VisibilityExpansionRequired,
    hookimpl,
    tool,
)


@dataclass(frozen=True)
class Note:
    text: str


@dataclass(frozen=True)
class Other:
    text: str


@tool(contained=True)
def note(text: str, context: ToolContext) -> str:
    """Add a note without reading the others."""
    context.session[Note].append(Note(text))
    return f"noted {text}"


@tool(contained=True)
def wait(seconds: float) -> str:
    """Wait."""
    time.sleep(seconds)
    return "waited"


@tool(contained=True)
def count(context: ToolContext) -> int:
    """Count the notes."""
    return len(context.session[Note].all())


@tool(contained=True)
def append_counted(context: ToolContext) -> str:
    """Add a note that says how many there were."""
    before = len(context.session[Note].all())
    context.session[Note].append(Note(str(before)))
    return "added"


@tool(contained=True)
def fail(text: str, context: ToolContext) -> str:
    """Add a note, then fail."""
    context.session[Note].append(Note(text))
    raise ToolError("no luck")


@tool
def send(text: str) -> str:
    """Send something, which cannot be taken back."""
    return text


class Watcher:
    """A plugin that notes what it hears."""

    def __init__(self):
        self.ended, self.events, self.rolled_back = [], [], []

    @hookimpl
    def toolstile_transaction(self, event):
        self.ended.append(event)

    @hookimpl
    def toolstile_telemetry(self, event):
        self.events.append(event)

    @hookimpl
    def toolstile_rollback(self, context, reason):
        self.rolled_back.append((context.tool_call.arguments.get("text"), reason))


class Till:
    """An exclusive resource that counts its savepoints."""

    def __init__(self):
        self.rows, self.begun, self.committed = [], 0, 0

    def begin(self):
        self.begun += 1
        return len(self.rows)

    def commit(self, savepoint):
        self.committed += 1

    def rollback(self, savepoint):
        del self.rows[savepoint:]


@tool(contained=True)
def ring(text: str, context: ToolContext) -> str:
    """Put a row in the till."""
    till = context.resources.get(Till)
    till.rows.append(text)
    return f"{len(till.rows)} rows"


TOOLS = [note, count, append_counted, fail, send, wait, ring]


@pytest.fixture
def watcher():
    return Watcher()


@pytest.fixture
def till():
    return Till()


@pytest.fixture
def host(watcher, till):
    bound = [Binding.instance(Till, till)]
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


# --- all or nothing


def test_calls_see_earlier_ones_and_nobody_else_sees_any_before_the_end(tools, host):
    with tools.transaction("two notes") as work, host.executor(session=tools.home) as other:
        work.dispatch(call("note", text="a"))
        assert work.dispatch(call("count")).result.value == 1
        assert notes(work) == ["a"]
        assert other.dispatch(call("count")).result.value == 0
        assert notes(tools) == []
    assert notes(tools) == ["a"]


@pytest.mark.parametrize("how", ["exception", "rollback", "close of the executor", "time"])
def test_nothing_remains_of_one_that_is_given_up(tools, watcher, how):
    with suppress(KeyError), tools.transaction("x", timeout=0.2 if how == "time" else None) as work:
        work.dispatch(call("note", text="a"))
        work.dispatch(call("note", text="b"))
        if how == "exception":
            raise KeyError
        if how == "rollback":
            work.rollback()
        elif how == "time":
            time.sleep(0.4)
            with pytest.raises(TransactionFailed, match=r"did not end within 0\.2 seconds"):
                work.commit()
            work.rollback()
        else:
            tools.close()
            with pytest.raises(TransactionFailed, match="executor is closed"):
                work.commit()
            work.rollback()
    assert notes(tools) == []
    assert [each.status for each in watcher.ended] == [TransactionStatus.ROLLED_BACK]
    assert [text for text, _ in watcher.rolled_back] == ["b", "a"]


OVER = (
    "The transaction 'a trip' did not end within 0.2 seconds, so nothing of it is kept. Begin "
    "one again with more time, or with fewer calls."
)


@pytest.mark.parametrize("late", ["call", "commit", "savepoint"])
def test_one_that_ran_out_of_time_says_so_everywhere(tools, watcher, late):
    with (
        pytest.raises(TransactionFailed) as failed,
        tools.transaction("a trip", timeout=0.2) as work,
    ):
        work.dispatch(call("note", text="a"))
        if late == "commit":
            time.sleep(0.4)
        else:
            within = work if late == "call" else work.transaction("a day")
            with pytest.raises(PromptEvaluationError) as raised:
                within.dispatch(call("wait", seconds=0.4))
            text = OVER.replace("The", "the", 1)
            assert str(raised.value) == f"wait did not finish: {text}"
        while work.ended is None:
            time.sleep(0.01)
        with pytest.raises(StateError) as refused:
            work.dispatch(call("note", text="b"))
        assert str(refused.value) == OVER
    assert (str(failed.value), watcher.ended[-1].reason) == (OVER, OVER)
    assert notes(tools) == []


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("late", ["a running call", "a later call", "a call of a savepoint"])
def test_the_end_of_its_time_leaves_its_block_as_one_error(tools, late, is_async):
    async def run():
        async with tools.transaction("a trip", timeout=0.2) as work:
            use(work)

    def use(work):
        work.dispatch(call("note", text="a"))
        if late == "a call of a savepoint":
            with work.transaction("a day", timeout=60) as day:
                day.dispatch(call("wait", seconds=0.4))
        if late == "a running call":
            work.dispatch(call("wait", seconds=0.4))
        time.sleep(0.4)
        work.dispatch(call("note", text="b"))

    with pytest.raises(TransactionFailed) as failed:
        if is_async:
            asyncio.run(run())
        with tools.transaction("a trip", timeout=0.2) as work:
            use(work)
    assert (str(failed.value), failed.value.ended.status) == (OVER, TransactionStatus.ROLLED_BACK)
    assert isinstance(failed.value.__cause__, PromptEvaluationError | StateError)
    assert notes(tools) == []


def test_other_errors_leave_the_block_as_they_are_after_its_time_too(tools):
    for error in (KeyError("mine"), StateError("mine"), ToolError("mine")):
        with pytest.raises(type(error), match="mine"):
            with tools.transaction("a trip", timeout=0.05):
                time.sleep(0.1)
                raise error


@pytest.mark.parametrize(
    "timeout", [float("nan"), float("inf"), -1, 0, True, "5", [5], pytest.param(10**400, id="huge")]
)
def test_a_timeout_is_a_positive_number(tools, timeout):
    with tools.transaction("a trip") as work:
        with pytest.raises(ValueError, match="timeout: expected a positive number of seconds"):
            work.transaction("a day", timeout=timeout)
        gc.collect()
        time.sleep(0.05)
        work.dispatch(call("note", text="a"))
    assert notes(tools) == ["a"]


def test_a_timeout_may_be_longer_than_a_thread_can_wait(tools):
    with tools.transaction("a trip", timeout=1e300) as work:
        work.dispatch(call("note", text="a"))
    assert notes(tools) == ["a"]


def test_a_failed_call_leaves_nothing_and_the_others_go_on(tools):
    with tools.transaction("x") as work:
        work.dispatch(call("note", text="a"))
        assert work.dispatch(call("fail", text="b")).status is Status.FAILED
        work.dispatch(call("note", text="c"))
    assert notes(tools) == ["a", "c"]


def test_it_takes_batches_and_threads(tools):
    with tools.transaction("x") as work:
        assert all(
            each.success
            for each in work.dispatch_all([call("note", text="a"), call("note", text="b")])
        )
        threads = [
            threading.Thread(target=work.dispatch, args=(call("note", text=str(each)),))
            for each in range(8)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert sorted(notes(tools)) == sorted(["a", "b", *map(str, range(8))])


def test_it_is_an_async_context_manager(tools):
    async def main():
        async with tools.transaction("x") as work:
            await work.adispatch(call("note", text="a"))
            await work.adispatch_all([call("note", text="b"), call("note", text="c")])
            assert notes(tools) == []
        assert notes(tools) == ["a", "b", "c"]
        with pytest.raises(KeyError):
            async with tools.transaction("x") as work:
                await work.adispatch(call("note", text="d"))
                raise KeyError
        assert notes(tools) == ["a", "b", "c"]

    asyncio.run(main())


def test_calls_of_several_tasks_are_part_of_it(tools):
    async def main():
        async with tools.transaction("x") as work:
            await asyncio.gather(*(work.adispatch(call("note", text=str(n))) for n in range(5)))
        assert sorted(notes(tools)) == ["0", "1", "2", "3", "4"]

    asyncio.run(main())


def test_other_calls_of_the_executor_do_not_join_it(tools):
    with pytest.raises(KeyError), tools.transaction("x") as work:
        work.dispatch(call("note", text="in"))
        tools.dispatch(call("note", text="out"))
        raise KeyError
    assert notes(tools) == ["out"]


# --- who may be called


def test_a_tool_that_is_not_contained_is_denied_by_name_before_it_runs(tools):
    with tools.transaction("x") as work:
        outcome = work.dispatch(call("send", text="a"))
    assert outcome.status is Status.DENIED
    assert outcome.text == (
        "send is not contained: its effects could not be rolled back, so it cannot run in a "
        "transaction. Continue without it, or call it after the end."
    )


def test_after_the_end_it_takes_no_calls(tools):
    with tools.transaction("x") as work:
        pass
    with pytest.raises(StateError, match="has ended"):
        work.dispatch(call("count"))
    work.commit()  # a second end does nothing
    assert repr(work) == "<Transaction 'x': committed>"


# --- events


def test_each_call_names_it_and_its_end_is_told_once(tools, watcher):
    with tools.transaction("a trip") as work:
        work.dispatch(call("note", text="a"))
        work.dispatch(call("fail", text="b"))
        assert watcher.ended == []
    tools.dispatch(call("count"))
    inside, failed, outside = watcher.events
    assert (inside.transaction, inside.pending) == (work.id, True)
    assert (failed.transaction, failed.pending) == (work.id, False)
    assert (outside.transaction, outside.pending) == (None, False)
    [ended] = watcher.ended
    assert (ended.id, ended.title, ended.status) == (work.id, "a trip", "committed")
    assert ended.calls == (inside.call_id,)
    assert work.ended == ended


# --- the end


def test_what_was_only_added_to_is_kept_beside_the_additions_of_others(tools):
    with tools.transaction("x") as work:
        work.dispatch(call("note", text="a"))
        tools.dispatch(call("note", text="other"))
    assert notes(tools) == ["other", "a"]
    assert work.ended.reruns == 0


def test_after_a_conflict_the_calls_run_once_more_if_every_text_stays(tools):
    with tools.transaction("x") as work:
        work.dispatch(call("append_counted"))
        work.dispatch(call("note", text="a"))
        tools.dispatch(call("note", text="other"))
    assert notes(tools) == ["other", "1", "a"]
    assert work.ended.reruns == 1


def test_after_a_conflict_nothing_is_kept_if_a_text_would_be_another(tools, watcher):
    with pytest.raises(TransactionFailed) as caught, tools.transaction("a trip") as work:
        first = work.dispatch(ToolCall("count", {}, provider_id="call_7"))
        work.dispatch(call("note", text="a"))
        tools.dispatch(call("note", text="other"))
    assert first.result.value == 0
    assert notes(tools) == ["other"]
    assert "Note" in str(caught.value)
    assert "count (call_7)" in str(caught.value)
    assert caught.value.ended.status is TransactionStatus.CONFLICT
    assert len(caught.value.ended.calls) == 2
    assert [each.status for each in watcher.ended] == ["conflict"]
    assert [text for text, _ in watcher.rolled_back] == ["a", None]


def test_a_rule_that_denies_a_call_by_then_denies_the_end(watcher, till):
    class Closing:
        name = "closing"
        closed = False

        def check(self, tool, params, *, context):
            if self.closed and tool.name == "note":
                return PolicyDecision.deny("The shop is closed.")
            return PolicyDecision.allow()

        def on_result(self, tool, params, result, *, context):
            return None

    rule = Closing()
    with Host(discover=False, tools=TOOLS, plugins=[watcher], policies=[rule]) as host:
        with host.executor() as tools:
            with pytest.raises(TransactionFailed, match=r"note \(.*shop is closed"):
                with tools.transaction("x") as work:
                    work.dispatch(call("note", text="a"))
                    rule.closed = True
            assert notes(tools) == []
            assert [each.status for each in watcher.ended] == ["rolled_back"]


def test_a_rule_sees_the_slices_as_they_were_before_each_call(till):
    class OnlyFirst:
        name = "only first"

        def check(self, tool, params, *, context):
            if tool.name == "note" and any(
                each.text == params.text for each in context.session[Note].all()
            ):
                return PolicyDecision.deny("There is such a note.")
            return PolicyDecision.allow()

        def on_result(self, tool, params, result, *, context):
            return None

    with Host(discover=False, tools=TOOLS, policies=[OnlyFirst()]) as host:
        with host.executor() as tools:
            with tools.transaction("x") as work:
                work.dispatch(call("note", text="a"))
                assert work.dispatch(call("note", text="a")).status is Status.DENIED
                work.dispatch(call("note", text="b"))
            assert notes(tools) == ["a", "b"]


def test_reserve_counts_once_for_each_call(till):
    class Quota:
        name = "quota"
        counted = 0

        def check(self, tool, params, *, context):
            return PolicyDecision.allow()

        def reserve(self, tool, params, *, context):
            self.counted += 1
            return PolicyDecision.allow()

        def on_result(self, tool, params, result, *, context):
            return None

    quota = Quota()
    with Host(discover=False, tools=TOOLS, policies=[quota]) as host, host.executor() as tools:
        with tools.transaction("x") as work:
            work.dispatch(call("append_counted"))
            tools.dispatch(call("note", text="other"))
    assert quota.counted == 2


# --- exclusive resources


def test_an_exclusive_resource_is_held_to_the_end_and_its_holder_is_named(tools, host, till):
    with tools.transaction("the till") as work, host.executor(session=tools.home) as other:
        assert work.dispatch(call("ring", text="a")).text == "1 rows"
        assert work.dispatch(call("ring", text="b")).text == "2 rows"
        refused = other.dispatch(call("ring", text="c"))
        assert "held by the transaction 'the till'" in refused.text
    assert (till.rows, till.begun, till.committed) == (["a", "b"], 2, 2)


def test_an_exclusive_resource_is_given_back_after_a_rollback(tools, till):
    with pytest.raises(KeyError), tools.transaction("x") as work:
        work.dispatch(call("ring", text="a"))
        raise KeyError
    assert till.rows == []
    assert tools.dispatch(call("ring", text="b")).success


def test_a_call_elsewhere_waits_for_the_end(tools, host, till):
    heard = []
    with tools.transaction("x") as work:
        work.dispatch(call("ring", text="a"))
        thread = threading.Thread(
            target=lambda: heard.append(tools.dispatch(call("ring", text="b")).text)
        )
        thread.start()
        thread.join(0.2)
        assert heard == []
    thread.join(5)
    assert heard == ["2 rows"]


def test_a_serial_tool_keeps_its_place_to_the_end(watcher):
    @tool(contained=True, concurrency="serial")
    def alone(context: ToolContext) -> str:
        """Run alone."""
        return "ran"

    with Host(discover=False, tools=[alone]) as host, host.executor() as tools:
        with tools.transaction("x") as work:
            assert work.dispatch(call("alone")).success
            assert work.dispatch(call("alone")).success
            assert "the transaction 'x'" in tools.dispatch(call("alone")).text
        assert tools.dispatch(call("alone")).success


# --- savepoints


def test_a_savepoint_is_kept_with_the_transaction_around_it(tools, watcher):
    with tools.transaction("outer") as outer:
        outer.dispatch(call("note", text="a"))
        with outer.transaction("inner") as inner:
            inner.dispatch(call("note", text="b"))
            assert inner.dispatch(call("count")).result.value == 2
        assert outer.dispatch(call("count")).result.value == 2
        assert watcher.ended == []
    assert notes(tools) == ["a", "b"]
    assert [(each.title, each.status) for each in watcher.ended] == [
        ("inner", "committed"),
        ("outer", "committed"),
    ]
    assert watcher.ended[0].parent_id == outer.id


def test_a_savepoint_that_is_given_up_leaves_the_rest(tools, watcher):
    with tools.transaction("outer") as outer:
        outer.dispatch(call("note", text="a"))
        with pytest.raises(KeyError), outer.transaction("inner") as inner:
            inner.dispatch(call("note", text="b"))
            raise KeyError
        assert notes(outer) == ["a"]
    assert notes(tools) == ["a"]
    assert [(each.title, each.status) for each in watcher.ended] == [
        ("inner", "rolled_back"),
        ("outer", "committed"),
    ]


def test_a_savepoint_ends_as_the_transaction_around_it(tools, watcher, till):
    with pytest.raises(KeyError), tools.transaction("outer") as outer:
        with outer.transaction("inner") as inner:
            inner.dispatch(call("ring", text="b"))
        raise KeyError
    assert till.rows == []
    assert [(each.title, each.status) for each in watcher.ended] == [
        ("inner", "rolled_back"),
        ("outer", "rolled_back"),
    ]


# --- other ends


def test_closing_the_host_rolls_it_back(watcher):
    host = Host(discover=False, tools=TOOLS, plugins=[watcher])
    host.open()
    tools = host.executor()
    work = tools.transaction("x")
    work.dispatch(call("note", text="a"))
    host.close()
    with pytest.raises(TransactionFailed, match="host is closed"):
        work.commit()
    assert [each.status for each in watcher.ended] == ["rolled_back"]


def test_one_that_is_forgotten_is_rolled_back_and_gives_its_locks_back(tools, watcher, till):
    work = tools.transaction("x")
    work.dispatch(call("ring", text="a"))
    del work
    gc.collect()
    until = time.monotonic() + 5
    while not watcher.ended and time.monotonic() < until:
        time.sleep(0.01)
    assert [(each.status, each.reason) for each in watcher.ended] == [
        ("rolled_back", "It was forgotten before its end.")
    ]
    assert tools.dispatch(call("ring", text="b")).text == "1 rows"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_leaves_it_to_its_parent(tools):
    with tools.transaction("x") as work:
        work.dispatch(call("note", text="a"))
        child = os.fork()
        if not child:
            code = 1
            with suppress(BaseException):
                try:
                    work.commit()
                except StateError:
                    code = 0
            os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
    assert notes(tools) == ["a"]


def test_what_is_said_in_it_stays(tools):
    with pytest.raises(KeyError), tools.transaction("x") as work:
        work.request("Book a night.")
        work.dispatch(call("note", text="a"))
        raise KeyError
    assert notes(tools) == []
    assert [turn.text for turn in tools.dispatch(call("count")).event.request] == ["Book a night."]


def test_changes_shows_what_would_be_kept(tools):
    with tools.transaction("x") as work:
        work.dispatch(call("note", text="a"))
        assert "Note: added" in work.changes()
        work.rollback()


def test_a_direct_change_of_its_session_is_not_lost_in_a_second_run(tools):
    with tools.transaction("x") as work:
        work.dispatch(call("note", text="a"))
        work.session[Other].append(Other("direct"))
    assert notes(tools) == ["a"]
    assert tools.session[Other].all() == (Other("direct"),)
    with pytest.raises(TransactionFailed, match="Note"), tools.transaction("y") as work:
        work.dispatch(call("append_counted"))
        work.session[Other].append(Other("second"))
        tools.dispatch(call("note", text="other"))
    assert (notes(tools), work.ended.reruns) == (["a", "other"], 0)


# --- looking


def test_a_look_at_it_causes_no_conflict(tools):
    with tools.transaction("x") as work:
        work.dispatch(call("note", text="a"))
        seen = work.view().session
        assert [each.text for each in seen[Note].all()] == ["a"]
        seen[Note].append(Note("lost"))
        assert seen.clone()[Other].all() == ()
        tools.dispatch(call("note", text="other"))
        tools.session[Other].append(Other("o"))
    assert notes(tools) == ["other", "a"]
    assert work.ended.reruns == 0


def test_a_section_that_is_opened_in_it_stays_open_and_is_no_conflict(watcher):
    more = MarkdownSection(
        key="more", title="More", tools=[count], visibility=Visibility.SUMMARY, summary="Counts."
    )
    prompt = Prompt.of("x", "y", [MarkdownSection(key="n", title="N", tools=[note]), more])
    asked = call("open_sections", section_keys=["more"], reason="r")
    with Host(discover=False, plugins=[watcher]) as host, host.executor(prompt=prompt) as tools:
        with tools.transaction("outer") as outer, outer.transaction("inner") as work:
            with pytest.raises(VisibilityExpansionRequired) as opening:
                work.dispatch(asked)
            assert "Counts." not in work.expand(opening.value).text
            assert work.dispatch(call("count")).success
            assert not work.dispatch(asked).success
        assert (outer.ended.status, outer.ended.reruns) == ("committed", 0)
        with pytest.raises(KeyError), tools.transaction("other"):
            raise KeyError
        assert tools.dispatch(call("count")).success


# --- dry runs


def test_one_of_a_dry_run_keeps_nothing_and_its_calls_see_one_another(host, watcher, till):
    with host.executor(dry_run=True) as tools:
        with tools.transaction("rehearsal") as work:
            work.dispatch(call("note", text="a"))
            work.dispatch(call("ring", text="a"))
            assert work.dispatch(call("count")).result.value == 1
        assert tools.dispatch(call("count")).result.value == 1
        assert "Note: added" in tools.rehearsed()
        assert notes(tools) == []
        assert [(each.status, each.reason) for each in watcher.ended] == [
            ("rolled_back", "It was a dry run.")
        ]
    assert notes(tools) == till.rows == []
    assert "a" in [text for text, _ in watcher.rolled_back]
