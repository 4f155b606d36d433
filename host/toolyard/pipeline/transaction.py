"""Running the handler on a branch, and keeping what it did: all of it, or nothing."""

from __future__ import annotations

import logging
from collections.abc import Generator
from inspect import iscoroutine
from typing import Any, cast

from toolyard.pipeline.asking import ENDLESS, Wrapped, ask, settle, settle_surely, timed
from toolyard.pipeline.batch import Milestone
from toolyard.pipeline.call_run import CallRun
from toolyard.pipeline.checking import check_again, own_params, params_for
from toolyard.pipeline.limits import Limit
from toolyard.pipeline.plan import Plan, Table
from toolyard.pipeline.refusals import CommitFailed, HandlerFailed, Refusal
from toolyard.pipeline.reviewing import Edited, review, start_over
from toolyard.pipeline.steps import Run, Step, WaitFor
from toolyard.pipeline.undoing import undo
from toolyard_hookspecs import (
    ConflictError,
    Participant,
    ResourceBusyError,
    Stage,
    Status,
    ToolResult,
)
from toolyard_hookspecs.results import render_result
from toolyard_hookspecs.signatures import is_async_callable

log = logging.getLogger("toolyard.pipeline")

Staged = Generator[Step, Any, Any]
CONFLICTING = frozenset({Stage.EXECUTE, Stage.VALIDATE, Stage.ON_RESULT, Stage.PREPARE})
"""Where a conflict shows: a resource may notice it before the commit, at the next access."""


def transact(run: CallRun, table: Table) -> Staged:
    """Run the call on its branch and commit it; a contained one once more after a conflict."""
    plan = run.plan
    assert plan is not None  # noqa: S101 - looked up before
    if run.batch is not None:
        yield WaitFor(run.batch.after_all(Milestone.ADMITTED), run.limit_without_timeout())
    if plan.tool.concurrency == "serial":
        run.passed(Milestone.FORKED)
        yield from _take_serial(run, plan)
        yield from _look_again(run)
    run.branch.begin()
    run.passed(Milestone.FORKED)
    while True:
        try:
            yield from _run_once(run, table, plan)
        except ConflictError:
            if run.reruns or not plan.tool.contained or run.stage not in CONFLICTING:
                raise
            yield from _start_again(run, plan)
        except Edited as edit:
            yield from start_over(run, table, edit.call)
        else:
            return


def _start_again(run: CallRun, plan: Plan) -> Staged:
    """Put everything back and fork at the commit turn, at which nothing can conflict again."""
    run.reruns += 1
    yield from undo(run)
    if not run.has_turn:
        yield from _take_turn(run)
    run.renew()
    run.scope.fail_fast = True
    if not plan.shares_params:
        run.params = plan.tool.params_codec.copy(run.arguments)
    if plan.checks:
        yield from check_again(run)


def _look_again(run: CallRun) -> Staged:
    """Let go of what the checks saw of the resources before others were waited for."""
    if run.scope.participants():
        yield from undo(run)
        run.renew()
        yield from check_again(run)


def _take_serial(run: CallRun, plan: Plan) -> Staged:
    limit = run.limit_without_timeout()
    # Waiting for other calls does not count against the timeouts of those that made this one.
    run.pause_timeout()
    try:
        batch = run.root.batch
        if batch is not None:
            yield WaitFor(batch.before(Milestone.ENDED, run.root.index), limit)
        ticket = run.serial_ticket = run.executor.engine.serial(plan.tool, run)
        yield WaitFor(ticket, limit)
        ticket.require()
    except ResourceBusyError as error:
        raise Refusal(Status.ERROR, f"{run.name} cannot run now: {error}") from error
    finally:
        run.resume_timeout()


def _run_once(run: CallRun, table: Table, plan: Plan) -> Staged:
    if table.snapshots:
        run.stage = Stage.SNAPSHOT
        yield from _take_snapshots(run, table, plan)
    run.stage = Stage.EXECUTE
    if table.executes or table.execute_wrappers:
        result = yield from _ask_and_run(run, table, plan)
    else:
        result = yield from _run_handler(run, plan, None)
    if not result.success:
        raise HandlerFailed(result)
    run.result = result
    if result.value is not None:
        run.branch.dispatch(result.value)
    run.stage = Stage.RENDER
    _render(run, table, plan)
    run.check_limits()
    if plan.shows_diff and (yield from review(run, table)):
        return
    if not run.has_turn:
        yield from _take_turn(run)
    run.stage = Stage.VALIDATE
    run.branch.validate()
    if plan.on_results:
        run.stage = Stage.ON_RESULT
        yield from _tell_result(run, plan)
    run.stage = Stage.PREPARE
    yield from _commit(run)


def _take_snapshots(run: CallRun, table: Table, plan: Plan) -> Staged:
    for each in table.snapshots:
        participant = yield from settle(run, ask(run, each, run.context, plan.tool))
        if participant is not None:
            run.participants.append(participant)


def _tell_result(run: CallRun, plan: Plan) -> Staged:
    tool, result, context = plan.tool, run.result, run.context
    for rule in plan.on_results:
        params = run.params if plan.shares_params else params_for(run, rule)
        if run.on_loop:
            answer = timed(rule.title, rule.on_result, tool, params, result, context)  # type: ignore[arg-type]
        else:
            answer = rule.on_result(tool, params, result, context)  # type: ignore[misc]
        if answer is not None:
            yield from settle(run, answer)


def _take_turn(run: CallRun) -> Staged:
    if run.batch is not None:
        yield from _wait_for_earlier_calls(run)
    turn = run.turns.take(run)
    run.has_turn = True
    if turn is not None:
        yield WaitFor(turn, run.limit_without_timeout())


def _wait_for_earlier_calls(run: CallRun) -> Staged:
    batch = run.batch
    assert batch is not None  # noqa: S101 - asked by the caller
    for gate in (batch.after_all(Milestone.FORKED), batch.before(Milestone.ENDED, run.index)):
        if not gate.granted:
            yield WaitFor(gate, run.limit_without_timeout())


def _ask_and_run(run: CallRun, table: Table, plan: Plan) -> Staged:
    wrapped = Wrapped()
    try:
        for each in table.execute_wrappers:
            wrapped.enter(each, plan.tool, own_params(run, each), run.context)
        if not run.claimed:
            run.answer = yield from _ask_executors(run, table, plan)
            run.claimed = True
        run.replayed = isinstance(run.answer, ToolResult)
        result: Any = run.answer
        if not run.replayed:
            result = yield from _run_handler(run, plan, run.answer)
    except BaseException as error:  # noqa: BLE001 - the wrappers see it first
        return _read_result(run, plan, wrapped.fail(error))
    return _read_result(run, plan, wrapped.leave(result))


def _ask_executors(run: CallRun, table: Table, plan: Plan) -> Staged:
    if run.batch is not None:
        yield WaitFor(run.batch.before(Milestone.CLAIMED, run.index), run.limit_without_timeout())
    answer: Any = None
    for each in table.executes:
        given = ask(run, each, plan.tool, own_params(run, each), run.context)
        answer = yield from settle(run, given)
        if answer is not None:
            break
    run.passed(Milestone.CLAIMED)
    if answer is None or isinstance(answer, ToolResult) or callable(answer):
        return cast("Any", answer)
    msg = f"a plugin answered toolyard_execute with {type(answer).__name__}, not a ToolResult"
    raise TypeError(msg)


def _run_handler(run: CallRun, plan: Plan, instead: Any) -> Staged:
    tool, params, context = plan.tool, run.params, run.context
    if instead is not None:
        function, is_async = instead, is_async_callable(instead)
    elif tool.handler is None:
        raise Refusal(Status.UNKNOWN_TOOL, f"{tool.name} cannot be called: it has no handler.")
    elif tool.isolation == "process":
        function, is_async = run.executor.engine.isolated(run), False
    else:
        function, is_async = tool.signature.invoke, tool.signature.is_async
    limit = run.limit = _limit_of(run, plan, elsewhere=is_async and not run.on_loop)
    parent = run.parent
    if parent is None or parent.limit is None:
        inline = limit.endless
    else:
        inline = not limit.ends_before(parent.limit)
    clock = run.executor.clock
    started = clock.monotonic()
    run.handler_began = True
    try:
        if inline and not is_async and not run.on_loop and run.batch is None:
            result = function(params, context=context)
        else:
            result = yield Run(
                lambda: function(params, context=context), is_async, limit, run, inline
            )
    finally:
        run.handler_duration = clock.monotonic() - started
    run.check_limits()
    return _read_result(run, plan, result)


def _limit_of(run: CallRun, plan: Plan, *, elsewhere: bool) -> Limit:
    # A task on the background loop hears of its caller's end in no other way.
    stop = run.left() if elsewhere else run.cancellation
    if plan.timeout is None and run.deadline is None and stop is None:
        return ENDLESS
    return Limit(plan.timeout, run.deadline, stop)


def _read_result(run: CallRun, plan: Plan, result: Any) -> ToolResult[Any]:
    if issubclass(result.__class__, ToolResult):
        message: object = result.message
        if isinstance(message, str):
            return cast("ToolResult[Any]", result)
        what = f"a ToolResult whose message is of type {type(message).__name__}, not str"
    elif iscoroutine(result):
        result.close()
        what = "a coroutine (write its handler as async def, or await within it)"
    elif plan.tool.signature.wraps:
        return ToolResult.ok(result)
    else:
        what = f"{type(result).__name__}, not a ToolResult"
    msg = f"Internal error in {run.name}: its handler returned {what}. It cannot be used as it is."
    raise Refusal(Status.ERROR, msg)


def _render(run: CallRun, table: Table, plan: Plan) -> None:
    result = run.result
    if result.value is not None and not result.exclude_value_from_context:
        if hasattr(result.value.__class__, "__next__"):
            kind = result.value.__class__.__name__
            msg = (
                f"Internal error in {run.name}: its value is a {kind}, which can be read once only."
            )
            raise Refusal(Status.ERROR, msg)
        try:
            run.data = plan.tool.result_codec.encode(result.value)
        except (ValueError, TypeError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else error
            msg = f"Internal error in {run.name}: its value cannot be written as JSON ({reason})."
            raise Refusal(Status.ERROR, msg) from error
    try:
        if table.renders or table.render_wrappers:
            run.text = _ask_renderers(run, table, plan)
        else:
            run.text = render_result(result, run.data)
    except Exception:
        log.exception("Rendering the result of %s failed; it is rendered plainly.", run)
        run.text = _render_plainly(run)


def _ask_renderers(run: CallRun, table: Table, plan: Plan) -> str:
    wrapped = Wrapped()
    try:
        for each in table.render_wrappers:
            wrapped.enter(each, plan.tool, run.result)
        answers = (ask(run, each, plan.tool, run.result) for each in table.renders)
        text = next((each for each in answers if each is not None), None)
        if text is None:
            text = render_result(run.result, run.data)
    except Exception as error:  # noqa: BLE001 - the wrappers see it first
        text = wrapped.fail(error)
    else:
        text = wrapped.leave(text)
    if not isinstance(text, str):
        msg = f"a render hook gave {type(text).__name__}, not text"
        raise TypeError(msg)
    return text


def _render_plainly(run: CallRun) -> str:
    value = run.data.decode() if run.data is not None else ""
    return "\n".join(part for part in (run.result.message, value) if part)


def _commit(run: CallRun) -> Staged:
    parent = run.parent
    if parent is not None:
        for step in run.scope.joining():
            yield from settle_surely(run, step)
        run.branch.commit()
        parent.participants += run.participants
        run.committed = True
        return
    participants: list[Participant] = [*run.participants, *run.scope.participants()]
    keeper = run.executor.keeper
    if keeper is not None and (saving := keeper.saving(run.branch)) is not None:
        participants.append(saving)
    if len(participants) > 1:
        participants.sort(key=_decides)
    for each in participants:
        yield from settle(run, each.prepare())
    run.branch.commit()
    run.stage = Stage.COMMIT
    run.committed = True
    if participants:
        yield from _commit_all(run, participants)


def _commit_all(run: CallRun, participants: list[Participant]) -> Staged:
    kept: list[str] = ["the session"]
    failed: list[str] = []
    interruption: BaseException | None = None
    for each in participants:
        try:
            yield from settle_surely(run, each.commit())
        except Exception as error:
            log.exception("%s of %s failed to commit.", _name(each), run)
            failed.append(f"{_name(each)} ({error})")
        except BaseException as error:  # noqa: BLE001 - the decision is made: finish first
            interruption = error
        else:
            kept.append(_name(each))
    if failed:
        msg = (
            f"{run.name} ran, but not everything could be kept. Kept: {', '.join(kept)}. Not "
            f"kept: {', '.join(failed)}. This requires human intervention."
        )
        raise CommitFailed(msg) from interruption
    if interruption is not None:
        raise interruption


def _decides(participant: Participant) -> bool:
    return bool(getattr(participant, "decides", False))


def _name(participant: Participant) -> str:
    return str(getattr(participant, "name", None) or type(participant).__name__)
