"""The sections Sessions and one session: its plan, state, changed files, timeline and undo."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from toolstile_hookspecs import HostHandle, Principal, ToolstileError
from toolstile_hookspecs.codecs import shorten, type_name
from toolstile_hookspecs.execution.undo import UNDO_TOOL, UndoConflict, UndoNote
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_hookspecs.support.text import counted, wire_time
from toolstile_plugins.console.access import Fields
from toolstile_plugins.console.call_index import MOST, CallIndex, SessionRow
from toolstile_plugins.console.pages import Pages, version_of
from toolstile_plugins.planning.model import Plan
from toolstile_plugins.record.recorder import at_work
from toolstile_plugins.record.report import timeline_of
from toolstile_plugins.record.schema import RecordedCall, RecordedTransaction
from toolstile_plugins.record.settings import RecordSettings
from toolstile_plugins.undo.commands import OWED, owes, standing
from toolstile_plugins.undo.store import UndoStore

MOST_CALLS: Final = 1000
"""The newest calls in a timeline."""
_ITEMS: Final = 20
"""The newest items of a slice on the page."""
_LONGEST: Final = 2000  # characters of an item
_SHORT: Final = 200  # characters of a value that others have changed


@dataclass(eq=False)
class Sessions:
    """Shows the recorded sessions, and undoes their calls in a person's name."""

    title: ClassVar[str] = "Sessions"
    path: ClassVar[str] = "sessions"

    _host: HostHandle
    _index: CallIndex
    _person: Principal
    _pages: Pages
    _undoing: Lock = field(default_factory=Lock)

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/sessions", self._list),
            Route("/sessions/{name}", self._show),
            Route("/sessions/{name}/timeline", self._timeline),
            self._pages.form("/sessions/{name}", self._undo, once=True),
        ]

    def version(self) -> str:
        return version_of([row.wire() for row in self._index.sessions(MOST)])

    def _list(self, request: Request) -> Response:
        before = request.query_params.get("before", "")
        rows = self._index.sessions(MOST + 1, before)
        older = {"before": rows[MOST - 1].place} if len(rows) > MOST else None
        return self._pages.show_list(request, "sessions", rows[:MOST], older, self._index.places)

    def _named(self, request: Request) -> SessionRow:
        for row in self._index.sessions(1, name=request.path_params["name"]):
            return row
        raise HTTPException(HTTPStatus.NOT_FOUND, "The records have no such session.")

    # --- One session

    def _show(self, request: Request) -> Response:
        return self._show_session(request, self._named(request))

    def _show_session(
        self, request: Request, row: SessionRow, told: str = "", *, is_fault: bool = False
    ) -> Response:
        slices, plan = self._state_of(row.session)
        notes = self._undoable(row.session)
        undoable: list[dict[str, Any]] = []
        turns: dict[int, list[str]] = {}
        files = set[str]()
        if notes:
            with self._host.executor() as tools:
                store = tools.resources.get(UndoStore)
            for note in notes[:MOST]:
                files.update(paths := store.paths_of(note))
                turns.setdefault(note.turn, []).append(note.id)
                said = {"id": note.id, "tool": note.tool, "at": wire_time(note.at)}
                changed = [*paths, *(each.kind for each in note.slices)]
                undoable.append({**said, "changed": changed, "stays": [*note.stays]})
        wire = {
            "session": row.wire(),
            "slices": slices,
            "undoable": None if notes is None else undoable,
            "told": told,
            "is_fault": is_fault,
        }
        query = urlencode({"session": row.session})
        values: dict[str, Any] = {**wire, "row": row, "query": query, "plan": plan, "turns": turns}
        values |= {"files": sorted(files), "left": len(notes or ()) - len(undoable)}
        status = HTTPStatus.CONFLICT if is_fault else HTTPStatus.OK
        return self._pages.show(request, "session.html", values, wire, status)

    def _state_of(self, session: str) -> tuple[list[dict[str, Any]] | None, str]:
        """Return the slices and the plan of a stored session; None if it is not stored."""
        with self._host.executor() as tools:
            store = tools.resources.get(SessionStore, None)  # type: ignore[type-abstract]
        # Opening an unknown session would begin it.
        if store is None or not store.has_moved(session, 0):
            return None, ""
        with self._host.executor(session_id=session) as tools:
            state: Any = tools.session
            plan: Plan | None = state[Plan].latest()
        slices = [
            {
                "type": each["type"],
                "policy": each["policy"],
                "number": len(each["items"]),
                "newest": [
                    shorten(json.dumps(item, ensure_ascii=False, indent=2), _LONGEST)
                    for item in each["items"][-_ITEMS:]
                ],
            }
            for each in json.loads(state.to_json())["slices"]
            if each["type"] != type_name(UndoNote)  # the page lists these calls
        ]
        return slices, "" if plan is None else plan.render()

    def _timeline(self, request: Request) -> Response:
        row = self._named(request)
        found = self._index.newest_of(row.session, MOST_CALLS)
        entries: list[RecordedCall] = []
        asked: dict[Path, Any] = {}
        for path, call in found:
            # A line has the request only if it differs from the one before, in its record.
            if call.request is not None:
                asked[path] = call.request
            entries.append(call.model_copy(update={"request": asked.get(path)}))
        answers = (self._index.answer_to(call.id) for _, call in found if call.approval is not None)
        approvals = [answer for answer in answers if answer is not None]
        ends: dict[str, RecordedTransaction] = {}
        ids = {call.transaction for _, call in found}
        while ids:
            met = [end for id_ in ids if id_ and (end := self._index.end_of(id_)) is not None]
            ends |= {end.id: end for end in met}
            ids = {end.parent for end in met} - ends.keys()
        left = row.calls - len(found)
        notes = [f"{counted(left, 'earlier call')} left out."] if left > 0 else []
        path = found[-1][0] if found else Path()
        data = timeline_of(entries, approvals, ends.values(), notes, path)
        # In ASCII, as in `Pages.show`.
        return Response(json.dumps(data), media_type="application/json")

    # --- Undo

    def _undoable(self, session: str) -> list[UndoNote] | None:
        """Return the calls that can be undone, the newest first; None if no calls are noted."""
        if self._host.catalog.get(UNDO_TOOL) is None:
            return None
        return [note for note in standing(self._host, session) if note.goes_back]

    def _undo(self, request: Request, fields: Fields) -> Response:
        row = self._named(request)
        chosen = dict.fromkeys(value for name, value in fields if name == "call")
        notes = [note for note in self._undoable(row.session) or () if note.id in chosen]
        if not chosen or len(notes) < len(chosen):
            fault = "Nothing was undone: a call is undone already, or cannot be. Choose another."
            return self._show_session(request, row, fault, is_fault=True)
        record: RecordSettings | None = self._host.settings("record")
        try:
            with self._undoing, ExitStack() as stack:
                if record is not None and record.off:
                    # The command `console` records no calls, but an undo is one.
                    on = {"off": False, "beside": True, "replay": None}
                    stack.enter_context(at_work(self._host, record.model_copy(update=on)))
                tools = self._host.executor(session_id=row.session, principal=self._person)
                executor: Any = stack.enter_context(tools)
                try:
                    outcome = executor.undo(*chosen)
                except UndoConflict as conflict:
                    points = [
                        f"{name}: {shorten(left, _SHORT)}, now {shorten(now, _SHORT)}"
                        for name, left, now in conflict.differences
                    ]
                    title = "Others have changed these values since. Keep them, and undo the rest?"
                    button = "Keep these values, undo the rest"
                    asked = self._pages.ask_again(request, fields, title, points, button)
                    if asked is not None:
                        return asked
                    outcome = executor.undo(*chosen, others="keep")
                owed = OWED if any(owes(executor.resources, note) for note in notes) else ""
        except ToolstileError as error:
            return self._show_session(request, row, str(error), is_fault=True)
        is_fault = bool(owed) or not outcome.success
        return self._show_session(request, row, outcome.text + owed, is_fault=is_fault)
