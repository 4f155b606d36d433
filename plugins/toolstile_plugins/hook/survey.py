"""The coding agents here, with and without our hook."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs import HostHandle, StatusPart
from toolstile_hookspecs.execution.undo import UNDO_TOOL
from toolstile_hookspecs.support.text import counted
from toolstile_plugins.hook.agents import Event
from toolstile_plugins.hook.client import folder_of
from toolstile_plugins.hook.install import hooked
from toolstile_plugins.undo.settings import UndoSettings
from toolstile_plugins.undo.store import UndoStore

TOLD: Final = "status"
"""The file with the reason if commands cannot be put back."""
_SEEN: Final = "seen"
_MOST: Final = 20
"""The sessions whose calls are noted."""


def note_call(folder: Path, event: Event) -> None:
    """Note a call that has passed the hook, for a look at the calls of its session."""
    (notes := folder / _SEEN).mkdir(exist_ok=True)
    file = notes / sha256(event.session.encode()).hexdigest()
    if not file.exists():
        for old in sorted(notes.iterdir(), key=lambda each: each.stat().st_mtime)[:-_MOST]:
            old.unlink()
        file.write_text(f"{event.transcript}\n")
    with file.open("a") as stream:
        stream.write(f"{event.given_id}\n")


def _unseen(file: Path) -> int:
    """Return how many calls of a session have run without the hook."""
    text, *seen = file.read_text().splitlines()
    whole, ran = Path(text), set[str]()
    for each in (whole, *whole.with_suffix("").glob("subagents/*.jsonl")) if text else ():
        for line in each.read_text().splitlines() if each.exists() else ():
            message: dict[str, Any] = json.loads(line).get("message") or {}
            parts: list[Any] | str = message.get("content", "")
            for part in () if isinstance(parts, str) else parts:
                # The agent itself refuses some calls before any hook.
                refused = str(part.get("content")).startswith("<tool_use_error>")
                if part.get("type") == "tool_result" and not refused:
                    ran.add(part["tool_use_id"])
    return len(ran.difference(seen))


def _notices(folder: Path) -> Iterator[str]:
    """Yield the news about the calls in a workspace, a sentence each."""
    with suppress(OSError):
        yield (folder / "files" / TOLD).read_text()
    files = sorted((folder / _SEEN).glob("*"), key=lambda each: each.stat().st_mtime)
    with suppress(OSError, ValueError):
        if files and (missed := _unseen(files[-1])):
            yield f"{counted(missed, 'call')} of the last session passed no hook."


def reported(host: HostHandle) -> Iterator[StatusPart]:
    """Yield the governed agents, and their calls that can be undone."""
    here, items, lines = Path.cwd(), list[dict[str, object]](), list[str]()
    for agent, file, is_whole in hooked(here):
        tools = sorted(agent.categories)
        items.append({"agent": agent.name, "file": str(file), "whole": is_whole, "tools": tools})
        told = f"the rules apply to its {len(tools)} built-in tools; tools of MCP servers ask you, "
        told += "unless [tools] lets them pass."
        if not is_whole:
            told = f"lines are missing. Run `toolstile hook install {agent.name}`."
        lines.append(f"Agent: {agent.title}, by {file}: {told}")
    yield StatusPart("agents", items, lines)
    if notices := [*_notices(Path(folder_of(str(here))))]:
        yield StatusPart("unwatched", [{"text": each} for each in notices], notices)
    # Because no table is needed for an undo of an agent's calls, their notes are read here.
    if items and host.catalog.get(UNDO_TOOL) is None:
        from toolstile_plugins.undo.calls import Undone, undoable  # late: few hosts undo

        store = UndoStore(host.settings("undo") or UndoSettings())
        yield undoable(
            [note for note in Undone(store.notes()).standing() if store.is_in(note, here)]
        )
