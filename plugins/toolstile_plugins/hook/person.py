"""The person at a terminal, as opposed to an agent that types in their place."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from pwd import getpwuid
from typing import Final

from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.hook.client import state_folder
from toolstile_plugins.hook.install import INSTALLED, hooked, notes_in
from toolstile_plugins.hook.processes import MARKS, above, is_marked, now, processes

_REAPERS: Final = frozenset({"init", "launchd", "systemd"})
_OF_AGENT: Final = "an agent runs this command"
_LONGEST: Final = 12 * 3600
"""Seconds for which a session counts if the process of its agent is unknown."""
SESSIONS: Final = "sessions.json"
_PROGRAMS: Final = frozenset({"claude", "claude.exe", "codex", "gemini"})
_REFUSED: Final = (
    "A person decides this, and {why}. Run the command in a terminal that you opened before the "
    "agent; or answer in the console that you have opened there."
)


def refuse_agents(words: Sequence[str]) -> None:
    """Raise `ConfigurationError` if an agent runs a command that needs a person's decision.

    While a hook is installed, a person has a terminal, which is older than each agent's session.
    """
    # The client of a hook, which is below the agent, starts the helper.
    if [*words] != ["hook", "serve"] and (why := _not_a_person()):
        raise ConfigurationError(_REFUSED.format(why=why))


def note_session(folder: Path, session: str, process: int, *, ends: bool) -> None:
    """Note when an agent has begun a session, until the session or its process ends."""
    file = folder / SESSIONS
    sessions = notes_in(file)
    if ends and session in sessions:
        del sessions[session]
    elif not ends and session not in sessions:
        sessions[session] = [time.time(), process]
    else:
        return
    file.write_text(json.dumps(sessions))


def _not_a_person() -> str:
    if any(os.environ.get(mark) for mark in MARKS):
        return _OF_AGENT
    # Because the caller chooses its variables, the user's own folder counts, too.
    folders = {Path(state_folder())}
    with suppress(KeyError):  # a container may not know its user
        folders.add(Path(getpwuid(os.getuid()).pw_dir, ".local/state/toolstile/hook"))
    files = (file for folder in folders for file in folder.glob(f"*/{SESSIONS}"))
    known, booted = processes(), time.time() - now()
    noted = [
        (since, agent)
        for file in files
        for since, agent in notes_in(file).values()
        # Its process runs, and no other has taken its number.
        if (agent in known and booted + known[int(agent)].began < since)
        or (not agent and time.time() - since < _LONGEST)
    ]
    agents = {agent for _, agent in noted}
    # Below the first process that takes in orphans.
    ours = [
        *takewhile(
            lambda each: each != 1 and known[each].name not in _REAPERS, above(os.getpid(), known)
        )
    ]
    if any(each in agents or known[each].name in _PROGRAMS or is_marked(each) for each in ours):
        return _OF_AGENT
    # Another user may have installed the hook of the machine.
    if not any((folder / INSTALLED).exists() for folder in folders) and not any(hooked(Path.cwd())):
        return ""
    # A process that left the agent's is younger than the session. So may be a new terminal.
    if ours and any(booted + known[ours[-1]].began > since for since, _ in noted):
        return "this terminal was opened after an agent's session began, perhaps by the agent"
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return "this command has no terminal"
    return "" if sys.stdin.isatty() else "the input of this command is not a terminal"
