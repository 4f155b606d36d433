"""The recorder: a line for each call of a host, while the host is open."""

from __future__ import annotations

import logging
import secrets
import sys
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar, Token
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, Final

from toolstile_hookspecs import (
    NOTICE,
    Clock,
    HostHandle,
    PolicyStoreLocation,
    RequestTurn,
    SnapshotError,
    Stage,
    ToolInvoked,
    TransactionEnded,
    hookimpl,
)
from toolstile_hookspecs.services import replay as services
from toolstile_hookspecs.support.process import make_directory
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.record.file import RecordFile
from toolstile_plugins.record.reader import Recording
from toolstile_plugins.record.replayer import APART, Replayer, registered
from toolstile_plugins.record.schema import FORMAT, VERSION, RecordError, RecordInUseError
from toolstile_plugins.record.serialize import Fields, fields_of, joined, request_of, written
from toolstile_plugins.record.settings import RecordSettings

log = logging.getLogger("toolstile.record")


class Recorder:
    """A plugin that writes a line for each call, whatever its outcome.

    A line that cannot be written is logged and does not change the call. The next line that can be
    written says how many are missing.

    Args:
        file: The file.
        clock: The clock for the begin and the end of the run.

    Example:
        >>> host.register(Recorder(RecordFile(path), host.clock))  # doctest: +SKIP
    """

    def __init__(self, file: RecordFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._lock = Lock()
        self._lost = 0
        self._why = ""
        self._begun = False
        self._requests = RecordedRequests()

    @hookimpl
    def toolstile_trace(self) -> StageTimes:
        """Note the times of the call's stages."""
        return StageTimes(self._clock.monotonic)

    @hookimpl
    def toolstile_telemetry(self, event: ToolInvoked, changes: str | SnapshotError) -> None:
        """Write the call's line."""
        self._write(event, changes)

    def _write(self, event: ToolInvoked, changes: str | SnapshotError, diff: str = "") -> None:
        if APART.get():
            return
        lost = self._taken() if self._lost else 0
        try:
            fields = fields_of(event, changes, diff)
            if (times := _current.get()) is not None:
                fields.append(f'"stages":{times.json()}')
            # A process that has not imported the library has no trace.
            tracing: Any = sys.modules.get("opentelemetry.trace")
            if tracing and (span := tracing.get_current_span().get_span_context()).is_valid:
                fields.append(f'"trace":"{tracing.format_trace_id(span.trace_id)}"')
            if lost:
                fields.append(f'"lost":{lost}')
            if not self._begun:
                self._begin()
            self._requests.write(self._file, event, fields)
        except BaseException as error:
            self._count(lost)
            if isinstance(error, Exception):
                self._why = _reason_of(error)
                self._count(1)
            raise

    @hookimpl
    def toolstile_transaction(self, event: TransactionEnded) -> None:
        """Write the end of a transaction."""
        if APART.get():
            return
        names = ("id", "title", "status", "calls", "reason", "reruns")
        said = {name: getattr(event, name) for name in names}
        said |= {"session": event.session_id, "parent": event.parent_id}
        said |= {"at": event.timestamp.isoformat(), "seconds": event.duration}
        self.note("transaction", {name: value for name, value in said.items() if value})

    def note(self, kind: str, said: dict[str, Any]) -> None:
        """Write a line of another kind than a call; `OSError` or `RecordError` if that fails."""
        if not self._begun:
            self._begin()
        self._file.append(written({"kind": kind, **said}))

    def close(self) -> None:
        """Write the end of the run with the number of lost calls, and close the file."""
        try:
            if self._lost and not self._begun:
                self._begin()
            if self._begun:
                end: dict[str, Any] = {"kind": "end", "at": self._clock.now().isoformat()}
                if self._lost:
                    end["lost"] = self._lost
                self._file.append(written(end))
        except (OSError, RecordError) as error:
            self._why = _reason_of(error)
            log.exception("The end of the record could not be written: %s", self._why, extra=NOTICE)
        finally:
            if self._lost:
                log.warning(
                    "The record is not complete: %s at its end could not be written: %s",
                    counted(self._lost, "call"),
                    self._why,
                    extra=NOTICE,
                )
            self._file.close()

    def _begin(self) -> None:
        with self._lock:
            if self._begun:
                return
            begin: dict[str, Any] = {"kind": "begin", "format": FORMAT, "version": VERSION}
            begin["at"] = self._clock.now().isoformat()
            if self._file.torn:
                begin["torn"] = self._file.torn
            self._file.append(written(begin))
            self._begun = True

    def _taken(self) -> int:
        with self._lock:
            lost, self._lost = self._lost, 0
            return lost

    def _count(self, more: int) -> None:
        with self._lock:
            self._lost += more


class DiffRecorder(Recorder):
    """A recorder that also writes the changes of each call as an approver reads them."""

    @hookimpl
    def toolstile_telemetry(  # type: ignore[override]  # a hook takes the arguments that it names
        self, event: ToolInvoked, changes: str | SnapshotError, diff: str
    ) -> None:
        """Write the call's line, with its changes."""
        self._write(event, changes, diff)


def _reason_of(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror or error}. See that it can be written before the next run."
    # Because the text of any other error may hold a secret of the call, name its class alone.
    return str(error) if isinstance(error, RecordError) else f"{type(error).__name__}."


_RECORDER: Final = "record-recorder"
_BESIDE: Final = (
    "%s is being written by another process. The calls of this run are in %s beside it."
)


@contextmanager
def at_work(host: HostHandle, settings: RecordSettings) -> Generator[services.Recorder | None]:
    """Record and replay as the settings say; raise `RecordError` for an unusable file."""
    with ExitStack() as stack:
        if settings.replay is not None:
            replay = Replayer(Recording.load(settings.replay), strict=settings.strict)
            stack.enter_context(registered(host, replay))
            # Policies begin with nothing, and leave their own files alone.
            folder = stack.enter_context(TemporaryDirectory(prefix="toolstile-replay-"))
            host.kept_apart = PolicyStoreLocation(Path(folder), anew=True)
            stack.callback(setattr, host, "kept_apart", None)
        # The names sort by time; the random end distinguishes runs of one second.
        name = f"{host.clock.now():%Y-%m-%dT%H-%M-%S}-{secrets.token_hex(4)}.jsonl"
        file, service = settings.file, None
        if settings.folder is not None:
            try:
                make_directory(settings.folder, 0o700)
            except OSError as error:
                raise RecordError(
                    f"The folder {settings.folder} for records cannot be made: {error.strerror}. "
                    "Name a folder that can be written."
                ) from error
            file = settings.folder / name
        if file is not None:
            try:
                opened = RecordFile(file, durability=settings.durability)
            except RecordInUseError:
                if not settings.beside:
                    raise
                beside = file.with_name(f"{file.stem}-{name}")
                log.warning(_BESIDE, file, beside.name, extra=NOTICE)
                opened = RecordFile(beside, durability=settings.durability)
            recorder = (DiffRecorder if settings.diff else Recorder)(opened, host.clock)
            stack.callback(recorder.close)
            stack.enter_context(registered(host, recorder, _RECORDER))
            service = services.Recorder(recorder.note)
        yield service


class StageTimes:
    """The trace of a call that notes when each of its stages began."""

    __slots__ = ("_began", "_entered", "_monotonic", "_outer")

    _outer: Token[StageTimes | None]

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._entered: list[tuple[Stage, float]] = []

    def __enter__(self) -> None:
        self._outer = _current.set(self)
        self._began = self._monotonic()

    def __exit__(self, *error: object) -> None:
        _current.reset(self._outer)

    def stage(self, stage: Stage) -> None:
        """Note that a stage begins."""
        self._entered.append((stage, self._monotonic()))

    def json(self) -> str:
        """Return the stages as JSON, each with the seconds since the call began."""
        began = self._began
        form = _form_of(tuple([stage for stage, _ in self._entered]))
        return form % tuple([at - began for _, at in self._entered])


@lru_cache(maxsize=64)
def _form_of(stages: tuple[Stage, ...]) -> str:
    """Return the JSON of stages with a place for each time; most calls pass the same stages."""
    pairs = [f'["{stage}",%.6f]' for stage in stages]
    return f"[{','.join(pairs)}]"


_current: Final[ContextVar[StageTimes | None]] = ContextVar("toolstile_record", default=None)


_UNCHECKED: Final = frozenset({Stage.LOOKUP, Stage.PARSE, Stage.DEADLINE})
"""The stages before policies see the request."""
MAX_SESSIONS: Final = 1_000
"""The most sessions whose last request is remembered; others record it again."""


class RecordedRequests:
    """The last recorded request of each session, so that it is written once while it stays."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, Sequence[RequestTurn]] = OrderedDict()
        self._lock = Lock()

    def write(self, file: RecordFile, event: ToolInvoked, fields: Fields) -> None:
        """Write the line of a call, with the request if the line is the first that saw it."""
        session = event.session_id
        if not (event.request or session in self._last) or event.stage in _UNCHECKED:
            file.append(joined(fields))
            return
        # Because a line of a call that saw another request must not come between, lock.
        with self._lock:
            if event.request != self._last.get(session, ()):
                fields.append(f'"request":{request_of(event)}')
            file.append(joined(fields))
            self._last[session] = event.request
            self._last.move_to_end(session)
            while len(self._last) > MAX_SESSIONS:
                self._last.popitem(last=False)
