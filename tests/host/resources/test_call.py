"""The resources as one call sees them."""

import asyncio
from concurrent.futures import wait

import pytest

from toolstile.resources.bindings import ResourceRegistry
from toolstile.resources.exclusive import OneShotGate, lock_of
from toolstile.resources.transactional import BranchPart
from toolstile_hookspecs import (
    Binding,
    CallClosed,
    ConflictError,
    Deadline,
    DeadlineExceededError,
    ResourceBusyError,
    ResourceError,
    Scope,
    UnboundResourceError,
)


class Plain:
    pass


class Closing:
    def __init__(self, log, name="x", fails=None):
        self.log, self.name, self.fails = log, name, fails

    def close(self):
        self.log.append(self.name)
        if self.fails:
            raise self.fails


class Clock:
    def __init__(self):
        self.time = 0.0

    def monotonic(self):
        return self.time

    def now(self):
        raise AssertionError


# --- plain resources ---


def test_gives_singletons_and_instances_of_the_call(kit):
    resources = ResourceRegistry.of(
        Binding(Plain, lambda r: Plain()),
        Binding(list, lambda r: [], Scope.TOOL_CALL),
        Binding(set, lambda r: set(), Scope.PROTOTYPE),
    ).open()
    call, other = kit.call(resources), kit.call(resources)
    assert call.scope.get(Plain) is other.scope.get(Plain)
    assert call.scope.get(list) is call.scope.get(list)
    assert call.scope.get(list) is not other.scope.get(list)
    assert call.scope.get(set) is not call.scope.get(set)
    assert call.scope.participants() == []


def test_a_prototype_that_gives_a_singleton_is_asked_at_each_access(kit):
    asked = []

    def pick(resources):
        asked.append(1)
        return resources.get(Plain)

    resources = ResourceRegistry.of(
        Binding(Plain, lambda r: Plain()), Binding(object, pick, Scope.PROTOTYPE)
    ).open()
    scope = kit.call(resources).scope
    assert scope.get(object) is scope.get(object)
    assert len(asked) == 2


def test_asks_first_or_with_a_default(kit):
    scope = kit.call(ResourceRegistry.build({}).open()).scope
    assert Plain not in scope
    assert scope.get(Plain, None) is None
    with pytest.raises(UnboundResourceError):
        scope.get(Plain)
    with pytest.raises(UnboundResourceError):
        asyncio.run(scope.aget(Plain))


def test_closing_closes_what_lives_for_the_call_in_reverse_and_logs_failures(kit, caplog):
    log = []
    resources = ResourceRegistry.of(
        Binding(Plain, lambda r: Closing(log, "first", OSError("disk.")), Scope.TOOL_CALL),
        Binding(list, lambda r: Closing(log, "second"), Scope.TOOL_CALL),
    ).open()
    call = kit.call(resources)
    call.scope.get(Plain)
    call.scope.get(list)
    call.scope.close()
    call.scope.close()
    assert log == ["second", "first"]
    assert "At the end of a call, closing failed for Closing (OSError: disk)." in caplog.text


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_while_closing_leaves_when_all_is_closed(kit, opened, stop):
    log = []
    resources = ResourceRegistry.of(
        Binding(Plain, lambda r: Closing(log, "first"), Scope.TOOL_CALL),
        Binding(list, lambda r: Closing(log, "second", stop()), Scope.TOOL_CALL),
    ).open()
    call = kit.call(resources)
    call.scope.get(Plain)
    call.scope.get(list)
    with pytest.raises(stop):
        call.scope.close()
    assert log == ["second", "first"]


def test_an_interrupt_while_one_is_given_back_leaves_when_all_are(kit):
    class Interrupted(kit.Ledger):
        def rollback(self, savepoint):
            raise KeyboardInterrupt

    resources = ResourceRegistry.build({kit.Ledger: kit.Ledger(), object: Interrupted()}).open()
    call = kit.call(resources)
    call.scope.get(kit.Ledger)
    call.scope.get(object)
    with pytest.raises(KeyboardInterrupt):
        call.scope.close()
    other = kit.call(resources)
    assert isinstance(other.scope.get(kit.Ledger), kit.Ledger)
    assert isinstance(other.scope.get(object), Interrupted)


def test_after_closing_every_access_is_refused(kit, opened):
    call = kit.call(opened)
    call.scope.get(kit.Note)
    call.commit()
    with pytest.raises(CallClosed, match="call has ended"):
        call.scope.get(kit.Note)
    with pytest.raises(CallClosed):
        asyncio.run(call.scope.aget(kit.Note))


def test_what_the_pipeline_says_is_closed_is_closed(kit, opened):
    call = kit.call(opened)
    call.scope.get(kit.Note)

    def check_open():
        raise CallClosed("timed out")

    call.check_open = check_open
    with pytest.raises(CallClosed, match="timed out"):
        call.scope.get(kit.Note)


# --- branches ---


def test_a_branchable_resource_is_branched_once_and_changes_with_the_commit(kit, opened):
    note = opened.get(kit.Note)
    call = kit.call(opened)
    branch = call.scope.get(kit.Note)
    assert branch is call.scope.get(kit.Note)
    assert branch is not note
    branch.text = "new"
    assert note.text == ""
    call.commit()
    assert note.text == "new"
    assert note.log == ["prepare", "commit"]


def test_a_failed_call_leaves_a_branchable_resource_as_it_was(kit, opened):
    note = opened.get(kit.Note)
    call = kit.call(opened)
    call.scope.get(kit.Note).text = "new"
    call.fail()
    assert note.text == ""
    assert note.log == ["rollback"]


def test_one_resource_under_two_types_has_one_branch(kit):
    note = kit.Note()
    resources = ResourceRegistry.build(
        {kit.Note: note, Plain: Binding(Plain, lambda r: r.get(kit.Note))}
    ).open()
    call = kit.call(resources)
    assert call.scope.get(Plain) is call.scope.get(kit.Note)
    assert len(call.scope.participants()) == 1


def test_a_nested_branch_is_of_the_parents_and_commits_into_it(kit, opened):
    note = opened.get(kit.Note)
    call = kit.call(opened)
    nested = call.nested("nested")
    branch = nested.scope.get(kit.Note)
    branch.text = "deep"
    assert branch.parent is call.scope.get(kit.Note)
    nested.join()
    assert call.scope.get(kit.Note).text == "deep"
    assert note.text == ""
    call.commit()
    assert note.text == "deep"


def test_a_nested_call_that_fails_leaves_the_parents_branch_as_it_was(kit, opened):
    call = kit.call(opened)
    call.scope.get(kit.Note).text = "mine"
    nested = call.nested("nested")
    nested.scope.get(kit.Note).text = "theirs"
    nested.fail()
    assert call.scope.get(kit.Note).text == "mine"
    call.commit()
    assert opened.get(kit.Note).text == "mine"


def test_a_nested_call_that_cannot_prepare_has_committed_nothing(kit, opened):
    call = kit.call(opened)
    nested = call.nested("nested")
    nested.scope.get(kit.SlowNote).text = "slow"
    nested.scope.get(kit.Note).text = "new"
    nested.scope.get(kit.Note).fails = ConflictError("moved")

    async def join():
        with pytest.raises(ConflictError, match="moved"):
            await nested.ajoin()
        await nested.aundo()

    asyncio.run(join())
    assert call.scope.get(kit.Note).text == ""
    assert call.scope.get(kit.SlowNote).text == ""
    assert opened.get(kit.Note).log == ["prepare", "rollback"]
    assert opened.get(kit.SlowNote).log == ["prepare", "rollback"]


def test_branches_that_have_to_be_awaited_join_and_roll_back(kit, opened):
    call = kit.call(opened)
    good, bad = call.nested("good"), call.nested("bad")

    async def run():
        good.scope.get(kit.SlowNote).text = "slow"
        await good.ajoin()
        bad.scope.get(kit.SlowNote).text = "gone"
        bad.scope.get(kit.Note).text = "gone"
        await bad.aundo()

    asyncio.run(run())
    assert call.scope.get(kit.SlowNote).text == "slow"
    assert call.scope.get(kit.Note).text == ""


def test_what_a_nested_call_alone_has_branched_takes_part_in_the_parents_commit(kit):
    log = []

    class Held(kit.Note):
        def close(self):
            log.append("closed")

    base = kit.Note()
    resources = ResourceRegistry.of(Binding(Held, lambda r: Held(), Scope.TOOL_CALL)).open()
    call = kit.call(resources)
    nested = call.nested("nested")
    branch = nested.scope.get(Held)
    branch.text = "new"
    nested.join()
    assert log == []
    assert branch.note.text == ""
    call.commit()
    assert branch.note.text == "new"
    assert log == ["closed"]
    assert base.text == ""


def test_participants_come_in_the_order_of_first_access_and_show_what_branches_offer(kit, opened):
    call = kit.call(opened)
    call.scope.get(kit.OtherLedger)
    call.scope.get(kit.Note)
    call.scope.get(kit.Ledger)
    parts = call.scope.participants()
    assert [part.name for part in parts] == ["OtherLedger", "Note", "Ledger"]
    assert parts[1].text == ""
    assert not hasattr(parts[1], "decides")
    with pytest.raises(AttributeError):
        parts[1].nothing  # noqa: B018 - the access is the test
    assert [part.name for part in call.scope.undoing()] == [
        "Ledger",
        "Note",
        "OtherLedger",
    ]
    call.fail()


def test_a_database_session_with_a_commit_of_its_own_is_plain(kit):
    class Session:
        def begin(self, nested=False):
            raise AssertionError

        def commit(self):
            raise AssertionError

        def rollback(self):
            raise AssertionError

    session = Session()
    call = kit.call(ResourceRegistry.build({Session: session}).open())
    assert call.scope.get(Session) is session
    call.fail()


# --- exclusive resources ---


def test_an_exclusive_resource_is_begun_once_and_kept_with_the_commit(kit, opened):
    call = kit.call(opened)
    ledger = call.scope.get(kit.Ledger)
    assert ledger is opened.get(kit.Ledger)
    call.scope.get(kit.Ledger).numbers.append(1)
    call.commit()
    assert ledger.kept == [1]
    assert ledger.log == [("begin", 1), ("commit", 1)]
    assert lock_of(ledger).claims == []


def test_a_failed_call_undoes_an_exclusive_resource(kit, opened):
    call = kit.call(opened)
    call.scope.get(kit.Ledger).numbers.append(1)
    call.fail()
    assert opened.get(kit.Ledger).numbers == []
    assert lock_of(opened.get(kit.Ledger)).claims == []


def test_an_exclusive_resource_can_prepare_its_commit(kit):
    class Prudent(kit.Ledger):
        """Refuses to keep a 13."""

        def prepare(self, savepoint):
            self.log.append(("prepare", savepoint))
            if 13 in self.numbers:
                raise ValueError("no 13")

    opened = ResourceRegistry.build({Prudent: Binding(Prudent, lambda _: Prudent())}).open()
    ledger = opened.get(Prudent)
    call = kit.call(opened)
    call.scope.get(Prudent).numbers.append(1)
    nested = call.nested("nested")
    nested.scope.get(Prudent).numbers.append(2)
    nested.join()
    assert ledger.log == [("begin", 1), ("begin", 2), ("prepare", 2)]
    call.commit()
    assert ledger.log[3:] == [("prepare", 2), ("prepare", 1), ("commit", 2), ("commit", 1)]

    unlucky = kit.call(opened)
    unlucky.scope.get(Prudent).numbers.append(13)
    with pytest.raises(ValueError, match="no 13"):
        unlucky.commit()
    unlucky.fail()
    assert ledger.numbers == ledger.kept == [1, 2]
    assert lock_of(ledger).claims == []


def test_what_is_called_prepare_and_takes_something_else_is_left_alone(kit):
    class Statements(kit.Ledger):
        def prepare(self, sql, params):
            raise AssertionError

    opened = ResourceRegistry.build(
        {Statements: Binding(Statements, lambda _: Statements())}
    ).open()
    call = kit.call(opened)
    call.scope.get(Statements).numbers.append(1)
    call.commit()
    assert opened.get(Statements).kept == [1]


def test_closing_gives_back_what_nobody_committed(kit, opened):
    call = kit.call(opened)
    call.scope.get(kit.Ledger).numbers.append(1)
    call.scope.close()
    assert opened.get(kit.Ledger).numbers == []
    assert lock_of(opened.get(kit.Ledger)).claims == []


def test_nested_calls_begin_savepoints_that_are_undone_newest_first(kit, opened):
    ledger = opened.get(kit.Ledger)
    call = kit.call(opened)
    call.scope.get(kit.Ledger).numbers.append(1)
    good = call.nested("good")
    good.scope.get(kit.Ledger).numbers.append(2)
    good.join()
    bad = call.nested("bad")
    bad.scope.get(kit.Ledger).numbers.append(3)
    bad.fail()
    assert ledger.numbers == [1, 2]
    call.fail()
    assert ledger.numbers == []
    assert [step for step in ledger.log if step[0] == "rollback"] == [
        ("rollback", 3),
        ("rollback", 2),
        ("rollback", 1),
    ]


def test_savepoints_are_committed_with_the_root_newest_first(kit, opened):
    ledger = opened.get(kit.Ledger)
    call = kit.call(opened)
    call.scope.get(kit.Ledger).numbers.append(1)
    nested = call.nested("nested")
    nested.scope.get(kit.Ledger).numbers.append(2)
    nested.join()
    assert ("commit", 2) not in ledger.log
    call.commit()
    assert ledger.log[-2:] == [("commit", 2), ("commit", 1)]
    assert ledger.kept == [1, 2]


@pytest.mark.parametrize("end", ["join", "fail"])
def test_what_a_nested_call_took_is_held_until_the_root_ends(kit, opened, end):
    call = kit.call(opened)
    nested = call.nested("nested")
    nested.scope.get(kit.Ledger).numbers.append(1)
    getattr(nested, end)()
    other = kit.call(opened)
    other.scope.fail_fast = True
    with pytest.raises(ResourceBusyError):
        other.scope.get(kit.Ledger)
    call.commit()
    other.scope.get(kit.Ledger)
    assert opened.get(kit.Ledger).kept == ([1] if end == "join" else [])
    other.fail()


def test_a_failure_to_begin_leaves_as_it_is_and_is_tried_again(kit, opened):
    ledger = opened.get(kit.Ledger)
    call = kit.call(opened)
    begin, ledger.begin = ledger.begin, None

    def fail():
        raise OSError("disk")

    ledger.begin = fail
    with pytest.raises(OSError, match="disk"):
        call.scope.get(kit.Ledger)
    ledger.begin = begin
    call.scope.get(kit.Ledger).numbers.append(1)
    call.commit()
    assert ledger.kept == [1]


def test_a_commit_that_fails_gives_the_lock_back_all_the_same(kit, opened):
    ledger = opened.get(kit.Ledger)
    call = kit.call(opened)
    call.scope.get(kit.Ledger)

    def fail(savepoint):
        raise OSError("disk")

    ledger.commit = fail
    (part,) = call.scope.participants()
    with pytest.raises(ResourceError, match=r"Committing failed for Ledger \(OSError: disk\)"):
        part.commit()
    assert lock_of(ledger).claims == []


def test_a_second_call_waits_and_sees_what_the_first_committed(kit, opened, start):
    first, second = kit.call(opened, "first"), kit.call(opened, "second")
    first.scope.get(kit.Ledger).numbers.append(1)

    def work():
        seen = list(second.scope.get(kit.Ledger).numbers)
        second.commit()
        return seen

    waiting = start(work)
    second.waits.acquire(timeout=30)
    first.commit()
    assert waiting.result(30) == [1]
    assert second.pauses == ["pause", "resume"]
    assert first.pauses == []


def test_waiters_are_served_in_order(kit, opened, start):
    holder = kit.call(opened)
    holder.scope.get(kit.Ledger)
    running = []
    for number in range(6):
        call = kit.call(opened, f"call {number}")

        def work(call=call, number=number):
            call.scope.get(kit.Ledger).numbers.append(number)
            call.commit()

        running.append(start(work))
        # The ticket is in the queue as soon as the wait is known.
        call.waits.acquire(timeout=30)
    holder.commit()
    for each in running:
        each.result(30)
    assert opened.get(kit.Ledger).kept == list(range(6))


@pytest.mark.slow
def test_a_crowd_of_threads_loses_nothing(kit, opened, start):
    def work(number):
        for step in range(25):
            call = kit.call(opened, f"call {number}.{step}")
            numbers = call.scope.get(kit.Ledger).numbers
            numbers.append(len(numbers))
            if step % 3:
                call.commit()
            else:
                call.fail()

    for each in [start(lambda number=number: work(number)) for number in range(8)]:
        each.result(60)
    assert opened.get(kit.Ledger).kept == list(range(8 * 16))


def test_of_two_that_wait_for_one_another_the_later_fails_at_once(kit, opened, start):
    first, second = kit.call(opened, "first"), kit.call(opened, "second")
    first.scope.get(kit.Ledger)
    second.scope.get(kit.OtherLedger)
    waiting = start(lambda: first.scope.get(kit.OtherLedger))
    first.waits.acquire(timeout=30)
    with pytest.raises(
        ResourceBusyError,
        match=r"Ledger is held by first, which waits for this call to release OtherLedger",
    ):
        second.scope.get(kit.Ledger)
    second.fail()
    assert waiting.result(30) is opened.get(kit.OtherLedger)
    first.commit()


def test_a_call_that_must_not_wait_is_refused_and_its_nested_calls_too(kit, opened):
    holder, call = kit.call(opened, "holder"), kit.call(opened)
    holder.scope.get(kit.Ledger)
    call.scope.fail_fast = True
    for scope in (call.scope, call.nested("nested").scope):
        with pytest.raises(ResourceBusyError, match="held by holder, and this call may not wait"):
            scope.get(kit.Ledger)
    holder.commit()
    assert call.scope.get(kit.Ledger) is not None
    call.fail()


def test_a_call_that_must_not_wait_does_not_wait_for_earlier_ones_either(kit, opened):
    call = kit.call(opened)
    call.scope.fail_fast = True
    call.first = OneShotGate()
    with pytest.raises(ResourceBusyError, match="not available yet"):
        call.scope.get(kit.Ledger)


def test_what_has_to_come_first_is_waited_for(kit, opened, start):
    call = kit.call(opened)
    call.first = OneShotGate()
    waiting = start(lambda: call.scope.get(kit.Ledger))
    call.waits.acquire(timeout=30)
    assert lock_of(opened.get(kit.Ledger)).claims == []
    call.first.open()
    assert waiting.result(30) is not None
    assert call.asked == [kit.Ledger]
    call.scope.get(kit.Ledger)
    assert call.asked == [kit.Ledger]
    call.fail()


def test_the_pipeline_can_refuse_exclusive_resources(kit, opened):
    call = kit.call(opened)
    call.refusal = ResourceError("not in a dry run")
    with pytest.raises(ResourceError, match="not in a dry run"):
        call.scope.get(kit.Ledger)
    assert lock_of(opened.get(kit.Ledger)).claims == []


def test_waiting_ends_with_the_deadline(kit, opened, start):
    holder, call = kit.call(opened), kit.call(opened)
    holder.scope.get(kit.Ledger)
    clock = Clock()
    call.deadline = Deadline(5.0, clock)
    clock.time = 5.0
    with pytest.raises(DeadlineExceededError, match="while the call waited for Ledger"):
        call.scope.get(kit.Ledger)
    assert lock_of(opened.get(kit.Ledger)).queue == []
    assert call.pauses == ["pause", "resume"]
    call.fail()
    holder.fail()


def test_waiting_ends_with_the_cancellation(kit, opened, start):
    holder, call = kit.call(opened), kit.call(opened)
    holder.scope.get(kit.Ledger)
    waiting = start(lambda: call.scope.get(kit.Ledger))
    call.waits.acquire(timeout=30)
    call.cancellation.cancel()
    assert isinstance(waiting.exception(30), CallClosed)
    assert lock_of(opened.get(kit.Ledger)).queue == []
    holder.fail()


@pytest.mark.parametrize("end", ["close", "abandon"])
def test_waiting_ends_with_the_call(kit, opened, start, end):
    holder, call = kit.call(opened), kit.call(opened)
    holder.scope.get(kit.Ledger)
    waiting = start(lambda: call.scope.get(kit.Ledger))
    call.waits.acquire(timeout=30)
    getattr(call.scope, end)()
    assert isinstance(waiting.exception(30), (CallClosed, ResourceBusyError))
    holder.fail()
    call.scope.release_abandoned()
    assert lock_of(opened.get(kit.Ledger)).claims == []


def test_what_a_nested_call_hands_over_at_this_moment_does_not_stop_the_list(
    kit, opened, monkeypatch
):
    call = kit.call(opened)
    call.scope.get(kit.Note)

    def is_open(part):
        call.scope._parts[object()] = part
        return True

    monkeypatch.setattr(BranchPart, "open", property(is_open))
    assert len(call.scope.participants()) == 1


def test_a_call_with_several_threads_begins_once(kit, opened, start):
    holder, call = kit.call(opened), kit.call(opened)
    holder.scope.get(kit.Ledger)
    waiting = [start(lambda: call.scope.get(kit.Ledger)) for _ in range(4)]
    for _ in waiting:
        call.waits.acquire(timeout=30)
    holder.commit()
    assert len({id(each.result(30)) for each in waiting}) == 1
    assert opened.get(kit.Ledger).log.count(("begin", 1)) == 2
    call.commit()


def test_two_sessions_that_share_a_resource_exclude_one_another(kit):
    ledger = kit.Ledger()
    first, second = (ResourceRegistry.build({kit.Ledger: ledger}).open() for _ in range(2))
    holder, call = kit.call(first), kit.call(second)
    holder.scope.get(kit.Ledger)
    call.scope.fail_fast = True
    with pytest.raises(ResourceBusyError):
        call.scope.get(kit.Ledger)
    holder.fail()


# --- within an event loop ---


def test_an_async_call_waits_without_blocking_the_loop(kit, opened):
    async def main():
        first, second = kit.call(opened), kit.call(opened)
        (await first.scope.aget(kit.Ledger)).numbers.append(1)
        waiting = asyncio.ensure_future(second.scope.aget(kit.Ledger))
        await asyncio.sleep(0)
        assert not waiting.done()
        first.commit()
        ledger = await waiting
        assert ledger.numbers == [1]
        assert await second.scope.aget(kit.Ledger) is ledger
        second.commit()

    asyncio.run(main())


def test_an_async_call_that_would_block_the_loop_is_told_what_to_write(kit, opened):
    async def main():
        first, second = kit.call(opened), kit.call(opened)
        assert first.scope.get(kit.Ledger)
        with pytest.raises(ResourceError, match=r"await context\.resources\.aget\(Ledger\)"):
            second.scope.get(kit.Ledger)
        assert lock_of(opened.get(kit.Ledger)).queue == []
        first.fail()

    asyncio.run(main())


def test_a_cancelled_task_leaves_the_queue(kit, opened):
    async def main():
        first, second, third = (kit.call(opened) for _ in range(3))
        await first.scope.aget(kit.Ledger)
        waiting = asyncio.ensure_future(second.scope.aget(kit.Ledger))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        first.commit()
        assert await third.scope.aget(kit.Ledger)
        third.fail()
        second.fail()

    asyncio.run(main())


def test_a_waiting_task_is_woken_from_another_thread(kit, opened, start):
    async def main():
        first, second = kit.call(opened), kit.call(opened)
        first.scope.get(kit.Ledger)
        waiting = asyncio.ensure_future(second.scope.aget(kit.Ledger))
        await asyncio.sleep(0)
        start(first.commit)
        assert await waiting
        second.fail()

    asyncio.run(main())


def test_a_waiting_task_is_refused_when_cancelled_from_outside(kit, opened):
    async def main():
        first, second = kit.call(opened), kit.call(opened)
        first.scope.get(kit.Ledger)
        waiting = asyncio.ensure_future(second.scope.aget(kit.Ledger))
        await asyncio.sleep(0)
        second.cancellation.cancel()
        with pytest.raises(CallClosed):
            await waiting
        first.fail()

    asyncio.run(main())


def test_nested_tasks_side_by_side_take_turns(kit, opened):
    async def main():
        # Built before: it is made on a worker, after which any of them may be the first.
        opened.get(kit.Ledger)
        call = kit.call(opened)

        async def work(name, number):
            nested = call.nested(name)
            numbers = (await nested.scope.aget(kit.Ledger)).numbers
            numbers.append(number)
            await asyncio.sleep(0)
            assert numbers[-1] == number
            if number % 2:
                nested.fail()
            else:
                nested.join()

        await asyncio.gather(*(work(f"nested {number}", number) for number in range(6)))
        call.commit()

    asyncio.run(main())
    assert opened.get(kit.Ledger).kept == [0, 2, 4]


def test_a_call_that_is_overtaken_by_a_nested_one_when_its_turn_has_come_waits_for_it(kit, opened):
    call = kit.call(opened)
    first, second = call.nested("first"), call.nested("second")

    async def run():
        first.scope.get(kit.Ledger)
        waiting = asyncio.create_task(call.scope.aget(kit.Ledger))
        await asyncio.to_thread(call.waits.acquire)
        first.fail()
        second.scope.get(kit.Ledger).numbers.append(2)
        done, _ = await asyncio.wait([waiting], timeout=0.05)
        assert not done
        second.fail()
        (await waiting).numbers.append(1)

    asyncio.run(run())
    call.commit()

    assert opened.get(kit.Ledger).kept == [1]


@pytest.mark.parametrize("end", ["commit", "fail"])
def test_a_nested_call_that_comes_while_its_parent_ends_stands_not_on_it(kit, start, end):
    late = []

    class Slow(kit.Ledger):
        def meet(self):
            if not late:
                late.append(start(lambda: nested.scope.get(Slow)))
                wait(late, timeout=0.1)

        def prepare(self, savepoint):
            self.meet()

        def rollback(self, savepoint):
            self.meet()
            super().rollback(savepoint)

    ledger = Slow()
    call = kit.call(ResourceRegistry.build({Slow: ledger}).open())
    nested = call.nested("inner")
    call.scope.get(Slow)

    getattr(call, end)()
    late[0].result(30)
    nested.fail()

    ended = "commit" if end == "commit" else "rollback"
    assert ledger.log == [("begin", 1), (ended, 1), ("begin", 1), ("rollback", 1)]


# --- abandoned calls ---


def test_what_an_abandoned_call_holds_is_rolled_back_when_its_thread_ends(kit, opened, start):
    ledger = opened.get(kit.Ledger)
    call, other = kit.call(opened, "slow_tool"), kit.call(opened)
    call.scope.get(kit.Ledger).numbers.append(1)
    branch = call.scope.get(kit.Note)
    waiting = start(lambda: other.scope.get(kit.Ledger))
    other.waits.acquire(timeout=30)

    call.scope.abandon()
    call.undo()
    call.scope.close()

    assert "still held by an abandoned call of slow_tool" in str(waiting.exception(30))
    with pytest.raises(ResourceBusyError, match="slow_tool"):
        other.scope.get(kit.Ledger)
    with pytest.raises(CallClosed, match="slow_tool was abandoned"):
        call.scope.get(kit.Ledger)
    assert branch.note.log == ["rollback"]
    assert ledger.numbers == [1]

    call.scope.release_abandoned()
    assert ledger.numbers == []
    assert other.scope.get(kit.Ledger) is ledger
    other.fail()


class SlowToBranch:
    """A branchable resource with whose call something happens as it is branched."""

    def __init__(self, note, meanwhile):
        self.note, self.meanwhile = note, meanwhile

    def branch(self, context, parent):
        self.meanwhile()
        return self.note.branch(context, parent)


def given_up(call):
    call.scope.abandon()
    call.undo()
    call.scope.close()
    return call.scope.release_abandoned


def ended(call):
    call.scope.close()
    return lambda: None


@pytest.mark.parametrize("end", [given_up, ended])
def test_a_branch_that_comes_when_its_call_is_over_is_rolled_back(kit, end):
    note, later = kit.Note(), []
    slow = SlowToBranch(note, lambda: later.append(end(call)))
    call = kit.call(ResourceRegistry.build({SlowToBranch: slow}).open())

    with pytest.raises(CallClosed):
        call.scope.get(SlowToBranch)
    later[0]()

    assert note.log == ["rollback"]


def test_a_branch_that_a_nested_call_needs_when_the_parent_has_committed_is_rolled_back(
    kit, opened
):
    call = kit.call(opened)
    nested = call.nested("inner")
    assert call.scope.participants() == []

    nested.scope.get(kit.Note)
    call.scope.close()
    nested.undo()

    assert opened.get(kit.Note).log == ["rollback", "rollback"]


def test_a_branch_that_is_handed_over_when_the_parent_is_rolled_back_is_rolled_back(kit):
    note = kit.Note()
    binding = Binding(kit.Note, lambda _: note, Scope.TOOL_CALL)
    call = kit.call(ResourceRegistry.of(binding).open())
    nested = call.nested("inner")
    nested.scope.get(kit.Note)
    call.scope.abandon()
    call.undo()

    nested.join()
    call.scope.close()
    call.scope.release_abandoned()

    assert note.log == ["rollback"]


def test_what_lives_for_an_abandoned_call_is_closed_when_its_thread_ends(kit):
    log = []
    resources = ResourceRegistry.of(Binding(Plain, lambda r: Closing(log), Scope.TOOL_CALL)).open()
    call = kit.call(resources)
    call.scope.get(Plain)
    call.scope.abandon()
    call.scope.close()
    assert log == []
    call.scope.release_abandoned()
    call.scope.release_abandoned()
    assert log == ["x"]


def test_a_parent_cannot_commit_on_which_an_abandoned_call_stands(kit, opened):
    ledger = opened.get(kit.Ledger)
    call = kit.call(opened, "outer")
    call.scope.get(kit.Ledger).numbers.append(1)
    nested = call.nested("inner")
    nested.scope.get(kit.Ledger).numbers.append(2)
    nested.scope.abandon()
    nested.undo()
    nested.scope.close()
    (part,) = call.scope.participants()
    with pytest.raises(ResourceBusyError, match="nested call of inner, which was abandoned"):
        part.prepare()
    call.fail()
    assert ledger.numbers == [1, 2]
    nested.scope.release_abandoned()
    assert ledger.numbers == []
    assert lock_of(ledger).claims == []
    assert ledger.log[-2:] == [("rollback", 2), ("rollback", 1)]


def test_a_parent_that_commits_waits_for_a_nested_call_that_was_cancelled_to_end(kit, opened):
    call = kit.call(opened, "outer")
    call.scope.get(kit.Ledger).numbers.append(1)
    nested = call.nested("inner")
    nested.scope.get(kit.Ledger).numbers.append(2)
    nested.scope.abandon(patience=60)
    (part,) = call.scope.participants()

    async def commit():
        preparing = asyncio.ensure_future(part.prepare())
        await asyncio.wait((preparing,), timeout=0.05)
        assert not preparing.done()
        nested.scope.release_abandoned()
        await preparing
        part.commit()

    asyncio.run(commit())
    assert opened.get(kit.Ledger).kept == [1]


def test_and_no_longer_than_it_may_be_hoped_to(kit, opened):
    call = kit.call(opened, "outer")
    call.scope.get(kit.Ledger).numbers.append(1)
    nested = call.nested("inner")
    nested.scope.get(kit.Ledger).numbers.append(2)
    nested.scope.abandon(patience=0.05)
    (part,) = call.scope.participants()

    async def prepare():
        await part.prepare()

    with pytest.raises(ResourceBusyError, match="nested call of inner, which was abandoned"):
        asyncio.run(prepare())
    nested.scope.release_abandoned()


def test_a_parent_goes_on_when_its_abandoned_nested_call_has_ended(kit, opened):
    ledger = opened.get(kit.Ledger)
    call = kit.call(opened, "outer")
    nested = call.nested("inner")
    nested.scope.get(kit.Ledger).numbers.append(2)
    nested.scope.abandon("inner tool")
    with pytest.raises(ResourceBusyError, match="abandoned call of inner"):
        call.scope.get(kit.Ledger)
    nested.scope.release_abandoned()
    call.scope.get(kit.Ledger).numbers.append(1)
    call.commit()
    assert ledger.kept == [1]


def test_a_rollback_of_an_abandoned_call_that_fails_is_logged(kit, opened, caplog):
    ledger = opened.get(kit.Ledger)
    call = kit.call(opened)
    call.scope.get(kit.Ledger)

    def fail(savepoint):
        raise OSError("disk")

    ledger.rollback = fail
    call.scope.abandon()
    call.scope.release_abandoned()
    assert "OSError: disk" in caplog.text
    assert lock_of(ledger).claims == []


def test_a_call_made_by_hand_works_as_context_resources(kit, opened):
    call = kit.call(opened)
    assert call.context.resources.get(kit.Note) is call.scope.get(kit.Note)
    assert call.context.filesystem is None
    assert Plain not in call.context.resources
