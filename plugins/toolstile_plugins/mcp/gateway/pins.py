"""What is remembered of servers' tools, in a file: as what each was met, or approved."""

from __future__ import annotations

import json
import logging
import os
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.mcp.gateway.definitions import Definition, from_plain
from toolstile_plugins.places import make_directory_of

log = logging.getLogger("toolstile.mcp")

FORMAT: Final = "toolstile.mcp"
VERSION: Final = 1

Pinned = Mapping[str, Definition]
"""A server's tools, by its names for them."""


class Pins:
    """The file of what servers' tools were when they were met, or when a person approved them.

    It also lets tools be offered before their server is connected.

    Args:
        path: The file; made when there is something to remember.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def of(self, server: str) -> dict[str, Definition]:
        """Return what is remembered of a server's tools.

        Raises:
            ConfigurationError: When the file cannot be read.
        """
        tools: Mapping[str, Any] = self._read().get(server, {})
        try:
            return {name: from_plain(each) for name, each in tools.items()}
        except (KeyError, TypeError, AttributeError) as error:
            raise self._unreadable(f"what it has of {server!r} is no list of tools") from error

    def keep(self, server: str, tools: Pinned) -> None:
        """Remember a server's tools as they are given; those of other servers stay.

        What cannot be written is logged: it is then asked about once more.
        """
        with self._lock:
            try:
                servers = {**self._read(), server: {name: t.plain() for name, t in tools.items()}}
                self._write({"format": FORMAT, "version": VERSION, "servers": servers})
            except (OSError, ConfigurationError) as error:
                log.warning("What the tools of MCP server %s are is not kept: %s", server, error)

    def _read(self) -> dict[str, Any]:
        try:
            text = self.path.read_text("utf-8")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise self._unreadable(str(error)) from error
        try:
            held: Any = json.loads(text)
            known = (held["format"], held["version"]) == (FORMAT, VERSION)
            servers = dict(cast("Mapping[str, Any]", held["servers"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._unreadable(f"it is not what it should be ({error})") from error
        if not known:
            raise self._unreadable("it was written by another version")
        return servers

    def _write(self, held: Mapping[str, Any]) -> None:
        make_directory_of(self.path)
        handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(held, file, indent=1, sort_keys=True)
                file.flush()
                # Else a loss of power may leave an empty file under the name.
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _unreadable(self, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self.path} holds which tools of MCP servers were approved, and cannot be read: "
            f"{why}. Put it right, or remove it: all tools then count as new."
        )
