"""The ledger as programs use it: effects looked up, recorded, invalidated, pruned."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from math import isfinite
from typing import Any, Final, Never
from uuid import UUID

import pydantic_core

from toolstile_hookspecs import (
    NOTICE,
    Clock,
    HandlerState,
    HostHandle,
    LedgerError,
    ResourceResolver,
    SystemClock,
    Tool,
    ToolResult,
    ToolValidationError,
    hide,
    secrets_in,
    secrets_of,
)
from toolstile_hookspecs.codecs import finite, in_one_line, why_unwritable
from toolstile_hookspecs.services.ledger import (
    Claim,
    EffectState,
    JoinsDecision,
    LedgerEntry,
    LedgerStore,
    RecordedResult,
    with_renamed_methods,
)
from toolstile_hookspecs.support.event_loop import is_on_loop
from toolstile_hookspecs.support.process import deferred_interrupts, new_id
from toolstile_plugins.leases import now_of
from toolstile_plugins.ledger.keys import as_recorded
from toolstile_plugins.ledger.messages import failure
from toolstile_plugins.ledger.settings import LedgerSettings
from toolstile_plugins.ledger.stores.memory import MemoryStore

log = logging.getLogger("toolstile.ledger")

DAY: Final = timedelta(hours=24)
DECIDER: Final = "ledger"


def read_result(
    message: str, value: str | None, tool: Tool[object, object] | None
) -> RecordedResult:
    """Return a result as the ledger records it; raises `LedgerError` if it does not fit."""
    if value is None:
        return RecordedResult(message)
    try:
        plain = json.loads(value, parse_constant=_refuse, parse_float=_finite)
        if tool is None:
            return RecordedResult(message, value.encode())
        typed = tool.result_codec.decode(value)
        written = tool.result_codec.encode(typed)
        tool.result_codec.decode(written)
    except ToolValidationError as error:
        raise _misfit(in_one_line(error)) from error
    except (ValueError, RecursionError) as error:
        raise _misfit(why_unwritable(error)) from error
    shown = secrets_of(plain, tool.result_codec.secret_schema())
    return with_masks(RecordedResult(message, written), masked=secrets_in(typed), others=shown)


def with_masks(
    result: RecordedResult, *, masked: Iterable[str], others: Iterable[str]
) -> RecordedResult:
    """Return a result whose message hides the secrets that its value masks.

    Args:
        result: The result.
        masked: The secrets that are masked in its value.
        others: Secrets that stay in clear; a result that contains one is never shown.
    """
    message = hide(result.message, masked)
    # Because a program may pass the mask of a masked field, stars alone are no secret.
    secrets = [secret for secret in others if secret.strip("*")]
    texts = (message, (result.value or b"").decode())
    holds_secret = any(hide(text, secrets) != text for text in texts)
    return result._replace(message=message, secret=holds_secret)


def _misfit(reason: str) -> LedgerError:
    return LedgerError(f"The value does not fit: {reason}. Nothing was resolved.")


def _finite(number: str) -> float:
    value = float(number)
    return value if isfinite(value) else _refuse(number)


def _refuse(number: str) -> Never:
    raise ValueError(f"{number} is not a finite number")


@dataclass(frozen=True, slots=True)
class ToolEffect:
    """A recorded execution.

    Args:
        idempotency_key: The key that equal calls share.
        tool_name: The tool.
        params_hash: The hash of all its params.
        result_message: The result's message.
        result_value: Its value as plain JSON data, or None.
        result_success: Whether it succeeded; only successes are recorded.
        created_at: When its call began; aware, UTC.
        expires_at: The time of its expiry; None for never.
        effect_id: Its own id.
    """

    idempotency_key: str
    tool_name: str
    params_hash: str
    result_message: str
    result_value: Any
    result_success: bool
    created_at: datetime
    expires_at: datetime | None
    effect_id: UUID


class EffectLedger:
    """The ledger of effects: a repeated call has its effect once.

    Bind one to let executors use it in place of the configured one:
    `Binding.instance(EffectLedger, ledger)`. It may be shared by threads, and its store by
    processes.

    Args:
        store: The store of effects; in memory by default.
        clock: The clock for expiry if a program uses the ledger directly.
        wait: The most seconds that a call waits for another call of the same key.

    Example:
        >>> ledger = EffectLedger()
        >>> effect = ledger.record(
        ...     idempotency_key="session:create_order:abc123",
        ...     tool_name="create_order",
        ...     params={"item": "tea"},
        ...     result=ToolResult.ok({"number": 7}, message="Ordered."),
        ... )
        >>> ledger.lookup("session:create_order:abc123").result_value
        {'number': 7}
        >>> ledger.invalidate_by_tool("create_order")
        1
    """

    def __init__(
        self, store: LedgerStore | None = None, *, clock: Clock | None = None, wait: float = 30.0
    ) -> None:
        self.store = MemoryStore() if store is None else with_renamed_methods(store)
        # The same store if it can record within the decision of a session store.
        self.joining = self.store if isinstance(self.store, JoinsDecision) else None
        self.wait = wait
        self.keeper = LeaseKeeper(self.store)
        self._clock = clock or SystemClock()

    @property
    def database(self) -> str | None:
        """The database that decides whether a call is recorded; None in memory."""
        if not self.store.waits:
            return None
        joining = self.joining
        return (joining and joining.database) or type(self.store).__qualname__

    def lookup(self, key: str) -> ToolEffect | None:
        """Return the effect of a key, or None; an expired one is removed."""
        entry = self.store.get(key)
        if entry is None or entry.state is not EffectState.DONE:
            return None
        if entry.yields_to(now_of(self.store, self._clock), None):
            self.store.release(key, entry.claim.effect_id)
            return None
        return _effect(entry)

    def record(
        self,
        *,
        idempotency_key: str,
        tool_name: str,
        params: object,
        result: ToolResult[Any],
        ttl: timedelta | None = DAY,
    ) -> ToolEffect | None:
        """Record the result of a call, replacing an earlier record of the key.

        Secrets in the value are masked, also in the message.

        Args:
            idempotency_key: The key.
            tool_name: The tool.
            params: All its params, as arguments or as a value of the tool's own type. Calls of
                the key must have the same.
            result: The result.
            ttl: The time for which the result answers calls; None for ever.

        Returns:
            The effect; None for a failed result, which is not recorded.

        Raises:
            LedgerError: The store fails, the result has no JSON form, or another call has the key.
        """
        if not result.success:
            return None
        now = now_of(self.store, self._clock)
        created_at, expires_at = self._clock.now(), end_of(now, ttl)
        value = None if result.value is None else _as_json(result.value)
        claim = Claim(idempotency_key, tool_name, _hash_of(params), new_id(), "", "", created_at)
        while (standing := self.store.claim(claim, now=now)) is not None:
            if standing.state is EffectState.CLAIMED:
                raise LedgerError(
                    f"A call of the key {idempotency_key} is under way, so nothing can be recorded "
                    "there. Retry when it has ended."
                )
            self.store.release(idempotency_key, standing.claim.effect_id)
        given = RecordedResult(result.message, value, result.exclude_value_from_context)
        recorded = with_masks(
            given, masked=secrets_in(result.value), others=secrets_in((result.value, params))
        )
        if not self.store.finish(idempotency_key, claim.effect_id, recorded, expires_at):
            raise LedgerError(
                f"The key {idempotency_key} was released or taken by another while its effect was "
                "recorded, so it is not there. Look at the key, and record it again."
            )
        return _effect(LedgerEntry(claim, EffectState.DONE, expires_at, recorded))

    def invalidate(self, key: str) -> bool:
        """Remove the entry of a key, unless its call is running; return whether one was removed."""
        return self.store.remove(key=key) > 0

    def invalidate_by_tool(self, tool_name: str) -> int:
        """Remove the entries of a tool, except of running calls; return their number."""
        return self.store.remove(tool_name=tool_name)

    def clear(self) -> int:
        """Remove all entries, except of running calls; return their number."""
        return self.store.remove()

    def prune_expired(self) -> int:
        """Remove the expired entries; return their number."""
        return self.store.prune(now_of(self.store, self._clock))

    def decided(self, key: str) -> bool | None:
        """Return whether a call was committed before a crash; see `Decider`.

        Args:
            key: The key in its journals; see `decision_key`.
        """
        decider, _, rest = key.partition(":")
        effect_id, _, effect_key = rest.partition(":")
        if decider != DECIDER:
            return None
        entry = self.store.get(effect_key)
        if entry is None or entry.state is EffectState.CLAIMED:
            # An undo takes over the claims of calls that were not committed.
            is_undone = entry and entry.claim.owed_id and entry.claim.effect_id != effect_id
            return False if is_undone else None
        return entry.claim.effect_id == effect_id and entry.state is EffectState.DONE

    def shut(self) -> None:
        """Stop renewing claims and close the store; the next use opens it again."""
        self.keeper.stop()
        self.store.close()


def decision_key(claim: Claim) -> str:
    """Return the key for journals to ask this ledger about a call after a crash."""
    return f"{DECIDER}:{claim.effect_id}:{claim.key}"


def end_of(now: datetime, ttl: timedelta | None) -> datetime | None:
    """Return the expiry of an effect that is recorded now; None for never."""
    try:
        return None if ttl is None else now + ttl
    except OverflowError:  # beyond all dates
        return None


def _hash_of(params: object) -> str:
    try:
        return sha256(as_recorded(params)).hexdigest()
    except (ValueError, RecursionError) as error:
        raise _unrecordable("The value of the params", "params whose value", error) from error


def _as_json(value: object) -> bytes:
    try:
        text = pydantic_core.to_json(value, inf_nan_mode="null")
        return finite(
            text, lambda: pydantic_core.to_jsonable_python(value, inf_nan_mode="constants")
        )
    except (ValueError, RecursionError) as error:
        raise _unrecordable("The value of the result", "a result whose value", error) from error


def _unrecordable(what: str, instead: str, error: Exception) -> LedgerError:
    return LedgerError(
        f"{what} cannot be recorded: {why_unwritable(error)}. Record {instead} JSON can say."
    )


def _effect(entry: LedgerEntry) -> ToolEffect:
    result = entry.result
    assert result is not None  # noqa: S101 - it is done
    claim = entry.claim
    return ToolEffect(
        idempotency_key=claim.key,
        tool_name=claim.tool_name,
        params_hash=claim.params_hash,
        result_message=result.message,
        result_value=None if result.value is None else json.loads(result.value),
        result_success=True,
        created_at=claim.created_at,
        expires_at=entry.expires_at,
        effect_id=UUID(claim.effect_id),
    )


def is_unsettled(entry: LedgerEntry) -> bool:
    """Return whether an unknown effect is still to be resolved."""
    return entry.state is EffectState.UNKNOWN and entry.expires_at is None


Settling = Callable[[], object]
LeftBehind = Callable[[], Settling | None]

AGAIN: Final = 0.5
"""Seconds between two checks of late writes, and of claims whose calls are over."""


class LeaseKeeper:
    """One thread that renews the claims of this process, three times a lease.

    It also repeats late writes until they succeed, and settles claims whose calls are over,
    because a person who presses Ctrl-C repeatedly also interrupts the settling by the call.
    """

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self._held: dict[str, tuple[str, LeftBehind | None]] = {}
        self._late: deque[Settling] = deque()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def hold(self, effect_id: str, key: str, left_behind: LeftBehind | None = None) -> None:
        """Renew a claim; once its call is over, `left_behind` returns a function to settle it."""
        self._held[effect_id] = key, left_behind
        if self._thread is None:
            self._start()

    def drop(self, effect_id: str) -> None:
        """Stop renewing a claim."""
        self._held.pop(effect_id, None)

    def settle(self, settling: Settling) -> None:
        """Write the outcome of a claim, now or as soon as the store can write again."""
        try:
            settling()
        except BaseException as error:
            self.settle_later(settling)
            if not isinstance(error, Exception):
                raise
            log.warning("%s It is tried again.", failure(self._store, error))

    def settle_later(self, settling: Settling) -> None:
        """Write the outcome of a claim on the keeper's thread."""
        self._late.append(settling)
        self._start()
        self._wake.set()

    def stop(self) -> None:
        """End the thread after a last try of the late writes."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._wake.set()
        if thread is not None:
            thread.join(timeout=5)
        self._settle_late()

    def _start(self) -> None:
        with deferred_interrupts(), self._lock:
            if self._thread is None:
                self._wake.clear()
                self._thread = threading.Thread(
                    target=self._run, name="toolstile-ledger", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        interval = (self._store.lease or 3.0) / 3
        renewal = time.monotonic() + interval
        # By the thread, because a late write may start the next one while this one is stopped.
        while self._thread is threading.current_thread():
            self._wake.wait(min(interval, AGAIN))
            self._wake.clear()
            if self._store.lease is not None and time.monotonic() >= renewal:
                renewal = time.monotonic() + interval
                held = {effect_id: key for effect_id, (key, _) in list(self._held.items())}
                try:
                    if held:
                        self._store.renew(held)
                except Exception as error:  # noqa: BLE001 - the store may be anybody's
                    failed = failure(self._store, error)
                    log.warning("%s The claims of running calls could not be renewed.", failed)
            for effect_id, (_, left_behind) in list(self._held.items()):
                if left_behind is not None and (settling := left_behind()) is not None:
                    self.drop(effect_id)
                    self._late.append(settling)
            self._settle_late()

    def _settle_late(self) -> None:
        for _ in range(len(self._late)):
            try:
                self._late[0]()
            except LedgerError as error:
                log.debug("%s It is tried again.", error)
                return  # because the others cannot reach the ledger either
            except Exception:
                # Because the store may refuse one write only, the others go first next time.
                log.debug("The ledger's store has failed. It is tried again.", exc_info=True)
                self._late.rotate(-1)
            else:
                self._late.popleft()


_ENDED: Final = frozenset({HandlerState.FAILED, HandlerState.RAISED, HandlerState.LOST})


class HandlerEnd:
    """Calls back when the handler of a call has ended: a resource of that call.

    The host closes the resource then. While a cancelled handler still runs, no reconciliation may
    find that its effect has not happened.
    """

    def __init__(self) -> None:
        self._callbacks: list[Callable[[], object]] = []
        self._has_ended = False
        self._lock = threading.Lock()

    def then(self, callback: Callable[[], object]) -> None:
        """Call back at the end; at once if the handler has ended."""
        with self._lock:
            if not self._has_ended:
                self._callbacks.append(callback)
                return
        callback()

    def close(self) -> None:
        """Call the callbacks."""
        with self._lock:
            self._has_ended = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


def gives_key_back(tool: Tool[Any, Any], state: HandlerState, *, asks_tool: bool) -> bool:
    """Return whether a handler that failed counts as without effect."""
    config = tool.idempotency
    if state not in _ENDED or config is None:
        return False
    if config.on_error is not None:
        return config.on_error == "release"
    if state is HandlerState.FAILED:
        return True
    is_asked = asks_tool or config.reconcile is not None
    return not is_asked and (state is HandlerState.RAISED or tool.category == "read")


# --- The ledger of a host


class HostLedger:
    """Opens the one ledger of a host when it is first needed; the state of the plugin.

    Args:
        settings: The settings.
        host: The host; None if the host is not open.
    """

    def __init__(self, settings: LedgerSettings, host: HostHandle | None = None) -> None:
        self._settings = settings
        self._clock: Clock = SystemClock() if host is None else host.clock
        self._looks = host is not None and host.purpose == "look"
        self.undo: Callable[[str], None] = lambda key: None  # noqa: ARG005 - the host sets it
        self._owed, self._undoing = deque[str](), threading.RLock()
        self._ledger: EffectLedger | None = None
        self._lock = threading.Lock()

    @deferred_interrupts()
    def ledger(self, resources: ResourceResolver) -> EffectLedger:
        """Return the ledger, in the store that a plugin or the application binds, else in a file.

        Raises:
            ConfigurationError: The ledger's own file has entries that still count, and stored
                sessions keep the ledger in another file.
        """
        with self._lock:
            if self._ledger is None:
                store: LedgerStore | None = resources.get(LedgerStore, None)  # type: ignore[type-abstract]
                if store is None:
                    # Late, because few hosts record a call, and importing sqlite3 takes long.
                    from toolstile_plugins.ledger.stores.sqlite import file_store

                    now = None if self._looks else self._clock.now()
                    store = file_store(self._settings, resources, now)
                elif unused := self._settings.unused:
                    class_ = type(store)
                    log.warning(
                        "The ledger is kept in the store that is offered, %s: %s of "
                        "[plugins.ledger] is not used. Remove it there, or the plugin that offers "
                        "the store.",
                        f"{class_.__qualname__} of {class_.__module__}",
                        " and ".join(unused),
                        extra=NOTICE,
                    )
                self._ledger = EffectLedger(store, clock=self._clock, wait=self._settings.wait)
            return self._ledger

    def refund(self, key: str) -> None:
        """Undo the owed effect of a key, on a thread if an event loop runs on this one."""
        self._owed.append(key)
        if is_on_loop():
            threading.Thread(target=self._undo_owed, daemon=True).start()
        else:
            self._undo_owed()

    def _undo_owed(self) -> None:
        # One after the other, in the order of the debts.
        with self._undoing:
            while self._owed:
                self.undo(self._owed.popleft())

    def close(self) -> None:
        """Close the ledger, if it was used."""
        with self._lock:
            if self._ledger is not None:
                self._ledger.shut()
