"""What the calls of one session share: the turn to commit, the admission, who is in flight."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload
from weakref import WeakKeyDictionary

from toolstile.pipeline.batch import Turns
from toolstile.state.session import Session
from toolstile_hookspecs import InflightCall
from toolstile_hookspecs.support.event_loop import renewed_in_forks

if TYPE_CHECKING:
    from toolstile.pipeline.call import CallRun


class Inflight(Sequence[InflightCall]):
    """The calls admitted and not ended, as they are at the moment of looking."""

    __slots__ = ("_runs",)

    def __init__(self, runs: dict[int, CallRun]) -> None:
        self._runs = runs

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._runs)

    def __iter__(self) -> Iterator[InflightCall]:
        """Yield them in the order in which they were admitted."""
        for run in list(self._runs.values()):
            yield InflightCall(run.call_made.id, run.name)

    @overload
    def __getitem__(self, index: int) -> InflightCall: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[InflightCall]: ...
    def __getitem__(self, index: int | slice) -> InflightCall | Sequence[InflightCall]:
        """Return those at a place."""
        return tuple(self)[index]


class Runtime:
    """What the calls of one session share, through whichever executor they come."""

    __slots__ = ("_runs", "admission", "inflight", "kept", "turns")

    def __init__(self) -> None:
        self.turns = Turns()
        self.admission = threading.Lock()
        self.kept = set[str]()
        self._runs: dict[int, CallRun] = {}
        self.inflight = Inflight(self._runs)

    def enter(self, run: CallRun) -> None:
        """Count a call as admitted."""
        # Before: interrupted right after it, the call would count for ever.
        run.admitted = True
        self._runs[id(run)] = run

    def leave(self, run: CallRun) -> None:
        """Count it no longer."""
        self._runs.pop(id(run), None)


_runtimes: WeakKeyDictionary[Session, Runtime] = WeakKeyDictionary()
_lock = renewed_in_forks(__name__, "_lock", threading.Lock)


def runtime_of(session: Session) -> Runtime:
    """Return the one runtime of a session."""
    with _lock:
        runtime = _runtimes.get(session)
        if runtime is None:
            runtime = _runtimes[session] = Runtime()
        return runtime
