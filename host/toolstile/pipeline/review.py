"""Showing a call's changes before they are kept: to an approver, or in a dry run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from toolstile.drivers.job import Staged
from toolstile.pipeline.approval import approve, canonical, digest_of
from toolstile.pipeline.call import RETURNED, ActiveCall
from toolstile.pipeline.check import as_edited, check, parse_edited, recheck_policies, reserve_again
from toolstile.pipeline.commit import close_to_nested, undo
from toolstile.pipeline.diffs import describe, note_diff
from toolstile.pipeline.event import tell_rollback
from toolstile.pipeline.failures import CallRejected
from toolstile.pipeline.masking import mask
from toolstile.pipeline.plan import DispatchTable
from toolstile_hookspecs import (
    Answer,
    ConflictError,
    PolicyState,
    Replay,
    SnapshotError,
    Stage,
    StateError,
    Status,
    ToolCall,
    ToolResult,
    ToolValidationError,
)
from toolstile_hookspecs.calls import DIFF
from toolstile_hookspecs.codecs import dumped, loaded, type_name
from toolstile_hookspecs.execution.change_set import MOST_BYTES, ChangeSet
from toolstile_hookspecs.policies import RESERVED

UNSHOWN: Final = (
    "goes on changing what a person is to approve, so nothing that is approved would be what is "
    "kept. Nothing of it is kept."
)


class ArgumentsEdited(Exception):
    """An approver who was shown the diff wants the call run with other arguments."""

    def __init__(self, call: ToolCall) -> None:
        super().__init__()
        self.call = call


def review(call: ActiveCall) -> Staged:
    """Show the changes of a call that has run, before its commit turn.

    Raises:
        CallRejected: When the approver denies it.
        ArgumentsEdited: When the approver wants other arguments.
    """
    if (resumed := call.resumption) is not None and (shown := resumed.changes) is not None:
        result = call.result.message, _written(call)
        if result != (shown.message, shown.value):
            resumed.forget_answer()
    if call.executor.dry_run:
        if call.parent is None:
            yield from _note_diff(call)
    elif call.asks and not is_asked_later(call):
        yield from _approve_diff(call)
    if not call.diff and call.executor.table().describes:
        yield from note_diff(call)


def is_asked_later(call: ActiveCall) -> bool:
    """Tell whether the card of a transaction asks the call's questions at the end."""
    within = call.executor.within
    return within is not None and within.approves


def is_as_shown(call: ActiveCall) -> Staged:
    """Tell whether the call's changes are still exactly those that were approved.

    Other calls may have changed the state below, and threads of the handler may still write.
    """
    if call.approved is None or call.executor.dry_run:
        return True
    diff = yield from describe(call)
    return digest_of(call, diff) == call.approved


def refuse_changed(call: ActiveCall) -> Staged:
    """Deny a call whose diff has changed after it was approved.

    Raises:
        CallRejected: Saying so.
    """
    if not (yield from is_as_shown(call)):
        raise CallRejected(
            Status.DENIED,
            f"{call.name} was denied: what it would change came out differently after a person had "
            "approved it. Nothing of it is kept. Its handler must have ended all its work when it "
            "returns; retry it to ask for approval again.",
        )


def start_over(call: ActiveCall, table: DispatchTable, edited: ToolCall) -> Staged:
    """Take a call back that has run, and check it with the arguments it was edited to."""
    yield from undo(call)
    tell_rollback(call, table, "A person edited the arguments.")
    # Observers hear of the rollback once, also if the edited arguments are refused.
    call.admitted, call.rolled_back = False, True
    assert call.plan is not None  # noqa: S101 - looked up before
    for rule in call.plan.on_rollbacks if call.places else ():
        # It has freed its place itself.
        call.places[0][rule.name + RESERVED] = None, None
    call.answer, call.claimed, call.replayed = None, False, False
    call.renew()
    call.stage = Stage.PARSE
    yield from parse_edited(call, table, edited)
    call.check_limits()
    call.stage = Stage.CHECK
    reasons = call.asks
    if (objections := check(call, table, call.plan)) is not None:
        yield from objections
    # The editor is shown the new changes, even if no rule asks any more.
    call.asks = call.asks or reasons
    yield from reserve_again(call)
    call.admitted, call.rolled_back = True, False
    call.branch.refork()


def _approve_diff(call: ActiveCall) -> Staged:
    call.stage = Stage.APPROVE
    # Changes that join while a person looks would be kept and were never shown.
    yield from close_to_nested(call)
    call.branch.frozen = True
    try:
        diff = yield from _note_diff(call)
        digest = digest_of(call, diff)
        if digest == call.approved:
            return
        call.release_commit_turn()
        telling = partial(change_set_of, call, mask(call, diff))
        answer = yield from approve(call, call.asks, diff, telling)
        if answer.answer is Answer.EDITED:
            edited, arguments = as_edited(call, answer)
            if arguments != canonical(call):
                raise ArgumentsEdited(edited)
        call.check_limits()
        yield from _check_again(call)
        call.approved = digest
    finally:
        call.branch.frozen = False


def _check_again(call: ActiveCall) -> Staged:
    """Ask the rules again, in the state that the call would fork from now."""
    call.stage = Stage.CHECK
    kept = call.branch, call.scope, call.context
    call.fork()
    call.branch.frozen = True
    try:
        yield from recheck_policies(call)
        yield from undo(call, participants=False)
    finally:
        branch, scope = call.branch, call.scope
        call.branch, call.scope, call.context = kept
        branch.close("The checks are over.")
        scope.close()


def _note_diff(call: ActiveCall) -> Staged:
    """Work out the call's changes; return them, and note them without secrets."""
    diff = yield from describe(call)
    call.diff = mask(call, diff)
    call.set_attribute(DIFF, call.diff)
    return diff


def change_set_of(call: ActiveCall, diff: str) -> ChangeSet | None:
    """Return all changes of a call that waits to commit; None if some cannot be shown."""
    parts: dict[str, str] = {}
    try:
        for name, participant in _participants(call):
            told = getattr(participant, "told", None)
            if name is None or told is None:
                return None
            parts[name] = told()
        made = _made(call, diff, parts)
    except (StateError, ToolValidationError):
        # Not all of it has a JSON form.
        return None
    size = len(made.session) + len(made.value or "") + sum(map(len, parts.values()))
    return made if size <= MOST_BYTES else None


def _participants(call: ActiveCall) -> Iterator[tuple[str | None, Any]]:
    """Yield what takes part, but those who only record, with the names under which it is found."""
    for participant in call.participants:
        if not (hasattr(participant, "contribute") or hasattr(participant, "undo_directory")):
            yield None, participant
    types = call.scope.types_of_parts()
    for part in call.scope.participants():
        type_ = types.get(id(part))
        yield None if type_ is None else type_name(type_), part


def _made(call: ActiveCall, diff: str, parts: dict[str, str]) -> ChangeSet:
    changed = call.branch.record_changes
    kept = [new for _, new in changed.values() if new is not None]
    told = {each["policy_name"]: each for each in dumped(PolicyState, kept)}
    return ChangeSet(
        tool=call.tool.name,
        message=call.result.message,
        value=_written(call),
        excluded=call.result.exclude_value_from_context,
        session=call.branch.changes(),
        slices=call.branch.base_digests(),
        records={name: told.get(name) for name in changed},
        parts=parts,
        diff=diff,
    )


def _written(call: ActiveCall) -> str | None:
    """Return the value of the result as JSON from which the same value is read."""
    value, codec = call.result.value, call.tool.result_codec
    if value is None:
        return None
    written: bytes = codec.encode(value)
    if codec.decode(written) != value:
        raise SnapshotError("The value of the result would be read as another.")
    return written.decode()


def applied(call: ActiveCall, changes: ChangeSet) -> ToolResult[Any]:
    """Return the result of a call whose changes are made on another call's branch.

    Raises:
        ConflictError: When the state below has moved.
    """
    try:
        call.branch.check_digests(changes.slices)
        types = {type_name(each): each for each in call.executor.resources.bindings}
        for name, text in changes.parts.items():
            _ = call.scope.get(types[name])
            call.scope.part_of(types[name]).redo(text)
        kept = [record for record in changes.records.values() if record is not None]
        records = {each.policy_name: each for each in loaded(PolicyState, kept)}
        call.branch.write_records({name: records.get(name) for name in changes.records})
        value = None
        if changes.value is not None:
            value = call.tool.result_codec.decode(changes.value.encode())
    except (StateError, ToolValidationError, KeyError) as error:
        raise ConflictError(f"The approved changes do not fit any more: {error}") from error
    result: ToolResult[Any] = ToolResult(
        changes.message, value, exclude_value_from_context=changes.excluded
    )
    call.handler_state = RETURNED
    # The session notes the changes as for a recorded call.
    call.answer = Replay(result, None, changes.session)
    return result
