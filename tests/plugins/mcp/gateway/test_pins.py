"""The pins of servers' tools are kept in a file, whatever happens meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

from toolstile_plugins.mcp.gateway.tools import Definition
from toolstile_plugins.mcp.gateway.trust import Pins

BUY = Definition("buy", None, "Buy.", {"type": "object"}, None, {})


def test_what_is_kept_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    pins = Pins(tmp_path / "pins.json")
    done: list[tuple[str, bool]] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        done.append(("synced", os.fstat(descriptor).st_size > 0))
        fsync(descriptor)

    def replaced(path: Path, target: Path) -> Path:
        done.append(("replaced", target == pins.path))
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    pins.keep("shop", {"buy": BUY})
    # The folder is synced at the end, so that the name survives, too.
    assert done == [("synced", True), ("replaced", True), ("synced", True)]
    assert pins.of("shop") == {"buy": BUY}
