"""The record: every call written down, line by line, to look at, verify and replay.

Settings, `[plugins.record]`: see `RecordSettings`. `toolstile run --record FILE` records a run.
`toolstile record show|verify FILE` looks at it, and `toolstile replay FILE` makes its calls again.

Names are loaded when they are first used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from pydantic import BaseModel

from toolstile_hookspecs import Command, Diagnostic, HostHandle, StatusPart, hookimpl
from toolstile_hookspecs.support.late_names import late_names
from toolstile_plugins.directories import appended_finding, folder_finding
from toolstile_plugins.record import cli
from toolstile_plugins.record.settings import RecordSettings

if TYPE_CHECKING:
    from toolstile_plugins.record.file import RecordFile
    from toolstile_plugins.record.reader import Checked, Recording, verify
    from toolstile_plugins.record.recorder import Recorder
    from toolstile_plugins.record.replayer import Replayer
    from toolstile_plugins.record.schema import RecordError

__all__ = [
    "Checked",
    "RecordError",
    "RecordFile",
    "RecordSettings",
    "Recorder",
    "Recording",
    "Replayer",
    "verify",
]

__getattr__ = late_names(
    __name__,
    {
        "file": "RecordFile",
        "reader": "Checked Recording verify",
        "recorder": "Recorder",
        "replayer": "Replayer",
        "schema": "RecordError",
    },
)


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return RecordSettings


@hookimpl
def toolstile_diagnose(settings: RecordSettings) -> Iterator[Diagnostic]:
    """Check that records can be written and replayed where the settings say."""
    if settings.file is not None:
        yield appended_finding(settings.file, "record", "plugins.record.file")
    if settings.folder is not None:
        yield folder_finding(settings.folder, "records in")
    if settings.replay is not None:
        subject = f"record to replay {settings.replay}"
        if settings.replay.is_file():
            yield Diagnostic.ok(subject, "The file exists.")
        else:
            remedy = "Configure the path of a record, or remove the setting."
            yield Diagnostic.error(subject, "The file does not exist.", remedy)


@hookimpl
def toolstile_status(settings: RecordSettings) -> Iterator[StatusPart]:
    """Report the last calls."""
    if (place := settings.file or settings.folder) is not None and place.exists():
        from toolstile_plugins.record.commands import last_calls  # most hosts record nothing

        yield last_calls([place])


@hookimpl
def toolstile_lifespan(
    host: HostHandle, settings: RecordSettings
) -> AbstractContextManager[object] | None:
    """Record and replay while the host is open, if the settings say so."""
    places = (settings.file, settings.folder, settings.replay)
    if settings.off or not any(places):
        return None
    from toolstile_plugins.record.recorder import at_work  # most hosts do neither

    return at_work(host, settings)


@hookimpl
def toolstile_commands() -> list[Command]:
    """Add the options of commands that make calls, and the commands `record` and `replay`."""
    return cli.commands(Command)
