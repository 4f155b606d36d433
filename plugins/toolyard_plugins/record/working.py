"""Recording and replaying while a host is open."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Final

from toolyard_hookspecs import HostHandle
from toolyard_plugins.record.reading import Recording
from toolyard_plugins.record.recorder import Recorder
from toolyard_plugins.record.rehearsing import registered
from toolyard_plugins.record.replaying import Replayer
from toolyard_plugins.record.settings import RecordSettings
from toolyard_plugins.record.writing import RecordFile

_RECORDER: Final = "record-recorder"


@contextmanager
def at_work(host: HostHandle, settings: RecordSettings) -> Generator[None]:
    """Record and replay as the settings say.

    Raises:
        RecordError: A file cannot be recorded to, or replayed from.
    """
    with ExitStack() as stack:
        if settings.replay is not None:
            replay = Replayer(Recording.load(settings.replay), strict=settings.strict)
            stack.enter_context(registered(host, replay))
        if settings.file is not None:
            recorder = Recorder(RecordFile(settings.file, fsync=settings.fsync), host.clock)
            stack.callback(recorder.close)
            stack.enter_context(registered(host, recorder, _RECORDER))
        yield
