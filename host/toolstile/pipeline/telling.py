"""Telling the session of a value, or doing again what a recorded call did to it."""

from __future__ import annotations

from toolstile.pipeline.call_run import CallRun
from toolstile.pipeline.plan import Plan, Table
from toolstile.state.redoing import named_in
from toolstile_hookspecs import CallRefused, Replay, SnapshotError, StateError


def tell_session(run: CallRun, table: Table, plan: Plan) -> None:
    """Let the session have what the result changes, where plugins may answer or are told of it."""
    if run.answer.__class__ is Replay:
        _apply_changes(run, run.answer)
    elif run.result.value is not None:
        run.branch.dispatch(run.result.value)
    if table.retelling or plan.tool.idempotency is not None:
        _note_changes(run)


def _note_changes(run: CallRun) -> None:
    """Keep what the call has changed in the session so far."""
    try:
        run.session_changes = run.branch.changes()
    except SnapshotError as error:
        run.session_changes = error


def _apply_changes(run: CallRun, replay: Replay) -> None:
    """Let the session have what the earlier call changed, unless it has."""
    changes, reason = replay.changes, replay.unportable
    effect_id = replay.effect_id
    if changes is None and reason is None:
        return
    if effect_id is not None and run.branch.has_applied(effect_id):
        return
    if changes is not None:
        try:
            run.branch.redo(changes, kinds=named_in(changes))
        except StateError as error:
            reason = str(error)
        else:
            if effect_id is not None:
                run.branch.mark_applied(effect_id)
            return
    raise CallRefused(
        f"{run.name} has done this already, in another session; what it changed there cannot "
        f"be carried over to this one: {str(reason).rstrip('.')}. It was not run again. This "
        "requires human intervention."
    )
