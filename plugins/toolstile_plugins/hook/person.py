"""The person at a terminal, as opposed to an agent that types in their place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from pwd import getpwuid
from typing import Final, NamedTuple

from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.hook.client import state_folder

MARKS: Final = ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID", "GEMINI_CLI")
"""Variables that agents set for their commands, and so for daemons of these."""
_REAPERS: Final = frozenset({"init", "launchd", "systemd"})
_OF_AGENT: Final = "an agent runs this command"
_LONGEST: Final = 12 * 3600
"""Seconds for which a session counts if the process of its agent is unknown."""
SESSIONS: Final = "sessions.json"
_PROGRAMS: Final = frozenset({"claude", "claude.exe", "codex", "gemini"})
INSTALLED: Final = "installed.json"
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
    sessions = _sessions_in(file)
    if ends and session in sessions:
        del sessions[session]
    elif not ends and session not in sessions:
        sessions[session] = [time.time(), process]
    else:
        return
    file.write_text(json.dumps(sessions))


def _sessions_in(file: Path) -> dict[str, list[float]]:
    try:
        found: dict[str, list[float]] = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return found


def _not_a_person() -> str:
    if any(os.environ.get(mark) for mark in MARKS):
        return _OF_AGENT
    processes = _processes()
    # Because the caller chooses its variables, the user's own folder counts, too.
    folders = {Path(state_folder())}
    with suppress(KeyError):  # a container may not know its user
        folders.add(Path(getpwuid(os.getuid()).pw_dir, ".local/state/toolstile/hook"))
    hooked = [folder for folder in folders if (folder / INSTALLED).exists()]
    notes = [
        note
        for folder in hooked
        for file in folder.glob(f"*/{SESSIONS}")
        for note in _sessions_in(file).values()
    ]
    noted = [
        (since, agent)
        for since, agent in notes
        # Its process runs, and no other has taken its number.
        if (agent in processes and processes[int(agent)].since < since)
        or (not agent and time.time() - since < _LONGEST)
    ]
    above = [*_above(os.getpid(), processes)]
    for process in above:
        name = processes[process].name
        if name in _PROGRAMS or process in {agent for _, agent in noted} or is_marked(process):
            return _OF_AGENT
    if not hooked:
        return ""
    # A process that left the agent's is younger than the session. So may be a new terminal.
    if above and any(processes[above[-1]].since > since for since, _ in noted):
        return "this terminal was opened after an agent's session began, perhaps by the agent"
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return "this command has no terminal"
    return "" if sys.stdin.isatty() else "the input of this command is not a terminal"


class _Process(NamedTuple):
    above: int
    since: float
    name: str


def _processes() -> dict[int, _Process]:
    found: dict[int, _Process] = {}
    booted = time.time() - time.monotonic()  # Linux counts both from the start of the system
    for file in Path("/proc").glob("[0-9]*/stat"):  # a small system may have no `ps`
        with suppress(OSError):
            name, _, rest = file.read_text(errors="replace").partition("(")[2].rpartition(") ")
            fields = rest.split()
            since = booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")
            found[int(file.parent.name)] = _Process(int(fields[1]), since, name)
    if found:
        return found
    words = ["ps", "-A", "-o", "pid=,ppid=,etime=,comm="]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout  # noqa: S603
    rows = (line.split(None, 3) for line in listed.splitlines())
    return {
        int(row[0]): _Process(int(row[1]), time.time() - _seconds(row[2]), Path(row[3]).name)
        for row in rows
        if len(row) == 4  # noqa: PLR2004
    }


def _seconds(elapsed: str) -> int:
    """Return the seconds of a time `[[dd-]hh:]mm:ss`."""
    days, _, clock = elapsed.rpartition("-")
    seconds = 0
    for part in clock.split(":"):
        seconds = seconds * 60 + int(part)
    return int(days or 0) * 86_400 + seconds


def _above(process: int, processes: Mapping[int, _Process]) -> Iterator[int]:
    """Yield a process and those above it, below the first process that takes in orphans."""
    while process in processes and process != 1 and processes[process].name not in _REAPERS:
        yield process
        process = processes[process].above


def is_marked(process: int) -> bool:
    """Tell whether a process began with an agent's variables; False on systems without `/proc`."""
    with suppress(OSError):
        began = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        return any(each.startswith(f"{mark}=".encode()) for each in began for mark in MARKS)
    return False
