"""Putting back the changes of an agent's own tools, and noting how to undo them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs import NOTICE, Filesystem, Tool, ToolContext, hookimpl
from toolstile_hookspecs.codecs import dumped, loaded
from toolstile_hookspecs.execution.undo import UNDO_TOOL, UndoNote
from toolstile_hookspecs.support.event_loop import is_on_loop
from toolstile_hookspecs.support.process import make_directory, new_id
from toolstile_plugins.hook.contents import Changed, Contents, OpenCall, State, TooMany
from toolstile_plugins.hook.processes import left_by, now
from toolstile_plugins.hook.survey import TOLD
from toolstile_plugins.undo.store import RECORD, UndoStore
from toolstile_plugins.vfs import paths
from toolstile_plugins.vfs.backends.base import shown
from toolstile_plugins.vfs.backends.disk.operations import Steps
from toolstile_plugins.vfs.backends.disk.store import DiskStore
from toolstile_plugins.vfs.diff import Told
from toolstile_plugins.vfs.reversal import MODE, Reverse, written
from toolstile_plugins.vfs.workspace import VirtualFilesystem, WorkspaceBranch

TURN: Final = "hook.turn"
"""The key of a call's `meta` with the agent's own id of the turn."""
FILES: Final = "hook.files"
"""The attribute of a call's event that tells which changes were put back, and which stay."""
Reach = Callable[[Tool[Any, Any], ToolContext], Sequence[str] | None]
"""The paths that a call names, None for a command; `LookupError` if a call changes no files."""

_PRIVATE: Final = 0o700
_PATIENCE: Final = 1.0
"""Seconds that the processes of a failed command have to end."""
_NOT_NOTED: Final = "Call %s is not noted, so it cannot be undone."
_UNKNOWN: Final = "it is unknown whether the tool has run to its end"

log = logging.getLogger("toolstile.hook")


class WatchedFiles:
    """A plugin that keeps the files of a workspace before each call of an agent's own tools.

    The changes of a failed call go back. A successful call is noted, so that it can be undone. If
    the process dies, the next one finishes the put back, or reports the call.

    Args:
        root: The workspace.
        state: A private directory outside of the workspace.
        undo: The store of undos.
        reach: The paths that a call names.
        steps: Called before each step; for tests that end the process there.
        patience: The seconds that the processes of a failed command have to end.

    Attributes:
        status: The reason if commands cannot be put back, else empty.
        clients: The processes of hooks that wait for an answer.
    """

    def __init__(  # noqa: PLR0913 - two for tests
        self,
        root: Path,
        state: Path,
        undo: UndoStore,
        reach: Reach,
        *,
        steps: Steps = lambda step: None,  # noqa: ARG005 - does nothing
        patience: float = _PATIENCE,
    ) -> None:
        for directory in (state, undo.directory):
            make_directory(directory, _PRIVATE)
        self.root, self.undo, self.steps, self.patience = root.resolve(), undo, steps, patience
        self.status = ""
        self._told = state / TOLD  # for other processes
        self._reach = reach
        self.held: dict[str, HeldCall] = {}
        self.clients: set[int | None] = set()
        # Opening it finishes a put back that was decided when its process died.
        store = DiskStore(self.root, steps=steps)
        self.files = VirtualFilesystem(store)
        self.contents = Contents(store, self.root, state / "states.sqlite", undo.settings)
        why = "the process that watched it was ended"
        for call in self.contents.open_calls():
            if text := HeldCall(self, call).leave(why):
                log.warning(text, extra=NOTICE)

    def close(self) -> None:
        """Close its files."""
        self.contents.close()
        self.files.close()

    def ended(self, call_id: str, client: int | None = None, *, failed: bool = False) -> None:
        """Look at the files after a call, because the agent has reported its end.

        Args:
            call_id: The id of the call.
            client: The process that has reported it, for the question which others still run.
            failed: Whether the tool has failed.
        """
        if (held := self.held.get(call_id)) is not None:
            held.end(client, failed=failed)

    @hookimpl
    def toolstile_snapshot(
        self, tool: Tool[Any, Any], context: ToolContext
    ) -> HeldCall | Awaitable[HeldCall | None] | None:
        """Keep the files before a call."""
        if context.parent is not None or context.tool_call is None:
            return None
        try:
            named = self._reach(tool, context)
        except LookupError:
            return None
        hold = partial(self._hold, tool, context, named)
        if not is_on_loop():
            return hold()
        return asyncio.to_thread(hold)

    @hookimpl
    def toolstile_rollback(self, context: ToolContext) -> None:
        """Add the report of a call to its event."""
        held = self.held.pop(context.tool_call.id, None) if context.tool_call else None
        if held is not None and held.told:
            context.set_attribute(FILES, held.told)

    def _hold(
        self, tool: Tool[Any, Any], context: ToolContext, named: Sequence[str] | None
    ) -> HeldCall | None:
        made: Any = context.tool_call
        id_ = str(made.meta.get(TURN, ""))
        note = UndoNote(
            id=made.id,
            tool=tool.name,
            at=(at := context.clock.now()),
            until=at + timedelta(seconds=self.undo.settings.keep),
            session_id=getattr(getattr(context.control, "executor", None), "session_id", ""),
            provider_id=made.provider_id,
            turn=turn_of(id_) if id_ else len(context.request),
        )
        entry = f"{self.undo.directory}/{new_id()}"
        text = json.dumps(dumped(UndoNote, [note])[0])
        call = OpenCall(new_id(), entry, text, named=named is not None)
        if not (reached := self._reached(named or ())) and call.named:
            return None
        self.steps("keeping")
        try:
            self.contents.begin(call, reached)
        except TooMany as error:
            self.status = f"Commands are not put back and cannot be undone, because {error}."
            self._told.write_text(self.status)
            return None
        self.steps("kept before")
        if not call.named:
            self.status = ""
            self._told.unlink(missing_ok=True)
        held = self.held[made.id] = HeldCall(self, call)
        return held

    def _reached(self, named: Iterable[str]) -> set[str]:
        """Return the paths that a call may change: both ends of a link, and missing directories."""
        found: set[str] = set()
        for text in named:
            path = os.path.join(self.root, text)  # noqa: PTH118 - of a text
            for each in (os.path.normpath(path), os.path.realpath(path)):
                with suppress(OSError, ValueError):
                    found.add(paths.canonical(str(Path(each).relative_to(self.root))))
        above = {each for path in found for each in paths.ancestors(path)}
        return {path for path in found if path} | {
            each for each in above if not os.path.lexists(self.root / each)
        }


class HeldCall:
    """A call that has begun: it takes part in the call's transaction, with its former files."""

    name: Final = "the workspace"
    undone_by: Final = Filesystem

    def __init__(self, files: WatchedFiles, call: OpenCall) -> None:
        self._files = files
        self._call = call
        self._note: UndoNote = loaded(UndoNote, [json.loads(call.note)])[0]
        self._began = now()
        self._git = () if call.named else files.contents.git_state()
        self._client: int | None = None
        self._has_failed = False
        self._changes: Changed | None = None  # None until the agent has reported the end
        self.told = ""  # the report of a rollback

    def end(self, client: int | None, *, failed: bool) -> None:
        """Look at the files."""
        self._client, self._has_failed = client, failed
        self._files.steps("ending")
        with suppress(TooMany):
            self._changes = self._files.contents.changes(self._call)

    # --- for the host

    @property
    def contained(self) -> bool:
        """True if the call names all that it changes, and its end was reported."""
        return self._call.named and self._changes is not None

    @property
    def changed(self) -> bool:
        """True if there is something to note."""
        return bool(self._changes)

    def keep_former(self, directory: str, note: Any) -> None:
        """Note the call in a directory of the store of undos."""
        text = json.dumps({**note, "turn": self._note.turn})
        self._call = self._call._replace(entry=directory, note=text)
        self._files.contents.renote(self._call)

    def reverse(self) -> str:
        """Return the directory of the note."""
        return self._call.entry

    def prepare(self) -> None:
        """Write the note. Without one, such as on a full disk, the tool's changes stay, too."""
        try:
            if self._changes:
                self._write(self._changes)
        except OSError:
            self._changes = None
            log.exception(_NOT_NOTED, self._note.id)

    def commit(self) -> None:
        """Have the note count."""
        self._files.held.pop(self._note.id, None)
        try:
            self._keep(self._changes or {})
        except (OSError, sqlite3.Error):
            log.exception(_NOT_NOTED, self._note.id)

    def rollback(self) -> None:
        """Put the changes back, or note them and let them stay."""
        why = _UNKNOWN
        try:
            if self._changes is not None and not (why := self._why_left(self._changes)):
                self.told = self._put_back(self._changes)
                return
        except Exception as error:
            log.exception("The changes of call %s could not be put back.", self._note.id)
            why = str(error).rstrip(".") or type(error).__name__
        self.told = self.leave(why)

    # --- the ends of a call

    def leave(self, why: str) -> str:
        """Let the changes stay, noted for an undo; return a text that says why."""
        # A process may have died after the note was there.
        is_noted = Path(self._call.entry).exists()
        shutil.rmtree(f"{self._call.entry}.part", ignore_errors=True)
        begin = f"Nothing of {self._note.tool} ({self._note.id}) was put back, because"
        changes: Changed | None = None
        try:
            changes = {} if is_noted else self._files.contents.changes(self._call)
            if changes:
                self._write(changes)
            self._keep(changes)
        except TooMany as error:
            self._files.contents.end(self._call)
            why = str(error)
        except (OSError, sqlite3.Error):
            log.exception(_NOT_NOTED, self._note.id)
            changes = None
        if changes is None:
            return f"{begin} {why}. Check the files that it may have changed."
        if not changes:
            return ""
        stay = f"{shown(changes)} changed while it ran, and the former contents are kept"
        return f"{begin} {why}. {stay} for an undo. Check these paths before you retry."

    def _why_left(self, changes: Changed) -> str:
        """Return why changes cannot be put back; empty if they can."""
        if self._call.named or not changes:
            return ""
        files = self._files
        if files.contents.is_shared(self._call):
            return "another call may have changed some of these paths while it ran"
        if self._has_failed and files.contents.git_state() != self._git:
            return "git has moved its HEAD or stopped within a merge, and the files belong to that"
        left = left_by(files.root, self._began, self._client, files.patience, files.clients)
        if left is None:
            return "this system does not tell which processes of a command still run"
        return f"a process of the command still runs: {', '.join(left[:3])}" if left else ""

    def _put_back(self, changes: Changed) -> str:
        """Give paths their states before the call; return a text that says which."""
        entry, files = self._write(changes), self._files
        # An undo of the call, which can be undone: edits of others that go along are not lost.
        own = replace(self._note, id=new_id(), tool=UNDO_TOOL, undoes=(self._note.id,))
        branch = files.files.own_branch()
        try:
            back, differences = branch.undo(str(entry))
            land(branch, files.undo, own)
        except BaseException:
            branch.rollback()
            raise
        files.steps("put back")
        shutil.rmtree(entry, ignore_errors=True)
        told = [f"{shown(back)} went back to the state before the call."] if back else []
        if back and not self._call.named:
            told.append(
                "Edits that others made to these paths while the command ran went back with them, "
                f"and are kept as call {own.id}. Files that git ignores, and .git, stay as they "
                "are."
            )
        if differences:
            named = "; ".join(f"{each.name} ({each.left}, now {each.now})" for each in differences)
            told.append(f"Not put back: {named}.")
        if any(
            all((each or "").startswith("directory") for each in both) for both in changes.values()
        ):
            # In directories that the command has closed, further changes are seen only now.
            seen = files.contents.changes(self._call)
            if rest := {path: seen[path] for path in seen if path not in changes}:
                return f"{' '.join(told)} {self._put_back(rest)}"
        files.contents.end(self._call, changes)
        return " ".join(told)

    def _write(self, changes: Changed) -> Path:
        """Write the former states as an entry of the store, which counts without its suffix."""
        entry = Path(f"{self._call.entry}.part")
        shutil.rmtree(entry, ignore_errors=True)
        entry.mkdir(_PRIVATE)
        operations: list[dict[str, Any]] = []
        for slot, (path, (before, _)) in enumerate(changes.items()):
            if (data := self._files.contents.data(before)) is not None:
                (entry / f"old-{slot}").write_bytes(data)
                operations.append({"path": path, "slot": slot})
        left = {path: after for path, (_, after) in changes.items()}
        former = {path: _former(before) for path, (before, _) in changes.items()}
        reverse = written(Reverse(left, former, str(self._files.root)))
        undo = {"note": json.loads(self._call.note), "reverse": reverse}
        (entry / RECORD).write_text(json.dumps({"operations": operations, "undo": undo}))
        self._files.steps("written")
        return entry

    def _keep(self, changes: Changed) -> None:
        if changes:
            Path(f"{self._call.entry}.part").replace(self._call.entry)
        self._files.steps("noted")
        self._files.contents.end(self._call, changes)


def land(branch: WorkspaceBranch, undo: UndoStore, note: UndoNote) -> None:
    """Commit a branch, and note its changes for an undo."""
    branch.keep_former(f"{undo.directory}/{new_id()}", dumped(UndoNote, [note])[0])
    branch.reverse()
    branch.prepare_waiting()
    branch.commit()


def turn_of(id_: str) -> int:
    """Return a number for a turn: a new process does not know how many turns came before."""
    return int(sha256(id_.encode()).hexdigest()[:12], 16)


def _former(state: State) -> Told:
    """Return the state before a call, as a reverse has it; the entry has the content of a file."""
    if state is None:
        return Told(None)
    text, _, mode = state.partition(MODE)
    if not mode:
        return Told("link", None, text.removeprefix("link "))
    return Told("directory" if text == "directory" else "file", int(mode, 8))
