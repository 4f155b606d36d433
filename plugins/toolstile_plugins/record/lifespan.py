"""Recording and replaying while a host is open."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from toolstile_hookspecs import Clock, HostHandle, PolicyStoreLocation
from toolstile_plugins.record.file import RecordFile
from toolstile_plugins.record.reader import Recording
from toolstile_plugins.record.recorder import Recorder
from toolstile_plugins.record.replay_run import registered
from toolstile_plugins.record.replayer import Replayer
from toolstile_plugins.record.schema import RecordError
from toolstile_plugins.record.settings import RecordSettings

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
            stack.enter_context(_keeping_apart(host))
        file = settings.file
        if settings.folder is not None:
            file = _file_of_its_own(settings.folder, host.clock)
        if file is not None:
            recorder = Recorder(RecordFile(file, fsync=settings.fsync), host.clock)
            stack.callback(recorder.close)
            stack.enter_context(registered(host, recorder, _RECORDER))
        yield


@contextmanager
def _keeping_apart(host: HostHandle) -> Generator[None]:
    """Let policies leave the files alone that they are kept in, and begin with nothing."""
    with TemporaryDirectory(prefix="toolstile-replay-") as folder:
        host.kept_apart = PolicyStoreLocation(Path(folder), anew=True)
        try:
            yield
        finally:
            host.kept_apart = None


def _file_of_its_own(folder: Path, clock: Clock) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(
            f"The folder {folder} for records cannot be made: {error.strerror}. Name one that can "
            "be written."
        ) from error
    # Sorted by name they are sorted by time; what follows tells those of one second apart.
    return folder / f"{clock.now():%Y-%m-%dT%H-%M-%S}-{secrets.token_hex(4)}.jsonl"
