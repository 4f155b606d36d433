"""The session as a policy's `reserve` sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar, cast

from toolstile.state.persistent_list import Items, SliceReader
from toolstile.state.policy_records import Records, RecordSlice, RecordsOwner, is_reserved
from toolstile.state.store import Store, check_kind
from toolstile_hookspecs.errors import StateError
from toolstile_hookspecs.policies import RESERVED, PolicyState
from toolstile_hookspecs.sessions import Dispatcher, SliceView

S = TypeVar("S")


def _refuse(*_: object, **__: object) -> NoReturn:
    """Raise the error for a `reserve` that does more than count."""
    raise StateError(
        "`reserve` may only read the session and save its own record, the one of "
        "PolicyState.reserved(context, name). Change state in on_result, which is rolled back with "
        "the call."
    )


class ReservingView:
    """A session that can be read, and of which `reserve` can update its own records.

    Args:
        records: The branch where records of policies are read.
        peek: Returns the items of a slice there, without counting as a read.
        store: Where reservations go, at once and for good.
    """

    __slots__ = ("_peek", "_records", "_store")

    def __init__(
        self,
        records: RecordsOwner,
        peek: Callable[[type[Any]], Items],
        store: Store,
    ) -> None:
        self._records = records
        self._peek = peek
        self._store = store

    @property
    def id(self) -> str:
        """The session's id."""
        return self._store.id

    @property
    def dispatcher(self) -> Dispatcher:
        """Refuse: a reservation publishes nothing."""
        return _refuse()

    def __getitem__(self, kind: type[S]) -> SliceView[S]:
        """Return the slice of a type."""
        if kind is PolicyState:
            return cast("SliceView[S]", RecordSlice(self))
        check_kind(kind)
        return _ReadSlice(self._peek, kind)

    dispatch = snapshot = restore = reset = clone = _refuse

    def read_records(self) -> Records:
        """Return the newest records."""
        return self._records.read_records()

    def read_record(self, name: str) -> PolicyState | None:
        """Return the newest record of a name, or None."""
        return self._records.read_record(name)

    def write_records(self, update: Mapping[str, PolicyState | None]) -> None:
        """Update reserved records, on the session."""
        for name in update:
            if not is_reserved(name):
                raise StateError(
                    f"`reserve` saved the policy record {name}, but it can only save one whose "
                    f"name ends in {RESERVED}, since nothing of it is rolled back. Use "
                    "PolicyState.reserved(context, name) there."
                )
        self._store.write_records(update)


class _ReadSlice(SliceReader):
    """A slice that can only be read."""

    __slots__ = ("_kind", "_peek")

    def __init__(self, peek: Callable[[type[Any]], Items], kind: type[Any]) -> None:
        self._peek = peek
        self._kind = kind

    def _items(self) -> Items:
        return self._peek(self._kind)

    append = seed = clear = register = _refuse
