"""The renewal of claims while their handlers run, and late writes to the ledger."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from toolstile_hookspecs import LedgerError
from toolstile_hookspecs.services.ledger import LedgerStore
from toolstile_plugins.ledger.messages import failure

log = logging.getLogger("toolstile.ledger")

Settling = Callable[[], object]
LeftBehind = Callable[[], Settling | None]

AGAIN: Final = 0.5
"""Seconds between two looks at late writes, and at claims whose calls are over."""


class LeaseKeeper:
    """One thread that renews the claims of this process, three times a lease.

    It also repeats late writes until they succeed, and settles claims whose calls are over: a
    person who presses Ctrl-C again and again interrupts a call's own settling, too.
    """

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self._held: dict[str, tuple[str, LeftBehind | None]] = {}
        self._late: deque[Settling] = deque()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def hold(self, effect_id: str, key: str, left_behind: LeftBehind | None = None) -> None:
        """Keep a claim from now on.

        Args:
            effect_id: The id of its effect.
            key: Its key.
            left_behind: Returns how to settle the claim, once its call is over.
        """
        self._held[effect_id] = key, left_behind
        if self._thread is None:
            self._start()

    def drop(self, effect_id: str) -> None:
        """Keep a claim no longer."""
        self._held.pop(effect_id, None)

    def settle(self, settling: Settling) -> None:
        """Write the outcome of a claim, now or as soon as the ledger can be written again."""
        try:
            settling()
        except BaseException as error:
            self.settle_later(settling)
            if not isinstance(error, Exception):
                raise
            log.warning("%s It is tried again.", failure(self._store, error))

    def settle_later(self, settling: Settling) -> None:
        """Write the outcome of a claim, on the keeper's own thread."""
        self._late.append(settling)
        self._start()
        self._wake.set()

    def stop(self) -> None:
        """End the thread, after a last try of the late writes."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._stopped = True
            self._wake.set()
        if thread is not None:
            thread.join(timeout=5)
        self._settle_late()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._stopped = False
                self._wake.clear()
                self._thread = threading.Thread(
                    target=self._run, name="toolstile-ledger", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        interval = (self._store.lease or 3.0) / 3
        renewal = time.monotonic() + interval
        while not self._stopped:
            self._wake.wait(min(interval, AGAIN))
            self._wake.clear()
            if self._store.lease is not None and time.monotonic() >= renewal:
                renewal = time.monotonic() + interval
                self._renew()
            for effect_id, (_, left_behind) in list(self._held.items()):
                if left_behind is not None and (settling := left_behind()) is not None:
                    self.drop(effect_id)
                    self._late.append(settling)
            self._settle_late()

    def _renew(self) -> None:
        held = {effect_id: key for effect_id, (key, _) in list(self._held.items())}
        if not held:
            return
        try:
            self._store.renew(held)
        except Exception as error:  # noqa: BLE001 - the store may be anybody's
            failed = failure(self._store, error)
            log.warning("%s The claims of running calls could not be renewed.", failed)

    def _settle_late(self) -> None:
        """Do the late writes, up to the first that finds the ledger away."""
        for _ in range(len(self._late)):
            try:
                self._late[0]()
            except LedgerError as error:
                log.debug("%s It is tried again.", error)
                return
            except Exception:
                # What the store does not take keeps nothing else waiting.
                log.debug("The ledger's store has failed. It is tried again.", exc_info=True)
                self._late.rotate(-1)
            else:
                self._late.popleft()
