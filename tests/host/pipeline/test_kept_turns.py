# ruff: noqa: PT012, SIM117 - the host is opened before its executors
"""A turn whose questions a person has answered is kept by one decision."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import ExitStack
from dataclasses import replace

import pytest

from toolstile import Host, Settings
from toolstile_hookspecs import (
    ApprovalAnswer,
    Binding,
    Cancellation,
    Deadline,
    IdempotencyConfig,
    PolicyDecision,
    PromptEvaluationError,
    SnapshotError,
    Status,
    ToolCall,
    ToolContext,
    TransactionFailed,
    hookimpl,
    tool,
)
from toolstile_hookspecs.execution.change_set import ChangeSet

from .test_cards import Note, Person, Till, by_text, notes, ring, send


@tool(contained=True, requires_confirmation=True)
def write(text: str, context: ToolContext) -> str:
    """Add a note."""
    context.session[Note].append(Note(text))
    return f"wrote {text}"


@tool(contained=True)
def note(text: str, context: ToolContext) -> str:
    """Add a note."""
    context.session[Note].append(Note(text))
    return f"noted {text}"


@tool(contained=True, requires_confirmation=True)
def count(text: str, context: ToolContext) -> str:
    """Count the notes."""
    context.session[Note].append(Note(f"{len(context.session[Note].all())}{text}"))
    return f"counted {len(context.session[Note].all())}"


@tool(contained=True, requires_confirmation=True)
def fail(text: str) -> str:
    """Fail."""
    raise ValueError(text)


@tool(contained=True, requires_confirmation=True)
def leave(text: str) -> str:
    """End the program."""
    raise SystemExit(text)


class Watcher:
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
        self.rolled_back.append(context.tool_call.id)


@pytest.fixture
def watcher():
    return Watcher()


def opened(person, watcher, by="turn", **more):
    settings = Settings(approve_by=by, approve_diff=more.pop("approve_diff", False))
    tools = [write, note, count, fail, leave, send, ring]
    more = {"approver": person, "plugins": [watcher], **more}
    return Host(discover=False, tools=tools, settings=settings, **more)


def made(*calls):
    return [ToolCall(name, {"text": text}) for name, text in (each.split() for each in calls)]


def run_sync(tools, batch):
    return tools.dispatch_all(batch)


def run_async(tools, batch):
    return asyncio.run(tools.adispatch_all(batch))


def run_each(tools, batch):
    async def run():
        each = tools.adispatch_each(batch)
        return await asyncio.gather(*reversed(each), return_exceptions=True)

    return asyncio.run(run())[::-1]


RUNS = pytest.mark.parametrize("run", [run_sync, run_async, run_each])


@RUNS
@pytest.mark.parametrize("diff", [False, True])
def test_an_approved_turn_is_one_decision(run, diff, watcher):
    person = Person()
    batch = made("write a", "note b", "write a")
    with opened(person, watcher, approve_diff=diff) as host, host.executor() as tools:
        outcomes = run(tools, batch)
        assert notes(tools) == ["a", "b", "a"]
    assert [each.text for each in outcomes] == ["wrote a", "noted b", "wrote a"]
    [ended] = watcher.ended
    assert (ended.status, ended.calls) == ("committed", tuple(each.id for each in batch))
    assert {each.transaction for each in watcher.events} == {ended.id}
    [card] = person.cards
    assert [row.params.text for row in card.rows] == (["a", "b", "a"] if diff else ["a", "a"])
    assert (card.title, card.diff is not None) == ("", diff)
    assert person.requests == []
    if diff:
        assert "added 3" in card.diff


@RUNS
@pytest.mark.parametrize("diff", [False, True])
def test_a_refused_row_is_left_out_and_has_its_own_denial(run, diff, watcher):
    person = Person(by_text(a=True, b=ApprovalAnswer.deny("not b"), c=True))
    batch = made("write a", "write b", "write c")
    with opened(person, watcher, approve_diff=diff) as host, host.executor() as tools:
        outcomes = run(tools, batch)
        assert notes(tools) == ["a", "c"]
    assert [each.status for each in outcomes] == ["succeeded", "denied", "succeeded"]
    assert "A person did not approve write: not b." in outcomes[1].text
    assert outcomes[1].event.rolled_back is diff
    assert watcher.ended[0].calls == (batch[0].id, batch[2].id)
    assert len(person.cards) == (2 if diff else 1)


@RUNS
def test_a_turn_refused_as_a_whole_leaves_nothing(run, watcher):
    person = Person(ApprovalAnswer.deny("not today"))
    batch = made("write a", "note b", "write c")
    with opened(person, watcher, approve_diff=True) as host, host.executor() as tools:
        outcomes = run(tools, batch)
        assert notes(tools) == []
    assert {each.status for each in outcomes} == {Status.DENIED}
    names = [each.text.partition(": not today. Nothing of it is kept.")[0] for each in outcomes]
    assert names == [f"A person did not approve {name}" for name in ("write", "note", "write")]
    assert watcher.rolled_back == [each.id for each in reversed(batch)]


@RUNS
def test_a_turn_that_conflicts_is_an_error_of_each_of_its_calls(run, watcher):
    def think(card):
        elsewhere.dispatch(ToolCall("note", {"text": "other"}))
        return True

    batch = made("count a", "write b")
    with opened(Person(think), watcher, approve_diff=True) as host:
        with host.executor() as tools, host.executor(session=tools.session) as elsewhere:
            outcomes = run(tools, batch)
            assert notes(tools) == ["other"]
    assert {each.status for each in outcomes} == {Status.CONFLICT}
    assert all("Nothing" in each.text or "not kept" in each.text for each in outcomes)
    assert {each.is_error for each in outcomes} == {True}
    assert watcher.ended[0].status == "conflict"


@pytest.mark.parametrize("diff", [False, True])
@pytest.mark.parametrize("moves", [False, True])
def test_an_effect_that_can_be_undone_is_part_of_the_turn(
    diff, moves, watcher, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    paid, refunded = [], []

    def refund(params, result, key, context):
        refunded.append(params.text)

    @tool(
        category="side_effect",
        idempotency=IdempotencyConfig(),
        undo=refund,
        requires_confirmation=True,
    )
    def pay(text: str, context: ToolContext) -> str:
        """Pay."""
        if moves:
            elsewhere.dispatch(ToolCall("note", {"text": "other"}))
        paid.append(text)
        return f"paid {text}"

    settings = Settings(
        approve_by="turn",
        approve_diff=diff,
        plugins={"ledger": {"path": str(tmp_path / "l.db"), "reconcile_every": 0}},
    )
    host = Host(
        tools=[pay, count, write, note], settings=settings, approver=Person(), plugins=[watcher]
    )
    with host, host.executor() as tools, host.executor(session=tools.session) as elsewhere:
        outcomes = tools.dispatch_all(made("count n", "pay a", "write b"))
        if diff:  # the effect is kept alone, because the diff is shown after it
            (ended,) = watcher.ended
            assert ended.calls == (outcomes[0].call.id, outcomes[2].call.id)
            assert notes(tools) == (["other", "1n", "b"] if moves else ["0n", "b"])
            assert (paid, refunded) == (["a"], [])
        elif moves:
            assert [each.status for each in outcomes] == [Status.CONFLICT] * 3
            assert (paid, refunded, notes(tools)) == (["a"], ["a"], ["other"])
        else:
            assert [each.text for each in outcomes] == ["counted 1", "paid a", "wrote b"]
            assert (paid, refunded, notes(tools)) == (["a"], [], ["0n", "b"])
            assert [each.status for each in watcher.ended] == ["committed"]


class Guard:
    """Asks about the changes of files."""

    name = "guard"

    def check(self, tool, params, *, context):
        return None

    def on_result(self, tool, params, result, *, context):
        return None

    def check_changes(self, tool, changes, *, context):
        paths = tuple(each.path for each in changes)
        return PolicyDecision.ask("It is protected.", paths=paths)


def test_questions_about_changed_files_come_on_one_card(tmp_path):
    person = Person()
    settings = Settings(approve_by="turn", approver=None, plugins={"vfs": {"root": str(tmp_path)}})
    host = Host(settings=settings, approver=person, policies=[Guard()])
    with host, host.executor() as tools:
        calls = [ToolCall("write_file", {"path": f"{n}.txt", "content": "x"}) for n in "abc"]
        assert all(each.success for each in tools.dispatch_all(calls))
    [card] = person.cards
    assert len(card.rows) == 3
    assert person.requests == []
    assert sorted(each.name for each in tmp_path.glob("*.txt")) == ["a.txt", "b.txt", "c.txt"]


def test_the_second_call_of_a_turn_sees_the_first_only_at_its_end_as_in_any_batch(watcher):
    with opened(Person(), watcher) as host, host.executor() as tools:
        outcomes = tools.dispatch_all(made("count a", "count b"))
        assert [each.text for each in outcomes] == ["counted 1", "counted 2"]
        assert notes(tools) == ["0a", "1b"]


@RUNS
def test_a_failed_call_leaves_nothing_and_the_others_are_kept(run, watcher):
    with opened(Person(), watcher) as host, host.executor() as tools:
        outcomes = run(tools, made("write a", "fail b", "write c"))
        assert notes(tools) == ["a", "c"]
    assert [each.status for each in outcomes] == ["succeeded", "error", "succeeded"]
    assert len(watcher.ended) == 1


@pytest.mark.parametrize("run", [run_sync, run_async])
def test_an_interrupted_turn_leaves_nothing(run, watcher):
    with opened(Person(), watcher) as host, host.executor() as tools:
        with pytest.raises(SystemExit):
            run(tools, made("write a", "write b", "leave c"))
        assert tools.dispatch(ToolCall("note", {"text": "n"})).success
        assert notes(tools) == ["n"]
    assert [each.status for each in watcher.ended] == ["rolled_back"]


def test_a_cancelled_turn_leaves_nothing(watcher):
    async def run(tools, begun):
        running = asyncio.ensure_future(tools.adispatch_all(made("write a", "write b")))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    class Slow(Person):
        async def turn(self, card):
            begun.set()
            await asyncio.sleep(60)

    begun = asyncio.Event()
    with opened(Slow(), watcher, approve_diff=True) as host, host.executor() as tools:
        asyncio.run(run(tools, begun))
        assert notes(tools) == []
    assert [each.status for each in watcher.ended] == ["rolled_back"]


@pytest.mark.parametrize(
    "batch",
    [
        ("note a", "note b"),  # asks nothing
        ("write a", "send b"),  # has an effect outside
        ("write a",),
    ],
)
def test_other_turns_are_kept_call_by_call(batch, watcher):
    with opened(Person(), watcher) as host, host.executor() as tools:
        assert all(each.success for each in tools.dispatch_all(made(*batch)))
    assert watcher.ended == []


def test_without_the_key_each_call_is_kept_alone(watcher):
    with opened(Person(), watcher, by="call") as host, host.executor() as tools:
        assert all(each.success for each in tools.dispatch_all(made("write a", "write b")))
    assert watcher.ended == []


def test_a_turn_within_a_transaction_is_a_savepoint_of_it(watcher):
    person = Person()
    with opened(person, watcher) as host, host.executor() as tools:
        with tools.transaction("all") as work:
            work.dispatch_all(made("write a", "write b"))
            assert notes(tools) == []
            assert notes(work) == ["a", "b"]
        assert notes(tools) == ["a", "b"]
    assert [each.title for each in watcher.ended] == ["turn", "all"]
    with opened(person, watcher) as host, host.executor() as tools:
        with tools.transaction("all", approve=True) as work:
            work.dispatch_all(made("write a", "write b"))
        assert notes(tools) == ["a", "b"]
    assert [card.title for card in person.cards] == ["", "all"]


def test_an_exclusive_resource_is_free_while_the_person_thinks(watcher):
    till, seen = Till(), []

    def think(card):
        seen.extend(till.rows)
        return True

    bound = [Binding.instance(Till, till)]
    with opened(Person(think), watcher, approve_diff=True, resources=bound) as host:
        with host.executor() as tools:
            outcomes = tools.dispatch_all(made("ring a", "write b", "ring c"))
    assert [each.text for each in outcomes] == ["rang a", "wrote b", "rang c"]
    assert (seen, till.rows) == ([], ["a", "c"])


def test_an_exclusive_resource_is_kept_only_as_its_diff_was_shown(watcher):
    class Priced(Till):
        price = 1

        def commit(self, savepoint):
            self.rows = [f"{row} for {self.price}" for row in self.rows]

        def diff(self):
            return "\n".join(f"+{row} for {self.price}" for row in self.rows)

    def raise_prices(card):
        till.price += 1
        return True

    till, person = Priced(), Person(raise_prices)
    bound = [Binding.instance(Till, till)]
    with opened(person, watcher, approve_diff=True, resources=bound) as host:
        with host.executor() as tools:
            moved = tools.dispatch_all(made("ring a", "write b"))
            rows = [*till.rows]
            kept = tools.dispatch_all(made("ring a", "write b"))
    assert person.cards[0].diff.endswith("Priced:\n  +a for 1")
    assert {each.status for each in moved} == {Status.CONFLICT}
    assert "came out differently after a person had approved them" in moved[0].text
    assert all(each.success for each in kept)
    assert (rows, till.rows) == ([], ["a for 2"])


def test_a_child_keeps_its_turn_as_one(watcher):
    with opened(Person(), watcher) as host, host.executor() as tools:
        with tools.child("reader", tools=["write"]) as child:
            child.dispatch_all(made("write a", "write b"))
        assert notes(tools) == ["a", "b"]
    assert {each.agent for each in watcher.events} == {"main/reader"}
    assert len(watcher.ended) == 1


def test_a_turn_of_a_stored_session_is_one_entry(tmp_path, watcher, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = {"sessions": {"path": tmp_path / "s.db"}}
    settings = Settings(approve_by="turn", plugins=store)
    host = Host(tools=[write], settings=settings, approver=Person(), plugins=[watcher])
    with host, host.executor(session_id="s") as tools:
        assert all(each.success for each in tools.dispatch_all(made("write a", "write b")))
        again = host.executor(session_id="s")
        assert notes(again) == ["a", "b"]
    assert len(watcher.ended) == 1


# --- answered later


RAN = []


@tool(contained=True, requires_confirmation=True)
def once(text: str, context: ToolContext) -> str:
    """Add a note, and remember each run."""
    RAN.append(text)
    context.session[Note].append(Note(text))
    return f"did {text}"


@tool(contained=True)
def silent(text: str, context: ToolContext) -> str:
    """Add a note that no rule asks about."""
    RAN.append(text)
    context.session[Note].append(Note(f"{len(context.session[Note].all())} {text}"))
    return f"silently {text}"


class Later:
    """Leaves cards for later, as text that another process can read."""

    def __init__(self):
        self.kept = []

    def __call__(self, request):
        return ApprovalAnswer.pending()

    def turn(self, card):
        self.kept = [
            (row.call.name, row.arguments, row.call.id, row.token(), row.change_set().to_json())
            for row in card.rows
        ]
        self.diff = card.diff
        return ApprovalAnswer.pending("t-1", "Wait.")


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """Open hosts that share a store, as processes do."""
    monkeypatch.chdir(tmp_path)
    RAN.clear()
    with ExitStack() as stack:

        def desk(approver, **more):
            settings = Settings(
                approve_by="turn",
                approve_diff=True,
                approval_key="k" * 40,
                plugins={"sessions": {"path": str(tmp_path / "s.db")}},
            )
            host = Host(tools=[once, silent], settings=settings, approver=approver, **more)
            return stack.enter_context(host).executor(session_id="s")

        yield desk


def resumed(kept, *answers):
    calls = [ToolCall(name, arguments, id=id_) for name, arguments, id_, _, _ in kept]
    given = {
        id_: (token, answer, ChangeSet.from_json(changes))
        for (_, _, id_, token, changes), answer in zip(kept, answers, strict=True)
    }
    return calls, given


def leave_turn(desk):
    later = Later()
    tools = desk(later)
    outcomes = tools.dispatch_all(made("once a", "silent b", "once a"))
    assert notes(tools) == []
    return later, tools, outcomes


def test_a_turn_waits_with_each_of_its_calls(desk):
    later, _, outcomes = leave_turn(desk)
    assert {each.status for each in outcomes} == {Status.PENDING}
    assert {each.approval_ticket for each in outcomes} == {"t-1"}
    assert outcomes[1].text == (
        "silent waits for a person's approval. Nothing of it is kept. Wait."
    )
    assert len({each.approval_token for each in outcomes}) == 3
    assert "added 3" in later.diff
    assert all(json.loads(changes)["version"] == 2 for *_, changes in later.kept)


def test_an_approved_turn_is_kept_as_shown_by_another_process_without_a_second_run(desk, watcher):
    later, _, _ = leave_turn(desk)
    assert sorted(RAN) == ["a", "a", "b", "b"]  # the second call ran again on the first one's notes
    RAN.clear()
    person = Person()
    tools = desk(person, plugins=[watcher])
    calls, given = resumed(later.kept, True, True, True)
    outcomes = tools.dispatch_all(calls, resumed=given)
    assert [each.text for each in outcomes] == ["did a", "silently b", "did a"]
    assert notes(tools) == ["a", "1 b", "a"]
    assert [each.status for each in watcher.ended] == ["committed"]
    assert (person.cards, person.requests, RAN) == ([], [], [])
    again = tools.dispatch_all(calls, resumed=given)
    assert {each.status for each in again} == {Status.DENIED}
    assert notes(tools) == ["a", "1 b", "a"]


def test_the_rest_of_a_refused_turn_is_shown_again(desk):
    later, _, _ = leave_turn(desk)
    RAN.clear()
    person = Person()
    tools = desk(person)
    calls, given = resumed(later.kept, True, ApprovalAnswer.deny("not b"), True)
    outcomes = tools.dispatch_all(calls, resumed=given)
    assert [each.status for each in outcomes] == ["succeeded", "denied", "succeeded"]
    assert "not b" in outcomes[1].text
    assert notes(tools) == ["a", "a"]
    [card] = person.cards
    assert "added 2" in card.diff
    assert RAN == ["a", "a"]  # the rest has run again


def test_a_turn_whose_base_has_moved_is_run_and_shown_again(desk):
    later, _, _ = leave_turn(desk)
    person = Person()
    tools = desk(person)
    tools.dispatch(ToolCall("silent", {"text": "between"}))
    calls, given = resumed(later.kept, True, True, True)
    outcomes = tools.dispatch_all(calls, resumed=given)
    assert notes(tools) == ["0 between", "a", "2 b", "a"]
    assert all(each.success for each in outcomes)
    [card] = person.cards
    assert "2 b" in card.diff


def test_one_row_alone_is_asked_about_again(desk):
    later, _, _ = leave_turn(desk)
    person = Person()
    tools = desk(person)
    (name, arguments, id_, token, changes), *_ = later.kept
    outcome = tools.resume(
        ToolCall(name, arguments, id=id_), token, True, changes=ChangeSet.from_json(changes)
    )
    assert outcome.success
    assert len(person.requests) == 1
    assert "added Note(text='a')" in person.requests[0].diff


def test_a_transaction_waits_and_is_kept_as_shown(desk):
    later = Later()
    tools = desk(later)
    with pytest.raises(TransactionFailed, match="waits for a person's approval"):
        with tools.transaction("trip", approve=True) as work:
            work.dispatch(ToolCall("silent", {"text": "a"}))
            work.dispatch(ToolCall("silent", {"text": "b"}))
    assert notes(tools) == []
    RAN.clear()
    calls, given = resumed(later.kept, True, True)
    other = desk(Person())
    assert all(each.success for each in other.dispatch_all(calls, resumed=given))
    assert notes(other) == ["0 a", "1 b"]
    assert RAN == []


def test_files_of_a_turn_are_kept_as_shown(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work" / "a.txt").write_text("one")
    plugins = {"vfs": {"root": str(tmp_path / "work")}}
    settings = Settings(approve_by="turn", approve_diff=True, plugins=plugins)
    later = Later()
    with Host(settings=settings, approver=later, policies=[Guard()]) as host:
        with host.executor() as tools:
            for name in ("b.txt", "c.txt"):
                assert not (tmp_path / "work" / name).exists()
            calls = [
                ToolCall("write_file", {"path": path, "content": path})
                for path in ("b.txt", "c.txt")
            ]
            assert {each.status for each in tools.dispatch_all(calls)} == {Status.PENDING}
            assert not (tmp_path / "work" / "b.txt").exists()
            calls, given = resumed(later.kept, True, True)
            assert all(each.success for each in tools.dispatch_all(calls, resumed=given))
    assert (tmp_path / "work" / "b.txt").read_text() == "b.txt"
    assert (tmp_path / "work" / "c.txt").read_text() == "c.txt"


def test_an_older_change_set_is_still_read():
    older = {"tool": "note", "message": "Noted.", "session": "[]", "diff": "x", "version": 1}
    assert ChangeSet.from_json(json.dumps(older)).together == ()
    with pytest.raises(SnapshotError, match="version 3"):
        ChangeSet.from_json(json.dumps({**older, "version": 3}))


# --- deadlines and cancellations while a person looks


class Slow(Person):
    """A person who takes long with the second card, or cancels then."""

    def __init__(self, cards, then):
        super().__init__(*[by_text(a=False, b=True, c=True)] * (cards - 1))
        self.then = then

    def turn(self, card):
        answer = super().turn(card)
        if {row.params.text for row in card.rows} == {"b", "c"}:
            self.then()
        return answer


LOOKS = pytest.mark.parametrize(("cards", "first"), [(1, []), (2, ["write a"])])


@RUNS
@LOOKS
def test_the_deadline_of_a_call_ends_its_turn_while_a_person_looks(run, cards, first, watcher):
    person = Slow(cards, lambda: time.sleep(0.6))
    batch = made(*first, "write b", "write c")
    # Of the last one only, because the earliest deadline counts.
    batch[-1] = replace(batch[-1], deadline=Deadline.after(0.3))
    with opened(person, watcher, approve_diff=True) as host, host.executor() as tools:
        outcomes = run(tools, batch)[-2:]
        assert notes(tools) == []
        assert tools.dispatch(ToolCall("note", {"text": "later"})).success
    assert len(person.cards) == cards
    for each in outcomes:
        assert isinstance(each, PromptEvaluationError)
        assert str(each) == "This turn did not finish: the deadline of this evaluation has passed."


@RUNS
@LOOKS
def test_a_cancelled_call_ends_its_turn_while_a_person_looks(run, cards, first, watcher):
    handle = Cancellation()
    batch = made(*first, "write b", "write c")
    batch[-1] = replace(batch[-1], cancellation=handle)
    person = Slow(cards, handle.cancel)
    with opened(person, watcher, approve_diff=True) as host, host.executor() as tools:
        outcomes = run(tools, batch)[-2:]
        assert notes(tools) == []
    assert len(person.cards) == cards
    assert [each.status for each in outcomes] == [Status.CANCELLED] * 2
    assert handle._callbacks == ()
