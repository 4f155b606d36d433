"""Calls that can be undone: found by id, in order, and undone by a tool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Annotated, Any, Final, Literal

from toolstile_hookspecs import (
    MarkdownSection,
    RequestTurn,
    SessionProtocol,
    StatusPart,
    ToolContext,
    ToolError,
    ToolResult,
    tool,
)
from toolstile_hookspecs.execution.prompt_parts import SectionText
from toolstile_hookspecs.execution.undo import KEPT_VALUES, UNDO_TOOL, UNDONE_CALLS, UndoNote
from toolstile_hookspecs.resources import ResourceResolver
from toolstile_hookspecs.stored_names import stored_as
from toolstile_hookspecs.support.text import counted, wire_time
from toolstile_plugins.undo.store import UndoStore

_SHOWN: Final = 20


def known_notes(own: Iterable[UndoNote], store: UndoStore) -> dict[str, UndoNote]:
    """Return by id the notes of a session, and of the store for all sessions."""
    # The notes in the session come last, because they have its slices, too.
    return {note.id: note for note in (*store.notes(), *own)}


class Undone:
    """The calls that others have undone, one after the other.

    `also` has the ids of calls that are undone by an undo without a note.
    """

    def __init__(self, notes: Iterable[UndoNote], also: Sequence[str] = ()) -> None:
        self.notes = {note.id: note for note in sorted(notes, key=lambda note: note.at)}
        # The call that has undone a call last or has brought it back, and which of both.
        self._last: dict[str, tuple[str, bool]] = {}
        for note in self.notes.values():
            self.add(note.undoes, note.id)
        self.add(also, "")

    def add(self, calls: Sequence[str], by: str) -> None:
        """Count calls as undone by an undo, in order."""
        self._last |= {call: (by, undone) for call, undone in self._effect(calls).items()}

    def _effect(self, calls: Sequence[str], *, undone: bool = True) -> dict[str, bool]:
        """Return the calls that an undo of some concerns, and whether they are undone by it."""
        found: dict[str, bool] = {}
        for call in calls if undone else calls[::-1]:
            found[call] = undone
            if call in self.notes:
                # An undo that is undone brings its calls back.
                found |= self._effect(self.notes[call].undoes, undone=not undone)
        return found

    def by(self, note: UndoNote) -> str | None:
        """Return the undo that has put a call, or its redo, back; None if it stands."""
        made = {note.id: False, **self._effect(note.undoes)}
        last = {call: self._last[call] for call in made if call in self._last}
        return next((by for call, (by, now) in last.items() if now is not made[call]), None)

    def standing(self) -> list[UndoNote]:
        """Return the calls that are not undone, without the undos, the newest first."""
        stands = (note for note in self.notes.values() if self.by(note) is None)
        return [note for note in stands if note.tool != UNDO_TOOL][::-1]


def undoable(notes: Iterable[UndoNote]) -> StatusPart:
    """Return the calls of the last day, given the calls that can be undone."""
    since = datetime.now(UTC) - timedelta(days=1)
    found = [note for note in notes if note.at >= since and note.goes_back]
    told = f"{counted(len(found), 'call')} of the last day; `toolstile undo --list` lists them."
    wire = [{"id": note.id, "tool": note.tool, "at": wire_time(note.at)} for note in found]
    return StatusPart("undoable", wire, [f"Can be undone: {told}"] if found else [])


def named(notes: Iterable[UndoNote], calls: Iterable[str]) -> list[UndoNote]:
    """Return the notes of calls by their ids, or the beginnings of these, the newest first.

    Raises:
        ToolError: An id is unknown, or of several calls; lists the calls.
    """
    found: dict[str, UndoNote] = {}
    for call in calls:
        exact = [note for note in notes if call in {note.id, *note.calls}]
        # A provider may give an id several times.
        near = [note for note in notes if call == note.provider_id or note.id.startswith(call)]
        if len(matching := exact or near) != 1:
            told = "; ".join(f"{note.id} ({described(note)})" for note in matching[-_SHOWN:])
            several = f"is the id of several calls: {told}. Nothing was undone"
            unknown = "cannot be undone: it changed nothing, was not kept, or is too old"
            msg = f"Call {call!a} {several if matching else unknown}. Retry with another id."
            raise ToolError(msg)
        found[matching[0].id] = matching[0]
    return sorted(found.values(), key=lambda note: note.at, reverse=True)


def described(note: UndoNote) -> str:
    """Return the tool and the time of a call."""
    return f"{note.tool}, {wire_time(note.at)}"


# --- The tool and its section


@stored_as("undo.TakenBack", of_policy=True)
@dataclass(frozen=True, slots=True)
class TakenBack:
    """The values that an undo has put back, for the session's next turn.

    Args:
        told: A sentence that names the values.
        turn: The number of the user's texts before the undo.
    """

    told: str
    turn: int


@tool(name=UNDO_TOOL, category="write", contained=True, requires_confirmation=True)
def undo_calls(
    calls: Annotated[tuple[str, ...], "The ids of the calls; empty for the last one."] = (),
    others: Annotated[
        Literal["conflict", "keep"],
        "Whether values that others have changed since are a conflict, or stay as they are.",
    ] = "conflict",
    *,
    context: ToolContext,
) -> ToolResult[str]:
    """Undo earlier calls: their files and the session go back to their former state."""
    control: Any = context.control
    store, noted = context.resources.get(UndoStore), control.undo_notes()
    known, own = known_notes(noted, store).values(), {note.id for note in noted}
    notes = [note for note in known if control.is_of_person or note.id in own]
    undone = Undone(known, control.undone_around)
    last = (each for each in undone.standing() if each.id in own and each.goes_back)
    found = named(notes, calls) if calls else [*islice(last, 1)]
    for note in found:
        if (by := undone.by(note)) is not None:
            told = f"Nothing was undone, because call {note.id} ({described(note)}) is undone"
            redo = f"by call {by}. Undo that one to redo" if by else "by this transaction. Omit"
            raise ToolError(f"{told} already, {redo} it.")
        undone.add([note.id], "")
    if not found:
        raise ToolError("No call of this session can be undone. Continue without it.")
    chosen = [note for note in found if note.goes_back]
    stays = _listed([*dict.fromkeys(name for note in found for name in note.stays)])
    if not chosen:
        told = f"Nothing of {'; '.join(map(described, found))} can go back, because these cannot be"
        raise ToolError(f"{told} undone: {stays}. Continue without it.")
    back, kept = control.take_back(chosen, keep=others == "keep")
    gone = [note for note in chosen if note.id in back]
    told = "Nothing was undone."
    if gone:
        context.set_attribute(UNDONE_CALLS, tuple(note.id for note in gone))
        names = [*dict.fromkeys(name for each in back.values() for name in each)]
        told = f"Undone: {'; '.join(map(described, gone))}. "
        told += f"Back to the former state: {_listed(names) or 'nothing'}."
        context.session[TakenBack].append(TakenBack(told, len(context.request)))
    if kept:
        context.set_attribute(KEPT_VALUES, stay := tuple(each.name for each in kept))
        told += f" These values stay, because others have changed or need them: {_listed(stay)}."
    if whole := [described(note) for note in chosen if note.id not in back]:
        told += f" So nothing of {'; '.join(whole)} went back."
    if any(note.id not in own for note in gone):
        told += " Their changes to other sessions stay, if there are any."
    if stays:
        told += f" Not undone, because they cannot be: {stays}."
    return ToolResult.ok(told)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


_GUIDANCE: Final = (
    f"`{UNDO_TOOL}` undoes your last call, or calls by their ids, after a person has agreed. Files "
    "and the session go back to their state before these calls. Values that others have changed "
    "since are named, and nothing is undone; `others` can keep them."
)


class UndoSection(MarkdownSection):
    """The tool that undoes calls, and the values that went back since the last turn."""

    def __init__(self) -> None:
        super().__init__(key="undo", title="Undo", template=_GUIDANCE, tools=(undo_calls,))

    def text_in(
        self,
        session: SessionProtocol | None,
        resources: ResourceResolver | None,  # noqa: ARG002 - the protocol's
        body: str,
    ) -> SectionText:
        """Return the guidance, and until the next turn has ended the values that went back."""
        notices: Sequence[TakenBack] = () if session is None else session[TakenBack].all()
        turns = 0 if session is None else len(session[RequestTurn].all())
        shown = [each.told for each in notices if turns - each.turn <= 1] if turns else []
        shown = shown or [each.told for each in notices[-1:] if not turns]
        reread = ["Read these values again before you rely on them."] if shown else []
        return SectionText("\n\n".join([body, *shown, *reread]), body)
