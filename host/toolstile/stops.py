"""The gate of a host: no stopped call passes, and nothing is committed after `stop` has returned.

A decision sets a mark in the host's slot, reads the stops if they have changed, decides, and clears
the mark. `stop` writes the stops, then waits for the marks of decisions that have not read them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter

from toolstile.drivers.limit import Stopped
from toolstile.policies.persistence import locked, replace_file
from toolstile.settings import Settings
from toolstile.slots import Slot
from toolstile_hookspecs import NOTICE, HandlerState, StateError
from toolstile_hookspecs.calls import RECONCILE_TOOL, SettlingCall
from toolstile_hookspecs.stops import Stop

Stops = tuple[Stop, ...]
REMEMBERED: Final = timedelta(days=1)
"""The time for which a stop that has ended still ends calls that were running meanwhile."""
PATIENCE: Final = 5.0
"""Seconds for which `stop` waits for a decision that is under way."""
_UNENDED: Final = (
    "A decision of process {} has not ended, and may still be committed; all else is as asked. End "
    "the process, then retry."
)
_FORGOTTEN: Final = "It was open for more than a day, and there were stops meanwhile."
Seen = tuple[int, frozenset[datetime]]
"""The number of a change of the stops, and the times of the stops that were made by then."""
_form = TypeAdapter(tuple[int, Stops], config=ConfigDict(defer_build=True))
"""The form of the kept text: the number of its change, and the stops, also ended ones."""
log = logging.getLogger("toolstile")


def _in_force(stops: Stops, ago: timedelta = timedelta()) -> Stops:
    then = datetime.now(UTC) - ago
    return tuple(each for each in stops if each.until is None or each.until > then)


class Gate(Slot):
    """The stops of a host, and its slot; `clear` is the count at which nothing is stopped, else -1.

    Args:
        place: The folder of the stops, which other processes share; None for this host alone.
        store: The store of sessions, by which several machines may share their stops.
        decides: Whether calls of this host are decided.
    """

    def __init__(self, place: Path | None, store: Any, *, decides: bool) -> None:
        super().__init__()
        if place is not None and sys.platform != "win32" and decides:
            try:
                self.share(place)
            except OSError as error:
                told = f"{place} cannot be written ({error}): no other process can stop this one."
                log.warning("%s", told, extra=NOTICE)
        self._file = None if place is None else place / "stops.json"
        self._kept: tuple[int, Stops] = 0, ()
        self.known: Seen = 0, frozenset()
        self._count = 0
        self._text: str = ""
        self._reading, self._changing = Lock(), Lock()
        self._store = store if hasattr(store, "change_stops") else None
        self.is_alone = place is None and self._store is None  # no other host hears of its stops
        # Read after it has a slot, so that a later stop finds the slot.
        self._look()
        if self._store is not None:
            self._store.heard = self._look
            # Each decision reads them, too, with which a store that is away lets no call end.
            with suppress(StateError):
                self._look(self._store.stops())

    def enter(self, call: Any) -> None:
        """Set the mark of a call, because its decision begins; `leave` clears it.

        Raises:
            Stopped: The call is stopped; nothing of it may be committed.
        """
        # Kept by the call at once, which clears it at its end, whatever interrupts.
        call.mark = self.free.pop()
        self.numbers[call.mark] = self._count + 1
        is_clear = self.numbers[0] == self.clear and call.stops is self.known
        if not is_clear and (fault := self.fault(call)) is not None:
            self.leave(call)
            raise fault

    def leave(self, call: Any) -> None:
        """Clear the mark of a call, because its decision has ended."""
        mark, call.mark = call.mark, 0
        self.numbers[mark] = 0
        self.free.append(mark)

    def check(self, call: Any) -> None:
        """Raise `Stopped` if the call is stopped."""
        if (fault := self.fault(call)) is not None:
            raise fault

    def fault(self, call: Any) -> Stopped | None:
        """Return why a call has to end, or None; decided calls and undos are left alone."""
        before = call.stops
        if self.numbers[0] == self.clear and (before is None or before is self.known):
            return None
        settles = isinstance(call.call_made, SettlingCall) and call.call_made.name == RECONCILE_TOOL
        if call.committed or call.error is not None or settles:
            return None
        tools = [*call.tools_within, *([] if call.plan is None else [call.plan.tool])]
        past: Stops = ()
        if before is not None:
            # A call was stopped also by a stop that has come and gone while it was running.
            number, known = before
            past = tuple(each for each in self.remembered() if each.at not in known)
            if number != self._kept[0] and call.timestamp < call.executor.clock.now() - REMEMBERED:
                past += (Stop(_FORGOTTEN, "host", call.timestamp),)
        for stop in (*self.stops(), *past):
            if stop.concerns(tools, call.executor.principal, call.executor.session_id):
                fault = Stopped(stop.reason, for_operator=f"Stopped: {stop}")
                begun = call.handler_state is not HandlerState.NOT_BEGUN
                fault.begun = begun or bool(call.tools_within)
                return fault
        return None

    def seen(self) -> Seen:
        """Return the stops that are known now, for a call that begins."""
        self.remembered()
        return self.known

    def stops(self) -> Stops:
        """Return the stops that are in force, the oldest first."""
        held = _in_force(self.remembered())
        if self.clear < 0 and not held:
            # The last one has ended by itself.
            self._look()
        return held

    def remembered(self) -> Stops:
        """Return the stops that are in force, and the ones ended within a day."""
        if self.numbers[0] != self._count:
            self._look()
        return self._kept[1]

    def change(self, change: Callable[[Stops], Stops]) -> None:
        """Change the stops, and wait for the decisions that have not read the new ones."""
        kept: tuple[int, Stops] = 0, ()
        late: list[str] = []

        def rewrite(text: str) -> str:
            nonlocal kept
            number, stops = _form.validate_json(text or "[0, []]")
            held, now = _in_force(stops), datetime.now(UTC)
            left = change(held)
            past = [each for each in _in_force(stops, REMEMBERED) if each not in left]
            ended = (replace(each, until=now) if each in held else each for each in past)
            kept = number + 1, (*ended, *left)
            return _form.dump_json(kept).decode()

        with self._changing if self._file is None else locked(self._file):
            try:
                if self._store is None:
                    rewrite(self._stored)
                else:
                    self._store.change_stops(rewrite)
            finally:
                # Also if a decision elsewhere does not end, because the store has the new stops.
                if kept[0]:
                    self._text = _form.dump_json(kept).decode()
                    if self._file is not None:
                        replace_file(self._file, self._text)
                    late = self.announce(self._file and self._file.parent, PATIENCE)
        if late:
            raise StateError(_UNENDED.format(", ".join(late)))

    @property
    def _stored(self) -> str:
        file = self._file
        return self._text if file is None or not file.exists() else file.read_text("utf-8")

    def _look(self, told: str | None = None) -> None:
        """Read the stops; the store may have told them."""
        if told is not None and told == self._text:
            return
        with self._reading:
            count, texts = self.numbers[0], filter(None, (told, self._stored))
            newest = max([self._kept, *map(_form.validate_json, texts)], key=itemgetter(0))
            self._kept = newest[0], _in_force(newest[1], REMEMBERED)
            self.known = newest[0], frozenset(each.at for each in newest[1])
            # In this order: a decision that sees the new count finds the new stops.
            self._count, self.clear = count, -1 if _in_force(self._kept[1]) else count
            self._text = told or self._text


def gate_of(store: Any, settings: Settings, *, decides: bool) -> Gate:
    """Return the gate of a host; its stops lie beside the file of sessions or the configuration."""
    database = getattr(store, "database", None)
    place = None if settings.path is None else settings.path.parent / ".toolstile/stops"
    if database is not None and (file := Path(database)).is_absolute():
        place = file.with_name(f"{file.name}-stops")
    return Gate(place, store, decides=decides)
