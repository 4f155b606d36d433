"""The coding agents here, with and without our hook."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from toolstile_hookspecs import ConfigurationError, HostHandle, StatusPart
from toolstile_hookspecs.execution.undo import UNDO_TOOL
from toolstile_plugins.hook.agents import AGENTS, Agent
from toolstile_plugins.hook.install import read_settings, text_of, with_hook, without_hook
from toolstile_plugins.undo.settings import UndoSettings
from toolstile_plugins.undo.store import UndoStore

_SCOPES: Final = ("managed", "project", "user")


def hooked(project: Path) -> Iterator[tuple[Agent, Path, bool]]:
    """Yield the agents with our hook: their settings, and whether all lines are there."""
    for agent in AGENTS.values():
        for scope in _SCOPES:
            # Codex has no hooks of projects; doctor reports broken settings.
            with suppress(ConfigurationError, OSError):
                file = agent.settings_file(scope, project)
                settings = read_settings(file, text_of(file))
                if without_hook(settings) != settings:
                    yield agent, file, with_hook(agent, settings) == settings


def reported(host: HostHandle) -> Iterator[StatusPart]:
    """Yield the governed agents, and their calls that can be undone."""
    here, items, lines = Path.cwd(), list[dict[str, object]](), list[str]()
    for agent, file, is_whole in hooked(here):
        tools = sorted(agent.categories)
        items.append({"agent": agent.name, "file": str(file), "whole": is_whole, "tools": tools})
        told = f"{len(tools)} tools pass these rules; others ask."
        if not is_whole:
            told = f"lines are missing. Run `toolstile hook install {agent.name}`."
        lines.append(f"Agent: {agent.title}, by {file}: {told}")
    yield StatusPart("agents", items, lines)
    # Because no table is needed for an undo of an agent's calls, their notes are read here.
    if items and host.catalog.get(UNDO_TOOL) is None:
        from toolstile_plugins.undo.calls import Undone, undoable  # late: few hosts undo

        store = UndoStore(host.settings("undo") or UndoSettings())
        yield undoable(
            [note for note in Undone(store.notes()).standing() if store.is_in(note, here)]
        )
