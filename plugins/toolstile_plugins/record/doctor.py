"""Diagnosis of recordings, for `toolstile doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from toolstile_hookspecs import Finding
from toolstile_plugins.directories import appended_finding, folder_finding
from toolstile_plugins.record.settings import RecordSettings


def diagnosed(settings: RecordSettings) -> Iterator[Finding]:
    """Yield what is the case with the places that the settings name."""
    if settings.file is not None:
        yield appended_finding(settings.file, "record", "plugins.record.file")
    if settings.folder is not None:
        yield folder_finding(settings.folder, "records in")
    if settings.replay is not None:
        subject = f"record to replay {settings.replay}"
        if settings.replay.is_file():
            yield Finding.ok(subject, "It is there.")
        else:
            yield Finding.error(
                subject, "There is no such file.", "Configure the path of a record, or none."
            )
