"""The slices of a session as they are used from outside any call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from toolstile.state.dispatcher import fault_of
from toolstile.state.persistent_list import Items, SliceReader
from toolstile.state.reducers import cleared, keep, reduced, seeded
from toolstile.state.store import Store
from toolstile_hookspecs.errors import StateError
from toolstile_hookspecs.sessions import Reducer, SlicePolicy, append_all


def refuse_log(kind: type[Any]) -> StateError:
    """Return the error for replacing items of a LOG."""
    return StateError(
        f"The slice of {kind.__qualname__} is a LOG: items are added and never removed. Keep "
        "items to be replaced in a STATE slice."
    )


class SessionSlice(SliceReader):
    """One slice of a session; every change is at once the newest state."""

    __slots__ = ("_kind", "_store")

    def __init__(self, store: Store, kind: type[Any]) -> None:
        self._store = store
        self._kind = kind

    def _items(self) -> Items:
        return self._store.items(self._kind)

    def append(self, item: Any) -> None:
        """Add an item at the end."""
        if self._kind in self._store.logs:
            self._store.log_at_once(self._kind, item)
        else:
            self._store.write(self._kind, append_all, item)

    def replace(self, *items: Any) -> None:
        """Replace all items by these."""
        self._refuse_log()
        self._store.write(self._kind, seeded, items)

    seed = replace

    def clear(self, predicate: Callable[[Any], bool] | None = None) -> None:
        """Remove all items, or those for which the predicate holds; calls under way conflict."""
        self._refuse_log()
        store = self._store
        with store.moving():
            head = store.newest
            before = store.found(head.slices, self._kind)
            items, _ = reduced(self._kind, before, cleared, predicate, store)
            store.put({self._kind: items})
            store.replace(store.newest.slices, head.records)

    def register(
        self, event: type[Any], reducer: Reducer, policy: SlicePolicy = SlicePolicy.STATE
    ) -> None:
        """Let events of a type change this slice, through a pure reducer.

        Args:
            event: The type of the events; exactly this one, not its subtypes.
            reducer: Returns the new items, or `Append` of those to add.
            policy: How the slice takes part in transactions; the same for all its reducers.

        Raises:
            StateError: The slice already takes part differently, the event is not a type, the
                reducer not a plain function or the policy not a `SlicePolicy`.
        """
        fault = fault_of(event, reducer, "reducer")
        if fault is None and not isinstance(policy, SlicePolicy):  # pyright: ignore[reportUnnecessaryIsInstance]
            fault = f"{policy!r} is not a policy; give SlicePolicy.STATE or SlicePolicy.LOG"
        if fault is not None:
            raise StateError(
                f"No reducer is registered for the slice of {self._kind.__qualname__}: {fault}."
            )
        self._store.register(self._kind, event, reducer, policy)

    def _refuse_log(self) -> None:
        if self._kind in self._store.logs:
            raise refuse_log(self._kind)


class CallSlice(SliceReader):
    """A slice as a call sees it, which registers no reducers."""

    __slots__ = ("kind",)

    kind: type[Any]

    def register(
        self,
        event: type[Any],
        reducer: Reducer,  # noqa: ARG002 - the protocol's
        policy: SlicePolicy = SlicePolicy.STATE,  # noqa: ARG002 - the protocol's
    ) -> None:
        """Refuse: a registration from inside a call could not be rolled back."""
        raise StateError(
            f"A reducer of {event.__qualname__} for the slice of {self.kind.__qualname__} cannot "
            "be registered inside a call, which may be rolled back. Register it on the session, "
            "before its calls."
        )


class BranchedLog(CallSlice):
    """A LOG slice as a call sees it: shared by all, never rolled back.

    Args:
        store: The session's.
        kind: The type of the items.
        check: Raises unless the call may read or, given True, write.
    """

    __slots__ = ("_check", "_store")

    def __init__(self, store: Store, kind: type[Any], check: Callable[[bool], None]) -> None:
        self._store = store
        self.kind = kind
        self._check = check

    def _items(self) -> Items:
        self._check(False)  # noqa: FBT003 - to read
        return self._store.items(self.kind)

    def append(self, item: Any) -> None:
        """Add an item, at once and for good."""
        self._check(True)  # noqa: FBT003 - to write
        self._store.append_log(self.kind, keep(self.kind, (item,)))

    def _refuse(self, *given: object, **options: object) -> NoReturn:  # noqa: ARG002 - any
        raise refuse_log(self.kind)

    replace = seed = clear = _refuse
