"""The journal of a stored session: each movement of its head is recorded before it is seen."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pydantic_core import to_json

from toolstile.state.persistent_list import EMPTY, Items, Log
from toolstile.state.policy_records import NO_RECORDS, overlaid
from toolstile.state.replay import json_of
from toolstile.state.store import Deciding, Head, Slices, Store, new_decision_id
from toolstile_hookspecs.calls import ToolInvoked
from toolstile_hookspecs.codecs import dumped, loaded, type_name
from toolstile_hookspecs.errors import DecisionUnknownError, StateError
from toolstile_hookspecs.policies import PolicyState
from toolstile_hookspecs.services.session_store import Entry, OpenDecision, SessionStore
from toolstile_hookspecs.stored_names import stored_names
from toolstile_hookspecs.support.process import deferred_interrupts

# --- Entries as text


class JsonItems(Items):
    """The values of a JSON array of known length, parsed at the first access to a value."""

    __slots__ = ("text",)

    def __init__(self, text: str, length: int) -> None:
        # Not `tail`: while the attribute is missing, `__getattr__` is asked for it.
        self.below, self.start, self.owner = None, 0, None
        self.text, self.length = text, length

    def __getattr__(self, name: str) -> Any:
        if name != "tail":
            raise AttributeError(name)
        self.tail = json.loads(self.text)
        return self.tail


def written(changes: dict[str, Any]) -> str:
    """Return changes as text. The items of a whole state stand in separate lines."""
    apart: list[list[Any]] = []
    if changes.get("whole"):
        slices, logs = changes["slices"], changes["logs"]
        apart = [*(change["items"] for change in slices.values()), *logs.values()]
        slices = {
            name: {**change, "items": len(change["items"])} for name, change in slices.items()
        }
        logs = {name: len(items) for name, items in logs.items()}
        changes = {**changes, "slices": slices, "logs": logs}
    # No line of JSON holds a line break: within texts it is escaped.
    return "\n".join(to_json(part).decode() for part in (changes, *apart))


def read(texts: Iterable[str]) -> list[dict[str, Any]]:
    """Return the changes of several entries; the items of a whole state are not read yet."""
    split = [text.split("\n") for text in texts]
    # All at once: hundreds of short texts take several times as long one by one.
    found: list[dict[str, Any]] = json.loads(f"[{','.join(first for first, *_ in split)}]")
    for changes, (_, *apart) in zip(found, split, strict=True):
        if apart:
            lines = iter(apart)
            for change in changes["slices"].values():
                change["items"] = JsonItems(next(lines), change["items"])
            logs = changes["logs"]
            changes["logs"] = {name: JsonItems(next(lines), logs[name]) for name in logs}
    return found


MANY: Final = 100
"""Entries from which on a session is condensed to one when it is opened or left.

Of a session of more than a hundred times as many items: a hundredth of them.
"""
PATIENCE: Final = 5.0
"""Seconds for which the host asks for the outcome of a decision whose answer is lost."""
_PAUSE: Final = 0.05


class Journal(Store):
    """The state of a stored session; each movement is an entry that hosts share.

    It begins as the state `like` in memory, which is not used yet. Slices whose type is not known
    yet stay JSON, under their names, and are carried along; LOG slices in `unnamed_logs`.
    """

    is_stored = True

    def __init__(self, records: SessionStore, like: Store) -> None:
        super().__init__(like.id, like.face, like.lineage, like.logs)
        self.records = records
        self._number = self._condensed = 0
        self._transaction: OpenDecision | None = None
        # The head that is being recorded; None outside of a decision.
        self._staged: Head | None = None
        self._kinds: dict[str, type[Any]] = {}
        self._names: dict[type[Any], tuple[str, ...]] = {}
        # By the ids of JSON versions, which are kept beside their decoded values.
        self._decoded: dict[int, tuple[Items, Items]] = {}
        # How many items of each LOG slice are recorded.
        self._told: dict[type[Any], int] = {}
        self.unnamed_logs: dict[str, Items] = {}
        # The decision whose outcome only the store knows; its head, number and logs.
        self._asked: tuple[Deciding, Head, int, dict[type[Any], int]] | None = None
        self._before_files: list[Callable[[], None]] = []

    # --- reading

    @property
    def is_behind(self) -> bool:
        """True when others may have moved the head since."""
        is_open = self._asked is not None and self._transaction is None
        return is_open or self.records.has_moved(self.id, self._number)

    @property
    def waits(self) -> bool:
        return self.records.waits

    def key_of(self, decision_id: str) -> str:
        return self.records.key_of(decision_id)

    def catch_up(self) -> None:
        """Bring the head to where others have moved it, and publish nothing.

        `StateError`: the store cannot be read, or cannot tell the outcome of the last decision.
        """
        with deferred_interrupts(), self.lock:
            self._resolve()
        entries = self.records.after(self.id, self._number)
        if any(entry.has_files for entry in entries):
            for recover in self._before_files:
                recover()
        with deferred_interrupts(), self.lock:
            if self._transaction is None:
                self._take_in(entries)

    def before_files(self, recover: Callable[[], None]) -> None:
        """Let workspaces finish their commits before the head shows the matching state."""
        self._before_files.append(recover)

    def found(self, slices: Slices, kind: type[Any]) -> Items:
        """Return the items of a type, which may exist only as JSON so far."""
        items = slices.get(kind)
        names = self._names_of(kind) if items is None else ()
        if (raw := next((slices[name] for name in names if name in slices), None)) is not None:
            _, items = self._decoded.get(id(raw)) or (raw, None)
            if items is None:
                items = Items.of(_items_of(kind, raw), self)
                self._decoded[id(raw)] = (raw, items)
        return EMPTY if items is None else items

    def name_type(self, kind: type[Any]) -> None:
        """Make a type's slice a LOG, if other hosts have recorded it as a LOG."""
        if kind in self.logs:
            return
        with self.lock:
            for name in self._names_of(kind):
                raw = self.unnamed_logs.pop(name, None)
                if raw is not None:
                    self.logs[kind] = Log(_items_of(kind, raw))
                    self._told[kind] = len(raw)

    # --- moving

    @contextmanager
    def moving(self, deciding: Deciding | None = None) -> Generator[None]:
        """Record the block's changes of the head; they show once they are recorded.

        Nothing has changed after a `StateError`, if the store cannot be written, or a
        `SnapshotError`, if an item has no JSON form. `DecisionUnknownError`: it is unknown whether
        the changes were recorded.
        """
        with deferred_interrupts(), self.lock:
            if self._transaction is not None:
                # A reducer's changes are part of the same movement.
                yield
                return
            self._resolve()
            deciding = deciding or Deciding()
            try:
                with self.records.deciding(self.id) as transaction:
                    self._take_in(transaction.after(self._number))
                    self._transaction, self._staged = transaction, self.head
                    yield
                    self._ask(transaction, deciding)
                self._show()
            except Exception as error:
                if self._asked is None:
                    raise
                self._read_back(deciding, error)
            finally:
                self._staged = self._transaction = None

    def _ask(self, transaction: OpenDecision, deciding: Deciding) -> None:
        before, after = self.head, self._staged
        assert after is not None  # noqa: S101 - within a decision
        untold = self._untold()
        if after is before and not untold and not deciding.is_durable:
            return
        text, number = self._changes(before, after, untold), self._number + 1
        deciding.contribute(transaction.connection)
        transaction.append(Entry(number, deciding.id, after.epoch, text, deciding.has_files))
        told = {type_: self._told.get(type_, 0) + len(items) for type_, items in untold.items()}
        self._asked = (deciding, after, number, told)

    def _show(self) -> None:
        """Show the recorded head; repeated after an interruption, it does the same."""
        if self._asked is not None:
            deciding, self.head, self._number, told = self._asked
            self._told.update(told)
            deciding.is_kept = True
        self._staged = self._transaction = self._asked = None

    @property
    def newest(self) -> Head:
        return self.head if self._staged is None else self._staged

    def _move_to(self, head: Head) -> None:
        slices = head.slices
        if slices is not self.newest.slices:
            # The JSON of slices that exist as items goes.
            stale = {name for type_ in slices for name in self._names.get(type_, ())}
            left = {key: items for key, items in slices.items() if key not in stale}
            head = head._replace(slices=left)
        self._staged = head

    def tell_logs(self) -> None:
        """Record the items of LOG slices that no entry holds yet."""
        if self._untold():
            with self.moving():
                pass

    @property
    def has_untold_logs(self) -> bool:
        """True when items of LOG slices are in no entry yet."""
        # The LOG of the calls always exists, and is never recorded.
        return len(self.logs) > 1 and bool(self._untold())

    def condense(self) -> None:
        """Replace all entries by one, if there are many."""
        with self.lock:
            head, number = self.head, self._number
            # The longer a state, the longer it takes to write all of it.
            many = max(MANY, sum(map(len, head.slices.values())) // 100)
            if number - self._condensed < many or self._untold():
                return
            logs: dict[Any, Iterable[Any]] = {**self.unnamed_logs, **self._logs_from({})}
            text = self._changes(Head({}, {}, 0), head, logs, whole=True)
        self.records.condense(self.id, Entry(number, new_decision_id(), head.epoch, text))
        self._condensed = number

    def _changes(
        self, before: Head, after: Head, logs: Mapping[Any, Iterable[Any]], **more: bool
    ) -> str:
        """Return the changes from one head to another, as JSON."""
        slices: dict[str, Any] = {}
        if after.slices is not before.slices:
            for key in {**before.slices, **after.slices}:
                change = self._change_of(key, before, after)
                if change is not None:
                    slices[self._name_of(key)] = change
        changed = {
            name: new
            for name in {**before.records, **after.records}
            if (new := after.records.get(name)) is not before.records.get(name)
        }
        records = [record for record in changed.values() if record is not None]
        changes = {
            "slices": slices,
            "records": dumped(PolicyState, records) if records else [],
            "removed": [name for name, record in changed.items() if record is None],
            "logs": {self._name_of(key): json_of(key, items) for key, items in logs.items()},
        }
        return written({**changes, **more})

    def _change_of(self, key: Any, before: Head, after: Head) -> dict[str, Any] | None:
        """Return the change of a slice that stands under a type or, as JSON, under a name."""
        new, old = after.slices.get(key), before.slices.get(key)
        if new is old or (new is None and self._stands_otherwise(key, after)):
            return None
        name = self._name_of(key)
        is_other_form = old is None and self._stands_otherwise(key, before)
        if old is None and isinstance(key, type) and name in before.slices:
            old, is_other_form = self.found(before.slices, key), False
        new, old = new or EMPTY, old or EMPTY
        at = old.length if new.grew_from(old) and not is_other_form else None
        items = new.after(at or 0)
        return {"at": at, "items": json_of(key, items)}

    def _stands_otherwise(self, key: Any, head: Head) -> bool:
        """Tell whether the slice of a key stands in a head under its other key."""
        if isinstance(key, str):
            type_ = self._kinds.get(key)
            return type_ in head.slices and self._name_of(type_) == key
        return self._name_of(key) in head.slices

    # --- taking in other hosts' entries

    def _take_in(self, entries: Iterable[Entry]) -> None:
        new = [entry for entry in entries if entry.number > self._number]
        for entry, changes in zip(new, read([entry.changes for entry in new]), strict=True):
            is_whole = changes.get("whole", False)
            head = Head({}, NO_RECORDS, 0) if is_whole else self.head
            slices: dict[Any, Items] = dict(head.slices)
            for name, change in changes["slices"].items():
                key: Any = self._kinds.get(name, name)
                slices[key] = self._changed(key, slices, change)
                for other in () if isinstance(key, str) else self._names[key]:
                    slices.pop(other, None)
            update: dict[str, PolicyState | None] = dict.fromkeys(changes["removed"])
            if changes["records"]:
                found = loaded(PolicyState, changes["records"])
                update.update((record.policy_name, record) for record in found)
            records = overlaid(head.records, update) if update else head.records
            for name, items in changes["logs"].items():
                self._take_in_log(name, items, is_whole=is_whole)
            self.head, self._number = Head(slices, records, entry.epoch), entry.number
            if is_whole:
                self._condensed = entry.number

    def _changed(self, key: Any, slices: Slices, change: Mapping[str, Any]) -> Items:
        new: Items | list[Any] = change["items"]
        if not isinstance(key, str):
            new = _items_of(key, new)
        if change["at"] is None:
            return self._grown(EMPTY, new)
        base = slices.get(key)
        if base is None:
            base = EMPTY if isinstance(key, str) else self.found(slices, key)
        if base.length != change["at"]:
            raise StateError(
                f"The stored session {self.id} does not go on where this host has it, at "
                f"{key}. Open it anew, in a new host."
            )
        return self._grown(base, new)

    def _grown(self, base: Items, new: Items | list[Any]) -> Items:
        # The items of a whole state, which has no predecessor, are not read yet.
        return new if isinstance(new, Items) else base.extended(self, new)

    def _take_in_log(self, name: str, items: Items | list[Any], *, is_whole: bool) -> None:
        type_ = self._kinds.get(name)
        log = None if type_ is None else self.logs.get(type_)
        if type_ is None or not isinstance(log, Log):
            before = EMPTY if is_whole else self.unnamed_logs.get(name, EMPTY)
            self.unnamed_logs[name] = self._grown(before, items)
            return
        told = self._told.get(type_, 0)
        new = [*items][told if is_whole else 0 :]
        log.insert(told, loaded(type_, new))
        self._told[type_] = told + len(new)

    # --- logs

    def _untold(self) -> dict[type[Any], Sequence[Any]]:
        return self._logs_from(self._told)

    def _logs_from(self, told: Mapping[type[Any], int]) -> dict[type[Any], Sequence[Any]]:
        logs = {
            type_: log.items().after(told.get(type_, 0))
            for type_, log in list(self.logs.items())
            if type_ is not ToolInvoked
        }
        return {type_: items for type_, items in logs.items() if items}

    # --- lost answers

    def was_kept(self, deciding: Deciding) -> bool | None:
        """Ask, as after a crash, whether a decision was recorded; None if that is unknown."""
        with self.lock:
            if self._asked is not None and self._asked[0] is deciding:
                try:
                    self._resolve()
                except Exception:  # noqa: BLE001 - the store may be anybody's, and is asked again
                    return None
            return deciding.is_kept

    def _read_back(self, deciding: Deciding, error: Exception) -> None:
        """Return if the decision was recorded after all; raise if not, or if that is unknown."""
        patience = min(PATIENCE, PATIENCE if deciding.patience is None else deciding.patience)
        until = time.monotonic() + patience
        while (found := self.was_kept(deciding)) is None:
            if time.monotonic() >= until:
                raise DecisionUnknownError(
                    f"the session {self.id} could not be told whether it was recorded ({error})"
                ) from error
            time.sleep(_PAUSE)
        if not found:
            raise error

    def _resolve(self) -> None:
        if self._asked is None:
            return
        found = self.records.decided(self.records.key_of(self._asked[0].id))
        if found is None:
            raise StateError(
                f"Nobody can tell yet what became of the last call of the session "
                f"{self.id}, so it takes no other. Retry when its store can be read."
            )
        if found:
            self._show()
        self._asked = None

    # --- names

    def _names_of(self, type_: type[Any]) -> tuple[str, ...]:
        names = self._names.get(type_)
        if names is None:
            names = self._names[type_] = stored_names(type_) or (type_name(type_),)
            self._kinds.update(dict.fromkeys(names, type_))
        return names

    def _name_of(self, key: Any) -> str:
        return key if isinstance(key, str) else self._names_of(key)[0]


def _items_of(type_: type[Any], raw: Items | list[Any]) -> list[Any]:
    if isinstance(raw, JsonItems):
        return loaded(type_, raw.text)
    if isinstance(raw, list):
        return loaded(type_, raw)
    before = [] if raw.below is None else _items_of(type_, raw.below)
    return before + loaded(type_, raw.own())
