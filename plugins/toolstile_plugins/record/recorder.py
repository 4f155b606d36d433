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
    hookimpl,
)
from toolstile_hookspecs.services import recorder as services
from toolstile_hookspecs.support.process import make_directory
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.record.file import RecordFile
from toolstile_plugins.record.reader import Recording
from toolstile_plugins.record.replay_run import registered
from toolstile_plugins.record.replayer import Replayer
from toolstile_plugins.record.schema import FORMAT, VERSION, RecordError
from toolstile_plugins.record.serialize import Fields, fields_of, joined, request_of, written
from toolstile_plugins.record.settings import RecordSettings

log = logging.getLogger("toolstile.record")


class Recorder:
    """A plugin that writes a line for each call, whatever its outcome.

    A line that cannot be written is logged and does not change the call. The next line that can
    be written says how many are missing.

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
        lost = self._taken() if self._lost else 0
        try:
            fields = [*fields_of(event, changes), *tracing_fields()]
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

    def note(self, kind: str, said: dict[str, Any]) -> None:
        """Write a line of another kind than a call.

        Raises:
            OSError: It cannot be written.
            RecordError: Another process writes the record.
        """
        if not self._begun:
            self._begin()
        self._file.append(written({"kind": kind, **said}))

    def close(self) -> None:
        """Write that the run ended and what of it is lost, and close the file."""
        try:
            if self._lost and not self._begun:
                self._begin()
            if self._begun:
                self._end()
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

    def _end(self) -> None:
        end: dict[str, Any] = {"kind": "end", "at": self._clock.now().isoformat()}
        if self._lost:
            end["lost"] = self._lost
        self._file.append(written(end))

    def _taken(self) -> int:
        """Return how many are missing, for one line to tell."""
        with self._lock:
            lost, self._lost = self._lost, 0
            return lost

    def _count(self, more: int) -> None:
        with self._lock:
            self._lost += more


def _reason_of(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror or error}. See that it can be written before the next run."
    # The text of any other may hold what the call kept secret.
    return str(error) if isinstance(error, RecordError) else f"{type(error).__name__}."


_RECORDER: Final = "record-recorder"


@contextmanager
def at_work(host: HostHandle, settings: RecordSettings) -> Generator[services.Recorder | None]:
    """Record and replay as the settings say; yields the record for plugins with more to record.

    Raises:
        RecordError: A file cannot be recorded to, or replayed from.
    """
    with ExitStack() as stack:
        if settings.replay is not None:
            replay = Replayer(Recording.load(settings.replay), strict=settings.strict)
            stack.enter_context(registered(host, replay))
            stack.enter_context(_keeping_apart(host))
        file, service = settings.file, None
        if settings.folder is not None:
            file = _file_of_its_own(settings.folder, host.clock)
        if file is not None:
            recorder = Recorder(RecordFile(file, durability=settings.durability), host.clock)
            stack.callback(recorder.close)
            stack.enter_context(registered(host, recorder, _RECORDER))
            service = services.Recorder(recorder.note)
        yield service


@contextmanager
def _keeping_apart(host: HostHandle) -> Generator[None]:
    """Let policies begin with nothing, and leave their own files alone."""
    with TemporaryDirectory(prefix="toolstile-replay-") as folder:
        host.kept_apart = PolicyStoreLocation(Path(folder), anew=True)
        try:
            yield
        finally:
            host.kept_apart = None


def _file_of_its_own(folder: Path, clock: Clock) -> Path:
    try:
        make_directory(folder, 0o700)
    except OSError as error:
        raise RecordError(
            f"The folder {folder} for records cannot be made: {error.strerror}. Name one that can "
            "be written."
        ) from error
    # Sorted by name they are sorted by time; what follows tells those of one second apart.
    return folder / f"{clock.now():%Y-%m-%dT%H-%M-%S}-{secrets.token_hex(4)}.jsonl"


class StageTimes:
    """The trace of a call that notes when each of its stages began.

    Args:
        monotonic: Returns the time.
    """

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


def tracing_fields() -> list[str]:
    """Return what a call's trace tells of it, as fields of its line."""
    fields: list[str] = []
    if (times := _current.get()) is not None:
        fields.append(f'"stages":{times.json()}')
    if (trace := _trace_id()) is not None:
        fields.append(f'"trace":"{trace}"')
    return fields


def _trace_id() -> str | None:
    """Return the id of the current trace, whoever made it; None where nothing is traced."""
    # Where nobody has imported it, there is no trace.
    tracing: Any = sys.modules.get("opentelemetry.trace")
    if tracing is None:
        return None
    span = tracing.get_current_span().get_span_context()
    return tracing.format_trace_id(span.trace_id) if span.is_valid else None


_UNCHECKED: Final = frozenset({Stage.LOOKUP, Stage.PARSE, Stage.DEADLINE})
"""The stages before anybody could look at the request."""
MAX_SESSIONS: Final = 1_000
"""The most sessions whose request is known to be recorded; of others it is recorded again."""


class RecordedRequests:
    """The requests that stand in a record already, by session."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, Sequence[RequestTurn]] = OrderedDict()
        self._lock = Lock()

    def write(self, file: RecordFile, event: ToolInvoked, fields: Fields) -> None:
        """Write the line of a call, with the request if the line is the first that saw it."""
        session = event.session_id
        if not (event.request or session in self._last) or event.stage in _UNCHECKED:
            file.append(joined(fields))
            return
        # A line of another call that saw another request must not come between.
        with self._lock:
            if event.request != self._last.get(session, ()):
                fields.append(f'"request":{request_of(event)}')
            file.append(joined(fields))
            self._last[session] = event.request
            self._last.move_to_end(session)
            while len(self._last) > MAX_SESSIONS:
                self._last.popitem(last=False)
