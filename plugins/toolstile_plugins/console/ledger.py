"""The sections Ledger and one effect: a person settles the effects with an unknown end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import Any, ClassVar, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from toolstile_hookspecs import HostHandle, LedgerError, Tool
from toolstile_hookspecs.services.ledger import EffectState, LedgerEntry, LedgerStore
from toolstile_plugins.console.access import Fields
from toolstile_plugins.console.call_index import CallIndex
from toolstile_plugins.console.pages import Pages, version_of
from toolstile_plugins.leases import now_of
from toolstile_plugins.ledger.api import EffectLedger
from toolstile_plugins.ledger.cli import STATES
from toolstile_plugins.ledger.entries import (
    Due,
    Finding,
    due_of,
    hash_of,
    is_unfit,
    settle,
    state_of,
    store_of,
    wire_of,
)
from toolstile_plugins.ledger.stores.memory import MemoryStore

SHOWN: Final = 200
"""The effects of a page."""
_HAPPENED: Final = {"happened": True, "not_happened": False}


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect as a page shows it."""

    entry: LedgerEntry
    is_over: bool  # true once it has expired, so that the next call of its key runs
    due: Due | None = None  # its deadline, None for a settled effect
    is_unfit: bool = False
    """True if its tool cannot return the recorded value; always False in lists."""

    @property
    def name(self) -> str:
        """Its name in addresses."""
        return hash_of(self.entry)

    @property
    def state(self) -> str:
        return state_of(self.entry)

    @property
    def is_unsettled(self) -> bool:
        """True while a person must find out whether it happened."""
        is_unknown = self.entry.state is EffectState.UNKNOWN
        return self.is_unfit or (is_unknown and not self.is_over)

    @property
    def is_overdue(self) -> bool:
        """True after the deadline to settle it."""
        return self.due is not None and self.due.is_over

    @property
    def wire(self) -> dict[str, Any]:
        return wire_of(self.entry, self.due)

    @property
    def value(self) -> str:
        """Its value as text; "" without a value."""
        value = self.wire.get("value")
        return "" if value is None else json.dumps(value, ensure_ascii=False, indent=2)

    @property
    def version(self) -> str:
        over = f"{' over' if self.is_over else ''}{' due' if self.is_overdue else ''}"
        return f"{self.entry.claim.effect_id} {self.state}{over}"


@dataclass(eq=False)
class Ledger:
    """Shows the effects of calls, and settles the effects with an unknown end."""

    title: ClassVar[str] = "Ledger"
    path: ClassVar[str] = "ledger"

    _host: HostHandle
    _ledger: EffectLedger | None
    _index: CallIndex
    _pages: Pages

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/ledger", self._list),
            Route("/ledger/{name}", self._show),
            self._pages.form("/ledger/{name}", self._settle),
        ]

    def version(self) -> str:
        return version_of([effect.version for effect in self._effects()])

    def effect_of(self, key: object) -> Effect | None:
        try:
            entry = self._store.get(key) if isinstance(key, str) else None
        except LedgerError:
            # The page of the call is shown all the same; the page of the ledger names the fault.
            return None
        return None if entry is None else self._shown(entry)

    @property
    def _store(self) -> LedgerStore:
        if self._ledger is None:
            return MemoryStore()
        return store_of(self._ledger)

    def _effects(self) -> list[Effect]:
        """Return all effects: overdue, unsettled, others, and expired; the newest first."""
        newest_first = reversed([self._shown(entry) for entry in self._store.entries()])
        return sorted(
            newest_first,
            key=lambda effect: (not effect.is_overdue, not effect.is_unsettled, effect.is_over),
        )

    def _shown(self, entry: LedgerEntry) -> Effect:
        ends, now = entry.expires_at, self._host.clock.now()
        due = due_of(entry, self._host.settings("ledger"), now)
        return Effect(entry, ends is not None and ends <= now, due)

    def _tool_of(self, entry: LedgerEntry) -> Tool[Any, Any] | None:
        return self._host.catalog.get(entry.claim.tool_name)

    def _named(self, name: str) -> Effect:
        for entry in self._store.entries():
            if hash_of(entry) == name:
                return replace(self._shown(entry), is_unfit=is_unfit(entry, self._tool_of(entry)))
        raise HTTPException(HTTPStatus.NOT_FOUND, "The ledger has no such effect.")

    # --- Pages

    def _list(self, request: Request) -> Response:
        asked = dict(request.query_params)
        tool, state = asked.get("tool", "").strip() or "*", asked.get("state", "")
        found = [
            effect
            for effect in self._effects()
            if fnmatchcase(effect.entry.claim.tool_name, tool)
            and state in {"", effect.entry.state.value, effect.state}
        ]
        values = {
            "effects": found[:SHOWN],
            "more": max(0, len(found) - SHOWN),
            "asked": asked,
            "choices": STATES,
            "is_kept": self._ledger is not None,
        }
        wire = {"effects": [effect.wire for effect in found[:SHOWN]]}
        return self._pages.show(request, "ledger.html", values, wire)

    def _show(self, request: Request) -> Response:
        return self._show_effect(request, self._named(request.path_params["name"]))

    def _show_effect(
        self,
        request: Request,
        effect: Effect,
        fault: str | None = None,
        written: Mapping[str, str] | None = None,
    ) -> Response:
        claim = effect.entry.claim
        call = self._index.last_of(claim.session_id, claim.call_id)
        values = {
            "effect": effect,
            "call": call,
            "fault": fault,
            "written": {"message": "", "value": "", **(written or {})},
            "is_checked": self._tool_of(effect.entry) is not None,
        }
        wire = {"effect": effect.wire, "call": call and call.wire(), "fault": fault}
        status = HTTPStatus.OK if fault is None else HTTPStatus.CONFLICT
        return self._pages.show(request, "effect.html", values, wire, status)

    # --- Settlement

    def _settle(self, request: Request, fields: Fields) -> Response:
        form, effect = dict(fields), self._named(request.path_params["name"])
        try:
            has_happened = _HAPPENED.get(form.get("answer", ""))
            if has_happened is None:
                raise HTTPException(HTTPStatus.BAD_REQUEST, "Say whether it has happened.")
            if form.get("effect") != effect.entry.claim.effect_id:
                msg = "Another call has the key now. Look at its effect, then settle it."
                raise LedgerError(msg)  # noqa: TRY301 - shown as below
            texts = (form.get(name, "").strip() or None for name in ("message", "value"))
            found = Finding(has_happened, *texts) if has_happened else Finding(has_happened=False)
            tool, now = self._tool_of(effect.entry), now_of(self._store, self._host.clock)
            settle(self._store, effect.entry, found, tool=tool, now=now)
        except LedgerError as error:
            return self._show_effect(request, effect, str(error), form)
        return self._pages.done(request, f"{self.path}/{effect.name}", self._show)
