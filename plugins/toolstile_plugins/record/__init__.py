"""The record: every call written down, line by line, to look at, verify and replay.

Settings, `[plugins.record]`: see `RecordSettings`. `toolstile run --record FILE` records a run,
`toolstile record show|verify FILE` looks at it, `toolstile replay FILE` makes its calls again.

Names are loaded when first used, so that whoever does not record does not wait for them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from toolstile_hookspecs import Command, Finding, HostHandle, hookimpl
from toolstile_plugins.record.options import offered_commands
from toolstile_plugins.record.settings import RecordSettings

if TYPE_CHECKING:
    from toolstile_plugins.record.errors import RecordError
    from toolstile_plugins.record.reading import Checked, Recording, verify
    from toolstile_plugins.record.recorder import Recorder
    from toolstile_plugins.record.replaying import Replayer
    from toolstile_plugins.record.writing import RecordFile

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

_HOMES: Final = {
    "Checked": "reading",
    "RecordError": "errors",
    "RecordFile": "writing",
    "Recorder": "recorder",
    "Recording": "reading",
    "Replayer": "replaying",
    "verify": "reading",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    """Declare the settings."""
    return RecordSettings


@hookimpl
def toolstile_diagnose(settings: RecordSettings) -> Iterable[Finding]:
    """Find out whether what is recorded and replayed is where it should be."""
    from toolstile_plugins.record.diagnosing import diagnosed  # only `toolstile doctor` asks

    return diagnosed(settings)


@hookimpl
def toolstile_lifespan(
    host: HostHandle, settings: RecordSettings
) -> AbstractContextManager[None] | None:
    """Record and replay while the host is open, where the settings say so."""
    if settings.file is None and settings.folder is None and settings.replay is None:
        return None
    from toolstile_plugins.record.working import at_work  # most hosts do neither

    return at_work(host, settings)


@hookimpl
def toolstile_commands() -> list[Command]:
    """Add the options of commands that make calls, and the commands `record` and `replay`."""
    return offered_commands()
