"""The command `toolstile hook`: installs the hook, checks it, and serves it."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from toolstile_hookspecs import HostHandle, StateError
from toolstile_plugins.hook import sandboxed
from toolstile_plugins.hook.agents import AGENTS, Agent
from toolstile_plugins.hook.client import PASSED, folder_of
from toolstile_plugins.hook.helper import Helper, serve
from toolstile_plugins.hook.install import (
    SCRIPT,
    command_for,
    diff_of,
    hooked,
    installed,
    missing,
    note_installed,
    read_settings,
    text_of,
    text_with_hook,
    without_hook,
    write_hook,
    write_settings,
)
from toolstile_plugins.screen import show_line, tell
from toolstile_plugins.undo.settings import UndoSettings

_FAILED: Final = 1
_STAY: Final = (
    "Former contents of files stay for undo, in {undo} and {own}. To remove them, run `toolstile "
    "undo purge`, which removes the contents of all projects, then `rm -r {removed}`."
)
_PROBES: Final[Mapping[str, Mapping[str, str]]] = {
    "a call": {},
    "a call of a sub-agent": {"agent_id": "probe"},
}


def run_command(host: HostHandle, args: argparse.Namespace) -> int:
    """Run a command beneath `toolstile hook`.

    Raises:
        StateError: The event is not JSON, or others can reach the state.
    """
    try:
        return _RUN[args.what](host, args)
    except PermissionError as error:
        raise StateError(f"{error}.") from error


def _install(_: HostHandle, args: argparse.Namespace) -> int:
    agent, file, before = _settings_of(args)
    after = text_with_hook(agent, file, before)
    if after == before:
        tell(args, f"{file} has the hook already.", {"file": str(file), "changed": False})
        return 0
    write_hook(agent, file, before, after)
    _show(args, file, before, after)
    if agent.note and not args.out:
        show_line(agent.note)
    return 0


def _uninstall(host: HostHandle, args: argparse.Namespace) -> int:
    file, text = _settings_of(args)[1:]
    settings, noted = read_settings(file, text), installed().get(str(file))
    left: str | None = None
    if noted is not None and text == noted["after"]:
        left = noted["before"]  # byte for byte, since nothing else was changed
    elif text is not None and without_hook(settings) == settings:
        left = text
    elif text is not None:
        left = json.dumps(without_hook(settings), indent=2, ensure_ascii=False) + "\n"
    if left is None:
        file.unlink(missing_ok=True)
    elif left != text:
        write_settings(file, left)
    note_installed(file, None)
    _show(args, file, text, left)
    own = Path(folder_of(str(Path.cwd())))
    if own.is_dir() and not args.out:
        undo = (host.settings("undo") or UndoSettings()).directory
        show_line(_STAY.format(undo=undo, own=own, removed=shlex.quote(str(own))))
    return 0


def _settings_of(args: argparse.Namespace) -> tuple[Agent, Path, str | None]:
    agent = AGENTS[args.agent]
    file = agent.settings_file(args.scope or "project", Path.cwd())
    return agent, file, text_of(file)


def _show(args: argparse.Namespace, file: Path, before: str | None, after: str | None) -> None:
    changes = diff_of(file, before, after)
    wire = {"file": str(file), "changed": before != after, "diff": "\n".join(changes)}
    tell(args, "\n".join(changes) or f"{file} has no hook of ours.", wire)


# --- doctor and test


def _doctor(_: HostHandle, args: argparse.Namespace) -> int:
    """Run each installed command on an event, and tell whether it answers."""
    status = 0
    # Another user may have installed the hook of the machine, or a project come with one.
    found = {str(file): {"agent": agent.name} for agent, file, _ in hooked(Path.cwd())}
    notes = found | installed()
    if not notes:
        show_line("No hook is installed. Install one: toolstile hook install claude-code")
    for place, noted in notes.items():
        file, agent = Path(place), AGENTS[noted["agent"]]
        settings = read_settings(file, text_of(file))
        faults = [f"no line for {name}" for name in missing(agent, settings)]
        probe = agent.probe(Path.cwd())
        groups: list[Any] = settings.get("hooks", {}).get(probe["hook_event_name"], [])
        lines = [str(hook["command"]) for group in groups for hook in group.get("hooks", ())]
        line = next((each for each in lines if SCRIPT.name in each), "exit 1")
        for what, more in _PROBES.items():
            done = answered(agent, {**probe, **more}, line)
            if done.returncode:
                faults.append(f"the hook does not fire for {what}: {done.stderr.strip()}")
        # Because settings that change while a call is open would be put back.
        answered(agent, {**probe, "hook_event_name": "SessionEnd"}, line)
        status = _FAILED if faults else status
        told = "; ".join(faults) or f"the hook fires for {' and '.join(_PROBES)}"
        tell(args, f"{agent.title}, {place}: {told}.", {"file": place, "faults": faults})
    return status


def answered(
    agent: Agent, event: Mapping[str, Any], line: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the command of a hook, or an installed line, on an event of a call in this directory."""
    # The session of the event ends with this process, which a person runs.
    own = {"CLAUDE_PROJECT_DIR": str(Path.cwd()), "CLAUDE_PID": str(os.getpid())}
    return subprocess.run(  # noqa: S603 - our own
        ["sh", "-c", line or command_for(agent, refuses=True)],  # noqa: S607 - as the agent does
        input=json.dumps(event),
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
    )


def _test(host: HostHandle, args: argparse.Namespace) -> int:
    head = "\0".join([args.agent, *(os.environ.get(name, "") for name in PASSED)])
    event = sys.stdin.buffer.read()
    try:
        json.loads(event)
    except ValueError as error:
        raise StateError(f"The event on standard input is not JSON: {error}.") from error
    answer = asyncio.run(Helper(host, Path.cwd()).once(head, event))
    show_line(answer or "Nothing: the agent's own permissions decide.")
    return 0


_RUN: Final[Mapping[str, Callable[[Any, Any], int]]] = {
    "doctor": _doctor,
    "install": _install,
    "sandbox": sandboxed.run_command,
    "serve": lambda host, _: serve(host, Path.cwd()),
    "test": _test,
    "uninstall": _uninstall,
}
