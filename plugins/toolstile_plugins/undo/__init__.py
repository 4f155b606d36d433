"""Undo: calls are undone after their commit, their files and the session together.

Settings, `[plugins.undo]`: see `UndoSettings`. Without the table nothing is noted. `toolstile undo`
lists the calls that can be undone, and undoes them.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from toolstile_hookspecs import (
    Binding,
    Command,
    ConfigurationError,
    HostHandle,
    PluginError,
    Section,
    StatusPart,
    ToolContext,
    applies_to,
    hookimpl,
)
from toolstile_hookspecs.execution.undo import UNDO_TOOL
from toolstile_hookspecs.support.late_names import late_names
from toolstile_hookspecs.support.process import make_directory, new_id
from toolstile_plugins.undo import cli
from toolstile_plugins.undo.settings import UndoSettings
from toolstile_plugins.undo.store import PREPARED, RECORD, UndoStore, log

if TYPE_CHECKING:
    from toolstile_plugins.undo.calls import TakenBack, UndoSection

__all__ = ["TakenBack", "UndoSection", "UndoSettings", "UndoStore"]

toolstile_on_request = {UNDO_TOOL: "to undo calls, add [plugins.undo] to the configuration"}

_NOTES: Final = "undo_notes"
_PRIVATE: Final = 0o700
__getattr__ = late_names(__name__, {"calls": "TakenBack UndoSection"})


@dataclass(slots=True, eq=False)
class _Noted:
    """A participant that has the host note how to undo the call, with the call's decision."""

    call_id: str
    undo_directory: str  # for former contents; it does not exist yet
    kept_for: timedelta  # until the note may be dropped
    kept: str = ""  # the record of the note, if neither the session nor files keep it
    waits: bool = False  # whether there is a record to write

    def keep(self, note: object, key: str | None) -> None:
        """Keep a note, as JSON values, in the store; after a crash the key tells its decision."""
        self.kept, self.waits = json.dumps({"key": key, "undo": {"note": note}}), True

    def diff(self) -> str:
        """Return nothing, because a note is not a change to show."""
        return ""

    def prepare(self) -> None:
        """Write the record; a note in the session is part of the decision."""
        try:
            Path(self.undo_directory).mkdir(_PRIVATE)
            with Path(self.undo_directory, PREPARED).open("w") as stream:
                stream.write(self.kept)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError:
            log.exception("Call %s is not noted, so it cannot be undone.", self.call_id)

    def commit(self) -> None:
        """Have the record count."""
        with suppress(OSError):
            Path(self.undo_directory, PREPARED).replace(Path(self.undo_directory, RECORD))

    def rollback(self) -> None:
        """Remove the record."""
        if self.kept:
            shutil.rmtree(self.undo_directory, ignore_errors=True)


class _Notes:
    """The plugin that has each call's undo noted, while a host with the table is open."""

    def __init__(self, store: UndoStore) -> None:
        self._directory = str(store.directory)
        self._kept_for = timedelta(seconds=store.settings.keep)

    @hookimpl
    @applies_to(lambda tool: tool.category != "read")
    def toolstile_snapshot(self, context: ToolContext) -> _Noted | None:
        call = context.tool_call
        if context.parent is not None or call is None:
            return None
        return _Noted(call.id, f"{self._directory}/{new_id()}", self._kept_for)


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return UndoSettings


@hookimpl
def toolstile_sections() -> list[Section]:
    # Late: few hosts have the table.
    return [__getattr__("UndoSection")()]


@hookimpl
def toolstile_status(host: HostHandle) -> Iterator[StatusPart]:
    """Report the calls that can be undone."""
    if host.catalog.get(UNDO_TOOL) is not None:
        # Late, because few hosts have the table.
        from toolstile_plugins.undo.calls import undoable
        from toolstile_plugins.undo.commands import standing

        yield undoable(standing(host, since=datetime.now(UTC) - timedelta(days=1)))


@hookimpl
def toolstile_resources(settings: UndoSettings) -> list[Binding[Any]]:
    return [Binding(UndoStore, lambda _: UndoStore(settings))]


@hookimpl
@contextmanager
def toolstile_lifespan(host: HostHandle, settings: UndoSettings) -> Generator[None]:
    """Have calls note how to undo them while the host is open, if the table is there."""
    if host.catalog.get(UNDO_TOOL) is None:
        yield
        return
    store = UndoStore(settings)
    with suppress(PluginError):
        root = getattr(host.settings("vfs"), "root", None)
        if root is not None and store.directory.resolve().is_relative_to(root.resolve()):
            told = f"[plugins.undo] path: {store.directory} lies in the workspace {root}."
            raise ConfigurationError(f"{told} Name a directory that tools cannot change.")
    make_directory(store.directory, _PRIVATE)
    store.directory.chmod(_PRIVATE)
    ended = threading.Event()
    tidying = threading.Thread(target=store.tidy_until, args=(ended,), daemon=True)
    host.register(_Notes(store), _NOTES)
    tidying.start()
    try:
        yield
    finally:
        ended.set()
        host.unregister(_NOTES)
        tidying.join()


@hookimpl
def toolstile_commands() -> list[Command]:
    return cli.commands(Command)
