"""Committing a call's changes: everything is prepared first, then everything is committed."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from functools import partial
from itertools import chain
from traceback import clear_frames
from typing import Any

from toolstile.drivers.job import Staged, WaitFor
from toolstile.pipeline.approval import ticket_of, use_up
from toolstile.pipeline.call import COMMIT, ActiveCall
from toolstile.pipeline.failures import CommitFailed, PluginFailed
from toolstile.pipeline.hook_calls import check_participant, off_loop, perform, settle, waits
from toolstile.pipeline.masking import log_failure
from toolstile.pipeline.undoing import note_undo
from toolstile.plugins.inspection import Implementation
from toolstile.resources.call_scope import Part
from toolstile.resources.transactional import may_wait
from toolstile.state.store import Deciding
from toolstile_hookspecs import Participant
from toolstile_hookspecs.codecs import dumped
from toolstile_hookspecs.execution.undo import UNDONE_CALLS, UndoNote
from toolstile_hookspecs.services.session_store import Decision
from toolstile_hookspecs.support.process import deferred_interrupts

# --- Roll back


_NO_CONTEXT: Any = nullcontext()
log = logging.getLogger("toolstile.pipeline")


def undo(call: ActiveCall, *, participants: bool = True) -> Staged:
    """Put back everything the call changed, in reverse; one failure stops no other.

    Raises:
        BaseException: The interruption, when all is put back.
    """
    with deferred_interrupts():
        call.branch.rollback()
        plugins = _of_plugins(call) if participants else ()
        yield from _each(call, chain(call.scope.undoing(), plugins))


def undo_participants(call: ActiveCall) -> Staged:
    """Roll back the plugins' participants of the call; see `undo`."""
    with deferred_interrupts():
        yield from _each(call, _of_plugins(call))


async def take_part_later(call: ActiveCall, hook: Implementation, coming: Awaitable[Any]) -> None:
    """Have the participant of a hook take part; roll it back where the call is over by then."""
    participant = await coming
    if participant is None:
        return
    check_participant(hook, participant)
    if call.adopt_participants([participant]):
        return
    try:
        rolling_back = await call.control.off_loop(participant.rollback)
        if waits(rolling_back):
            # The limit that abandoned the hook may be about to cancel this task.
            await asyncio.shield(rolling_back)
    except Exception:  # noqa: BLE001 - logged without secrets
        log_failure(call, log, "Rolling back what plugin %s kept failed.", hook.plugin)


def _of_plugins(call: ActiveCall) -> Iterator[Participant]:
    call.close_participants()
    # One by one: interrupted between two of them, the rest is put back when it is done again.
    while call.participants:
        yield call.participants.pop()


def _each(call: ActiveCall, participants: Iterable[Participant]) -> Staged:
    interruption: BaseException | None = None
    for each in participants:
        try:
            yield from perform(call, each, "rollback")
        except Exception:  # noqa: BLE001 - logged without secrets
            log_failure(call, log, "Rolling back %s met a failure; the rest is rolled back.", call)
        except BaseException as error:  # noqa: BLE001 - raised when all is put back
            interruption = error
    if interruption is not None:
        raise interruption


# --- Commit


def commit_with_participants(call: ActiveCall) -> Staged:
    """Prepare everything that takes part, then commit all of it; an interruption waits.

    Raises:
        CommitFailed: When a participant failed after the decision; names the parts that were kept.
        DecisionUnknownError: When the answer of the session's store was lost.
    """
    with deferred_interrupts():
        yield from close_to_nested(call)
        others: list[Participant] = []
        deciders: list[Participant] = []
        wanted: list[Any] = []
        for each in (*call.participants, *call.scope.participants()):
            if hasattr(each, "undo_directory"):
                wanted.append(each)
            else:
                (deciders if getattr(each, "decides", False) else others).append(each)
        keeper = call.executor.keeper
        if keeper is not None and (saving := keeper.saving(call.branch.record_changes)) is not None:
            others.append(saving)
        participants = [*others, *deciders]
        deciding, key = _deciding(call, others, deciders)
        if wanted:
            deciding = deciding or Deciding(id="")
            note, lasting = yield from note_undo(call, participants, wanted)
            deciding.note = note
            deciding.is_durable |= bool(note["parts"] or note["stays"])
            if call.executor.journal is None and lasting is not None:
                # The session is gone with the process, but effects outside are not.
                wanted[0].keep(dumped(UndoNote, [lasting])[0], key)
                # Last, because without a key all other parts must have been committed.
                participants.append(wanted[0])
        for each in participants:
            yield from perform(call, each, "prepare", settle)
        if [each for each in deciders if not hasattr(each, "contribute")]:
            _rule_out_rerun(call)
        left = deque(participants)
        gate = call.executor.engine.gate
        gate.enter(call)
        try:
            journal = call.executor.journal
            if call.on_loop and (
                (journal is not None and journal.waits)
                or any(may_wait(each, "contribute") for each in participants)
            ):
                yield from off_loop(call, partial(call.branch.commit, deciding))
            else:
                call.branch.commit(deciding)
            call.stage = COMMIT
            call.committed = True
            yield from commit_all(call, left)
        except BaseException as error:
            # First: nothing is put back before the decision is known, whatever interrupts again.
            call.committed = True
            yield from _find_out(call, left, partial(_was_kept, call, deciding, key), error)
            raise
        finally:
            gate.leave(call)


def _find_out(
    call: ActiveCall, left: deque[Participant], ask: Callable[[], bool | None], error: BaseException
) -> Staged:
    kept, participants = None, [*left]
    try:
        with deferred_interrupts():
            if not isinstance(error, Exception):
                # Its frames may hold a transaction that it has kept from ending.
                clear_frames(error.__traceback__)
            if kept := (yield from off_loop(call, partial(call.branch.end_commit, ask))):
                call.stage = COMMIT
                yield from commit_all(call, left, error)
    finally:
        if kept is False:
            call.committed = False
            if (token := ticket_of(call)) is not None:
                token.signer.spent.give_back(token.id)
        elif left:
            _leave_undecided(call, participants)


def _was_kept(call: ActiveCall, deciding: Deciding | None, key: str | None) -> bool | None:
    """Ask the decider, as recovery after a crash does; None if the decision is unknown."""
    journal = call.executor.journal
    if journal is not None and deciding is not None:
        return journal.was_kept(deciding)
    if deciding is not None and deciding.is_void:
        return False
    with suppress(Exception):  # the ledger then says that the effect is unknown
        return key is not None and bool(call.executor.resources.was_decided(key))
    return False


def prepare_to_join(call: ActiveCall) -> Staged:
    """Do all that can fail before the call joins the one around it."""
    for part in call.scope.preparing_to_join():
        yield from perform(call, part, "prepare")


def close_to_nested(call: ActiveCall) -> Staged | tuple[()]:
    """Refuse nested calls that would still join; a call that began to join is waited for.

    What joined while this one's changes are kept would be neither kept nor rolled back with them.
    """
    call.branch.close_to_nested()
    call.scope.close_to_nested()
    return _wait_for_joining(call) if call.is_joined_by_another() else ()


def _wait_for_joining(call: ActiveCall) -> Staged:
    turns = call.child_turns()
    try:
        if (gate := turns.take(call)) is not None:
            yield WaitFor(gate, call.limit_without_timeout())
    finally:
        turns.give_back(call)


def commit_into_parent(call: ActiveCall) -> None:
    """Decide that the call joins the one around it; only its resources' branches are left."""
    # Before: from now on, the one around it waits.
    call.committed = True
    if (above := call.parent or call.executor.within) is not None:
        above.tools_within |= call.tools_within | ({call.tool} if call.plan else set())
    try:
        call.branch.commit()
        call.scope.hand_over()
    except BaseException:
        call.committed = False
        raise
    if above is not None and (own := call.attributes.get(UNDONE_CALLS)):
        # The note of its root has them, and a later undo picks other calls.
        undone = dict.fromkeys((*above.attributes.get(UNDONE_CALLS, ()), *own))
        above.attributes = {**above.attributes, UNDONE_CALLS: (*undone,)}


def join(call: ActiveCall, parent: ActiveCall) -> Staged:
    """Add the changes of a nested call to its caller's; an interruption waits."""
    with deferred_interrupts():
        yield from close_to_nested(call)
        takes_part = bool(call.scope.participants())
        if takes_part:
            yield from prepare_to_join(call)
        _rule_out_rerun(call)
        for each in call.participants:
            if hasattr(each, "join"):
                yield from perform(call, each, "join")
        commit_into_parent(call)
        if call.participants and not parent.adopt_participants(call.participants):
            # The session's part is gone with the parent's.
            yield from undo_participants(call)
        if takes_part:
            call.stage = COMMIT
            yield from commit_all(call, deque(call.scope.joining()))


def _rule_out_rerun(call: ActiveCall) -> None:
    """Have the call run no second time, where plugins take part that have kept this one's result.

    The application can use the session directly at any moment: committing it can conflict.
    """
    if call.participants:
        call.stage = COMMIT


def commit_all(
    call: ActiveCall, left: deque[Participant], interruption: BaseException | None = None
) -> Staged:
    """Commit everything that is left, also after errors and interruptions: the decision is made.

    Raises:
        CommitFailed: When some failed; names the parts that were kept.
        BaseException: The interruption, when all is committed.
    """
    kept: list[Participant] = []
    failed: list[str] = []
    while True:
        try:
            while left:
                each = left.popleft()
                try:
                    yield from perform(call, each, "commit")
                except Exception as error:  # noqa: BLE001 - logged without secrets
                    log_failure(call, log, "%s of %s failed to commit.", _name(each), call)
                    failed.append(f"{_name(each)} ({str(error).rstrip('.')})")
                except BaseException:
                    # Interrupted before it has begun, it is yet to be committed, once.
                    if isinstance(each, Part) and each.open:
                        left.appendleft(each)
                    raise
                else:
                    kept.append(each)
            break
        except BaseException as error:  # noqa: BLE001 - the decision is made: finish first
            interruption = error
    if failed:
        told = ", ".join(["the session", *map(_name, kept)])
        raise CommitFailed(
            f"{call.name} ran, but not everything could be kept. Kept: {told}. Not "
            f"kept: {', '.join(failed)}. This requires human intervention."
        ) from interruption
    if interruption is not None:
        raise interruption


def _deciding(
    call: ActiveCall, others: list[Participant], deciders: list[Participant]
) -> tuple[Deciding | None, str | None]:
    """Return the call's decision, and its key, which all note for their recovery after a crash.

    None where the session alone is committed, in memory.
    """
    journal = call.executor.journal
    contributors: list[Any] = [
        each for each in (*others, *deciders) if getattr(each, "contributes", False)
    ]
    noting: list[Any] = [each for each in others if _notes(each)]
    if journal is None:
        # The first record is the decision; after a crash, later participants count as unknown.
        deciding = Deciding(id="", is_durable=True) if contributors else None
        key = None
        for each in (*contributors, *deciders):
            if key := getattr(each, "key", None):
                break
    else:
        deciding = Deciding(
            is_durable=bool(contributors or noting or call.resumption),
            has_files=bool(noting),
            patience=call.deadline.remaining() if call.deadline is not None else None,
        )
        key = journal.key_of(deciding.id)
    if key is not None:
        for each in noting:
            each.key = key
    if deciding is not None:
        deciding.contribute = partial(_contribute, call, contributors, deciding.id or None)
    return deciding, key


def refuse_lone_deciders(call: ActiveCall) -> None:
    """Refuse a participant that would decide beside the session's store, before the handler.

    Raises:
        PluginFailed: Naming it.
    """
    for each in call.participants:
        if getattr(each, "decides", False) and not hasattr(each, "contribute"):
            raise PluginFailed(
                f"{_name(each)} decides by itself whether a call is kept, and the session's store "
                "decides that here; give it a `contribute`, or use a session in memory"
            )


def tell_logs(call: ActiveCall) -> Staged:
    """Record the call's additions to LOG slices that no entry holds; a failure is logged."""
    journal = call.executor.journal
    if journal is None or not journal.has_untold_logs:
        return
    try:
        yield from off_loop(call, journal.tell_logs)
    except Exception:  # noqa: BLE001 - logged without secrets
        log_failure(call, log, "The log entries of %s are not recorded yet.", call)


def _contribute(
    call: ActiveCall, contributors: list[Any], decision_id: str | None, connection: Any
) -> None:
    if connection is not None:
        # Again, because a store that machines share has told their stops only now.
        call.executor.engine.gate.check(call)
    decision = Decision(decision_id, connection)
    together = _NO_CONTEXT
    if len(contributors) > 1 and connection is None and hasattr(contributors[0], "together"):
        # Because a crash between two records would keep one, and leave the other unknown.
        together = contributors[0].together()
    with together:
        for each in contributors:
            each.contribute(decision)
    if call.resumption is not None:
        use_up(call, connection)


def _leave_undecided(call: ActiveCall, participants: list[Participant]) -> None:
    """Keep prepared changes for recovery, which finds out how the call ended."""
    call.committed = True
    call.branch.close("Whether this call was kept is unknown, so it can change nothing more.")
    for each in participants:
        if (leave := getattr(each, "leave", None)) is not None:
            leave()


def _notes(participant: Any) -> bool:
    """Tell whether a participant has changes to finish after a crash, by the decision's key."""
    return hasattr(participant, "key") and bool(getattr(participant, "changed", True))


def _name(participant: Participant) -> str:
    return str(getattr(participant, "name", None) or type(participant).__name__)
