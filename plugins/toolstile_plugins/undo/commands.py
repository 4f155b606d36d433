"""The command `toolstile undo`: lists calls, and undoes them as one call."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs import HostHandle, StateError, ToolError
from toolstile_hookspecs.codecs import type_name
from toolstile_hookspecs.execution.undo import (
    KEPT_VALUES,
    UNDO_TOOL,
    UNDONE_CALLS,
    UndoConflict,
    UndoNote,
)
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_hookspecs.support.text import counted, printable, wire_time
from toolstile_plugins.screen import Screen, agrees, show_line, shown_time, tell
from toolstile_plugins.undo import cli
from toolstile_plugins.undo.calls import Undone, known_notes, named
from toolstile_plugins.undo.store import UndoStore

FAILED: Final = 1
CONFLICT: Final = 3
OWED: Final = (
    " But the undo of an effect outside has failed and is still owed. `toolstile status` lists it, "
    "and `toolstile ledger reconcile` tries again."
)
_LIST: Final = "List the calls with `toolstile undo --list`."


def run_command(host: HostHandle, args: argparse.Namespace) -> int:
    """Carry out the command; returns 0, 3 for a conflict, or 1 for other failures.

    Raises:
        StateError: The table is missing, or no call is meant.
    """
    if host.catalog.get(UNDO_TOOL) is None:
        raise StateError("No calls are noted here. Add [plugins.undo] to the configuration.")
    try:
        return _run(host, args)
    except UndoConflict as conflict:
        differences = [each._asdict() for each in conflict.differences]
        told = str(conflict).replace('others="keep"', "--keep-others")
        tell(args, told, {"conflicts": differences})
        return CONFLICT
    except ToolError as error:
        tell(args, f"{error} {_LIST}", {"undone": [], "error": str(error)})
        return FAILED


def _run(host: HostHandle, args: argparse.Namespace) -> int:
    with host.executor() as tools:
        store = tools.resources.get(UndoStore)
    args.list = cli.lists(args)
    notes = _known(host, store, args.session, args.since)
    root: Path | None = getattr(host.settings("vfs"), "root", None)
    if args.calls[:1] == ["purge"]:
        count = store.purge(named(notes, args.calls[1:]))
        tell(args, f"The former files of {counted(count, 'call')} are removed.", {"removed": count})
        return 0
    if args.file is not None:
        # The paths of notes are relative to the workspace, but a person also completes others.
        base = (root or Path()).absolute()
        args.file = os.path.relpath(base / args.file, base)
    some = [
        note
        for note in (notes if args.list else Undone(notes).standing())
        if args.session in (None, note.session_id)
        and (args.since is None or note.at >= args.since)
        and (args.file is None or args.file in store.paths_of(note))
        # A store may have the calls of several workspaces.
        and (root is None or store.is_in(note, root))
    ]
    if args.list:
        states = {note.id: "kept" for note in Undone(notes).standing()}
        with host.executor() as tools:
            states |= {note.id: "owed" for note in some if owes(tools.resources, note)}
        _list(store, some, states, args)
        return 0
    chosen = named(notes, args.calls) if args.calls else _chosen(some, args)
    # Slices, and calls whose notes the store of undos does not have, go back in their own session.
    kept = {note.id for note in store.notes()}
    bound = {note.session_id for note in chosen if note.slices or note.id not in kept}
    sessions = bound or {chosen[0].session_id}
    if len(sessions) > 1:
        raise StateError(
            f"The calls changed several sessions: {', '.join(sorted(sessions))}. Undo them one "
            "after the other, with --session."
        )
    return _undo(host, chosen, sessions.pop(), args)


def standing(
    host: HostHandle, session: str | None = None, since: datetime | None = None
) -> list[UndoNote]:
    """Return the calls of the workspace that are not undone, the newest first."""
    with host.executor() as tools:
        store = tools.resources.get(UndoStore)
    root: Path | None = getattr(host.settings("vfs"), "root", None)
    notes = Undone(_known(host, store, session, since)).standing()
    return [
        note
        for note in notes
        if session in (None, note.session_id) and (root is None or store.is_in(note, root))
    ]


def _known(
    host: HostHandle, store: UndoStore, session: str | None, since: datetime | None
) -> list[UndoNote]:
    """Return the notes of the store and of all sessions that may be meant, the oldest first."""
    with host.executor() as tools:
        stored = tools.resources.get(SessionStore, None)  # type: ignore[type-abstract]
        notes = known_notes(tools.session[UndoNote].all(), store)
    for info in () if stored is None else stored.sessions():
        if session in (None, info.id) and not (since and info.changed_at < since):
            with host.executor(session_id=info.id) as tools:
                notes |= {note.id: note for note in tools.session[UndoNote].all()}
    return sorted(notes.values(), key=lambda note: note.at)


def _chosen(some: Sequence[UndoNote], args: argparse.Namespace) -> Sequence[UndoNote]:
    """Return the calls that the options mean."""
    if not (args.last or args.turn or args.session or args.since or args.file):
        ways = "an id, --last, --turn, --session, --since or --file"
        raise StateError(f"Say which calls to undo: {ways}. {_LIST}")
    if not some:
        raise ToolError("No call matches, so nothing was undone.")
    if args.turn:
        last = some[0].session_id, some[0].turn
        return [note for note in some if (note.session_id, note.turn) == last]
    if args.last or not (args.since or args.session):
        return [note for note in some if note.goes_back][:1] or some[:1]
    return some


def _list(
    store: UndoStore, notes: Sequence[UndoNote], states: dict[str, str], args: argparse.Namespace
) -> None:
    rows: list[tuple[str, ...]] = []
    for note in reversed(notes):
        changed = [*store.paths_of(note), *(each.kind for each in note.slices)]
        state = "undo" if note.tool == UNDO_TOOL else states.get(note.id, "undone")
        shown = ", ".join(map(printable, changed))
        rows.append((note.id, printable(note.tool), shown_time(note.at), state, shown))
        if args.out is not None:
            wire = {"id": note.id, "providerId": note.provider_id, "tool": note.tool}
            wire |= {"session": note.session_id, "at": wire_time(note.at), "state": state}
            args.out.write({**wire, "changed": changed, "stays": [*note.stays]})
    if args.out is None:
        Screen("").table(("id", "tool", "at", "state", "changed"), rows)


def _undo(
    host: HostHandle, chosen: Sequence[UndoNote], session: str, args: argparse.Namespace
) -> int:
    for note in chosen if args.out is None else ():
        show_line(f"{note.id}  {printable(note.tool)}  {shown_time(note.at)}")
    if not (args.yes or args.dry_run or agrees("Undo these calls?")):
        tell(args, "Nothing was undone. Add --yes to undo without a question.", {"undone": []})
        return FAILED
    ids, others = [note.id for note in chosen], "keep" if args.keep_others else "conflict"
    with host.executor(session_id=session, dry_run=args.dry_run) as tools:
        executor: Any = tools
        outcome = executor.undo(*ids, others=others)
        diff = executor.rehearsed() if args.dry_run else ""
        # The host has tried already.
        owed = [note.id for note in chosen if owes(executor.resources, note)]
    if not outcome.success:
        # The log has the remedy of an operator already.
        tell(args, outcome.text, {"undone": [], "error": outcome.text})
        return FAILED
    told = f"{diff or outcome.text}{OWED if owed else ''}"
    noted = outcome.event.attributes
    undone, kept = [*noted.get(UNDONE_CALLS, ())], [*noted.get(KEPT_VALUES, ())]
    wire = {"undone": [] if args.dry_run else undone, "kept": kept, "owed": owed, "diff": diff}
    tell(args, told, wire)
    return FAILED if owed else 0 if undone else CONFLICT


def owes(resources: Any, note: UndoNote) -> bool:
    """Return whether an effect outside of a call is still to be undone."""
    types = {type_name(each): each for each in resources.bindings}
    return any(
        hasattr(types.get(name), "owes") and resources.get(types[name]).owes(text)
        for name, text in note.parts
    )
