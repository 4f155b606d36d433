"""Where the effects of calls are recorded: what a ledger's store keeps, and what it must do.

A store is shared by threads, processes and perhaps machines. Each of its methods is atomic;
none of them waits for another call. `toolstile_hookspecs.testing.LedgerStoreContract` shows
whether one keeps to this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

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
]


class EffectState(StrEnum):
    """The state of an effect."""

    CLAIMED = "claimed"
    """Its handler runs, or is about to."""
    DONE = "done"
    """It has happened, and its result is recorded."""
    UNKNOWN = "unknown"
    """It may have happened: its call ended without a record."""


class Claim(NamedTuple):
    """A call's claim on a key.

    Args:
        key: What makes calls the same: scope, tool and a hash of what counts of the params.
        tool_name: The tool.
        params_hash: The hash of all params, which calls of one key must share.
        effect_id: The claim's own, 32 hexadecimal digits; what fences off a late owner.
        session_id: The session of the call.
        call_id: The call.
        created_at: When it was made; aware, UTC.
        params: All params as JSON, of a tool with `reconcile`, which is given them; else None. A
            store keeps them until the effect is finished.
    """

    key: str
    tool_name: str
    params_hash: str
    effect_id: str
    session_id: str
    call_id: str
    created_at: datetime
    params: bytes | None = None


class RecordedResult(NamedTuple):
    """The stored result of a successful call.

    Args:
        message: The result's message.
        value: Its value as JSON, None where there is none.
        excluded: Whether the value is kept from the model.
        changes: What the call changed in its session, as JSON; None for nothing.
        unportable: Why the changes cannot be told to another session.
        secret: Whether message, value or changes hold a secret, and so are shown to nobody.
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
        claim: The claim that it began with.
        state: What is known of the effect.
        expires_at: From when on it counts as not there; None for never.
        result: What the call came to, once that is recorded.
        reason: Why it is unknown.
        owner: Who holds the claim, for a person to read; of an unknown effect, who last asked
            about it.
    """

    claim: Claim
    state: EffectState
    expires_at: datetime | None = None
    result: RecordedResult | None = None
    reason: str | None = None
    owner: str | None = None

    def yields_to(self, now: datetime, over: str | None) -> bool:
        """Tell whether a claim takes its place.

        Args:
            now: The time.
            over: The unknown effect that the claim takes over.
        """
        if self.state is EffectState.CLAIMED:
            return False
        if self.expires_at is not None and self.expires_at <= now:
            return True
        return self.state is EffectState.UNKNOWN and self.claim.effect_id == over


class LedgerStore(Protocol):
    """Keeps the entries of a ledger.

    Every method raises `LedgerError`, which says what to do, when the store cannot be read or
    written. A claim is held for as long as its owner renews it; whether the owner still does
    is never judged by a clock that can be set. A claim that is no longer held is reported
    of as `unknown`.

    Attributes:
        waits: Whether its methods may wait, as for a disk, so that they are kept off event loops.
        lease: Seconds after which a claim that is not renewed is no longer held; None where
            claims need no renewing.
    """

    waits: bool
    lease: float | None

    def get(self, key: str) -> LedgerEntry | None:
        """Return what is held under a key, also when it has expired; None for nothing."""
        ...

    def claim(self, claim: Claim, *, now: datetime, over: str | None = None) -> LedgerEntry | None:
        """Claim a key.

        Args:
            claim: The claim.
            now: The time, which decides what has expired.
            over: The id of an unknown effect that is to be taken over.

        Returns:
            None when the claim is made, else the entry that stands in its way.
        """
        ...

    def finish(
        self, key: str, effect_id: str, result: RecordedResult, expires_at: datetime | None
    ) -> bool:
        """Record what an effect came to, in the place of what is recorded of it already.

        Returns:
            Whether the effect was still that of the key; if not, nothing has changed.
        """
        ...

    def doubt(
        self, key: str, effect_id: str, reason: str, expires_at: datetime | None = None
    ) -> bool:
        """Make an effect unknown, whatever it was.

        Args:
            key: The key.
            effect_id: The effect.
            reason: Why, for a person to read.
            expires_at: From when on the key can be claimed again; None for never.

        Returns:
            Whether the effect was still that of the key; if not, nothing has changed.
        """
        ...

    def release(self, key: str, effect_id: str) -> bool:
        """Forget an effect, whatever it was, so that the key can be claimed again.

        Returns:
            Whether the effect was still that of the key; if not, nothing has changed.
        """
        ...

    def renew(self, claims: Mapping[str, str]) -> None:
        """Hold claims for another lease.

        Args:
            claims: The keys, by the ids of the effects.
        """

    def entries(self, *, tool_name: str | None = None) -> Iterator[LedgerEntry]:
        """Yield all entries, or those of a tool, oldest first; expired ones, too."""
        ...

    def remove(self, *, key: str | None = None, tool_name: str | None = None) -> int:
        """Remove the entry of a key, those of a tool, or all; claims that are held stay.

        Returns:
            How many were removed.
        """
        ...

    def prune(self, now: datetime) -> int:
        """Remove what has expired; returns how many were removed."""
        ...

    def close(self) -> None:
        """Give back what it holds; claims of this process stay as they are."""


class CallEffects(Protocol):
    """Tells the effects of running calls; a resource, which the plugin `ledger` offers."""

    def effect_id(self, context: ToolContext) -> str | None:
        """Return the id under which a call's effect is recorded, None where none is."""
        ...


@runtime_checkable
class JoinsDecision(Protocol):
    """A `LedgerStore` that records in the open decision of a `SessionStore` in its database.

    Beside a session store, a ledger's store that `waits` is one: else the host does not open.
    """

    @property
    def database(self) -> str | None:
        """The database, named as the session store names its own."""
        ...

    def finish_within(  # noqa: PLR0913 - all that is recorded
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

        Given a refusal, it may record at the commit, which raises it if the claim is gone by then.
        """
        ...


@runtime_checkable
class SettlesUnknown(Protocol):
    """A `LedgerStore` in which one at a time finds out about an unknown effect, of all processes.

    An effect is unsettled while it is unknown and nobody has said that it has not happened. Each
    method changes an unsettled effect alone, and tells whether it did.
    """

    def unsettled(self) -> Iterator[LedgerEntry]:
        """Yield the unsettled effects, oldest first; those whose claims are not held any more, too.

        Nothing changes.
        """
        ...

    def hold(self, key: str, effect_id: str, token: str, *, at_once: bool = False) -> bool:
        """Hold an effect that nobody holds, for a lease, which `LedgerStore.renew` renews.

        Args:
            key: The key.
            effect_id: The effect.
            token: A text that no other hold has.
            at_once: Also where it was put off.
        """
        ...

    def put_off(self, key: str, effect_id: str, token: str, seconds: float) -> bool:
        """Give the hold of a token back; nobody can hold the effect again for some seconds."""
        ...

    def settle(
        self,
        key: str,
        effect_id: str,
        found: RecordedResult | str,
        expires_at: datetime | None,
        *,
        token: str | None = None,
    ) -> bool:
        """Record what became of an effect.

        Args:
            key: The key.
            effect_id: The effect.
            found: What it came to; or why it has not happened, so that the next call runs.
            expires_at: The end of the result; None for never.
            token: The hold that it has to be under; None for a person, who needs none.
        """
        ...
