"""Stores of a ledger, which record the effects of calls.

Threads, processes and machines may share a store. Each method is atomic, and none waits for
another call. `toolstile_hookspecs.testing.LedgerStoreContract` tests a store.
"""

# pyright: reportReturnType=false

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from functools import partialmethod
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from toolstile_hookspecs.context import ToolContext

__all__ = [
    "Claim",
    "EffectState",
    "JoinsDecision",
    "LedgerEntry",
    "LedgerStore",
    "RecordedResult",
    "SettlesUnknown",
    "StoresOwed",
]


class EffectState(StrEnum):
    """The state of an effect."""

    CLAIMED = "claimed"
    """The handler runs, or is about to."""
    DONE = "done"
    """The effect has happened, and its result is recorded."""
    UNKNOWN = "unknown"
    """The effect may have happened: the call ended without a record."""


class Claim(NamedTuple):
    """A call's claim on a key.

    Args:
        key: The same for equal calls: scope, tool and a hash of the params that count.
        tool_name: The tool.
        params_hash: The hash of all params, which calls of one key must share.
        effect_id: An id for this claim only, 32 hexadecimal digits; it fences off a late owner.
        session_id: The session of the call.
        call_id: The call.
        created_at: The time of the claim; aware, UTC.
        params: All params as JSON for the `reconcile` of the tool, kept until the effect is
            finished; None without `reconcile`. For `undo`, a list: the first id, the params,
            and the value of the result.
    """

    key: str
    tool_name: str
    params_hash: str
    effect_id: str
    session_id: str
    call_id: str
    created_at: datetime
    params: bytes | None = None

    @property
    def owed_id(self) -> str | None:
        """The first id of an effect that is undone unless it is recorded; None for others."""
        # Because params are an object, a list marks an owed undo.
        owed = self.params is not None and self.params.startswith(b"[")
        return str(json.loads(self.params or b"")[0]) if owed else None


class RecordedResult(NamedTuple):
    """The stored result of a successful call.

    Args:
        message: The result's message.
        value: The value as JSON, None without a value.
        excluded: Whether the value is kept from the model.
        changes: The changes of the session as JSON, None without changes.
        unportable: Why the changes cannot be repeated in another session.
        secret: Whether message, value or changes hold a secret, so that none of them is shown.
    """

    message: str
    value: bytes | None = None
    excluded: bool = False
    changes: str | None = None
    unportable: str | None = None
    secret: bool = False


class LedgerEntry(NamedTuple):
    """The entry of a store under one key.

    Args:
        claim: The first claim.
        state: The state of the effect.
        expires_at: The time from which the entry counts as absent; None for never.
        result: The result of the call, once recorded.
        reason: Why the effect is unknown.
        owner: The owner of the claim, or of the last check of an unknown effect, for a person.
    """

    claim: Claim
    state: EffectState
    expires_at: datetime | None = None
    result: RecordedResult | None = None
    reason: str | None = None
    owner: str | None = None

    def yields_to(self, now: datetime, over: str | None) -> bool:
        """Tell whether a new claim may replace the entry; `over` is the unknown effect it takes."""
        if self.state is EffectState.CLAIMED:
            return False
        if self.expires_at is not None and self.expires_at <= now:
            return True
        return self.state is EffectState.UNKNOWN and self.claim.effect_id == over


class LedgerStore(Protocol):
    """Keeps the entries of a ledger.

    Every method raises `LedgerError` with a remedy if the store cannot be read or written. A
    claim lasts while its owner renews it, by a clock that no person can set. The store reports a
    claim that has lapsed as `unknown`. A store with `together()`, a context manager that makes
    the calls of `finish` in it one transaction, keeps the records of nested calls all or none.

    Attributes:
        waits: Whether methods may wait, as for a disk; the host then calls them on threads.
        lease: Seconds until a claim lapses unless renewed; None if claims need no renewal.
    """

    waits: bool
    lease: float | None

    def get(self, key: str) -> LedgerEntry | None:
        """Return the entry of a key, expired or not, or None."""

    def claim(self, claim: Claim, *, now: datetime, over: str | None = None) -> LedgerEntry | None:
        """Claim a key.

        Args:
            claim: The claim.
            now: The time, which decides whether an entry has expired.
            over: The id of an unknown effect to take over.

        Returns:
            None if the claim is made, else the entry that prevents it.
        """

    def finish(
        self, key: str, effect_id: str, result: RecordedResult, expires_at: datetime | None
    ) -> bool:
        """Record the result of an effect, replacing an earlier record.

        Returns:
            False if the key has another effect now; nothing has changed then.
        """

    def mark_unknown(
        self, key: str, effect_id: str, reason: str, expires_at: datetime | None = None
    ) -> bool:
        """Make an effect unknown, in whatever state it is.

        Args:
            key: The key.
            effect_id: The effect.
            reason: Why, for a person to read.
            expires_at: The time from which the key can be claimed again; None for never.

        Returns:
            False if the key has another effect now; nothing has changed then.
        """

    def release(self, key: str, effect_id: str) -> bool:
        """Forget an effect, in whatever state it is, so that the key can be claimed again.

        Returns:
            False if the key has another effect now; nothing has changed then.
        """

    def renew(self, claims: Mapping[str, str]) -> None:
        """Extend claims by another lease; `claims` maps the ids of effects to keys."""

    def entries(self, *, tool_name: str | None = None) -> Iterator[LedgerEntry]:
        """Yield all entries, or the entries of a tool, oldest first, expired ones included."""

    def remove(self, *, key: str | None = None, tool_name: str | None = None) -> int:
        """Remove the entry of a key, the entries of a tool, or all, and return their number.

        Live claims stay.
        """

    def prune(self, now: datetime) -> int:
        """Remove the expired entries, and return their number."""

    def close(self) -> None:
        """Release connections and files; claims of this process stay."""


class CallEffects(Protocol):
    """Tells the effects of running calls; a resource, which the plugin `ledger` offers."""

    def effect_id(self, context: ToolContext) -> str | None:
        """Return the id of the recorded effect of a call, or None."""


@runtime_checkable
class JoinsDecision(Protocol):
    """A `LedgerStore` that records in the open decision of a `SessionStore` in its database.

    Beside a session store, a ledger's store that `waits` must be one, or the host does not open.
    """

    @property
    def database(self) -> str | None:
        """The database, by the name that the session store has for it."""

    def finish_within(  # noqa: PLR0913 - each is recorded
        self,
        connection: Any,
        key: str,
        effect_id: str,
        result: RecordedResult,
        expires_at: datetime | None,
        *,
        refusal: Exception | None = None,
    ) -> bool:
        """Record as `finish` does, in the transaction that is open on `Decision.connection`.

        Given a refusal, it may record at the commit, which raises the refusal if the claim is lost.
        """


@runtime_checkable
class SettlesUnknown(Protocol):
    """A `LedgerStore` in which one process at a time checks an unknown effect.

    An unknown effect is unsettled until a check finds that it has not happened. Each method
    changes unsettled effects only, and returns whether it did.
    """

    def unsettled(self) -> Iterator[LedgerEntry]:
        """Yield the unsettled effects, oldest first, lapsed claims included; changes nothing."""

    def hold(self, key: str, effect_id: str, token: str, *, at_once: bool = False) -> bool:
        """Hold a free effect for a lease, which `LedgerStore.renew` extends.

        Args:
            key: The key.
            effect_id: The effect.
            token: A unique text for this hold.
            at_once: Also if the effect was deferred.
        """

    def defer(self, key: str, effect_id: str, token: str, seconds: float) -> bool:
        """Give a hold back; the effect cannot be held again for some seconds."""

    def settle(
        self,
        key: str,
        effect_id: str,
        found: RecordedResult | str,
        expires_at: datetime | None,
        *,
        token: str | None = None,
    ) -> bool:
        """Record whether an effect has happened.

        Args:
            key: The key.
            effect_id: The effect.
            found: The result; or why the effect has not happened, so that the next call runs.
            expires_at: The end of the result; None for never.
            token: The hold; None for a person, who needs none.
        """


@runtime_checkable
class StoresOwed(Protocol):
    """A `LedgerStore` for tools with `undo`."""

    def owe(self, claim: Claim, reason: str, was: EffectState, connection: Any = None) -> bool:
        """Make an effect that is in a state unknown, and keep the params of a claim for its undo.

        Returns:
            False if the key has another effect or state now; nothing has changed then. With the
            connection of an open decision, nothing changes before that.
        """


_FORMERLY: Final = ((LedgerStore, "mark_unknown", "doubt"), (SettlesUnknown, "defer", "put_off"))
"""Protocols, methods that were renamed, and their former names."""


def with_renamed_methods(store: LedgerStore) -> LedgerStore:
    """Return a store; its class gets each renamed method that it has by the former name.

    Because plugins for version 1.0 of the contract need no change, there is no warning.
    """
    for protocol, name, former in _FORMERLY:
        # A subclass of the protocol inherits an empty method, which records nothing.
        empty = getattr(protocol, name)
        if hasattr(store, former) and getattr(type(store), name, empty) is empty:
            setattr(type(store), name, partialmethod(_by_former_name, former))
    return store


def _by_former_name(store: Any, former: str, *args: Any, **options: Any) -> bool:
    return bool(getattr(store, former)(*args, **options))
