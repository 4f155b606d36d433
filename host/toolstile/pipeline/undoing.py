"""Undo: the note that a commit makes of a call's former state, and the return to it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from copy import copy
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


def note_undo(call: ActiveCall, parts: list[Any], wanted: list[Any]) -> Staged:
    """Return the fields of a call's note, without slices, and the note for other processes.

    That one is without files, too; None if it is empty, or the record of files keeps it.
    """
    made, now = call.call_made, call.executor.clock.now()
    undoes = tuple(call.attributes.get(UNDONE_CALLS, ()))
    tools = [*call.tools_within, *([call.tool] if call.plan else ())] if undoes else []
    is_undo = {each.name for each in tools if each.category != "read"} == {UNDO_TOOL}
    fields: dict[str, Any] = {
        "id": made.id,
        # A transaction of undos alone is an undo, too.
        "tool": UNDO_TOOL if is_undo else call.name,
        "at": now,
        "until": now + wanted[0].kept_for,
        "session_id": call.executor.session_id,
        "provider_id": made.provider_id,
        "turn": len(call.request),
        "calls": tuple(each.call_id for each in wanted if each.call_id != made.id),
        "undoes": undoes,
        "parts": (),
        "stays": (),
    }
    types = call.scope.types_of_parts()
    changed: list[tuple[Any, Any, str]] = []
    for part in parts:
        # Plugins' participants only record, unless they name the resource that undoes them.
        type_ = types.get(id(part)) or getattr(part, "undone_by", None)
        if type_ is not None and getattr(part, "changed", True):
            own: Any = getattr(part, "exclusive", None) or getattr(part, "branch", part)
            changed.append((own, type_, part.name))
    # Files last, because their record in the store of undos has the note of all other parts.
    changed.sort(key=lambda each: hasattr(each[0], "keep_former"))
    directory: str = wanted[0].undo_directory
    lasting: UndoNote | None = None
    for own, type_, name in changed:
        has_files, text = hasattr(own, "keep_former"), None
        if has_files:
            own.keep_former(directory, dumped(UndoNote, [UndoNote(**fields)])[0])
        with suppress(SnapshotError):
            if hasattr(own, "reverse"):
                text = cast("str", (yield from perform(call, own, "reverse", settle)))
        if text is None:
            fields["stays"] += (name,)
        else:
            fields["parts"] += ((type_name(type_), text),)
        lasting = (None if text == directory else lasting) if has_files else UndoNote(**fields)
    return fields, lasting


def take_back(call: ActiveCall, notes: Iterable[UndoNote], *, keep: bool) -> Any:
    """Undo calls, the newest first, on the branch of another call.

    Returns the names of the values that went back, by the ids of their calls, and the values that
    stay. With `keep`, values stay that others have changed since, and a call may stay whole.

    Raises:
        UndoConflict: Others have changed values since; nothing is changed.
    """
    back: dict[str, list[str]] = {}
    differences: list[Difference] = []
    types = {type_name(each): each for each in call.executor.resources.bindings}
    for note in notes:
        undone = [put_back(call.branch, note.slices)]
        for name, text in note.parts:
            if name not in types:
                raise StateError(f"{note.id} has changed {name}, which is not bound here.")
            given = call.scope.get(types[name])
            undone.append((call.scope.part_of(types[name]) or given).undo(text))
        names = [name for each, _ in undone for name in each]
        changed = [value for _, each in undone for value in each]
        differences += changed
        if names or not changed:
            back[note.id] = names
    if differences and not keep:
        raise UndoConflict(differences)
    return back, differences


class OfPerson:
    """An executor for an undo that a person wants: each question about it is answered with yes."""

    def __init__(self, executor: Environment) -> None:
        self._executor = executor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    def __copy__(self) -> Environment:
        # For another look at the call: of the executor, because the person has wanted the undo.
        return copy(self._executor)

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
