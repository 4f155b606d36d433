"""The records of policies, found by their names, and the view of a policy's `reserve`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, NoReturn, Protocol, cast

from toolstile_hookspecs.errors import StateError
from toolstile_hookspecs.policies import RESERVED, PolicyState

Records = Mapping[str, PolicyState]
"""The records by name; replaced, never changed."""

Overlay = Mapping[str, PolicyState | None]
"""The records that a branch has updated; None for a removed record."""

NO_RECORDS: Records = {}


def overlaid(records: Records, overlay: Overlay) -> Records:
    """Return the records updated by an overlay, the overlay's last."""
    if not overlay:
        return records
    merged = {name: record for name, record in records.items() if name not in overlay}
    merged.update((name, record) for name, record in overlay.items() if record is not None)
    return merged


def is_reserved(name: str) -> bool:
    """Tell whether only `reserve` updates a record."""
    return name.endswith(RESERVED)


def with_reserved_of(records: Records, reserved: Records) -> Records:
    """Return the reserved records of the one and all others of the other."""
    kept = {name: record for name, record in records.items() if not is_reserved(name)}
    kept.update((name, record) for name, record in reserved.items() if is_reserved(name))
    return kept


def refuse_reserved(name: str) -> None:
    """Raise if a record can only be updated by `reserve`."""
    if is_reserved(name):
        raise StateError(
            f"The policy record {name} is kept by `reserve` alone: updated with a call's other "
            "changes, it could undo what other calls have reserved. Save it in `reserve`, or use "
            f"a name that does not end in {RESERVED}."
        )


class _Flat(dict[str, Any]):
    """A mapping of immutable values, so that a shallow copy is a copy."""


_ATOMS: Final = frozenset({str, int, float, bool, type(None)})


def kept(record: PolicyState) -> PolicyState:
    """Return the record to be stored, with `data` that no other code can change."""
    if not record.data:
        return record
    flat = _are_fixed(record.data.values())
    return _with_data(record, _Flat(record.data) if flat else deepcopy(dict(record.data)))


def own(record: PolicyState) -> PolicyState:
    """Return a stored record to be read, with its own `data`; all else cannot change."""
    data = record.data
    if not data:
        return record
    return _with_data(record, dict(data) if type(data) is _Flat else deepcopy(dict(data)))


def _with_data(record: PolicyState, data: Mapping[str, Any]) -> PolicyState:
    # As `dataclasses.replace`, in half the time.
    return PolicyState(record.policy_name, record.invoked_tools, record.invoked_keys, data)


def _are_fixed(values: Collection[object]) -> bool:
    # Types first, since there may be thousands of values and mostly a type or two.
    if set(map(type, values)) <= _ATOMS:
        return True
    return all(
        _are_fixed(cast("tuple[object, ...]", value))
        if type(value) is tuple
        else type(value) in _ATOMS
        for value in values
    )


def without(now: PolicyState, old: PolicyState, new: PolicyState) -> PolicyState:
    """Return a record of `reserve` without one reservation; others may have counted meanwhile."""
    data: dict[str, Any] = dict(now.data)
    for key, value in new.data.items():
        before, counted = old.data.get(key), data.get(key)
        if counted == value:
            data[key] = before
        elif isinstance(value, (int, float)) and isinstance(counted, (int, float)):
            data[key] = counted - value + (before or 0)
        elif isinstance(value, (list, tuple)) and isinstance(counted, (list, tuple)):
            data[key] = _less(counted, _less(value, before or ()))
    data = {key: value for key, value in data.items() if value is not None}
    tools = now.invoked_tools - (new.invoked_tools - old.invoked_tools)
    keys = now.invoked_keys - (new.invoked_keys - old.invoked_keys)
    return PolicyState(now.policy_name, tools, keys, data)


def _less(items: Any, others: Any) -> list[Any]:
    # A stored session returns tuples as lists.
    left: list[Any] = [list(each) if isinstance(each, tuple) else each for each in items]  # pyright: ignore[reportUnknownArgumentType]
    for each in _less(others, ()) if others else ():
        if each in left:
            left.remove(each)
    return left


class RecordsOwner(Protocol):
    """The store that a view of the records reads and writes."""

    def read_records(self) -> Records: ...

    def read_record(self, name: str) -> PolicyState | None: ...

    def write_records(self, update: Overlay) -> None:
        """Put records over the newest; None removes one."""


class RecordSlice:
    """The slice of `PolicyState`: a record appended or seeded takes the place of its namesake.

    It is in no read set and no write set, so that calls never conflict over their policies.
    """

    __slots__ = ("_owner",)

    def __init__(self, owner: RecordsOwner) -> None:
        self._owner = owner

    def latest(self) -> PolicyState | None:
        records = self._owner.read_records()
        return own(records[next(reversed([*records]))]) if records else None

    def all(self) -> Sequence[PolicyState]:
        return [own(record) for record in self._owner.read_records().values()]

    def named(self, name: str) -> PolicyState | None:
        """Return the record of a name, or None; costs the same however many there are."""
        record = self._owner.read_record(name)
        return None if record is None else own(record)

    def where(self, predicate: Callable[[PolicyState], bool]) -> Sequence[PolicyState]:
        return [own(record) for record in self._owner.read_records().values() if predicate(record)]

    def append(self, item: PolicyState) -> None:
        self._owner.write_records({item.policy_name: kept(item)})

    def replace(self, *items: PolicyState) -> None:
        """Keep records as the newest of their names; records of other names stay."""
        self._owner.write_records({record.policy_name: kept(record) for record in items})

    seed = replace

    def clear(self, predicate: Callable[[PolicyState], bool] | None = None) -> None:
        """Remove all records, or those for which the predicate holds; reserved ones stay."""
        records = self._owner.read_records()
        self._owner.write_records(
            {
                name: None
                for name, record in records.items()
                if not is_reserved(name) and (predicate is None or predicate(record))
            }
        )

    def register(self, *_: Any, **__: Any) -> NoReturn:
        raise StateError(
            "No reducer can be registered for PolicyState: its records belong to the policies, "
            "each of which saves its own. Use a slice of a type of your own."
        )


class ReservingView:
    """A frozen branch on which `reserve` updates its own records: on the session, for good.

    In a dry run they are updated in `apart` instead.
    """

    __slots__ = ("_apart", "_branch", "_write")

    def __init__(
        self, branch: Any, write: Callable[[Overlay], None], apart: dict[str, Any] | None = None
    ) -> None:
        self._branch = branch
        self._write = write if apart is None else apart.update
        self._apart: Records = {} if apart is None else apart

    def __getattr__(self, name: str) -> Any:
        """Return the branch's attribute, unless a reservation has its own."""
        return getattr(self._branch, name)

    def __getitem__(self, kind: type[Any]) -> Any:
        if kind is PolicyState:
            return RecordSlice(cast("RecordsOwner", self))
        return self._branch[kind]

    def read_record(self, name: str) -> PolicyState | None:
        return self._apart.get(name) or self._branch.read_record(name)

    def read_records(self) -> Records:
        return {**self._branch.read_records(), **self._apart}

    def write_records(self, update: Overlay) -> None:
        for name in update:
            if not is_reserved(name):
                raise StateError(
                    f"`reserve` saved the policy record {name}, but it can only save one whose "
                    f"name ends in {RESERVED}, since nothing of it is rolled back. Use "
                    "PolicyState.reserved(context, name) there."
                )
        self._write(update)
