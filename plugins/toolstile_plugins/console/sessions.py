"""The sections Sessions and one session: its plan, state, changed files, timeline and undo."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Final
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from toolstile_hookspecs import HostHandle, Principal, RequestTurn, ToolstileError
from toolstile_hookspecs.codecs import shorten, type_name
from toolstile_hookspecs.execution.undo import UNDO_TOOL, UndoConflict, UndoNote
from toolstile_hookspecs.services.session_store import SessionStore
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.console.access import Access, Fields
from toolstile_plugins.console.call_index import MOST, CallIndex, SessionRow
from toolstile_plugins.console.pages import Pages, version_of
from toolstile_plugins.planning.model import Plan
from toolstile_plugins.record.reader import Numbered
from toolstile_plugins.record.recorder import at_work
from toolstile_plugins.record.report import timeline_of
from toolstile_plugins.record.settings import RecordSettings
from toolstile_plugins.undo.commands import owes, standing
from toolstile_plugins.undo.store import UndoStore

MOST_CALLS: Final = 1000
"""The newest calls in a timeline."""
_ITEMS: Final = 20
"""The newest items of a slice on the page."""
_LONGEST: Final = 2000  # characters of an item
_SHORT: Final = 200  # characters of a value that others have changed


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice of a session as a page shows it."""

    type: str
    policy: str
    number: int
    items: list[str]  # the newest items as JSON


@dataclass(frozen=True, slots=True)
class Undoable:
    """A call that can be undone."""

    note: UndoNote
    files: list[str]  # the changed files, and the types of other changed resources
    slices: list[str]  # the types of changed slices

    @property
    def changed(self) -> list[str]:
        return [*self.files, *self.slices]


@dataclass(eq=False)
class Sessions:
    """Shows the recorded sessions, and undoes their calls in a person's name."""

    title: ClassVar[str] = "Sessions"
    path: ClassVar[str] = "sessions"

    _host: HostHandle
    _index: CallIndex
    _person: Principal
    _access: Access
    _pages: Pages
    _undoing: Lock = field(default_factory=Lock)

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/sessions", self._list),
            Route("/sessions/{name}", self._show),
            Route("/sessions/{name}/timeline", self._timeline),
            self._access.form("/sessions/{name}", self._undo, once=True),
        ]

    def version(self) -> str:
        return version_of([row.wire() for row in self._index.sessions(MOST)])

    def _list(self, request: Request) -> Response:
        before = request.query_params.get("before", "")
        rows = self._index.sessions(MOST + 1, before)
        shown = rows[:MOST]
        older = urlencode({"before": shown[-1].place}) if len(rows) > MOST else None
        values = {
            "rows": shown,
            "older": older,
            "is_newest": not before,
            "is_kept": bool(self._index.places),
        }
        wire = {"sessions": [row.wire() for row in shown], "older": older}
        return self._pages.show(request, "sessions.html", values, wire)

    def _named(self, request: Request) -> SessionRow:
        for row in self._index.sessions(1, name=request.path_params["name"]):
            return row
        raise HTTPException(HTTPStatus.NOT_FOUND, "The records have no such session.")

    # --- One session

    def _show(self, request: Request) -> Response:
        return self._show_session(request, self._named(request))

    def _show_session(
        self, request: Request, row: SessionRow, told: str = "", fault: str = ""
    ) -> Response:
        slices, plan = self._state_of(row.session)
        undoable = self._undoable(row.session)
        turns: dict[int, list[str]] = {}
        for each in undoable or ():
            turns.setdefault(each.note.turn, []).append(each.note.id)
        values = {
            "row": row,
            "query": urlencode({"session": row.session}),
            "slices": slices,
            "plan": plan,
            "undoable": undoable,
            "turns": turns,
            "files": sorted({path for each in undoable or () for path in each.files}),
            "told": told,
            "fault": fault,
        }
        wire = {
            "session": row.wire(),
            "slices": None if slices is None else [asdict(each) for each in slices],
            "undoable": [
                {"id": each.note.id, "tool": each.note.tool, "changed": each.changed}
                for each in undoable or ()
            ],
            "told": told,
            "fault": fault,
        }
        status = HTTPStatus.CONFLICT if fault else HTTPStatus.OK
        return self._pages.show(request, "session.html", values, wire, status)

    def _state_of(self, session: str) -> tuple[list[Slice] | None, Plan | None]:
        """Return the slices and the plan of a stored session; None if it is not stored."""
        with self._host.executor() as tools:
            store = tools.resources.get(SessionStore, None)  # type: ignore[type-abstract]
        # Opening an unknown session would begin it.
        if store is None or not store.has_moved(session, 0):
            return None, None
        with self._host.executor(session_id=session) as tools:
            state: Any = tools.session
            document: dict[str, Any] = json.loads(state.to_json())
            plan = state[Plan].latest()
        slices = [
            Slice(
                each["type"],
                each["policy"],
                len(each["items"]),
                [
                    shorten(json.dumps(item, ensure_ascii=False, indent=2), _LONGEST)
                    for item in each["items"][-_ITEMS:]
                ],
            )
            for each in document["slices"]
            if each["type"] != type_name(UndoNote)  # the page lists these calls
        ]
        return slices, plan

    def _timeline(self, request: Request) -> Response:
        row = self._named(request)
        found = self._index.newest_of(row.session, MOST_CALLS)
        entries: list[Numbered] = []
        asked: tuple[RequestTurn, ...] | None = None
        for _, call in found:
            # A line has the request only if it differs from the one before.
            asked = call.request or asked
            entries.append(Numbered(call.n, call.model_copy(update={"request": asked})))
        answers = [self._index.answer_to(call.id) for _, call in found if call.approval is not None]
        ends: dict[str, Any] = {}
        ids = [call.transaction for _, call in found]
        while ids:
            id_ = ids.pop()
            if id_ is not None and id_ not in ends and (end := self._index.end_of(id_)) is not None:
                ends[id_] = end
                ids.append(end.parent)
        left = row.calls - len(found)
        notes = [f"{counted(left, 'earlier call')} left out."] if left > 0 else []
        approvals = [answer for answer in answers if answer is not None]
        path = found[-1][0] if found else Path()
        data = timeline_of(entries, approvals, [*ends.values()], notes, path)
        # In ASCII, as in `Pages.show`.
        return Response(json.dumps(data), media_type="application/json")

    # --- Undo

    def _undoable(self, session: str) -> list[Undoable] | None:
        """Return the calls that can be undone, the newest first; None if no calls are noted."""
        if self._host.catalog.get(UNDO_TOOL) is None:
            return None
        with self._host.executor() as tools:
            store = tools.resources.get(UndoStore)
        return [
            Undoable(note, store.paths_of(note), [each.kind for each in note.slices])
            for note in standing(self._host, session)
            if note.goes_back
        ]

    def _undo(self, request: Request, fields: Fields) -> Response:
        row = self._named(request)
        chosen = [value for name, value in fields if name == "call"]
        notes = {each.note.id: each.note for each in self._undoable(row.session) or ()}
        if not chosen or not notes.keys() >= {*chosen}:
            fault = "Nothing was undone: a call is undone already, or cannot be. Choose another."
            return self._show_session(request, row, fault=fault)
        try:
            with (
                self._recording(),
                self._host.executor(session_id=row.session, principal=self._person) as tools,
            ):
                executor: Any = tools
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
                is_owed = any(owes(executor.resources, notes[call]) for call in chosen)
        except ToolstileError as error:
            return self._show_session(request, row, fault=str(error))
        fault = "" if outcome.success else outcome.text
        if is_owed:
            fault += " The undo of an effect outside has failed and is still owed; see Ledger."
        return self._show_session(request, row, told=outcome.text, fault=fault)

    @contextmanager
    def _recording(self) -> Generator[None]:
        """Record calls, one undo at a time, though the command `console` records none."""
        settings: RecordSettings | None = self._host.settings("record")
        with self._undoing:
            if settings is None or not settings.off:
                yield
                return
            more = {"off": False, "beside": True, "replay": None}
            with at_work(self._host, settings.model_copy(update=more)):
                yield
