"""The runtime of a session: commit turns, admission, calls in flight."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from toolstile.drivers.async_driver import AsyncDriver
from toolstile.drivers.background_loop import Background
from toolstile.drivers.sync_driver import SyncDriver
from toolstile.pipeline.batch import CommitQueue
from toolstile.pipeline.plan import HostPlans
from toolstile.resources.exclusive import CallOwner, Claim, ExclusiveLock
from toolstile.state.session import Session
from toolstile.stops import Gate
from toolstile_hookspecs import InflightCall, Tool
from toolstile_hookspecs.support.event_loop import Workers
from toolstile_hookspecs.support.process import renewed_in_forks


class Inflight(Sequence[InflightCall]):
    """The calls admitted and not ended, in that order, as they are at the moment of looking."""

    __slots__ = ("_calls",)

    def __init__(self, calls: dict[int, Any]) -> None:
        self._calls = calls

    def _now(self) -> tuple[InflightCall, ...]:
        calls = list(self._calls.values())
        return tuple(InflightCall(each.call_made.id, each.name) for each in calls)

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[InflightCall]:
        return iter(self._now())

    def __getitem__(self, index: Any) -> Any:
        calls: Any = self._now()
        return calls[index]


class Runtime:
    """The state that the calls of one session share, across executors."""

    __slots__ = ("admission", "calls", "inflight", "kept", "turns")

    def __init__(self) -> None:
        self.turns = CommitQueue()
        self.admission = threading.Lock()
        self.kept = set[str]()
        # The `ActiveCall`s that are admitted and not ended, by their ids in the process.
        self.calls: dict[int, Any] = {}
        self.inflight = Inflight(self.calls)

    def tell_abandoned(self, executor: Any) -> None:
        """Let the calls of an executor and its children end the work that they run elsewhere."""
        family = executor.family()
        for call in reversed([*self.calls.values()]):
            if any(call.executor is each for each in family):
                call.tell_abandoned()


_runtimes: WeakKeyDictionary[Session, Runtime] = renewed_in_forks(
    __name__, "_runtimes", WeakKeyDictionary[Session, Runtime]
)
_lock = renewed_in_forks(__name__, "_lock", threading.Lock)


def runtime_of(session: Session, parent: Runtime | None = None) -> Runtime:
    """Return the one runtime of a session; of a child's own session, that of its parent."""
    with _lock:
        runtime = _runtimes.get(session)
        if runtime is None:
            runtime = _runtimes[session] = parent or Runtime()
        return runtime


class Engine:
    """Threads, the background loop, the drivers and the plans of one host.

    Exceptions of other frameworks in `interrupts` leave `dispatch` as they are. `gate` has the
    stops of the host, and the marks of its decisions; it is set before the first call.
    """

    gate: Gate

    def __init__(self, interrupts: tuple[type[BaseException], ...], lifespans: Any) -> None:
        self.interrupts = interrupts
        self.lifespans = lifespans
        self.workers = Workers()
        self.background = Background()
        self.sync = SyncDriver(self.workers, self.background)
        self.asynchronous = AsyncDriver(self.workers)
        self.plans = HostPlans()
        self._serial: WeakValueDictionary[int, SerialLock] = WeakValueDictionary()
        self._lock = threading.Lock()
        self._failing: set[tuple[str, str]] = set()

    def serial(self, tool: Tool[Any, Any], owner: CallOwner) -> Claim:
        """Return a claim on the lock of a serial tool."""
        with self._lock:
            lock = self._serial.get(id(tool))
            if lock is None:
                lock = self._serial[id(tool)] = SerialLock(tool)
        return Claim(lock, owner)

    def fails_first(self, plugin: str, hook: str) -> bool:
        """Note that a plugin failed in a hook; tell whether it is the first time."""
        with self._lock:
            is_first = (plugin, hook) not in self._failing
            self._failing.add((plugin, hook))
        return is_first

    def close(self) -> None:
        """Let idle threads end, and stop the loop; a thread that never ends stays until exit."""
        self.workers.close()
        self.background.close()


class SerialLock(ExclusiveLock):
    """The lock of a serial tool: an exclusive resource."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"The one place in which {self.resource.name} runs"
