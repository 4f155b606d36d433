"""A transaction of several calls: one decision keeps the changes of all of them, or of none."""

from __future__ import annotations

import re
import weakref
from collections import deque
from collections.abc import Collection, Generator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from math import isnan, nan
from typing import Any, Final, NoReturn

from toolstile.drivers.job import Staged, Step, WaitFor
from toolstile.pipeline.approval import bind, request_of, token_of
from toolstile.pipeline.call import EXECUTE, NOT_BEGUN, PREPARE, VALIDATE, ActiveCall
from toolstile.pipeline.cards import answers_to
from toolstile.pipeline.check import (
    as_edited,
    check_again,
    check_changes,
    refuse_endless,
    reserve_again,
)
from toolstile.pipeline.commit import (
    close_to_nested,
    commit_all,
    commit_into_parent,
    commit_with_participants,
    join,
    prepare_to_join,
    undo,
    undo_participants,
)
from toolstile.pipeline.diffs import describe
from toolstile.pipeline.environment import Environment
from toolstile.pipeline.event import finished, publish, roll_back, tell_rollback
from toolstile.pipeline.failures import CallRejected, FailureContext, classify_failure
from toolstile.pipeline.hook_calls import perform, settle
from toolstile.pipeline.masking import secrets_of_call
from toolstile.pipeline.parse import ask_parsers
from toolstile.pipeline.plan import DispatchTable, ToolPlan, with_rules_of
from toolstile.pipeline.review import UNSHOWN, change_set_of
from toolstile.pipeline.stages import attempt, catch_up
from toolstile.resources.exclusive import CURRENT, Claim, ExclusiveLock
from toolstile_hookspecs import (
    APPROVAL,
    Answer,
    ApprovalAnswer,
    ApprovalCard,
    ApprovalRequest,
    Cancellation,
    ConflictError,
    Deadline,
    Outcome,
    Stage,
    Status,
    ToolCall,
    ToolContext,
    TransactionEnded,
    TransactionStatus,
    hide,
)
from toolstile_hookspecs.calls import NO_META
from toolstile_hookspecs.execution.change_set import ChangeSet
from toolstile_hookspecs.support.process import deferred_interrupts
from toolstile_hookspecs.support.text import counted

_STATUS: Final = {
    Status.CONFLICT: TransactionStatus.CONFLICT,
    Status.COMMIT_FAILED: TransactionStatus.UNKNOWN,
    Status.UNKNOWN: TransactionStatus.UNKNOWN,
}
_NAMES: Final = r"(?<![\w/.-]){}(?![\w/-])"
Answers = Mapping[str, ApprovalAnswer]
Change = ToolCall | ApprovalAnswer | CallRejected
"""A call as a person has edited it; or the answer or the fault for which it is left out."""
DRY_RUN_ENDED: Final = "It was a dry run."


@dataclass(frozen=True, slots=True)
class Joined:
    """A call whose changes are part of the transaction.

    Args:
        call: The call, which has ended.
        context: Its context, for those who hear of a rollback.
        before: The slices as the calls before it had left them.
        touched: The names of the slices and the paths that it read or replaced.
        table: The table that it was dispatched by.
        changes: Its changes, to be kept after a later answer; None without a card, with an effect
            outside, or if some cannot be written down.
    """

    call: ActiveCall
    context: ToolContext
    before: Mapping[type[Any], Any]
    touched: Collection[str]
    table: DispatchTable
    changes: ChangeSet | None


class TransactionRoot(ActiveCall):
    """The parent of the calls of a transaction or a dry run: a call without a handler.

    Policies and plugins see no parent: the calls are dispatched, observed and approved as usual.
    The branches, locks and claims of the calls are nested in the branches, locks and claims of the
    root.

    Args:
        executor: The executor that it is a transaction of, which may be a transaction itself.
        title: The title, for people.
        keeps: Whether it can be kept; a dry run cannot.
        approves: Whether a person is shown its calls and their diff on one card before the end.
        timeout: Seconds after which it is rolled back, None for never.

    Attributes:
        joined: The calls whose changes are part of it, in order.
        calls: All calls that have ended, in order, for a second run.
        is_over: Whether its end is decided.
        taken_back: Cancelled when it is rolled back while it waits for its decision.
        is_turn: Whether the host has begun it for a turn; its card shows only calls that ask.
        refused: Why calls are left out, by the ids of the calls.
        waiting: The questions that will be answered later, with the answers so far, likewise.
        beside: A sentence that names calls of the turn that are kept without it.
        retold: The outcomes of calls of a turn that ended otherwise in a further run, likewise.
        inner: The events of the savepoints that are part of it; they end as it does.
    """

    def __init__(
        self,
        executor: Environment,
        title: str,
        *,
        keeps: bool = True,
        approves: bool = False,
        timeout: float | None = None,
    ) -> None:
        deadline = None
        if timeout is not None:
            late = f"The transaction {title!r} did not end within {counted(timeout, 'second')}, so "
            late += "nothing of it is kept. Begin one again with more time, or with fewer calls."
            deadline = replace(Deadline.after(timeout, clock=executor.clock), reason=late)
        super().__init__(executor, ToolCall("transaction", deadline=deadline))
        self.taken_back = Cancellation()
        self.stops = executor.engine.gate.seen()
        self.title = title
        self.keeps = keeps
        self.approves = approves
        self.is_turn, self.beside = False, ""
        self.refused: dict[str, Change] = {}
        self.waiting: dict[str, tuple[ApprovalRequest, ApprovalAnswer]] = {}
        self.retold: dict[str, Outcome] = {}
        # The diff that a person has approved, and whether the calls must run again to keep it.
        self._agreed: str | None = None
        self._is_put_back = self._is_read = False
        self.joined: list[Joined] = []
        self.calls: list[ActiveCall] = []
        self.inner: list[TransactionEnded] = []
        self.is_over = not keeps
        self.reserved: dict[str, Any] = {}
        # The calls of a first run that the second one has not come to.
        self._unrun: deque[Joined] = deque()
        # How many changes of the session calls have made; a second run would lose the others.
        self._made = 0.0
        # An event loop that has gone hears no answer of `finish`.
        self.told: tuple[TransactionStatus, str, BaseException | None]
        self.told = TransactionStatus.COMMITTED, "", None
        self._places: dict[ExclusiveLock, Claim] = {}
        self._secrets: set[str] = set()
        # Locks hold the control of their holder, and must not keep a forgotten transaction alive.
        above = executor.within and executor.within.control
        self.control = executor.new_control(weakref.proxy(self), above)
        self.opened = True
        self.fork()
        self.branch.begin()

    def __str__(self) -> str:
        return f"the transaction {self.title!r}"

    @property
    def name(self) -> str:
        """The name in messages."""
        return "This turn" if self.is_turn else f"The transaction {self.title!r}"

    @property
    def parts(self) -> list[Joined]:
        """The calls that were to be kept, in order, also if a second run did not come to them."""
        return [*self.joined, *self._unrun]

    # --- its calls

    def join(self, call: ActiveCall, table: DispatchTable) -> Staged:
        """Make a successful call's changes part of it, for the calls after it to see.

        In a dry run, plugins put back at once whatever they keep for the call elsewhere, because
        calls that are not kept might not see one another there.
        """
        self._secrets.update(secrets_of_call(call))
        if self.keeps:
            touched = {*call.branch.guarded_names()}
            for part in call.scope.participants():
                touched.update(getattr(part, "touched", ()))
            changes = None
            if self.approves and call.tool.contained:
                changes = change_set_of(call, "")
            joined = Joined(call, call.context, call.branch.below, touched, table, changes)
            self.joined.append(joined)
            before = len(self.branch.log)
            try:
                yield from join(call, self)
            except BaseException:
                if not call.committed:
                    self.joined.pop()
                raise
            self._made += len(self.branch.log) - before
            return
        yield from close_to_nested(call)
        yield from prepare_to_join(call)
        commit_into_parent(call)
        call.rolled_back = True
        yield from undo_participants(call)
        tell_rollback(call, table, DRY_RUN_ENDED)
        yield from commit_all(call, deque(call.scope.joining()))

    def heard(self, call: ActiveCall) -> None:
        """Note a call that has ended."""
        if self.keeps and call.plan is not None:
            self.calls.append(call)

    def keep_place(self, claim: Claim) -> Claim | None:
        """Return the claim with which it keeps the one place of a serial tool to its end."""
        if not self.keeps or self.is_over:
            return None
        return self._places.setdefault(claim.lock, Claim(claim.lock, self.control))

    def changes(self) -> Generator[Step, Any, str]:
        """Return the changes of all calls together, without their secrets."""
        diff = hide((yield from describe(self)), self._secrets)
        done = self._done()
        return f"{diff}\ndone, and undone if it is not kept: {done}" if done else diff

    # --- its end

    def give_up(self, reason: str) -> Staged:
        """Put everything back, and tell the policies and plugins of each call, the newest first."""
        self.is_over = True
        if (self.calls or isnan(self._made)) and (above := self.executor.within) is not None:
            # Because a second run would not repeat texts that a model has read.
            above._made = nan  # noqa: SLF001 - of the same class
        try:
            yield from undo(self)
        finally:
            self._let_all_go()
            self._tell_rollback(reason)

    def _tell_rollback(self, reason: str) -> None:
        for each in reversed(self.parts):
            each.call.context = each.context
            tell_rollback(each.call, each.table, reason)

    def finish(self, work: Environment, *, on_loop: bool) -> Staged:
        """Keep everything by one decision, or put everything back; the rest is in `told`.

        Args:
            work: The transaction as the environment of its calls.
            on_loop: Whether an event loop waits for it.
        """
        self.on_loop = on_loop
        if self.is_turn:
            self._take_limits()
        try:
            # Calls that are about to join have the turn; later ones find it taken until the end.
            if (gate := self.child_turns().take(self)) is not None:
                yield WaitFor(gate, self.limit_without_timeout())
            asks = any(each.call.asks for each in self.joined) or not self.is_turn
            if self.approves and self.joined and asks:
                yield from self._ask(work)
            yield from self._keep(work)
            self._let_all_go()
            if self._is_rehearsed:
                self.told = TransactionStatus.ROLLED_BACK, DRY_RUN_ENDED, None
        except BaseException as error:  # noqa: BLE001 - every end is told first
            context = FailureContext(self.name, contained=True, deadline=self.deadline)
            failure = classify_failure(error, context, self.stage, ())
            # It may have been rolled back, or its executor closed, while this waited.
            reason = work.retired or failure.result.message
            self.status, self.raises = failure.status, failure.raises
            status = _STATUS.get(failure.status, TransactionStatus.ROLLED_BACK)
            if not self.committed:
                try:
                    yield from finished(self, self.give_up(reason), error)
                except BaseException as interruption:  # noqa: BLE001 - likewise
                    error = interruption
            else:
                self._let_all_go()
                # An interruption may come after the decision.
                is_kept = self.branch.kept and not isinstance(error, Exception)
                status = TransactionStatus.COMMITTED if is_kept else TransactionStatus.UNKNOWN
            self.told = status, reason, error

    def _take_limits(self) -> None:
        """Take over the earliest deadline and all cancellations of the calls to be kept."""
        calls = [each.call for each in self.joined]
        deadlines = [each.deadline for each in calls if each.deadline is not None]
        self.deadline = min(deadlines, key=Deadline.remaining, default=None)
        if stops := {each.cancellation for each in calls} - {None}:
            self.cancellation = stopped = self.taken_back
            forget = [each.on_cancel(stopped.cancel) for each in stops if each is not None]
            self._forget_left = lambda: [each() for each in forget]

    @property
    def _is_rehearsed(self) -> bool:
        above = self.executor.within
        return above is not None and not above.keeps

    def _keep(self, work: Environment) -> Staged:
        self.check_limits()
        # First, because a conflict would hide the reason of a stop.
        self.executor.engine.gate.check(self)
        if (gate := self.acquire_commit_turn()) is not None:
            yield WaitFor(gate, self.limit_without_timeout())
        self.stage = VALIDATE
        yield from catch_up(self)
        if self._is_put_back:
            yield from self._run_again(work)
            yield from self._decide(work)
            return
        try:
            self.branch.validate()
            yield from self._decide(work)
        except ConflictError as error:
            reason = self._named(error)
            if not self._may_run_again():
                raise ConflictError(reason) from error
            try:
                yield from self._run_again(work)
                yield from self._decide(work)
            except ConflictError as again:
                raise ConflictError(f"{reason} {again}") from again

    # --- the card

    def _ask(self, work: Environment) -> Staged:
        """Show a person the calls and their diff; calls that are refused are left out.

        Nothing is locked while the person thinks: what an exclusive resource has done is put back
        first, and done again after the answer.
        """
        while True:
            try:
                self.branch.validate()
            except ConflictError:
                self.stage = Stage.APPROVE
                if self._may_run_again():
                    yield from self._run_again(work)
            # First, because the diff begins with the paths that the rules ask about.
            yield from self._check_changes(work)
            self.stage = Stage.APPROVE
            diff = yield from self.changes()
            if not self.joined or diff == self._agreed:
                return
            refuse_endless(self, self.reruns, UNSHOWN)
            rows = [self._row(work, each, diff) for each in self.joined]
            self.cancellation = self.taken_back
            answers = yield from self._answers(rows, diff)
            self.check_limits()
            changed = self._changed(rows, answers)
            if not changed and any(each.answer is Answer.PENDING for each in answers.values()):
                self._leave(rows, answers)
            for each in self.joined:
                yield from bind(each.call, answers[each.call.call_made.id], has_run=True)
            if not changed:
                self._agreed = diff
                return
            refused = {id_: why for id_, why in changed.items() if not isinstance(why, ToolCall)}
            self.refused |= refused
            if (done := self._done(refused)) or len(refused) == len(rows):
                given = (getattr(each, "reason", "") for each in refused.values())
                told = (reason.strip().rstrip(".") for reason in given if reason)
                why = f" ({'; '.join(reasons)})" if (reasons := dict.fromkeys(told)) else ""
                left = "Nothing of it is kept. Do not repeat it unchanged."
                if done:
                    left = f"The rest would repeat the effect of {done}. {left}"
                raise CallRejected(Status.DENIED, f"{self.name} was not approved{why}. {left}")
            yield from self._run_again(work, changed)

    def _changed(self, rows: list[ApprovalRequest], answers: Answers) -> dict[str, Change]:
        """Return the calls that a person has edited, and for calls that are left out why.

        A call of an explicit transaction is not edited, because a model has read its result, nor is
        it when the transaction was pending and is resumed as a turn.
        """
        changed: dict[str, Change] = {}
        shown = (each.call.resumption and each.call.resumption.changes for each in self.joined)
        self._is_read |= any(each and each.is_read for each in shown)
        for row, each in zip(rows, self.joined, strict=True):
            answer = answers[row.call.id]
            if answer.answer is Answer.EDITED and self.is_turn and not self._is_read:
                try:
                    edited, arguments = as_edited(each.call, answer)
                    if arguments.decode() != row.arguments:
                        changed[row.call.id] = edited
                except CallRejected as misfit:
                    changed[row.call.id] = misfit
            elif answer.answer not in {Answer.APPROVED, Answer.PENDING}:
                changed[row.call.id] = answer
        return changed

    def _row(self, work: Environment, joined: Joined, diff: str) -> ApprovalRequest:
        """Return the question about a call, with all that resumes the call after a later answer."""
        call = joined.call
        call.context = joined.context
        if call.executor.retired is not None:
            call.executor = self._as_made(work, call)
        row = request_of(call, call.asks, diff)
        if self.executor.within is not None:
            # Because its base is not kept: it has the changes of the transaction around it.
            return replace(row, diff=None)
        ids = tuple(each.call.call_made.id for each in self.joined)
        changes = joined.changes
        is_read = self._is_read or not self.is_turn
        more: dict[str, Any] = {"together": ids, "is_read": is_read, "version": 2}
        changes = changes and replace(changes, diff=row.diff or "", **more)
        token = partial(token_of, call, row.digest)
        return replace(row, diff=None, token=token, change_set=lambda: changes)

    def _answers(self, rows: list[ApprovalRequest], diff: str) -> Staged:
        """Return the answers that the calls were resumed with, or else the answers of a person."""
        found = {
            row.call.id: each.call.resumption and each.call.resumption.answer_to(row.digest)
            for row, each in zip(rows, self.joined, strict=True)
        }
        held = next(self.scope.held_alone(), None)
        self._is_put_back = held is not None
        if held and (done := self._done()):
            told = f"{self.name} holds {held}, so it would repeat the effect of {done} after the "
            told += "approval. Nothing of it is kept. Call them in transactions of their own."
            raise CallRejected(Status.DENIED, told)
        if held:
            yield from undo(self)
            self.renew()
            self.branch.begin()
        if all(found.values()):
            return found
        # For approvers, because the resources of the calls have ended with the calls.
        own = self.context.resources
        shown = (replace(row, context=replace(row.context, resources=own)) for row in rows)
        card = ApprovalCard(tuple(shown), "" if self.is_turn else self.title, diff)
        return (yield from answers_to(self, card, f"{self.name} needs a person's approval"))

    def _leave(self, rows: list[ApprovalRequest], answers: Answers) -> NoReturn:
        """Keep nothing until the person has answered."""
        if not rows[0].token():
            told = "cannot wait for a later answer. Nothing of it is kept. Ask again later."
            raise CallRejected(Status.DENIED, f"{self.name} {told}")
        self.waiting = {row.call.id: (row, answers[row.call.id]) for row in rows}
        told = "waits for a person's approval. Nothing of it is kept until its calls are resumed."
        raise CallRejected(Status.PENDING, f"{self.name} {told}")

    def _decide(self, work: Environment) -> Staged:
        if self.taken_back.aborted:
            raise CallRejected(Status.CANCELLED, "It was rolled back.")
        above = self.executor.within
        if above is None or self._is_rehearsed:
            for each in self.joined:
                yield from self._check_again(work, each)
            yield from self._check_changes(work)
        if self._agreed is not None and (yield from self.changes()) != self._agreed:
            raise ConflictError(
                "The changes came out differently after a person had approved them, because the "
                "state below them has moved. Ask again."
            )
        if above is not None:
            # An interruption waits: changes that have joined are rolled back with their calls.
            with deferred_interrupts():
                yield from join(self, above)
                above._secrets |= self._secrets  # noqa: SLF001 - of the same class
                above._made += self._made  # noqa: SLF001 - of the same class
                if not above.keeps:
                    yield from undo_participants(above)
                    self._tell_rollback(DRY_RUN_ENDED)
                    return
                above.joined += self.joined
                above.calls += self.calls
            return
        self.stage = PREPARE
        yield from commit_with_participants(self)

    def _check_again(self, work: Environment, joined: Joined) -> Staged:
        """Ask the rules about a call on the newest state; `reserve` has counted it already.

        They see the slices as they were before the call, but the records of policies and the files
        as they are at the end, because the records describe the files after all calls.
        """
        call, made_in = joined.call, self._as_made(work, joined.call)
        probe = ActiveCall(made_in, call.call_made, on_loop=self.on_loop)
        plan = probe.plan = with_rules_of(_plan_of(call), [work.plan_of(call.tool)])
        if not plan.checks:
            return
        probe.arguments, probe.params, probe.decisions = call.arguments, call.params, call.decisions
        probe.fork()
        probe.branch.stand_on(joined.before)
        try:
            yield from check_again(probe)
        except CallRejected as error:
            why = f"{call.name} ({call.call_made.wire_id}) is not allowed any more: {error}"
            raise CallRejected(Status.DENIED, why) from error
        finally:
            yield from undo(probe, participants=False)
            probe.end()

    def _check_changes(self, work: Environment) -> Staged:
        """Ask the rules once about all files that the calls have changed together."""
        if not self.joined or not self.scope.participants():
            return
        plans = [work.plan_of(each.call.tool) for each in self.joined]
        yield from check_changes(self, with_rules_of(plans[-1], plans[:-1]))
        before = [each for kept in self.joined for each in kept.call.decisions if each.asks]
        paths = {path for each in before for path in each.paths}
        rules = {each.policy for each in before}
        for each in self.decisions:
            known = paths.issuperset(each.paths) if each.paths else each.policy in rules
            if each.asks and not known:
                why = (each.reason or f"policy {each.policy} asks").removesuffix(".")
                told = f"The changes together need a person's approval ({why}), and no call asked."
                raise CallRejected(Status.DENIED, told)

    # --- a second run

    def _done(self, refused: Collection[str] = ()) -> str:
        """Name the calls with an effect outside, which a run without refused ones would repeat."""
        begun = (each for each in self.calls if each.handler_state is not NOT_BEGUN)
        left = (each for each in begun if each.call_made.id not in refused)
        return ", ".join(dict.fromkeys(each.name for each in left if not each.tool.contained))

    def _may_run_again(self) -> bool:
        """Tell whether a second run repeats all that was done, approved, and read by a model."""
        return (
            not self.committed
            and len(self.branch.log) == self._made
            and all(call.tool.contained and APPROVAL not in call.attributes for call in self.calls)
        )

    def _run_again(self, work: Environment, changed: Mapping[str, Any] = NO_META) -> Staged:
        """Run all calls on the newest state, in order, as edited and without refused ones.

        At the stage of the approval, a person is shown the new changes, and may be asked more.
        """
        self.reruns += 1
        first, self._unrun = self.calls, deque(self.joined)
        self.calls, self.joined, self._made = [], [], 0
        self.attributes = self.executor.attributes
        yield from undo(self)
        for held in self.scope.hold_for_rerun():
            yield from perform(self, held, "acquire", settle)
        yield from catch_up(self)
        self.renew()
        work.context_fields["transaction"] = self.context
        self.scope.fail_fast = True
        self.branch.begin()
        for call in first:
            made, plan = changed.get(call.call_made.id, call.call_made), _plan_of(call)
            if not isinstance(made, ToolCall):
                refused = self._unrun.popleft()
                call.context = refused.context
                tell_rollback(call, refused.table, "A person refused it.")
                continue
            again = ActiveCall(self._as_made(work, call), call.call_made, on_loop=self.on_loop)
            again.using, again.admitted, again.reruns = call.using, True, call.reruns + 1
            again.places = call.places
            again.edited = call.edited or made is not call.call_made
            if call.edited and made is call.call_made:
                made = replace(made, arguments=call.arguments)
            if self._unrun and self._unrun[0].call is call:
                self._unrun.popleft()
            else:
                # The policies have heard of its rollback.
                plan = replace(plan, on_rollbacks=())
            again.plan = plan
            # It holds the turn to join, as the root does while it ends.
            again.turns = self.child_turns()
            yield from self._repeat(call, again, made, work.table())
            self.calls.append(again)
        self.stage = VALIDATE
        self.branch.validate()

    def _repeat(
        self, call: ActiveCall, again: ActiveCall, made: ToolCall, table: DispatchTable
    ) -> Staged:
        """Run a call again; refuse another text than before, if a model has read that one."""
        mark, is_shown = CURRENT.get(), self.stage is Stage.APPROVE
        try:
            try:
                yield from ask_parsers(again, table, made)
                again.fork()
                # Before the rules, as in the first run, because the texts are compared.
                self.executor.engine.gate.check(again)
                if not is_shown:
                    again.decisions, again.asks = call.decisions, call.asks
                yield from check_again(again, may_ask=is_shown)
                if made is not call.call_made and again.arguments != call.arguments:
                    yield from reserve_again(again)
                    again.branch.begin()
                again.stage = EXECUTE
                yield from attempt(again, table, _plan_of(again))
            except BaseException as error:  # noqa: BLE001 - its text is compared
                yield from roll_back(again, table, error)
            if again.raises is not None:
                raise again.raises
            if _read(again) != _read(call) or (is_shown and again.arguments != call.arguments):
                if not (is_shown and self.is_turn):
                    on = "Without the refused calls" if self.refused else "On the newest state"
                    name = f"{call.name} ({call.call_made.wire_id})"
                    raise ConflictError(f"{on}, {name} would end with another text than before.")
                publish(again, table)
                self.retold[call.call_made.id] = again.outcome
        finally:
            again.end()
            CURRENT.set(mark)

    def _as_made(self, work: Environment, call: ActiveCall) -> Environment:
        """Return the environment for another look at a call: as of the agent that made it."""
        if call.executor.agent == work.agent:
            return work
        # A child that has ended takes no new calls, but this call was made before.
        made = copy(call.executor)
        made.retired, made.within = None, self
        made.context_fields = {**made.context_fields, "transaction": self.context}
        return made

    def _named(self, error: ConflictError) -> str:
        """Return the text of a conflict with the calls that touched the slices or paths in it."""
        text = str(error).removesuffix(" Retry this call.")
        calls = [
            f"{each.call.name} ({each.call.call_made.wire_id})"
            for each in self.joined
            if any(re.search(_NAMES.format(re.escape(name)), text) for name in each.touched)
        ]
        return f"{text} It concerns {', '.join(dict.fromkeys(calls))}." if calls else text

    def _let_all_go(self) -> None:
        self.is_over = True
        for claim in self._places.values():
            claim.leave()
        self.release_commit_turn()
        # It keeps its branch, closed: a call that has just begun finds out that it is too late.
        self._let_go()
        self.over()
        self.child_turns().give_back(self)


def _plan_of(call: ActiveCall) -> ToolPlan:
    assert call.plan is not None  # noqa: S101 - only calls with a plan are noted
    return call.plan


def _read(call: ActiveCall) -> tuple[Status, object]:
    """Return the status and the text of a call, as a model reads them."""
    return call.status, call.data if call.tells_json else call.text
