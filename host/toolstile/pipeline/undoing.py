"""Undo: the note that a commit makes of a call's former state, and the return to it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from toolstile.drivers.job import Staged
from toolstile.pipeline.call import ActiveCall
from toolstile.pipeline.hook_calls import perform, settle
from toolstile.state.undo_notes import put_back
from toolstile_hookspecs import ApprovalAnswer, ApprovalRequest, Outcome, SnapshotError, StateError
from toolstile_hookspecs.codecs import dumped, type_name
from toolstile_hookspecs.execution.undo import (
    UNDO_TOOL,
    UNDONE_CALLS,
    Difference,
    UndoConflict,
    UndoNote,
)

if TYPE_CHECKING:
    from toolstile.pipeline.environment import Environment
    from toolstile.pipeline.plan import DispatchTable


def note_undo(call: ActiveCall, parts: Iterable[Any], wanted: list[Any]) -> Staged:
    """Return the note of how to undo a call, for its decision; plugins' participants want it."""
    made = call.call_made
    note = UndoNote(
        id=made.id,
        tool=call.name,
        at=call.executor.clock.now(),
        until=wanted[0].until,
        session_id=call.executor.session_id,
        provider_id=made.provider_id,
        turn=len(call.request),
        calls=tuple(each.call_id for each in wanted if each.call_id != made.id),
        undoes=tuple(call.attributes.get(UNDONE_CALLS, ())),
    )
    types = call.scope.types_of_parts()
    texts: list[tuple[str, str]] = []
    stays: list[str] = []
    for part in parts:
        # Plugins' participants only record, unless they name the resource that undoes them.
        type_ = types.get(id(part)) or getattr(part, "undone_by", None)
        if type_ is None or not getattr(part, "changed", True):
            continue
        own: Any = getattr(part, "exclusive", None) or getattr(part, "branch", part)
        if hasattr(own, "keep_former"):
            own.keep_former(wanted[0].undo_directory, dumped(UndoNote, [note])[0])
        with suppress(SnapshotError):
            if hasattr(own, "reverse"):
                text = cast("str", (yield from perform(call, own, "reverse", settle)))
                texts.append((type_name(type_), text))
                continue
        stays.append(part.name)
    return replace(note, parts=tuple(texts), stays=tuple(stays))


def take_back(call: ActiveCall, notes: Iterable[UndoNote], *, keep: bool) -> list[str]:
    """Undo calls, the newest first, on the branch of another one; return the names of their values.

    With `keep`, values that others have changed since stay, and the rest goes back.

    Raises:
        UndoConflict: Others have changed values since; nothing is changed.
    """
    back: dict[str, None] = {}
    differences: list[Difference] = []
    types = {type_name(each): each for each in call.executor.resources.bindings}
    for note in notes:
        undone = [put_back(call.branch, note.slices)]
        for name, text in note.parts:
            if name not in types:
                raise StateError(f"{note.id} has changed {name}, which is not bound here.")
            given = call.scope.get(types[name])
            undone.append((call.scope.part_of(types[name]) or given).undo(text))
        for names, changed in undone:
            back.update(dict.fromkeys(names))
            differences += changed
    if differences and not keep:
        raise UndoConflict(differences)
    return list(back)


class OfPerson:
    """An executor for an undo that a person wants: each question about it is answered with yes."""

    def __init__(self, executor: Environment) -> None:
        self._executor = executor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    @staticmethod
    def approver(request: ApprovalRequest) -> ApprovalAnswer:  # noqa: ARG004 - whatever it asks
        """Approve, because the person who would be asked wants the undo."""
        return ApprovalAnswer.approve()

    def table(self) -> DispatchTable:
        """Return the executor's table with the tool, which its prompt need not offer."""
        if (tool := self._executor.catalog.get(UNDO_TOOL)) is None:
            raise StateError("No calls are noted here. Add [plugins.undo] to the configuration.")
        table = self._executor.table()
        return replace(table, plans={**table.plans, UNDO_TOOL: self._executor.plan_of(tool)})


def undone(outcome: Outcome) -> Outcome:
    """Return the outcome of an undo; raise its `UndoConflict`."""
    if isinstance(outcome.event.error, UndoConflict):
        raise outcome.event.error
    return outcome
